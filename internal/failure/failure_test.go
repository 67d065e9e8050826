package failure_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

func panicked(value any) error {
	err := retry.Do(context.Background(), retry.Must(retry.New(retry.Policy{Attempts: 1})), func(context.Context) error { panic(value) })
	var p *retry.PanicError
	errors.As(err, &p)
	return p
}

var errorsOfAllKinds = map[string]error{
	"exit":          &action.ExitError{Code: 75, Stderr: "curl: (6) Could not resolve host", Stdout: "half"},
	"stderr alone":  &action.ExitError{Code: 1, Stderr: "not found"},
	"timeout":       &action.TimeoutError{After: time.Second, Stdout: "half", Stderr: "why"},
	"http 503":      &action.HTTPError{Method: "GET", URL: "http://x", Status: 503, After: 3 * time.Second, HasAfter: true},
	"http 404":      &action.HTTPError{Method: "GET", URL: "http://x", Status: 404, Body: "error 503 inside"},
	"agent":         &action.AgentError{Agent: "claude", Message: "no", Code: 3, Stderr: "broken pipe"},
	"agent limited": &action.AgentError{Agent: "claude", Message: "later", Code: 1, Limited: true, Until: time.Hour, HasTime: true},
	"input":         &action.InputError{Err: errors.New("no such file")},
	"network":       &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("down")},
	"late network":  &retry.TimeoutError{Limit: time.Second, Err: &net.DNSError{Err: "no such host"}},
	"cancelled":     fmt.Errorf("stopped: %w", context.Canceled),
	"deadline":      context.DeadlineExceeded,
	"refused":       &circuit.OpenError{Name: "b", State: circuit.Open, RetryAfter: time.Minute},
	"permanent":     retry.Permanent(errors.New("never")),
	"panic":         panicked("boom"),
	"plain":         errors.New("it failed"),
	"words":         errors.New("connection refused, status 503"),
	"wrapped":       fmt.Errorf("the fetch: %w", &action.ExitError{Code: 28, Stderr: "timed out"}),
}

// seen is everything that somebody may ask of an error.
func seen(t *testing.T, err error) map[string]any {
	t.Helper()
	all := map[string]any{"text": err.Error(), "class": driver.Class(err), "permanent": retry.IsPermanent(err), "cancelled": errors.Is(err, context.Canceled)}
	for _, name := range driver.MatcherNames() {
		m, _ := driver.MatcherByName(name)
		all[name] = m(err)
	}
	for _, re := range []string{"half$", "resolve", "(?i)BROKEN", "not found$"} {
		m, perr := retry.TextPattern(re)
		if perr != nil {
			t.Fatal(perr)
		}
		all[re] = m(err)
	}
	for _, code := range []int{0, 1, 3, 28, 75} {
		all[fmt.Sprint("exit ", code)] = retry.ExitCode(code)(err)
	}
	out, errs := failure.Tails(err)
	all["stdout"], all["stderr"] = out, errs
	p := retry.Policy{Attempts: 9, RetryAfterMax: 2 * time.Hour, If: func(error) bool { return true }}
	m := driver.NewMachine(&p, time.Time{})
	all["decision"] = m.Next(err, time.Unix(9, 0))
	var st interface{ HTTPStatus() int }
	if errors.As(err, &st) {
		all["status"] = st.HTTPStatus()
	}
	return all
}

// TestFailureSaysWhatErrorSaid takes errors through a record and asks both all
// that matchers, handlers, breakers and policies ask.
func TestFailureSaysWhatErrorSaid(t *testing.T) {
	for name, err := range errorsOfAllKinds {
		t.Run(name, func(t *testing.T) {
			f := failure.From(err)
			text, jerr := json.Marshal(f)
			if jerr != nil {
				t.Fatal(jerr)
			}
			var back failure.Failure
			if jerr := json.Unmarshal(text, &back); jerr != nil {
				t.Fatal(jerr)
			}
			if !reflect.DeepEqual(*f, back) {
				t.Fatalf("%s is read back as %+v", text, back)
			}
			want := seen(t, err)
			for what, got := range map[string]error{"failure": f, "recorded": &back, "wrapped": fmt.Errorf("%w", &back), "again": failure.From(fmt.Errorf("%w", &back))} {
				if have := seen(t, got); !reflect.DeepEqual(have, want) {
					t.Errorf("%s: %s\n have %v\n want %v", what, text, have, want)
				}
			}
		})
	}
}

func TestNoFailure(t *testing.T) {
	if failure.From(nil) != nil {
		t.Error("nothing failed, and there is a failure")
	}
	f := failure.From(errors.New("x"))
	if failure.From(f) != f {
		t.Error("a failure is made anew of a failure")
	}
}

func TestPanicKeepsStack(t *testing.T) {
	f := failure.From(fmt.Errorf("step: %w", panicked(errors.New("boom"))))
	if f.Class != "panic" || !strings.Contains(f.Stack, "failure_test.panicked") {
		t.Errorf("class %s, stack %q", f.Class, f.Stack)
	}
}

// TestRoundTrip writes and reads failures with any content.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := failure.Failure{
			Class: rapid.StringMatching(`[a-z_]{1,12}`).Draw(t, "class"), Message: rapid.String().Draw(t, "message"),
			Exit: rapid.IntRange(0, 255).Draw(t, "exit"), Status: rapid.SampledFrom([]int{0, 200, 404, 429, 503}).Draw(t, "status"),
			RetryAfter: time.Duration(rapid.Int64().Draw(t, "after")), RateLimited: rapid.Bool().Draw(t, "limited"),
			Timeout: rapid.Bool().Draw(t, "timeout"), Network: rapid.Bool().Draw(t, "network"),
			Permanent: rapid.Bool().Draw(t, "permanent"), Cancelled: rapid.Bool().Draw(t, "cancelled"),
			Stdout: rapid.String().Draw(t, "stdout"), Stderr: rapid.String().Draw(t, "stderr"), Stack: rapid.String().Draw(t, "stack"),
		}
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var back failure.Failure
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if f != back {
			t.Fatalf("%+v is read back as %+v", f, back)
		}
		again := failure.From(fmt.Errorf("%w", &back))
		again.Message = back.Message
		if again.Network = back.Network; f.Status == 429 {
			again.RateLimited = f.RateLimited // the status says it as well
		}
		if *again != f {
			t.Fatalf("%+v becomes %+v", f, *again)
		}
	})
}
