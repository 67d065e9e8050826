package workflow

import (
	"regexp"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
)

// firstOf reads the value of the first written one of several spellings of a key;
// it is the zero T where there is none.
func firstOf[T any](o *object, keys []string, value func(n *node, key string) T) (v T) {
	if key, n := o.first(keys...); n != nil {
		v = value(n, key)
	}
	return v
}

// text reads a template.
func (o *object) text(keys ...string) *template.Text { return firstOf(o, keys, o.d.text) }

// condition reads an expression.
func (o *object) condition(keys ...string) *expr.Expr { return firstOf(o, keys, o.d.expr) }

// str reads a text that is not a template: a name, a word.
func (o *object) str(keys ...string) string {
	return firstOf(o, keys, func(n *node, key string) string {
		if n = o.d.resolved(n); n.scalar() {
			return n.text
		}
		o.hint(o.d.wrong(n, key, "a text"), key)
		return ""
	})
}

// strings reads one text or a list of texts, with their nodes.
func (o *object) strings(keys ...string) []*node {
	key, n := o.first(keys...)
	if n == nil {
		return nil
	}
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

// flag reads a boolean; set is false where the key is missing or wrong.
func (o *object) flag(keys ...string) (v, set bool) {
	key, n := o.first(keys...)
	if n == nil {
		return false, false
	}
	return o.d.flag(o, o.d.resolved(n), key)
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

// setFlag, setInt and setNumber read a key into to, which stays what it is where
// the key is missing or wrong.
func (o *object) setFlag(to *bool, keys ...string) {
	if v, ok := o.flag(keys...); ok {
		*to = v
	}
}

func (o *object) setInt(to *int, least int, keys ...string) {
	if v, ok := o.integer(least, keys...); ok {
		*to = v
	}
}

func (o *object) setNumber(to *float64, least, greatest float64, keys ...string) {
	if v, ok := o.number(least, greatest, keys...); ok {
		*to = v
	}
}

// read is the same for a key whose value has a reader of its own.
func read[T any](o *object, key string, to *T, value func(*node) T) {
	if n := o.take(key); n != nil {
		*to = value(n)
	}
}

// yes is flag where a missing key means false.
func (o *object) yes(keys ...string) bool {
	v, _ := o.flag(keys...)
	return v
}

// integer reads a whole number that is at least least.
func (o *object) integer(least int, keys ...string) (int, bool) {
	key, n := o.first(keys...)
	if n == nil {
		return 0, false
	}
	i, p := o.d.integer(o.d.resolved(n), key, least)
	o.hint(p, key)
	return i, p == nil
}

// intVar reads a whole number, or a variable that the engine resolves.
func (o *object) intVar(least int, keys ...string) Int {
	return firstOf(o, keys, func(n *node, key string) Int {
		v, p := o.d.intVar(o.d.resolved(n), key, least)
		o.hint(p, key)
		return v
	})
}

func (d *decoder) intVar(n *node, key string, least int) (Int, *diag.Problem) {
	if n.kind == strNode && isVariable(n.text) {
		t := d.text(n, key)
		return Int{Text: t, Set: t != nil}, nil
	}
	i, p := d.integer(n, key, least)
	return Int{N: i, Set: p == nil}, p
}

var variable = pattern.Lazy(`^\s*\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[^{}]+\})\s*$`)

// isVariable reports whether a text is nothing but one variable.
func isVariable(s string) bool { return variable().MatchString(s) }

// number reads a number between two bounds; greatest 0 means none.
func (o *object) number(least, greatest float64, keys ...string) (float64, bool) {
	key, n := o.first(keys...)
	if n == nil {
		return 0, false
	}
	f, p := o.d.number(o.d.resolved(n), key, least, greatest)
	o.hint(p, key)
	return f, p == nil
}

// duration reads a duration, or a variable that the engine resolves.
func (o *object) duration(keys ...string) Duration {
	return firstOf(o, keys, func(n *node, key string) Duration { return o.d.duration(n, key, option.Unit(key)) })
}

// positiveDuration reads a duration or a variable; zero is an error.
func (o *object) positiveDuration(keys ...string) Duration {
	return firstOf(o, keys, func(n *node, key string) Duration {
		v := o.d.duration(n, key, option.Unit(key))
		if v.Set && v.Text == nil && v.D == 0 {
			o.d.errorf(n, "out-of-range", "%s is 0; it must be more than that", key).Suggest("remove the key where there is to be no bound")
			return Duration{}
		}
		return v
	})
}

// choice reads one of several words; CamelCase and hyphens are taken as
// snake_case. It gives def where the key is missing or wrong.
func (o *object) choice(def string, keys ...string) string {
	key, n := o.first(keys...)
	if n == nil {
		return def
	}
	n = o.d.resolved(n)
	f, _ := o.field(key)
	words := f.typ.words()
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

// pattern reads a regular expression.
func (o *object) pattern(keys ...string) *regexp.Regexp {
	return firstOf(o, keys, func(n *node, key string) *regexp.Regexp {
		if n = o.d.resolved(n); n.scalar() {
			return o.d.regexp(n, key)
		}
		o.hint(o.d.wrong(n, key, "a regular expression"), key)
		return nil
	})
}
