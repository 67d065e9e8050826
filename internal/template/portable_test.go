package template_test

import (
	"testing"

	"github.com/bide-dev/bide/internal/template"
)

func TestPortable(t *testing.T) {
	for _, src := range []string{"make", "false; echo a | cat", "for f in *.go; do gofmt -l \"$f\"; done", "echo ${{ matrix.go }}", "v=1; echo ${v%a} $((v+1)) $(pwd)", "[ -n \"$CI\" ] && echo x", "cat <<'EOF'\n${x}\nEOF", "npm ci\nnpm test"} {
		if text, err := template.Parse(src); err != nil || !text.Portable() {
			t.Errorf("%q is for every sh: %v", src, err)
		}
	}
	for _, src := range []string{"[[ a == b ]]", "a=(1 2)", "echo ${v//b/X}", "echo ${v:0:3}", "echo 'a\\nb'", "echo -e a", "cat <<< x", "diff <(a) <(b)", "echo {a,b}", "set -o pipefail", "source x", "echo $RANDOM", "read a b", "shopt -s globstar", "a &> f", "printf %q x", "echo ${!x}", "function f { :; }", "[ a == b ]", "if"} {
		if text, err := template.Parse(src); err != nil || text.Portable() {
			t.Errorf("%q is bash's: %v", src, err)
		}
	}
}
