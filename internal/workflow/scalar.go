package workflow

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// text reads a node as a template.
func (d *decoder) text(n *node, key string) *template.Text {
	if !d.isText(n, key) {
		return nil
	}
	return d.parsed(n, n.text)
}

// isText reports whether a value is a text, and what is wrong where it is not.
func (d *decoder) isText(n *node, key string) bool {
	if n.scalar() {
		return true
	}
	p := d.wrong(n, key, "a text")
	if n.kind == listNode {
		p.Suggest("write one text; several lines go into a block (%s: |)", key)
	}
	p.Or(`put quotes around a text that begins with "{" or has ": " in it`)
	return false
}

// parsed parses a text that is at n, or is made of what does: a part of it, or
// it behind a slash.
func (d *decoder) parsed(n *node, text string) *template.Text {
	t, err := template.Parse(text)
	if err != nil {
		d.syntax(n, "bad-template", "in this text: ", err)
		return nil
	}
	d.noteForeign(n, t)
	d.noteBraced(n, t)
	if outputFile().MatchString(text) {
		d.madeNames = true
		for _, found := range outputName().FindAllStringSubmatch(text, -1) {
			d.outputNames = append(d.outputNames, found[1])
		}
	}
	rest := strings.TrimPrefix(text, "/")
	shift := max(0, strings.Index(n.text, rest)) - (len(text) - len(rest))
	if n.src != nil && (!t.IsLiteral() || t.MayBeOpen() || t.HasItemInBraces()) {
		t.Locate(func(offset int) diag.Pos {
			n.src.lock.Lock()
			defer n.src.lock.Unlock()
			return n.at(shift + offset)
		})
	}
	for _, r := range t.Refs() {
		d.note(use{n: n, path: readPath(r), offset: shift + r.Offset, code: true, maybe: r.Default || r.Bare})
		if r.Problem != "" && !d.full() {
			d.problems.Errorf(n.at(shift+r.Offset), "bad-filter", "in ${%s}: %s", r.Name, r.Problem).
				Suggest(`see "bide explain" for the filters`)
		}
	}
	return t
}

// readPath is what a reference reads; env:NAME is the same as env.NAME.
func readPath(r template.Ref) expr.Path {
	if name, ok := strings.CutPrefix(r.Name, "env:"); ok && r.Path == nil {
		return expr.Path{{Name: "env"}, {Name: name}}
	}
	return r.Path
}

// syntax reports an error of an expression or a template where it is.
func (d *decoder) syntax(n *node, code, what string, err error) {
	if d.full() {
		return
	}
	var se *expr.SyntaxError
	if !errors.As(err, &se) {
		d.errorf(n, code, "%s%v", what, err).Suggest("mend the text, or put quotes around it")
		return
	}
	d.problems.Errorf(n.at(se.Offset), code, "%s%s", what, se.Message).
		Suggest("%s", cmp.Or(se.Suggestion, "compare as in score >= 5 && status == 'open', and put quotes around words that are texts"))
}

// expr reads a condition.
func (d *decoder) expr(n *node, key string) *expr.Expr {
	if !n.scalar() {
		d.wrong(n, key, "a condition").Suggest("for example: %s: \"${score} >= 80\"", key)
		return nil
	}
	e, err := expr.Parse(n.text)
	if err != nil {
		if !d.foreignIn(n) {
			d.syntax(n, "bad-expression", "in this condition: ", err)
		}
		return nil
	}
	if key != "filter" { // whose names are fields of the item
		maybe := e.Optional()
		for i, r := range e.Refs() {
			d.note(use{n: n, path: r, offset: -1, maybe: maybe[i]})
		}
	}
	return e
}

func (d *decoder) regexp(n *node, key string) *regexp.Regexp {
	re, err := regexp.Compile(n.text)
	if err != nil {
		d.badRegexp(n, key, err)
		return nil
	}
	return re
}

func (d *decoder) badRegexp(n *node, key string, err error) {
	msg := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	d.errorf(n, "bad-regexp", "%s is not a regular expression: %s", key, msg).
		Suggest("the syntax is RE2, without lookaround and backreferences; put single quotes around it so that backslashes stay")
}

