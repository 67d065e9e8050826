package template

import (
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// Foreign is an expression of GitHub Actions in a text, ${{ … }}: no shell and
// no reference of ours is written so.
type Foreign struct {
	Text   string // with its braces
	Offset int
	// Certain says, of those that ForeignInShell gives, that the text is valid
	// shell but for them.
	Certain bool
	// Dollars says, of those that ForeignInShell gives, that $$ is there, of
	// which a shell is given one.
	Dollars bool
}

const foreignOpen, foreignClose = "${{", "}}"

// Foreign lists the expressions of GitHub Actions in the text, in order. One
// whose $ is escaped stands for itself, and is none.
func (t *Text) Foreign() (list []Foreign) {
	return slices.DeleteFunc(t.allForeign(), func(f Foreign) bool { return f.Dollars })
}

// HasForeign reports whether there are any, in a shell or elsewhere.
func (t *Text) HasForeign() bool { return len(t.allForeign()) > 0 }

func (t *Text) allForeign() (list []Foreign) {
	for at := 0; ; {
		i := strings.Index(t.src[at:], foreignOpen)
		if i < 0 {
			return list
		}
		at += i
		end := strings.Index(t.src[at:], foreignClose)
		if end < 0 {
			return list
		}
		end += at + len(foreignClose)
		dollars := strings.HasSuffix(t.src[:at], "$")
		if !escaped(t.src, 0, len(strings.TrimSuffix(t.src[:at], "$"))) {
			list = append(list, Foreign{Text: t.src[at:end], Offset: at, Dollars: dollars})
		}
		at = end
	}
}

// Braced is a name in two pairs of braces, {{ name }}, as Jinja and its kin have it.
type Braced struct {
	Text   string // with its braces
	Name   string
	Offset int
}

// Braced lists the names in two pairs of braces in the text, in order. What begins with a
// dot or is no name, as in the templates of Go, is none.
func (t *Text) Braced() (list []Braced) {
	if !strings.Contains(t.src, "{{") {
		return nil
	}
	for _, m := range braced().FindAllStringSubmatchIndex(t.src, -1) {
		if m[0] == 0 || t.src[m[0]-1] != '$' && t.src[m[0]-1] != '{' {
			list = append(list, Braced{t.src[m[0]:m[1]], t.src[m[2]:m[3]], m[0]})
		}
	}
	return list
}

var braced = pattern.Lazy(`\{\{-?\s*([A-Za-z_]\w*(?:\.\w+)*)\s*(?:\|[^{}|]*)?-?\}\}`)

// ForeignInShell is Foreign without those that a shell leaves alone: in single
// quotes, in a here-document whose delimiter is quoted, in a comment.
func (t *Text) ForeignInShell() []Foreign {
	list := t.allForeign()
	if len(list) == 0 {
		return nil
	}
	readable := []byte(t.readable())
	for _, f := range list {
		if f.Dollars {
			readable[f.Offset-1] = '_'
		}
		for i := f.Offset + len(foreignOpen) - 1; i < f.Offset+len(f.Text)-1; i++ {
			readable[i] = '_'
		}
	}
	file, err := parseShell(string(readable))
	if err != nil {
		return t.Foreign()
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if p, ok := n.(*syntax.ParamExp); ok {
			start, end := span(p)
			i, _ := slices.BinarySearchFunc(list, start, func(f Foreign, at int) int { return f.Offset - at })
			for ; i < len(list) && list[i].Offset < end; i++ {
				list[i].Certain = true
			}
		}
		return true
	})
	return slices.DeleteFunc(list, func(f Foreign) bool { return !f.Certain })
}
