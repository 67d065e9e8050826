package driver

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// ParseRetryAfter reads the value of an HTTP Retry-After header: a number of
// seconds, decimals allowed, or a date in any of the three forms of HTTP (RFC
// 9110, section 5.6.7), of which the time left until then is taken, seen from
// now. A date that is past means 0. A number too great for a duration becomes
// the greatest duration. Anything else, a negative number included, is not
// understood: 0 and false.
func ParseRetryAfter(header string, now time.Time) (time.Duration, bool) {
	header = strings.Trim(header, " \t")
	if header == "" {
		return 0, false
	}
	if isDigit(header[0]) {
		return parseSeconds(header)
	}
	date, err := http.ParseTime(header)
	if err != nil || date.Location() != time.UTC && !strings.HasSuffix(header, " GMT") {
		return 0, false // a zone that HTTP does not know is not to be guessed
	}
	return max(date.Sub(now), 0), true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// parseSeconds reads digits, with a point and more digits if there are. It
// takes no sign, exponent or other spelling of a number.
func parseSeconds(text string) (time.Duration, bool) {
	whole, fraction, pointed := strings.Cut(text, ".")
	if pointed && fraction == "" {
		return 0, false
	}
	const most = math.MaxInt64 / int64(time.Second)
	seconds := int64(0)
	for _, c := range []byte(whole) {
		if !isDigit(c) {
			return 0, false
		}
		seconds = min(seconds*10+int64(c-'0'), most+1) // so it stays far from overflow
	}
	nanos, unit := int64(0), int64(time.Second)
	for _, c := range []byte(fraction) {
		if !isDigit(c) {
			return 0, false
		}
		unit /= 10
		nanos += int64(c-'0') * unit
	}
	if seconds > most {
		return math.MaxInt64, true
	}
	return addSaturated(time.Duration(seconds)*time.Second, time.Duration(nanos)), true
}
