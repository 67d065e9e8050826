package template_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/template"
	"pgregory.net/rapid"
)

// vars is a scope: data, and trusted names.
type vars struct {
	data, trusted, env map[string]any
}

func (v vars) Lookup(name string) (template.Value, bool) {
	if x, ok := v.trusted[name]; ok {
		return template.Value{V: x}, true
	}
	x, ok := v.data[name]
	return template.Value{V: x, Origin: template.Data}, ok
}

func (v vars) Env(name string) (template.Value, bool) {
	x, ok := v.env[name]
	return template.Value{V: x, Origin: template.Data}, ok
}

func (v vars) FileFor(name string) (string, bool) { return name + "_file", name == "map.results" }

func data(x any) vars { return vars{data: map[string]any{"x": x}} }

var hostile = []string{
	"plain", "two words", " lead and trail ", "", "$(touch pwned)", "`touch pwned`", "'; touch pwned; '", `"; touch pwned; "`, "; touch pwned", "& touch pwned", "| touch pwned",
	"a\nb", "\n\n", "x\nEOF\ntouch pwned", "*", "?", "[a-z]*", "~", `\`, `a\`, `\n\t`, `\'`, `\"`, "'", `"`, `'"'"'`, "$HOME", "${HOME}", "$", "$$", "!", "#", "# c", "-n", "--", "-e a",
	"ünï→😀", "\x7f\x01\x1b[0m", "\xff\xfe", "a\tb", "{a,b}", "=", "x=1", "a[$(touch pwned)]", "$((1+1))", "%s%n", "BIDE_V1", "${BIDE_V1}", "<(touch pwned)", ">pwned", "EOF", ")", ";;", "esac", "&&touch pwned", "\r\n",
}

// sample is every value for the first places, and for the others those that
// have broken quoting most often with a changing choice of the rest: each
// value costs a process and each place is one of 80.
func sample(n int) []string {
	if n < 4 {
		return hostile
	}
	values := slices.Clone(core)
	for i := n % 17; i < len(hostile); i += 17 {
		values = append(values, hostile[i])
	}
	return values
}

var core = []string{"", "two  words $(touch pwned) `touch pwned`", "'; touch pwned; '\"; touch pwned; \"", "x\nEOF\ntouch pwned\n", "*\\"}

