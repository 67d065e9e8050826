package syntax

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/duration"
)

// durationUnits are the units of a duration in a pipeline, from the largest.
var durationUnits = []struct {
	name string
	d    time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

func durationUnit(name string) bool {
	for _, u := range durationUnits {
		if u.name == name {
			return true
		}
	}
	return false
}

// readDuration reads a whole number with one of the units of a pipeline.
// The language has fewer spellings than package duration, which does the
// reading: no fractions, no "m", no "1h30m".
func readDuration(text string) (time.Duration, bool) {
	n := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if n <= 0 || !durationUnit(text[n:]) || n > 1 && text[0] == '0' {
		return 0, false
	}
	d, err := duration.Parse(text)
	return d, err == nil && d < math.MaxInt64
}

// known is readDuration with a memory: a source has few different durations
// and many of each.
func (p *parser) known(text string) (time.Duration, bool) {
	if d, ok := p.durations[text]; ok {
		return d, true
	}
	d, ok := readDuration(text)
	if ok {
		if p.durations == nil {
			p.durations = map[string]time.Duration{}
		}
		p.durations[text] = d
	}
	return d, ok
}

// duration reads a duration, or reports what stands in its place and leaves
// it there. example shows the whole option, for messages.
func (p *parser) duration(example string) (DurationValue, bool) {
	t := p.tok()
	text := p.text(t)
	switch t.kind {
	case tQuantity:
		if d, ok := p.known(text); ok {
			p.take()
			return DurationValue{t.span(), d, text}, true
		}
		p.errorTok(CodeDuration, "%s is not a duration", quote(text)).Suggest("%s", durationHint(text, example))
	case tInt, tFloat:
		next := p.peek(1)
		unit := text + p.text(next)
		if _, ok := readDuration(unit); ok && next.kind == tIdent && !next.newLine && p.peek(2).kind != tAssign {
			p.errorTok(CodeDuration, "there is a blank between the number and the unit of a duration").Suggest("write %q", unit)
			break
		}
		hint := text + "s"
		if t.kind == tFloat {
			hint = fewest(hint)
		}
		p.errorTok(CodeDuration, "the duration %s has no unit", text).Suggest("write %q, or another of the units ms, s, min, h, d", hint)
	case tString:
		if _, ok := readDuration(rawString(text)); ok {
			p.errorTok(CodeDuration, "a duration stands without quotes").Suggest("write %q", rawString(text))
			break
		}
		p.errorTok(CodeDuration, "expected a duration, found a string").Suggest("write %q", example)
	case tMinus:
		p.errorTok(CodeDuration, "a duration cannot be negative").Suggest("write %q", example)
	default:
		p.errorTok(CodeDuration, "expected a duration, found %s", p.describe(t)).Suggest("write %q", example)
	}
	return DurationValue{}, false
}

// otherUnits are spellings of units in other languages.
var otherUnits = map[string]string{
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "m": "min", "mins": "min", "minute": "min", "minutes": "min",
	"hr": "h", "hrs": "h", "hour": "h", "hours": "h", "day": "d", "days": "d", "w": "w", "week": "w", "weeks": "w",
	"msec": "ms", "msecs": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
}

// durationHint says how a text that is no duration should be written.
func durationHint(text, example string) string {
	n := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if n > 0 {
		if u := otherUnits[strings.ToLower(text[n:])]; u != "" {
			text = text[:n] + u
		}
	}
	if w := fewest(text); w != "" {
		return `write "` + w + `"; a duration is a whole number with one of the units ms, s, min, h, d`
	}
	return `a duration is a whole number with one of the units ms, s, min, h, d, as in "` + example + `"`
}

// fewest writes a span of time in the largest unit that gives a whole
// number; "" if there is none or the text is no span of time.
func fewest(text string) string {
	d, err := duration.Parse(text)
	if err != nil || d == math.MaxInt64 {
		return ""
	}
	for _, u := range durationUnits {
		if d > 0 && d%u.d == 0 {
			return strconv.FormatInt(int64(d/u.d), 10) + u.name
		}
	}
	return ""
}
