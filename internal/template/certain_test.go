package template

import "testing"

func TestMustExpand(t *testing.T) {
	for src, want := range map[string]bool{
		`echo ${item.x}`:                               true,
		`echo "a ${item.x}" > out`:                     true,
		`cat f > ${item.x}`:                            true,
		`a; b && c; echo ${item.x}`:                    true,
		`echo ${item.x} | wc -c`:                       true,
		`cat | grep ${item.x}`:                         true,
		`{ echo ${item.x}; }`:                          true,
		`y=${item.x}; echo "$y"`:                       true,
		"cat <<EOF\n${item.x}\nEOF":                    true,
		"cat <<'EOF'\n${item.x}\nEOF":                  false,
		`echo '${item.x}'`:                             false,
		`true # ${item.x}`:                             false,
		`test -n "$A" && echo ${item.x}`:               false,
		`true || echo ${item.x}`:                       false,
		`cat | grep ${item.x} || true`:                 false,
		`if true; then echo ${item.x}; fi`:             false,
		`[ -e f ] || exit 0; echo ${item.x}`:           false,
		`if [ -e f ]; then exit 0; fi; echo ${item.x}`: false,
		`set -e; echo ${item.x}`:                       false,
		`f() { echo ${item.x}; }; f`:                   false,
		`echo "${A:-${item.x}}"`:                       false,
		`echo "$(echo ${item.x})"`:                     false,
		`echo ${item.x} & wait`:                        false,
		`for i in 1; do echo ${item.x}; done`:          false,
	} {
		text, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		for _, r := range text.Refs() {
			got = got || r.Name == "item.x" && text.MustExpand(r.Offset)
		}
		if got != want {
			t.Errorf("%s: %v, want %v", src, got, want)
		}
	}
}
