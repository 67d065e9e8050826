package template

import (
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// Portable reports whether every sh does with a shell text what bash does with it, as far
// as the text alone shows. In doubt it is false.
func (t *Text) Portable() bool {
	if _, bash := t.Bashism(); bash || bashNames().MatchString(t.src) {
		return false
	}
	src := []byte(t.src)
	for _, f := range t.allForeign() {
		for i := f.Offset; i < f.Offset+len(f.Text); i++ {
			src[i] = '_'
		}
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(string(src)), "")
	if err != nil {
		return false
	}
	same := true
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			name, _ := literal(c.Args[0])
			start, end := span(c)
			words := string(src[start:end])
			switch {
			case bashBuiltins(name):
				same = false
			case name == "echo": // dash reads what is behind a backslash, in values too
				same = same && !strings.Contains(words, `\`) && !strings.HasPrefix(words, "echo -e") && !strings.HasPrefix(words, "echo -E")
			case name == "printf":
				same = same && !strings.Contains(words, "%q") && !strings.Contains(words, "%(") && !strings.Contains(words, "printf -")
			case name == "[" || name == "test":
				same = same && !strings.Contains(words, "==") && !strings.Contains(words, " -v ") && !strings.Contains(words, " =~ ")
			}
		}
		return same
	})
	return same
}

var (
	// bashBuiltins are commands that other shells do not have, or read otherwise.
	bashBuiltins = wordSet(`shopt declare typeset pushd popd dirs mapfile readarray let source type hash enable complete compgen disown
		read trap time wait kill ulimit caller builtin logout history fc bind suspend help`)
	bashNames = pattern.Lazy(`\$\{?!|\b(RANDOM|SECONDS|BASH[A-Z_]*|PIPESTATUS|FUNCNAME|UID|EUID|OSTYPE|HOSTTYPE|HOSTNAME|MACHTYPE|LINENO|SHLVL|GROUPS|DIRSTACK|SHELLOPTS)\b|pipefail`)
)
