package syntax

import (
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/value"
)

// readDuration reads a span of time as package duration does, but none that
// is longer than 292 years.
func readDuration(text string) (time.Duration, bool) {
	d, err := duration.Parse(text)
	return d, err == nil && d < math.MaxInt64
}

// unit reports whether a token is a unit of time.
func (p *parser) unit(t *token) bool {
	_, ok := readDuration("1" + p.text(t))
	return ok
}

// known is readDuration with a memory: a source has few different durations
// and many of each.
func (p *parser) known(text string) (time.Duration, bool) {
	if d, ok := p.durations[text]; ok {
		return d, true
	}
	d, ok := readDuration(text)
	if ok {
		value.Put(&p.durations, text, d)
	}
	return d, ok
}

// duration reads a duration, or reports what is in its place and leaves
// it there. example shows the whole option, for messages.
func (p *parser) duration(example func() string) (DurationValue, bool) {
	t := p.tok()
	text := p.text(t)
	switch t.kind {
	case tQuantity:
		if d, ok := p.known(text); ok {
			p.take()
			return DurationValue{t.span(), d, text}, true
		}
		if _, err := duration.Parse(text); err == nil {
			p.errorTok(CodeDuration, "the duration %s is too large", quote(text)).Suggest("write at most %dd", math.MaxInt64/int64(24*time.Hour))
			break
		}
		p.errorTok(CodeDuration, "%s is not a duration", quote(text)).Suggest("%s", durationHint(text, example()))
	case tInt, tFloat:
		next := p.peek(1)
		unit := text + p.text(next)
		if _, ok := readDuration(unit); ok && next.kind == tIdent && !next.newLine && p.peek(2).kind != tAssign {
			p.errorTok(CodeDuration, "there is a blank between the number and the unit of a duration").Suggest("write %q", unit)
			break
		}
		p.errorTok(CodeDuration, "the duration %s has no unit", text).Suggest("write %q or %q, or another of the units %s", text+"ms", text+"s", units)
	case tString:
		if _, ok := readDuration(rawString(text)); ok {
			p.errorTok(CodeDuration, "a duration stands without quotes").Suggest("write %s, without quotes", rawString(text))
			break
		}
		p.errorTok(CodeDuration, "expected a duration, found a string").Suggest("write %q", example())
	case tMinus:
		p.errorTok(CodeDuration, "a duration cannot be negative").Suggest("write %q", example())
	default:
		p.errorTok(CodeDuration, "expected a duration, found %s", p.describe(t)).Suggest("write %q", example())
	}
	return DurationValue{}, false
}

// units are those that messages name.
const units = "ms, s, m, h, d"

// otherUnits are spellings of units in other languages.
var otherUnits = map[string]string{
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "mins": "m", "minute": "m", "minutes": "m",
	"hr": "h", "hrs": "h", "hour": "h", "hours": "h", "day": "d", "days": "d", "week": "w", "weeks": "w",
	"msec": "ms", "msecs": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
}

// durationHint says how a text that is no duration should be written.
func durationHint(text, example string) string {
	n := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if n > 0 {
		meant := text[:n] + cmp.Or(otherUnits[strings.ToLower(text[n:])], strings.ToLower(text[n:]))
		if _, ok := readDuration(meant); ok {
			return "write " + quote(meant)
		}
	}
	return "a duration is a number with one of the units " + units + ", as in " + quote(example)
}
