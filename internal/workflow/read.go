package workflow

import (
	"regexp"

	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
)

// text reads a template.
func (o *object) text(keys ...string) *template.Text {
	key, n := o.first(keys...)
	if n == nil {
		return nil
	}
	return o.d.text(n, key)
}

// str reads a text that is not a template: a name, a word.
func (o *object) str(keys ...string) string {
	key, n := o.first(keys...)
	if n == nil {
		return ""
	}
	n = o.d.resolved(n)
	if !n.scalar() {
		o.hint(o.d.wrong(n, key, "a text"), key)
		return ""
	}
	return n.text
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
		return saysTrue(n), true
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
	n = o.d.resolved(n)
	i, p := o.d.integer(n, key, least)
	if p != nil {
		o.hint(p, key)
		return 0, false
	}
	return i, true
}

// intVar reads a whole number, or a variable that the engine resolves.
func (o *object) intVar(least int, keys ...string) Int {
	key, n := o.first(keys...)
	if n == nil {
		return Int{}
	}
	n = o.d.resolved(n)
	if n.kind == strNode && isVariable(n.text) {
		if t := o.d.text(n, key); t != nil {
			return Int{Text: t, Set: true}
		}
		return Int{}
	}
	i, p := o.d.integer(n, key, least)
	if p != nil {
		if p.Suggestion == "" {
			o.hint(p, key)
		}
		return Int{}
	}
	return Int{N: i, Set: true}
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
	n = o.d.resolved(n)
	f, p := o.d.number(n, key, least, greatest)
	if p != nil {
		o.hint(p, key)
		return 0, false
	}
	return f, true
}

// duration reads a duration, or a variable that the engine resolves.
func (o *object) duration(keys ...string) Duration {
	key, n := o.first(keys...)
	if n == nil {
		return Duration{}
	}
	return o.d.duration(n, key, unitOf(key, time.Second))
}

// unitOf is the unit of bare numbers under a key.
func unitOf(key string, unit time.Duration) time.Duration {
	switch {
	case strings.HasSuffix(key, "_ms"):
		return time.Millisecond
	case strings.HasSuffix(key, "_secs"), strings.HasSuffix(key, "_seconds"):
		return time.Second
	}
	return unit
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
	words := choices(f)
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
	if s := diag.DidYouMean(word, words); s != "" {
		p.Suggest("%s (one of %s)", s, strings.Join(words, ", "))
	} else {
		p.Suggest("write one of %s", strings.Join(words, ", "))
	}
	return def
}

// choices are the snake_case words that a field's form lists.
func choices(f *field) []string {
	var words []string
	var look func(t typ)
	look = func(t typ) {
		if list, ok := t["enum"].([]string); ok {
			for _, w := range list {
				if !slices.Contains(words, snake(w)) {
					words = append(words, snake(w))
				}
			}
		}
		if alts, ok := t["anyOf"].([]typ); ok {
			for _, a := range alts {
				look(a)
			}
		}
	}
	look(f.typ)
	return words
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

// condition reads an expression.
func (o *object) condition(keys ...string) *expr.Expr {
	key, n := o.first(keys...)
	if n == nil {
		return nil
	}
	return o.d.expr(n, key)
}

// pattern reads a regular expression.
func (o *object) pattern(keys ...string) *regexp.Regexp {
	key, n := o.first(keys...)
	if n == nil {
		return nil
	}
	if n = o.d.resolved(n); !n.scalar() {
		o.hint(o.d.wrong(n, key, "a regular expression"), key)
		return nil
	}
	return o.d.regexp(n, key)
}
