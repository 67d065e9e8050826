package retry_test

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// No overflow; decimals and the three forms of date.
func TestParseRetryAfter(t *testing.T) {
	now := time.Date(1994, 11, 6, 8, 49, 0, 0, time.UTC)
	tests := []struct {
		header string
		want   time.Duration
		ok     bool
	}{
		{"0", 0, true}, {"120", 2 * time.Minute, true}, {" 7\t", 7 * sec, true}, {"120.5", 120500 * time.Millisecond, true},
		{"0.0000000019", 1, true}, {"007", 7 * sec, true},
		{"3600", time.Hour, true},
		{"9999999999999", math.MaxInt64, true}, {"9223372036.854775807", math.MaxInt64, true}, {"9223372036.9", math.MaxInt64, true},
		{strings.Repeat("9", 400), math.MaxInt64, true},
		{"Sun, 06 Nov 1994 08:49:37 GMT", 37 * sec, true},
		{"Sunday, 06-Nov-94 08:49:37 GMT", 37 * sec, true},
		{"Sun Nov  6 08:49:37 1994", 37 * sec, true},
		{"Sun, 06 Nov 1994 08:48:37 GMT", 0, true},
		{"Fri, 31 Dec 9999 23:59:59 GMT", math.MaxInt64, true},
		{"", 0, false}, {"-1", 0, false}, {"+1", 0, false}, {"1e3", 0, false}, {"1.", 0, false}, {".5", 0, false}, {"1.5.5", 0, false},
		{"0x10", 0, false}, {"1 second", 0, false}, {"soon", 0, false}, {"1_000", 0, false}, {"NaN", 0, false}, {"12a", 0, false},
		{"Sunday, 06-Nov-94 08:49:37 PST", 0, false}, {"Sun, 06 Nov 1994 08:49:37 PST", 0, false},
	}
	for _, test := range tests {
		if got, ok := driver.ParseRetryAfter(test.header, now); got != test.want || ok != test.ok {
			t.Errorf("%q: %v, %v; want %v, %v", test.header, got, ok, test.want, test.ok)
		}
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "1.5", "9999999999999999999", "Sun, 06 Nov 1994 08:49:37 GMT", "-1", ""} {
		f.Add(s, int64(784111740))
	}
	f.Fuzz(func(t *testing.T, header string, unix int64) {
		now := time.Unix(unix%(1<<40), 0)
		d, ok := driver.ParseRetryAfter(header, now)
		if d < 0 || !ok && d != 0 {
			t.Fatalf("%q: %v, %v", header, d, ok)
		}
		text := strings.Trim(header, " \t")
		if strings.Trim(text, "0123456789.") != "" || len(text) > 100 {
			return
		}
		// Digits and points: compare with rational arithmetic.
		want, legal := new(big.Rat).SetString(text)
		legal = legal && text[0] != '.' && text[len(text)-1] != '.'
		if legal != ok {
			t.Fatalf("%q: understood %v, want %v", header, ok, legal)
		}
		if !ok {
			return
		}
		want.Mul(want, big.NewRat(int64(time.Second), 1))
		nanos := new(big.Int).Div(want.Num(), want.Denom())
		if !nanos.IsInt64() {
			nanos.SetInt64(math.MaxInt64)
		}
		if nanos.Int64() != int64(d) {
			t.Fatalf("%q: %d ns, want %d", header, d, nanos)
		}
	})
}

func FuzzPattern(f *testing.F) {
	f.Add("a+b", "aaab")
	f.Fuzz(func(t *testing.T, re, s string) {
		if len(re) > 200 {
			return
		}
		if m, err := retry.TextPattern(re); err == nil {
			m(text(s))
		}
	})
}

// The words are found in any text, and nothing panics.
func FuzzMatchers(f *testing.F) {
	f.Add("HTTP 503: connection refused, 1,500 rows")
	f.Fuzz(func(t *testing.T, s string) {
		for _, name := range driver.MatcherNames() {
			m, _ := driver.MatcherByName(name)
			if m(text(s)) != m(output(s)) && !m(text("command failed")) {
				t.Errorf("%s judges %q by where it stands", name, s)
			}
		}
		lower := strings.ToLower(s)
		if strings.Contains(lower, "timed out") && !retry.Timeout(text(s)) {
			t.Errorf("timed out is not found in %q", s)
		}
	})
}
