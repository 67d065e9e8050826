// Package duration reads and writes spans of time the way people write them
// in workflow files, flags and pipelines: "500ms", "30s", "1h30m", "2d".
//
// It is the only parser of durations in bide.
package duration

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Forms names the accepted spellings, for error messages.
const Forms = `write a number with a unit, as in "500ms", "30s", "2m", "1h30m" or "1d"`

// Error says why a text is no duration. Its message ends with the accepted
// forms.
type Error struct {
	Text   string
	Reason string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%q is not a duration: %s; %s", e.Text, e.Reason, Forms)
}

var units = map[string]int64{
	"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9,
	"m": 60e9, "min": 60e9, "h": 3600e9, "d": 24 * 3600e9, "w": 7 * 24 * 3600e9,
}

// unitOrder is used to refuse "30s1h" and "1m2m": units go from large to small.
var unitOrder = map[string]int{
	"w": 8, "d": 7, "h": 6, "m": 5, "min": 5, "s": 4, "ms": 3, "us": 2, "µs": 2, "μs": 2, "ns": 1,
}

// Parse reads a text such as "1h30m". Each part is a decimal number directly
// followed by one of ns, us, ms, s, m, min, h, d, w, the larger units first.
// "0" is the only number that needs no unit. Negative spans, blanks between
// number and unit, bare numbers and words ("2 minutes") are errors of type
// *Error. A span beyond 292 years saturates at the largest Duration.
func Parse(text string) (time.Duration, error) {
	s := strings.TrimSpace(text)
	fail := func(reason string) (time.Duration, error) { return 0, &Error{text, reason} }
	switch {
	case s == "":
		return fail("it is empty")
	case s == "0":
		return 0, nil
	case s[0] == '-':
		return fail("a span of time cannot be negative")
	}
	var whole int64    // the sum of the parts that are whole nanoseconds
	var total *big.Rat // the sum of all others, exact; mostly nil
	last := 99
	for s != "" {
		n := 0
		for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '.') {
			n++
		}
		if n == 0 {
			return fail("it has no number where one is expected")
		}
		number := s[:n]
		s = s[n:]
		n = 0
		for n < len(s) && s[n] != '.' && (s[n] < '0' || s[n] > '9') {
			n++
		}
		unit := s[:n]
		s = s[n:]
		scale, ok := units[unit]
		switch {
		case unit == "":
			return fail("the number has no unit")
		case !ok && strings.TrimSpace(unit) != unit:
			return fail("there is a blank between number and unit")
		case !ok:
			return fail(fmt.Sprintf("the unit %q is not known", unit))
		case unitOrder[unit] >= last:
			return fail("its parts must go from the larger unit to the smaller, each once")
		}
		last = unitOrder[unit]
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && n <= (math.MaxInt64-whole)/scale {
			whole += n * scale
			continue
		}
		part, ok := new(big.Rat).SetString(number)
		if !ok || len(number) > 64 {
			return fail(fmt.Sprintf("%q is not a number", number))
		}
		if total == nil {
			total = new(big.Rat)
		}
		total.Add(total, part.Mul(part, new(big.Rat).SetInt64(scale)))
	}
	if total == nil {
		return time.Duration(whole), nil
	}
	return rounded(total.Add(total, new(big.Rat).SetInt64(whole))), nil
}

// rounded gives whole nanoseconds, the nearest, saturating.
func rounded(r *big.Rat) time.Duration {
	r = new(big.Rat).Add(r, big.NewRat(1, 2))
	n := new(big.Int).Quo(r.Num(), r.Denom())
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(n.Int64())
}

// FromFloat converts nanoseconds to a Duration, rounding to the nearest and
// saturating at both ends. NaN gives the largest Duration.
func FromFloat(ns float64) time.Duration {
	switch {
	case math.IsNaN(ns), ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(math.Round(ns))
}

// Format writes a span compactly, in a spelling that Parse reads back as the
// same span: "1h30m", "1.5s", "250ms", "2d", "0s".
func Format(d time.Duration) string {
	if d < 0 {
		return "-" + Format(-max(d, -math.MaxInt64))
	}
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range []struct {
		name string
		d    time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}} {
		if d >= u.d {
			fmt.Fprintf(&b, "%d%s", d/u.d, u.name)
			d %= u.d
		}
	}
	switch {
	case d == 0:
	case d >= time.Second:
		b.WriteString(decimal(d, time.Second))
		b.WriteString("s")
	case d >= time.Millisecond:
		b.WriteString(decimal(d, time.Millisecond))
		b.WriteString("ms")
	case d >= time.Microsecond:
		b.WriteString(decimal(d, time.Microsecond))
		b.WriteString("us")
	default:
		fmt.Fprintf(&b, "%dns", d)
	}
	return b.String()
}

// Round gives d to about three digits, as a person reads it: spans from an hour
// in minutes, from ten seconds in seconds, from a second in tenths, from a
// millisecond in milliseconds. What is shorter stays as it is.
func Round(d time.Duration) time.Duration {
	switch {
	case d >= time.Hour:
		return d.Round(time.Minute)
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d
}

// decimal writes d in units of unit without trailing zeros, exactly.
func decimal(d, unit time.Duration) string {
	whole, rest := d/unit, d%unit
	if rest == 0 {
		return strconv.FormatInt(int64(whole), 10)
	}
	digits := len(strconv.FormatInt(int64(unit), 10)) - 1
	frac := fmt.Sprintf("%0*d", digits, rest)
	return strconv.FormatInt(int64(whole), 10) + "." + strings.TrimRight(frac, "0")
}
