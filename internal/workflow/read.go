package workflow

import (
	"regexp"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
)

// Readers of values that are not templates. They say what is wrong, with an example of
// the key's row.

// strAt reads a text that is not a template: a name, a word.
func (o *object) strAt(n *node, key string) string {
	if n = o.d.resolved(n); n.scalar() {
		return n.text
	}
	o.hint(o.d.wrong(n, key, "a text"), key)
	return ""
}

// stringsAt reads one text or a list of texts, with their nodes.
func (o *object) stringsAt(n *node, key string) []*node {
	if n.scalar() {
		return []*node{o.d.resolved(n)}
	}
	if n.kind != listNode {
		o.hint(o.d.wrong(n, key, "a text or a list of texts"), key)
		return nil
	}
	var out []*node
	for _, it := range n.items {
		if !it.scalar() || it.kind == nullNode {
			o.hint(o.d.wrong(it, key, "a list of texts"), key)
			continue
		}
		out = append(out, o.d.resolved(it))
	}
	return out
}

// flag reads true or false, and says how the like of yes is to be written.
func (d *decoder) flag(o *object, n *node, key string) (v, ok bool) {
	if n.kind == boolNode {
		return isTrue(n), true
	}
	p := d.wrong(n, key, "true or false")
	switch strings.ToLower(n.text) {
	case "yes", "on", "true", "y":
		p.Suggest("write %s: true", key)
	case "no", "off", "false", "n":
		p.Suggest("write %s: false", key)
	default:
		o.hint(p, key)
	}
	return false, false
}

// row is the row of a key of this map, which has one.
func (o *object) row(key string) *field {
	f, ok := o.field(key)
	if !ok {
		panic("workflow: " + o.what + " has no key " + key)
	}
	return f
}

// integerAt reads a whole number within the bounds of its row, and intAt one that may be
// a variable.
func (o *object) integerAt(f *field, key string, n *node) (int, bool) {
	i, p := o.d.integer(o.d.resolved(n), key, int(f.typ.limits().least))
	o.hint(p, key)
	return i, p == nil
}

func (o *object) intAt(f *field, n *node, key string) Int {
	v, p := o.d.intVar(o.d.resolved(n), key, int(f.typ.limits().least))
	o.hint(p, key)
	return v
}

func (d *decoder) intVar(n *node, key string, least int) (Int, *diag.Problem) {
	if n.kind == strNode && isVariable(n.text) {
		t := d.text(n, key)
		return Int{Text: t, Set: t != nil, Least: least}, nil
	}
	i, p := d.integer(n, key, least)
	return Int{N: i, Set: p == nil}, p
}

var variable = pattern.Lazy(`^\s*\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[^{}]+\})\s*$`)

// isVariable reports whether a text is nothing but one variable.
func isVariable(s string) bool { return variable().MatchString(s) }

// numberAt reads a number within the bounds of its row.
func (o *object) numberAt(f *field, key string, n *node) (float64, bool) {
	v, p := o.d.number(o.d.resolved(n), key, f.typ.limits())
	o.hint(p, key)
	return v, p == nil
}

// choiceAt reads one of the words of a row; CamelCase and hyphens are taken as
// snake_case. It gives def where it is none of them.
func (o *object) choiceAt(def, key string, n *node) string {
	n = o.d.resolved(n)
	words := o.row(key).typ.words()
	word := snake(n.text)
	if n.scalar() && slices.Contains(words, word) {
		o.d.migration.replace(n, word)
		return word
	}
	if !n.scalar() {
		o.hint(o.d.wrong(n, key, "one of "+strings.Join(words, ", ")), key)
		return def
	}
	p := o.d.errorf(n, "bad-value", "%s cannot be %q", key, short(n.text))
	suggestOneOf(p, word, words)
	return def
}

// suggestOneOf names the words that are known, and the one that is near first.
func suggestOneOf(p *diag.Problem, word string, words []string) {
	all := strings.Join(words, ", ")
	if p.Near(word, words); p.Suggestion != "" {
		p.Suggestion += " (one of " + all + ")"
	}
	p.Or("write one of %s", all)
}

// snake gives "per_agent" for "PerAgent", "per-agent" and "per agent".
func snake(s string) string {
	var b strings.Builder
	for i, r := range strings.TrimSpace(s) {
		switch {
		case r == '-' && i > 0, r == ' ':
			b.WriteByte('_')
		case r >= 'A' && r <= 'Z':
			if i > 0 && !strings.HasSuffix(b.String(), "_") && s[i-1] >= 'a' && s[i-1] <= 'z' {
				b.WriteByte('_')
			}
			b.WriteRune(r - 'A' + 'a')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// patternAt reads a regular expression.
func (o *object) patternAt(n *node, key string) *regexp.Regexp {
	if n = o.d.resolved(n); n.scalar() {
		return o.d.regexp(n, key)
	}
	o.hint(o.d.wrong(n, key, "a regular expression"), key)
	return nil
}