// jsonPath checks a JSONPath and gives it back as written.
func (d *decoder) jsonPath(n *node, key string) string {
	if n == nil {
		return ""
	}
	if n = d.resolved(n); !n.scalar() {
		d.wrong(n, key, "a JSONPath").Suggest("for example: %s: $.items[*]", key)
		return ""
	}
	if strings.TrimSpace(n.text) == "" {
		return ""
	}
	if err := input.CheckPath(n.text); err != nil {
		d.errorf(n, "bad-json-path", "%s: %v", key, err).
			Suggest("JSONPath is RFC 9535: $.items[*], $[0:3], $.items[?(@.score > 5)]")
		return ""
	}
	return n.text
}

// integer reads a whole number of at least least; the problem is nil if it is one.
func (d *decoder) integer(n *node, key string, least int) (int, *diag.Problem) {
	if n.kind != intNode {
		p := d.wrong(n, key, "a whole number")
		if n.quoted && intText().MatchString(n.text) {
			p.Suggest("write %s without quotes", n.text)
		} else if n.kind == strNode && isVariable(n.text) {
			p.Suggest("a variable can only stand here if it is a parameter with a value: see parameters and --param")
		}
		return 0, p
	}
	i, ok := numberValue(n.text).(int64)
	if !ok || i > math.MaxInt32 {
		return 0, d.errorf(n, "out-of-range", "%s is %s; it can be at most %d", key, short(n.text), math.MaxInt32)
	}
	if i < int64(least) {
		return 0, d.errorf(n, "out-of-range", "%s is %s; it must be %d or more", key, n.text, least)
	}
	return int(i), nil
}

// number reads a number within its limits.
func (d *decoder) number(n *node, key string, l interval) (float64, *diag.Problem) {
	if n.kind != intNode && n.kind != floatNode {
		p := d.wrong(n, key, "a number")
		if n.quoted && floatText().MatchString(n.text) {
			p.Suggest("write %s without quotes", n.text)
		}
		return 0, p
	}
	f, ok := value.Float(numberValue(n.text))
	switch {
	case !ok || math.IsInf(f, 0) || math.IsNaN(f):
		return 0, d.errorf(n, "out-of-range", "%s is %s, which is no number to reckon with", key, short(n.text))
	case l.above && f <= l.least:
		return 0, d.errorf(n, "out-of-range", "%s is %s; it must be more than %v", key, n.text, l.least)
	case f < l.least:
		return 0, d.errorf(n, "out-of-range", "%s is %s; it must be %v or more", key, n.text, l.least)
	case l.above && l.greatest > 0 && f > l.greatest:
		return 0, d.errorf(n, "out-of-range", "%s is %s; it must be more than %v and at most %v", key, n.text, l.least, l.greatest)
	case l.greatest > 0 && f > l.greatest:
		return 0, d.errorf(n, "out-of-range", "%s is %s; it must be between %v and %v", key, n.text, l.least, l.greatest)
	}
	return f, nil
}

// duration reads a duration or a variable that will be one.
func (d *decoder) duration(n *node, key string, unit time.Duration) Duration {
	n = d.resolved(n)
	if n.kind == strNode && strings.Contains(n.text, "$") {
		t := d.text(n, key)
		if t == nil || len(t.Foreign()) > 0 {
			return Duration{}
		}
		if len(t.Refs()) == 0 {
			d.badDuration(n, key, "it has no variable in it")
			return Duration{}
		}
		return Duration{Text: t, Unit: unit, Set: true}
	}
	span, ok := d.span(n, key, unit)
	if !ok {
		return Duration{}
	}
	return Duration{D: span, Unit: unit, Set: true}
}

// span reads a duration in any spelling.
func (d *decoder) span(n *node, key string, unit time.Duration) (time.Duration, bool) {
	n = d.resolved(n)
	switch n.kind {
	case intNode, floatNode:
		f, ok := value.Float(numberValue(n.text))
		if !ok || f < 0 || math.IsNaN(f) {
			d.badDuration(n, key, "a span of time cannot be negative")
			return 0, false
		}
		return duration.FromFloat(f * float64(unit)), true
	case strNode:
		span, err := duration.Parse(n.text)
		if err == nil {
			return span, true
		}
		reason := err.Error()
		if de, ok := errors.AsType[*duration.Error](err); ok {
			reason = de.Reason
		}
		if isVariable(n.text) {
			reason = "a variable can only stand here if it is a parameter with a value"
		}
		d.badDuration(n, key, reason)
		return 0, false
	case mapNode:
		return d.secsNanos(n, key)
	}
	d.wrong(n, key, "a duration").Suggest("%s", duration.Forms)
	return 0, false
}

