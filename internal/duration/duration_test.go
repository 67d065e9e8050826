package duration_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/duration"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "30s": 30 * time.Second, "2m": 2 * time.Minute, "1h30m": 90 * time.Minute,
		"2m30s": 150 * time.Second, "1d": 24 * time.Hour, "1w2d": 9 * 24 * time.Hour, "5min": 5 * time.Minute,
		"1.5s": 1500 * time.Millisecond, "0": 0, "0s": 0, " 3s ": 3 * time.Second, "250us": 250 * time.Microsecond,
		"7ns": 7, "9223372036854775807ns": math.MaxInt64, "99999999999999d": math.MaxInt64,
	} {
		if got, err := duration.Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{"", " ", "500", "1 second", "2 minutes", "-5s", "s", "1x", "5s1m", "1s1s", "1..5s", ".s", "1e3s", "１s", "+1s", "1m 30s", "inf", "NaN"} {
		_, err := duration.Parse(text)
		var bad *duration.Error
		if !errors.As(err, &bad) {
			t.Errorf("Parse(%q) = %v; want an *Error", text, err)
			continue
		}
		if !strings.Contains(err.Error(), "500ms") {
			t.Errorf("the error of %q does not name the accepted forms: %v", text, err)
		}
	}
}

func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Minute: "1h30m", 1500 * time.Millisecond: "1.5s", 48 * time.Hour: "2d", 61 * time.Second: "1m1s",
		12345 * time.Microsecond: "12.345ms", 5: "5ns", -time.Second: "-1s",
	} {
		if got := duration.Format(d); got != want {
			t.Errorf("Format(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestFormatParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64/4).Draw(t, "d"))
		text := duration.Format(d)
		if got, err := duration.Parse(text); err != nil || got != d {
			t.Fatalf("%d is written as %q and read as %d, %v", d, text, got, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1h30m", "500", "1 second", "9999999999999999d", "1.5.5s", "µs"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := duration.Parse(text)
		if err == nil && d < 0 {
			t.Errorf("Parse(%q) = %d: negative", text, d)
		}
	})
}
