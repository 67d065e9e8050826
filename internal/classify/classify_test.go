package classify_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/classify"
)

func kinds(v classify.Verdict) string {
	var k []string
	for _, f := range []struct {
		name string
		is   bool
	}{{"network", v.Network}, {"timeout", v.Timeout}, {"rate_limit", v.RateLimited}, {"server_error", v.Status != 0}} {
		if f.is {
			k = append(k, f.name)
		}
	}
	if k == nil {
		return "-"
	}
	return strings.Join(k, "+")
}

// The corpus holds real failures, and what only looks like them: 95 of a
// hundred must be right, and none may be a network failure or a rate limit
// that it is not.
func TestCorpus(t *testing.T) {
	text, err := os.ReadFile("testdata/failures.tsv")
	if err != nil {
		t.Fatal(err)
	}
	total, right := 0, 0
	for n, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			t.Fatalf("line %d has %d fields", n+1, len(f))
		}
		exit, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		printed := strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(f[3])
		total++
		for _, where := range []string{"stderr", "stdout"} {
			out, errs := "", printed
			if where == "stdout" {
				out, errs = printed, ""
			}
			v := classify.Command(f[1], exit, out, errs)
			got := kinds(v)
			if got == f[0] {
				if where == "stderr" {
					right++
				}
				continue
			}
			t.Logf("line %d on %s: %s is %s, taken for %s: %s", n+1, where, f[1], f[0], got, f[3])
			if v.Network && !strings.Contains(f[0], "network") || v.RateLimited && !strings.Contains(f[0], "rate_limit") {
				t.Errorf("line %d: a false %s", n+1, got)
			}
		}
	}
	t.Logf("%d of %d are right", right, total)
	if total < 200 || right*100 < total*95 {
		t.Errorf("%d of %d are right", right, total)
	}
}

func TestRetryAfterOfAHeaderLine(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 120\r\n": 2 * time.Minute,
		"< retry-after: 1.5":                 1500 * time.Millisecond,
		"  Retry-After: 3\n  Retry-After: 5": 5 * time.Second,
		"set Retry-After: 3 in the config":   0,
		"Retry-After: soon":                  0,
		"Retry-After: -3":                    0,
		"":                                   0,
	} {
		if v := classify.Command("curl -i x", 22, text, ""); v.RetryAfter != want {
			t.Errorf("%q: %v, want %v", text, v.RetryAfter, want)
		}
		if v := classify.Command("curl -i x", 22, "", text); v.RetryAfter != want {
			t.Errorf("%q on stderr: %v, want %v", text, v.RetryAfter, want)
		}
	}
	date := time.Now().Add(time.Hour).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
	if v := classify.Command("x", 1, "Retry-After: "+date, ""); v.RetryAfter < 59*time.Minute || v.RetryAfter > time.Hour {
		t.Errorf("a date: %v", v.RetryAfter)
	}
}

// What was cut into the middle of a line, or is no text, does no harm.
func FuzzCommand(f *testing.F) {
	f.Add("curl x", 7, "curl: (7) Failed to connect")
	f.Add("set -e; (a && b) || { c; }", 255, "\xff\x00 429")
	f.Fuzz(func(t *testing.T, text string, exit int, printed string) {
		v := classify.Command(text, exit, printed, printed)
		if v.RetryAfter < 0 || v.Status != 0 && (v.Status < 500 || v.Status > 599) {
			t.Errorf("%+v", v)
		}
	})
}

// What rsync says of its connection counts also where a shell around it ends with
// another status.
func TestRsyncInAShell(t *testing.T) {
	for _, said := range []string{"rsync error: error in socket IO (code 10) at clientserver.c(139) [sender=3.2.7]", "rsync error: error in rsync protocol data stream (code 12) at io.c(232)"} {
		if v := classify.Command(`for f in *; do rsync "$f" host:; done || exit 1`, 1, "", said); !v.Network {
			t.Errorf("%s: %s", said, kinds(v))
		}
	}
}