func (d *decoder) badDuration(n *node, key, reason string) {
	if n.kind == strNode && d.foreignIn(n) {
		return
	}
	p := d.errorf(n, "bad-duration", "%s: %q is not a duration: %s", key, short(n.text), reason)
	if s := likelyDuration(n.text); s != "" {
		p.Suggest("did you mean %s? (%s; a bare number is in seconds)", s, duration.Forms)
	}
	p.Or("%s, or a bare number of seconds without quotes", duration.Forms)
}

var wordyDuration = pattern.Lazy(`(?i)^\s*(\d+(?:\.\d+)?)\s*(milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)\s*$`)

// likelyDuration guesses what "2 minutes" or "500" was meant to be, in quotes.
func likelyDuration(text string) string {
	if f, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && f >= 0 && !math.IsInf(f, 0) {
		text = strings.TrimSpace(text)
		return fmt.Sprintf("%q or %q", text+"s", text+"ms")
	}
	m := wordyDuration().FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	unit := strings.ToLower(m[2])
	if strings.HasPrefix(unit, "mil") || strings.HasPrefix(unit, "ms") {
		return strconv.Quote(m[1] + "ms")
	}
	return strconv.Quote(m[1] + unit[:1])
}

// secsNanos reads {secs: 1, nanos: 0}.
func (d *decoder) secsNanos(n *node, key string) (time.Duration, bool) {
	o, _ := d.object(n, secsTable) // it is a map
	var v secsAndNanos
	secsTable.read(o, &v)
	o.close()
	if !v.set {
		d.errorf(n, "bad-duration", "%s: a duration written as a map has secs and nanos", key).Suggest("%s", duration.Forms)
		return 0, false
	}
	return duration.FromFloat(v.nanos), true
}

// secsAndNanos is a span of time that is written as a map.
type secsAndNanos struct {
	nanos float64
	set   bool
}

// nanosPer reads a part of one, which is so many nanoseconds long.
func nanosPer(unit float64) reader {
	return by(func(o *object, key string, n *node, v *secsAndNanos) {
		if f, ok := o.numberAt(o.row(key), key, n); ok {
			v.nanos, v.set = v.nanos+f*unit, true
		}
	})
}

var reference = pattern.Lazy(`\$\{([A-Za-z_][A-Za-z0-9_.-]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)`)

// resolved puts the values of parameters into a scalar of a typed place. In
// texts they stay for run time.
func (d *decoder) resolved(n *node) *node {
	if n.kind != strNode || len(d.params) == 0 || !strings.Contains(n.text, "$") {
		return n
	}
	whole := isVariable(n.text)
	changed := false
	text := reference().ReplaceAllStringFunc(n.text, func(ref string) string {
		p, ok := d.params[strings.Trim(ref, "${}")]
		if !ok || !p.HasValue {
			return ref
		}
		text := d.paramText(p)
		if len(text) > maxTyped {
			return ref
		}
		changed = true
		return text
	})
	if !changed {
		return n
	}
	out := *n
	out.text = text
	if whole {
		out.text = strings.TrimSpace(text)
		out.kind = plainKind(out.text)
		out.quoted = false
	}
	return &out
}

// maxTyped is the length of a parameter's value that may be in a typed place:
// a number, a word, a duration, a path.
const maxTyped = 4 << 10

// paramText is the text of a parameter's value, which many places may ask for.
func (d *decoder) paramText(p Param) string {
	text, ok := d.paramTexts[p.Name]
	if !ok {
		text = value.Text(p.Value)
		value.Put(&d.paramTexts, p.Name, text)
	}
	return text
}

// deep gives the value of a node with its texts as templates.
func (d *decoder) deep(n *node) any {
	return n.valueWith(func(n *node) any {
		if t := d.parsed(n, n.text); t != nil {
			return t
		}
		return n.text
	})
}
