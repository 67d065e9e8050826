package classify

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/retry/driver"
)

var (
	epochReset  = pattern.Lazy(`limit reached\|(\d{9,14})|"resets?_?at": ?"?(\d{9,14})|"resetsat": ?"?(\d{9,14})`)
	resetIn     = pattern.Lazy(`(?:reset|resets|again|retry|wait)(?: after| in|ing in)? (?:about |~)?((?:\d+ ?(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)\b[ ,]*(?:and )?)+)|(?:reset|again|wait|after|in) ((?:\d+(?:\.\d+)?(?:ms|[dhms]))+)\b|(?:retry|again) in (\d+\.\d+ ?s)\b`)
	resetFields = pattern.Lazy(`"resets_in_seconds": ?(\d+)|"retry_?delay": ?"(\d+(?:\.\d+)?)s"|"retry_?after": ?"?(\d+)`)
	spanPart    = pattern.Lazy(`(\d+)(\.\d+)? ?(ms\b|[a-z])`)
	resetClock  = pattern.Lazy(`(?:resets?(?: at| on)?|again (?:at|on)) (?:(mon|tue|wed|thu|fri|sat|sun)[a-z]*,? (?:at )?|([a-z]{3}) (\d{1,2})(?:st|nd|rd|th)?,?(?: \d{4},?)? (?:at )?)?(\d{1,2})(?::(\d\d))? ?(am|pm)?(?: ?\(([\w/+-]+)\))?`)
)

// Reset reads when a limit ends: after how long, seen from now. The forms are
// those of Claude ("resets 4:20am (Europe/Warsaw)", "resets Mon 9am",
// "limit reached|1767225600"), of Codex ("resets_in_seconds", "try again in 3
// hours 12 minutes") and of Gemini ("quota will reset after 18h7m"), and the
// HTTP header. ok is false where the text does not say.
func Reset(text string, now time.Time) (d time.Duration, ok bool) {
	if d := retryAfter(text); d > 0 {
		return d, true
	}
	text = strings.ToLower(text)
	if m := filled(epochReset().FindStringSubmatch(text)); m != "" {
		if t := Epoch(json.RawMessage(m)); !t.IsZero() {
			return max(0, t.Sub(now)), true
		}
	}
	if m := filled(resetFields().FindStringSubmatch(text)); m != "" {
		return driver.ParseRetryAfter(m, now)
	}
	if m := filled(resetIn().FindStringSubmatch(text)); m != "" {
		return span(m), true
	}
	return clock(resetClock().FindStringSubmatch(text), text, now)
}

// filled is the first group that matched.
func filled(m []string) string {
	if len(m) > 1 {
		for _, s := range m[1:] {
			if s != "" {
				return s
			}
		}
	}
	return ""
}

// span adds up "3 hours 12 minutes", "18h7m", "1.5s" and "812ms".
func span(s string) (d time.Duration) {
	units := map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second, "ms": time.Millisecond}
	for _, m := range spanPart().FindAllStringSubmatch(s, -1) {
		if n, err := strconv.ParseFloat(m[1]+m[2], 64); err == nil && n < 1<<20 {
			d += time.Duration(n * float64(units[m[3]]))
		}
	}
	return d
}

// justPassed is how long ago a moment may be that a text announces: an agent
// names the minute, and takes its time to end.
const justPassed = 10 * time.Minute

// clock reads a time of day, with its day and its zone where it has them, as
// the next such moment. One that has just passed is 0: the limit has ended. A
// date is of the year that brings it nearest to now.
func clock(m []string, text string, now time.Time) (time.Duration, bool) {
	if m == nil || m[5] == "" && m[6] == "" {
		return 0, false // a bare number is no time
	}
	zone := now.Location()
	if m[7] != "" {
		// The name was made lower case; names of zones are capital by word.
		if z, err := time.LoadLocation(zoneName(m[7])); err == nil {
			zone = z
		}
	}
	hour, _ := strconv.Atoi(m[4])
	minute, _ := strconv.Atoi(m[5]) // of digits, by the expression; "" is 0
	if m[6] != "" {
		hour %= 12
		if m[6] == "pm" {
			hour += 12
		}
	}
	if hour > 23 || minute > 59 {
		return 0, false
	}
	here := now.In(zone)
	if m[2] != "" {
		month, err := time.Parse("Jan", strings.ToUpper(m[2][:1])+m[2][1:])
		if err != nil {
			return 0, false
		}
		day, _ := strconv.Atoi(m[3])
		nearest := time.Date(here.Year(), month.Month(), day, hour, minute, 0, 0, zone).Sub(now)
		for _, year := range [...]int{here.Year() - 1, here.Year() + 1} {
			if d := time.Date(year, month.Month(), day, hour, minute, 0, 0, zone).Sub(now); d.Abs() < nearest.Abs() {
				nearest = d
			}
		}
		return max(0, nearest), true
	}
	for day := here.Day() - 1; day <= here.Day()+7; day++ {
		t := time.Date(here.Year(), here.Month(), day, hour, minute, 0, 0, zone)
		if t.After(now.Add(-justPassed)) && strings.HasPrefix(strings.ToLower(t.Weekday().String()), m[1]) {
			return max(0, t.Sub(now)), true
		}
	}
	return 0, false
}

func zoneName(lower string) string {
	if lower == "utc" || lower == "gmt" {
		return strings.ToUpper(lower)
	}
	b := []byte(lower)
	for i := range b {
		if i == 0 || strings.IndexByte("/_-", b[i-1]) >= 0 {
			if b[i] >= 'a' && b[i] <= 'z' {
				b[i] -= 'a' - 'A'
			}
		}
	}
	return string(b)
}

var tokensUsed = pattern.Lazy(`(?im)^(?:\[[^\]\n]*\] )?tokens used:?\s+(\d[\d,._ ]*)$`)

// Tokens reads how many tokens an agent CLI says at the end of an output to
// have used, as Codex does; 0 where none says it.
func Tokens(outputs ...string) int64 {
	for _, text := range outputs {
		all := tokensUsed().FindAllStringSubmatch(strings.ReplaceAll(text, "\r\n", "\n"), -1)
		if len(all) == 0 {
			continue
		}
		digits := strings.NewReplacer(",", "", ".", "", "_", "", " ", "").Replace(all[len(all)-1][1])
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			return n
		}
	}
	return 0
}

// Epoch reads seconds or milliseconds since 1970, or an RFC 3339 time; the
// zero time where it is none.
func Epoch(raw json.RawMessage) time.Time {
	text := strings.Trim(string(raw), `" `)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		if n > 1e12 {
			return time.UnixMilli(n)
		}
		return time.Unix(n, 0)
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t
	}
	return time.Time{}
}