func shellsHere(t testing.TB) []string {
	t.Helper()
	shells := []string{"sh"}
	same := func(name string) string {
		p, err := exec.LookPath(name)
		if err != nil {
			return ""
		}
		if p, err = filepath.EvalSymlinks(p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, s := range []string{"bash", "dash"} {
		if p := same(s); p != "" && p != same("sh") {
			shells = append(shells, s)
		}
	}
	return shells
}

// run runs a command in a fresh directory and fails if data was run as code.
func run(t testing.TB, shell string, c template.Command) (out string, err error) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} { // what a stray * would find
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(shell, "-c", c.Script)
	if c.Argv != nil {
		cmd = exec.Command(c.Argv[0], c.Argv[1:]...)
	}
	cmd.Dir, cmd.Env = dir, append(os.Environ(), c.Env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if matches, _ := filepath.Glob(filepath.Join(dir, "*pwned*")); len(matches) > 0 {
		t.Errorf("%s: data ran as code: %q\n%+v", shell, c.Script, c.Env)
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(b), err
}

func shellOf(t testing.TB, src string, s template.Scope) (template.Command, error) {
	t.Helper()
	text, err := template.Parse(src)
	if err != nil {
		t.Fatalf("Parse(%q): %v", src, err)
	}
	return text.Shell(s)
}

// In each of these places the value of x arrives unchanged, between < and >.
var verbatimPlaces = []struct{ src, only string }{
	{`printf '<%s>' "${x}"`, ""},
	{`printf '<%s>' '${x}'`, ""},
	{`printf '%s' "<${x}>"`, ""},
	{`printf '%s' '<${x}>'`, ""},
	{`printf '%s' \<"${x}"'>'; true`, ""},
	{`printf '<%s>' $'${x}'`, "bash"},
	{`printf '<%s>' $"${x}"`, "bash"},
	{`y=${x}; printf '<%s>' "$y"`, ""},
	{`y="${x}" && printf '<%s>' "$y"`, ""},
	{`y=${x} sh -c 'printf "<%s>" "$y"'`, ""},
	{`export Y=${x}; printf '<%s>' "$Y"`, ""},
	{`export "Y=${x}"; printf '<%s>' "$Y"`, ""},
	{`env Y=${x} sh -c 'printf "<%s>" "$Y"'`, ""},
	{`f() { printf '<%s>' "${x}"; }; f`, ""},
	{`f() { printf '<%s>' "$1"; }; f "${x}"`, ""},
	{`if true; then printf '<%s>' "${x}"; fi`, ""},
	{`for i in 1; do printf '<%s>' "${x}"; done`, ""},
	{`for i in "${x}"; do printf '<%s>' "$i"; done`, ""},
	{`case "${x}" in *) printf '<%s>' "${x}";; esac`, ""},
	{`case ${x} in ${x}) printf '<%s>' "${x}";; esac`, ""},
	{`y=abc; case $y in ${x}) exit 9;; *) printf '<%s>' "${x}";; esac`, ""},
	{`(printf '<%s>' "${x}")`, ""},
	{`{ printf '<%s>' "${x}"; }`, ""},
	{`# ${x}` + "\n" + `printf '<%s>' "${x}"`, ""},
	{`printf '<%s>' "${y:-${x}}"`, "nonempty"},
	{`y=; printf '<%s>' ${y:-${x}}`, ""},
	{`y=; printf '<%s>' "${y:-${x}}"`, ""},
	{`sh -c 'y=; printf "<%s>" "${y:-${x}}"'`, ""},
	{`unset y; printf '<%s>' "${y=${x}}"`, ""},
	{`y=keep${x}; printf '<%s>' "${y#keep}"`, ""},
	{`y=${x}end; z=${y%end}; printf '<%s>' "$z"`, ""},
	{`y=${x}rest; z=${y#${x}}; test "$z" = rest && printf '<%s>' "${x}"`, ""},
	{`y=${x}rest; test "${y#${x}}" = rest && printf '<%s>' "${x}"`, ""},
	{`[ "${x}" = "${x}" ] && printf '<%s>' "${x}"`, ""},
	{`[[ ${x} == ${x} ]] && printf '<%s>' "${x}"`, "bash"},
	{`a=("${x}"); printf '<%s>' "${a[@]}"`, "bash"},
	{`cat <<EOF` + "\n<${x}>\nEOF\n", "here"},
	{`cat <<'EOF'` + "\n<${x}>\nEOF\n", "here"},
	{`cat <<"E-F"` + "\n<${x}>\nE-F\n", "here"},
	{`cat <<\EOF` + "\n<${x}>\nEOF\n", "here"},
	{`cat <<-'EOF'` + "\n\t<${x}>\n\tEOF\n", "here"},
	{`cat <<-EOF` + "\n\t<${x}>\n\tEOF\n", "here"},
	{`{ cat <<'A'; cat <<B; }` + "\n<\nA\n${x}>\nB\n", "here2"},
	{`cat <<< "<${x}>"`, "bashline"},
	{`cat <<< \<${x}\>`, "bashline"},
	{`eval 'printf "<%s>" "${x}"'`, ""},
	{`eval "printf '<%s>' '${x}'"`, ""},
	{`trap 'printf "<%s>" "${x}"' EXIT`, ""},
	{`sh -c 'printf "<%s>" "${x}"'`, ""},
	{`sh -c "printf '<%s>' '${x}'"`, ""},
	{`sh -c 'printf "<%s>" '"'"'${x}'"'"`, ""},
	{`sh -ec -- 'printf "<%s>" "$1"' _ "${x}"`, ""},
	{`Q=1; sh -c "test $Q = 1 && printf '<%s>' '${x}'"`, ""},
	{`sh -c 'sh -c "printf \"<%s>\" \"${x}\""'`, ""},
	{`sh -c "sh -c 'printf \"<%s>\" \"${x}\"'"`, ""},
	{`sh -c "sh -c \"eval \\\"printf '<%s>' '${x}'\\\"\""`, ""},
	{`bash -c 'y=${x}; printf "<%s>" "$y"'`, ""},
	{`timeout 5 sh -c 'printf "<%s>" "${x}"'`, ""},
	{`timeout -k 1 5 nice -n 1 env A=b sh -c 'printf "<%s>" "${x}"'`, ""},
	{`find . -maxdepth 0 -exec sh -c 'printf "<%s>" "${x}"' \;`, ""},
	{`echo 1 | xargs sh -c 'printf "<%s>" "${x}"'`, ""},
	{`sh <<EOF` + "\nprintf '<%s>' \"${x}\"\nEOF\n", ""},
	{`sh <<'EOF'` + "\nprintf '<%s>' '${x}'\nEOF\n", ""},
	{`Q=1; sh <<EOF` + "\ntest $Q = 1 && printf '<%s>' '${x}'\nEOF\n", ""},
	{`sh -c 'cat <<"EOF"` + "\n<${x}>\nEOF\n'", "here"},
	{`bash <<< 'printf "<%s>" "${x}"'`, "bash"},
	{`sh -c "printf '<%s>' ${x|sh}"`, ""},
	{`printf '<%s>' ${x|sh}`, ""},
	{`echo "printf '<%s>' ${x|sh}" | sh`, "dashecho"},
	{`printf '%s' "printf '<%s>' ${x|sh}" | sh`, ""},
	{`printf '<%s>' "$(printf '%s' "${x}"; printf .)"`, "dot"},
	{"printf '<%s>' \"`printf '%s' \"${x}\"; printf .`\"", "dot"},
	{"printf '<%s>' \"`printf '%s' '${x}'; printf .`\"", "dot"},
	{"printf '<%s>' \"`printf '%s' \\\"${x}\\\"; printf .`\"", "dot"},
	{"y=`printf '%s' '${x}' # comment\nprintf .`; printf '<%s>' \"$y\"", "dot"},
	{`printf '<%s>' "$(cat <<'EOF'` + "\n${x}.\nEOF\n)\"", "dot"},
	{`printf '%s' "${x}" | { printf '<'; cat; printf '>'; }`, ""},
	{`awk -v y=1 'BEGIN{printf "<%s>", ENVIRON["Y"]}' Y=${x}; Y=${x} awk 'BEGIN{exit}'; printf '<%s>' "${x}"`, "last"},
	{`python3 -c 'import sys,os; os.write(1, b"<"+os.fsencode(sys.argv[1])+b">")' "${x}"`, ""},
	{`printf '<%s>' "${x}" >&1 2>/dev/null`, ""},
	{`sudo() { printf '<%s>' "$2"; }; sudo cmd "${x}"`, ""},
}

func TestDataArrivesUnchanged(t *testing.T) {
	shells := shellsHere(t)
	for n, p := range verbatimPlaces {
		for _, value := range sample(n) {
			c, err := shellOf(t, p.src, data(value))
			if err != nil {
				t.Errorf("%q with %q: %v", p.src, value, err)
				break
			}
			if p.only == "nonempty" && value == "" {
				value = ""
			}
			want := "<" + value + ">"
			switch p.only {
			case "here", "bashline":
				want += "\n"
			case "here2":
				want = "<\n" + value + ">\n"
			case "dot":
				want = "<" + value + ".>"
			case "dashecho":
				if strings.ContainsAny(value, "\\") || strings.HasSuffix(value, "\n") {
					continue // echo changes these by itself
				}
			}
			for _, sh := range shells {
				if (p.only == "bash" || p.only == "bashline") && sh != "bash" {
					continue
				}
				out, err := run(t, sh, c)
				if p.only == "last" {
					out = out[strings.LastIndex("\x00"+out, "\x00"):]
					out = strings.TrimPrefix(out, "<>")
				}
				if err != nil || out != want {
					t.Errorf("%s: %q with %q\nscript %q env %q\ngot  %q, %v\nwant %q", sh, p.src, value, c.Line(), c.Env, out, err, want)
					break
				}
			}
		}
		if t.Failed() && testing.Verbose() {
			continue
		}
	}
}

// Bare values split at blanks and at nothing else.
func TestBareValuesSplit(t *testing.T) {
	for n, src := range []string{`printf '<%s>' pre${x}post end`, `env printf '<%s>' pre${x}post end`, `printf '<%s>' "p"re${x}'post' end`, `sh -c 'printf "<%s>" pre${x}post end'`, `A=1; eval "printf '<%s>' pre${x}post end"`,
		"sh <<EOF\nprintf '<%s>' pre${x}post end\nEOF", "sh <<'EOF'\nprintf '<%s>' pre${x}post end\nEOF", "Q=end; sh <<EOF\nprintf '<%s>' pre${x}post $Q\nEOF", "sh -c \"sh -c 'printf \\\"<%s>\\\" pre${x}post end'\"",
		"for w in pre${x}post end; do printf '<%s>' \"$w\"; done", "printf '<%s>' \"`printf '(%s)' pre${x}post end`\" >/dev/null; printf '<%s>' pre${x}post end"} {
		for _, value := range sample(n + 1) {
			c, err := shellOf(t, src, data(value))
			if err != nil {
				t.Errorf("%q: %v", src, err)
				break
			}
			want := ""
			for _, f := range strings.FieldsFunc("pre"+value+"post", func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }) {
				want += "<" + f + ">"
			}
			want += "<end>"
			for _, sh := range shellsHere(t)[:2] {
				if out, err := run(t, sh, c); err != nil || out != want {
					t.Errorf("%s: %q with %q\nscript %q env %q\ngot  %q, %v\nwant %q", sh, src, value, c.Line(), c.Env, out, err, want)
				}
			}
		}
	}
}

// These are refused whatever the value.
func TestRefusedPlaces(t *testing.T) {
	for src, want := range map[string]string{
		"${x}":                                  "which command runs",
		"${x} arg":                              "which command runs",
		`"${x}" arg`:                            "which command runs",
		"./scripts/${x}.sh":                     "which command runs",
		"A=1 ${x}":                              "which command runs",
		"true && ${x}":                          "which command runs",
		"echo $(${x})":                          "which command runs",
		"$CMD ${x}":                             "are empty",
		"timeout 5 ${x}":                        "which command runs",
		"env A=1 ${x}":                          "which command runs",
		"nohup nice -n 3 ${x}":                  "which command runs",
		"xargs ${x}":                            "which command runs",
		"exec ${x}":                             "which command runs",
		`sh -c "${x}"`:                          "which command runs",
		`$'s\x68' -c "${x}"`:                    "which command runs",
		`sh $'\x2dc' "${x}"`:                    "which command runs",
		`$'sh\x00y' -c "${x}"`:                  "which command runs",
		"sh -c ${x}":                            "which command runs",
		`eval "${x}"`:                           "which command runs",
		"eval ${x}":                             "which command runs",
		`find . -exec ${x} \;`:                  "which command runs",
		`script -qc "echo ${x}" /dev/null`:      "script's shell",
		`script --command="ls ${x}"`:            "script's shell",
		"ed -s f <<E\n${x}\nE":                  "ed",
		"ex -s f <<E\n${x}\nE":                  "ed",
		`ex -s -c "${x}" f`:                     "ed",
		`vim -es -c "${x}" f`:                   "vi",
		`gdb -batch -ex "${x}"`:                 "the debugger",
		"gdb -batch <<E\n${x}\nE":               "the debugger",
		"m4 <<E\n${x}\nE":                       "m4",
		"sqlite3 x.db <<E\n${x}\nE":             "SQL",
		`psql -c "select '${x}'"`:               "SQL",
		`mysql -e "${x}" db`:                    "SQL",
		`dc -e "${x}"`:                          "bc",
		"sh ${x}":                               "choose the script",
		"sh < ${x}":                             "choose the file",
		". ${x}":                                "choose the file",
		`source "${x}"`:                         "choose the file",
		"python3 ${x}":                          "choose the program",
		`ssh host "echo ${x}"`:                  "|sh",
		`ssh host echo ${x}`:                    "|sh",
		`ssh host 'echo ${x}'`:                  "|sh",
		"ssh host <<EOF\necho ${x}\nEOF":        "|sh",
		"ssh host bash <<'EOF'\necho ${x}\nEOF": "|sh",
		`sudo sh -c "echo ${x}"`:                "|sh",
		`su user -c "echo ${x}"`:                "|sh",
		`docker exec c sh -c 'echo ${x}'`:       "|sh",
		`env -i sh -c 'echo ${x}'`:              "|sh",
		`echo "echo ${x}" | sh`:                 "|sh",
		"cat <<EOF | bash\necho ${x}\nEOF":      "|sh",
		`echo ${x} | sudo bash -s`:              "|sh",
		`echo ${x} | (bash)`:                    "|sh",
		`echo ${x} | xargs -I{} sh -c 'e {}'`:   "|sh",
		`sh -c "echo $(basename ${x})"`:         "result becomes code",
		`bash -c "$(cat <<EOF` + "\necho ${x}\nEOF\n)\"": "result becomes code",
		`docker run img python3 -c "print('${x}')"`:      "code of Python",
		`uv run node -e "f('${x}')"`:                     "code of JavaScript",
		"cat <<EOF | ssh host\necho ${x}\nEOF":           "|sh",
		`bash -c $'echo ${x}'`:                           "result becomes code",
		`bash <(echo "${x}")`:                            "choose the script",
		"cat <<EOF\n${y#${x}}\nEOF":                      "different ways",
		`ssh host "echo '${x|sh}'"`:                      "out of the quotes",
		`ssh host "sh -c 'echo ${x|sh}'"`:                "one of them",
		`ssh host "echo \"${x|sh}\""`:                    "out of the quotes",
		`ssh host "eval echo ${x|sh}"`:                   "one of them",
		`echo "echo '${x|sh}'" | sh`:                     "out of the quotes",
		"cat <<EOF | sh\necho '${x|sh}'\nEOF":            "out of the quotes",
		"ssh host <<'EOF'\necho \"${x|sh}\"\nEOF":        "out of the quotes",
		`sh -c "$(echo ${x|sh})"`:                        "result becomes code",
		`sudo sh -c "${x|sh} a"`:                         "which command runs",
		"parallel echo ${x}":                             "|sh",
		`python3 -c 'print("${x}")'`:                     "hand \"${x}\" over as an argument",
		"python3 <<EOF\nprint('${x}')\nEOF":              "code of Python",
		"python3 - a <<'EOF'\nprint('${x}')\nEOF":        "code of Python",
		`perl -pe 's/a/${x}/' f`:                         "code of Perl",
		`perl -e "print '${x}'"`:                         "code of Perl",
		`node -e "f('${x}')"`:                            "code of JavaScript",
		`node --eval="f('${x}')"`:                        "code of JavaScript",
		`ruby -rjson -e 'puts "${x}"'`:                   "code of Ruby",
		`php -r 'echo "${x}";'`:                          "code of PHP",
		`awk '{print "${x}"}' f`:                         "-v name=",
		`awk -F: '/${x}/' f`:                             "-v name=",
		`sed -i "s/a/${x}/" f`:                           "code of sed",
		`sed -n -e "${x}p" f`:                            "code of sed",
		`jq -r ".a == \"${x}\"" f`:                       "--arg name",
		`timeout 5 python3 -c "print('${x}')"`:           "code of Python",
		`echo "print('${x}')" | python3`:                 "code of Python",
		"echo $((${x} + 1))":                             "must be an integer",
		`echo "$((1 + ${x}))"`:                           "must be an integer",
		"echo ${a[${x}]}":                                "must be an integer",
		"echo ${a:${x}:1}":                               "must be an integer",
		"a[${x}]=1":                                      "must be an integer",
		"(( ${x} > 1 ))":                                 "must be an integer",
		"let ${x}":                                       "must be an integer",
		"for ((i=0; i<${x}; i++)); do :; done":           "must be an integer",
		"[[ ${x} -gt 1 ]]":                               "must be an integer",
		"declare -i n=${x}":                              "must be an integer",
		"[[ -v ${x} ]]":                                  "can run code",
		"test -v ${x}":                                   "can run code",
		"export ${x}":                                    "choose the variable",
		`declare "${x}"`:                                 "choose the variable",
		"unset ${x}":                                     "choose the variable",
		"read ${x}":                                      "choose the variable",
		"printf -v ${x} a":                               "choose the variable",
		"alias ll=${x}":                                  "code of an alias",
		"cat <<${x}\nEOF\n":                              "safely",
		"echo 'unclosed ${x}":                            "not valid shell",
		"if ${x}":                                        "not valid shell",
		"sh -c 'echo \"${x}'":                            "not valid shell",
		"${x}=5":                                         "which command runs",
		"cat <<'A B'\n${x}\nA B\n":                       "delimiter",
		"echo @(${x}|b)":                                 "safely",
		`echo $'a\'${x}b'`:                               "different ways",
	} {
		c, err := shellOf(t, src, data("a$(touch pwned)"))
		var se *expr.SyntaxError
		if !errors.As(err, &se) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want an error with %q", src, c, err, want)
			continue
		}
		if off := strings.Index(src, "${x"); se.Offset != off && want != "not valid shell" {
			t.Errorf("%q: the error is at byte %d, not at %d", src, se.Offset, off)
		}
	}
}

// Numbers may be in arithmetic and in code, and |sh in code of other shells.
func TestAllowedInCode(t *testing.T) {
	for _, c := range []struct {
		src  string
		x    any
		want string
	}{
		{"echo $((${x} + 1))", int64(41), "42\n"},
		{"echo $((1 - ${x}))", int64(-1), "2\n"},
		{`python3 -c 'print(${x} * 2)'`, 1.5, "3.0\n"},
		{`awk 'BEGIN{print ${x} + 1}'`, "7", "8\n"},
		{`printf 'a\nb\n' | sed -n "${x}p"`, int64(2), "b\n"},
		{`echo '{"a":[5,6]}' | jq "${x}"`, "", ""},
		{`awk -v y="${x}" 'BEGIN{print y}'`, "a b", "a b\n"},
		{`awk -v y=${x} 'BEGIN{print y}'`, "a BEGIN{print(1)}", "a BEGIN{print(1)}\n"},
		{`python3 - "${x}" <<'EOF'` + "\nimport sys; print(sys.argv[1])\nEOF", "it's", "it's\n"},
		{`ssh() { shift; sh -c "$*"; }; ssh host "printf '%s' ${x|sh}"`, "$(touch pwned)'", "$(touch pwned)'"},
		{`ssh() { shift; sh -c "$*"; }; ssh host printf %s ${x|sh}`, "a  b", "a  b"},
		{`${CMD:?} ${x}`, "", "none"},
		{`docker() { shift 2; "$@"; }; docker exec c printf '<%s>' ${x}`, "a b", "<a><b>"},
		{`sudo() { "$@"; }; sudo sh -c "printf '<%s>' ${x|sh}"`, "a  b;touch pwned", "<a  b;touch pwned>"},
		{"echo ${x|raw}", "$(echo ran)", "ran\n"},
		{"command -v ${x} >/dev/null && echo found", "sh", "found\n"},
		{`y=1; printf '%s' "${y:+'${x}'}"`, "a  $(touch pwned)*", "'a  $(touch pwned)*'"},
		{`y=1; cat <<EOF` + "\n${y:+'${x}'}${z:-${x}}\nEOF", "a  $(touch pwned)*", "'a  $(touch pwned)*'a  $(touch pwned)*\n"},
		{`y=abc; printf '%s' "${y%'${x}'}"`, "*c", "abc"},
		{`z=; printf '%s' "${z:-"a ${x} b"}"`, "a  *", "a a  * b"},
		{"${x|raw}", "echo a", "a\n"},
	} {
		cmd, err := shellOf(t, c.src, data(c.x))
		if c.want == "" || c.want == "none" { // only that the text is accepted or refused as said
			if (err == nil) != (c.want == "none") {
				t.Errorf("%q: %v", c.src, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.src, err)
			continue
		}
		if out, err := run(t, "sh", cmd); err != nil || out != c.want {
			t.Errorf("%q with %v: %q, %v; want %q\n%+v", c.src, c.x, out, err, c.want, cmd)
		}
	}
}

func TestPlainWords(t *testing.T) {
	s := vars{data: map[string]any{"x": "a  b", "one": "v", "empty": "", "dash": "-n", "slash": `a\tb`}, trusted: map[string]any{"cmd": "ls -l"}}
	for src, want := range map[string][]string{
		"cmd ${one}":                 {"cmd", "v"},
		"cmd ${x}":                   {"cmd", "a", "b"},
		`cmd "${x}"`:                 {"cmd", "a  b"},
		`cmd pre${x}post "q ${x}"`:   {"cmd", "prea", "bpost", "q a  b"},
		"cmd ${empty}":               {"cmd"},
		`cmd "${empty}" ''`:          {"cmd", "", ""},
		"cmd --n=${one} 'a b' \"c\"": {"cmd", "--n=v", "a b", "c"},
		"${cmd} ${one}":              {"ls", "-l", "v"},
		"  cmd  a  ":                 {"cmd", "a"},
		"cmd\n":                      {"cmd"},
		"./bin/x.sh a=b":             {"./bin/x.sh", "a=b"},
		"true":                       {"true"},
		"echo ${x}":                  {"echo", "a", "b"},
		"echo 'a#b' a#b":             {"echo", "a#b", "a#b"},
		`cmd "a\$b\x"`:               {"cmd", `a$b\x`},
		"echo a ${dash}":             nil,
		"echo ${slash}":              nil,
		"cmd *.go":                   nil,
		"cmd ~":                      nil,
		"cmd {a,b}":                  nil,
		"cmd $HOME":                  nil,
		"cmd ${nope}":                nil,
		"cmd $(x)":                   nil,
		"A=1 cmd":                    nil,
		"A=1":                        nil,
		"cmd > f":                    nil,
		"cmd &":                      nil,
		"cmd; cmd":                   nil,
		"cmd | cmd":                  nil,
		"! cmd":                      nil,
		"cd x":                       nil,
		"exit 1":                     nil,
		"test -f x":                  nil,
		"[ -f x ]":                   nil,
		"printf x":                   nil,
		"true --help":                nil,
		"cmd # c":                    nil,
		`cmd a\ b`:                   nil,
		"":                           nil,
		"'' a":                       nil,
		"cmd $'a'":                   nil,
		"if true; then cmd; fi":      nil,
		"time cmd":                   nil,
		"cmd 'unclosed":              nil,
	} {
		c, err := shellOf(t, src, s)
		if err != nil {
			t.Errorf("%q: %v", src, err)
			continue
		}
		if fmt.Sprintf("%q", c.Argv) != fmt.Sprintf("%q", want) || (c.Argv == nil) != (want == nil) {
			t.Errorf("%q: Argv %q, want %q", src, c.Argv, want)
		}
		if c.Argv == nil && c.Script == "" && src != "" || c.Argv != nil && (c.Script != "" || c.Env != nil) {
			t.Errorf("%q: %+v", src, c)
		}
	}
}

// Texts without data reach the shell byte for byte.
func TestUnknownStaysAsWritten(t *testing.T) {
	s := vars{trusted: map[string]any{"ours": "T", "NAME": "N"}, data: map[string]any{"d": "D"}}
	for src, want := range map[string]string{
		`awk '{print $1}' "$2" $@ $* $? $# $- $!`:               "",
		`echo ${arr[0]} ${V%.*} ${#x} ${V:0:3} ${V/a/b} ${!x}`:  "",
		`echo ${foo.bar} ${foo} $foo ${foo|json} ${a-b} ${ x }`: "",
		"echo `date` $(date) $((1+1)) $[1]":                     "",
		"kill $$; echo $$.tmp $$_x":                             "",
		`echo \${ours} \$NAME '\${ours}'`:                       "",
		`echo ${V:?need} ${V:=d} ${V:+d} ${V-d}`:                "",
		"echo ${unclosed $(":                                    "",
		`echo $${ours} $$NAME $$$NAME`:                          `echo ${ours} $NAME $$N`,
		`echo \\${ours} \\$NAME`:                                `echo \\T \\N`,
		`echo ${ours}$NAME`:                                     "",
		`for NAME in a b; do echo $NAME ${NAME}; done`:          "",
		`NAME=$NAME; echo $NAME`:                                `NAME=N; echo $NAME`,
		`while read NAME; do echo $NAME; done`:                  "",
		`echo ${nope:-T}`:                                       "echo T",
	} {
		c, err := shellOf(t, src, s)
		if err != nil {
			t.Errorf("%q: %v", src, err)
			continue
		}
		if want == "" {
			want = src
		}
		got := c.Script
		if c.Argv != nil {
			got, want = strings.Join(c.Argv, " "), strings.NewReplacer("${ours}", "T", "$NAME", "N").Replace(want)
		}
		if got != want {
			t.Errorf("%q became %q, want %q", src, got, want)
		}
	}
	// The same with data beside it, in single quotes and here-documents too.
	c, err := shellOf(t, `printf '%s|' "${d}" '$1 ${foo.bar} ${V%.*} $(x) \${d}'; cat <<'EOF'`+"\n${d} $1 ${foo.bar} `x` \\ \\\\ \"q\" $$ \\${d}\nEOF\n", s)
	if err != nil {
		t.Fatal(err)
	}
	want := "D|$1 ${foo.bar} ${V%.*} $(x) \\${d}|D $1 ${foo.bar} `x` \\ \\\\ \"q\" $$ \\${d}\n"
	if out, err := run(t, "sh", c); err != nil || out != want {
		t.Errorf("got  %q, %v\nwant %q\n%q", out, err, want, c.Script)
	}
}

func TestLimits(t *testing.T) {
	big := strings.Repeat("x", 200<<10)
	for _, c := range []struct {
		src  string
		x    string
		want string
	}{
		{`echo "${x}"`, big, "200.0 KiB"},
		{`echo "${x}"; true`, big, "128 KiB"},
		{`echo "${x}"`, "a\x00b", "NUL"},
		{`echo ${x|raw}`, "a\x00b", "NUL"},
		{`echo ${x}; true`, strings.Repeat("a ", 5000), "4096 words"},
	} {
		if _, err := shellOf(t, c.src, data(c.x)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.src, err, c.want)
		}
	}
	s := vars{data: map[string]any{"map.results": big}}
	if _, err := shellOf(t, `echo "${map.results|json}"`, s); err == nil || !strings.Contains(err.Error(), "use ${map.results_file}") {
		t.Errorf("%v", err)
	}
	largest := strings.Repeat("x", 128<<10-64)
	c, err := shellOf(t, `printf '%s' "${x}" | wc -c`, data(largest))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, "sh", c); err != nil || strings.TrimSpace(out) != fmt.Sprint(len(largest)) {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := shellOf(t, "echo a\x00b", data("")); err == nil || !strings.Contains(err.Error(), "NUL") {
		t.Errorf("a NUL in the text: %v", err)
	}
}

func TestLineSaysTheSameAsArgv(t *testing.T) {
	c := template.Command{Argv: []string{"echo", "it's", "a  b", "", "$HOME"}}
	out, err := exec.Command("sh", "-c", c.Line()).Output()
	if err != nil || string(out) != "it's a  b  $HOME\n" {
		t.Errorf("%q: %q, %v", c.Line(), out, err)
	}
}

// TestBlanksBehindATextOfTheAuthor: a value that stands in one word, behind a text of the author, begins
// no word, whatever blanks it has. A value that stands first, or that blanks part, may still begin one.
func TestBlanksBehindATextOfTheAuthor(t *testing.T) {
	shells := shellsHere(t)
	for _, src := range []string{`env Y=${x} sh -c 'printf "<%s>" "$Y"'`, `export Y=${x}; printf '<%s>' "$Y"`, `Y=${x} sh -c 'printf "<%s>" "$Y"'`} {
		for _, value := range []string{" -", "a -S", "\t--help", "\n-u"} {
			c, err := shellOf(t, src, data(value))
			if err != nil {
				t.Errorf("%q with %q: %v", src, value, err)
				continue
			}
			for _, sh := range shells {
				if out, err := run(t, sh, c); err != nil || out != "<"+value+">" {
					t.Errorf("%q with %q: %q, %v", src, value, out, err)
				}
			}
		}
	}
	for src, value := range map[string]string{"env ${x}": " -S true", "env ${x} ls": "-S true", "ls a${x}": " -R", "ls ${x}": " -R", "wc a${x}": "b --files0-from=c"} {
		if c, err := shellOf(t, src, data(value)); err == nil {
			t.Errorf("%q takes %q: %q", src, value, c.Line())
		}
	}
}

func TestRandomValuesArrive(t *testing.T) {
	shells := shellsHere(t)
	rapid.Check(t, func(rt *rapid.T) {
		value := rapid.StringOf(rapid.RuneFrom([]rune("ab $`'\"\\\n;&|<>(){}[]*?~!#=%-\tEOF_é"))).Draw(rt, "value")
		p := verbatimPlaces[rapid.IntRange(0, 20).Draw(rt, "place")]
		if p.only != "" {
			return
		}
		c, err := shellOf(t, p.src, data(value))
		if err != nil {
			rt.Fatal(err)
		}
		if out, err := run(t, shells[rapid.IntRange(0, 1).Draw(rt, "shell")%len(shells)], c); err != nil || out != "<"+value+">" {
			rt.Fatalf("%q with %q: %q, %v\n%q", p.src, value, out, err, c.Line())
		}
	})
}

// script draws a shell script with ${x} in it, nested as deep as depth.
func script(t *rapid.T, depth int) string {
	word := func() string {
		plain := []string{"${x}", `"${x}"`, "'${x}'", "pre${x}post", "${y:-${x}}", `"${y:-${x}}"`, `"a'${x}'b"`, `'a"${x}"b'`, `$'${x}'`, `\\${x}`, `"\"${x}\""`, "${x|sh}", "$((${x}))", `"${y:+'${x}'}"`, "${y#${x}}"}
		if depth > 0 {
			switch rapid.IntRange(0, 3).Draw(t, "substitution") {
			case 0:
				return `"$(` + script(t, depth-1) + "\n)\""
			case 1:
				return "`" + strings.NewReplacer("`", "\\`", `\`, `\\`, "$", `\$`).Replace(script(t, depth-1)) + "`"
			}
		}
		return rapid.SampledFrom(plain).Draw(t, "word")
	}
	if depth == 0 {
		return "printf '%s.' " + word()
	}
	inner := func() string { return script(t, depth-1) }
	single := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	double := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`").Replace(s) + `"`
	}
	switch rapid.IntRange(0, 14).Draw(t, "command") {
	case 0:
		return "sh -c " + single(inner())
	case 1:
		return "sh -c " + double(inner())
	case 2:
		return "eval " + single(inner())
	case 3:
		return "eval " + double(inner())
	case 4:
		return "cat <<EOF\n" + word() + "\nEOF\n"
	case 5:
		return "cat <<'EOF'\n" + inner() + "\nEOF\n"
	case 6:
		return "sh <<'E1'\n" + inner() + "\nE1\n"
	case 7:
		return "sh <<E2\n" + inner() + "\nE2\n"
	case 8:
		return "(" + inner() + "\n)"
	case 9:
		return "if " + inner() + "\nthen " + inner() + "\nfi"
	case 10:
		return "z=" + word() + "\nprintf %s \"$z\""
	case 11:
		return "for i in " + word() + " " + word() + "; do " + inner() + "\ndone"
	case 12:
		return "case " + word() + " in " + word() + ") " + inner() + "\n;; esac"
	case 13:
		return "trap " + single(inner()) + " EXIT"
	}
	return "printf '%s.' " + word() + " " + word() + " | cat"
}

// However a script is nested, no value in it is run. What cannot be made safe
// may be refused.
func TestNoNestingRunsData(t *testing.T) {
	shells := shellsHere(t)
	attack := "';touch pwned;'\";touch pwned;\"$(touch pwned)`touch pwned`\ntouch pwned\nEOF\ntouch pwned\n)touch pwned;}\\"
	accepted := 0
	rapid.Check(t, func(rt *rapid.T) {
		src := script(rt, rapid.IntRange(0, 3).Draw(rt, "depth"))
		x := rapid.SampledFrom([]string{attack, "$(touch pwned)", "`touch pwned`", "\ntouch pwned\n", `\";touch pwned;\"`, "7", "* $HOME"}).Draw(rt, "x")
		c, err := shellOf(t, src, data(x))
		if err != nil {
			return
		}
		accepted++
		// The script may well fail by itself; run looks for what ran.
		_, _ = run(t, rapid.SampledFrom(shells).Draw(rt, "shell"), c)
		if t.Failed() {
			rt.Fatalf("%s\nbecame %s", src, c.Line())
		}
	})
	if accepted == 0 {
		t.Error("every script was refused")
	}
	t.Logf("%d scripts ran", accepted)
}
