package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

type statusError struct{ status int }

func (e *statusError) Error() string   { return fmt.Sprintf("status %d", e.status) }
func (e *statusError) HTTPStatus() int { return e.status }

type commandError struct {
	code   int
	output string
}

func (e *commandError) Error() string  { return "command failed" }
func (e *commandError) ExitCode() int  { return e.code }
func (e *commandError) Output() string { return e.output }

type limitedError struct{ limited bool }

func (e *limitedError) Error() string     { return "agent stopped" }
func (e *limitedError) RateLimited() bool { return e.limited }

type classyError struct{ error }

func (classyError) Class() string { return "budget_exceeded" }

// isCanceled says that it is a cancellation by Is alone.
type isCanceled struct{}

func (isCanceled) Error() string        { return "operation was canceled" }
func (isCanceled) Is(target error) bool { return target == context.Canceled }

func text(s string) error   { return errors.New(s) }
func output(s string) error { return &commandError{code: 1, output: s} }

func TestMatchersAndClasses(t *testing.T) {
	exit := exec.Command("/bin/sh", "-c", "exit 75").Run()
	dial := &url.Error{Op: "Get", URL: "http://x", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
	tests := []struct {
		err   error
		names string // the matchers that accept it
		class string
	}{
		{nil, "", ""},
		{text("no such file"), "", "error"},
		{dial, "network", "network"},
		{&net.DNSError{Err: "no such host", Name: "x"}, "network", "network"},
		{fmt.Errorf("write: %w", syscall.EPIPE), "network", "network"},
		{io.ErrUnexpectedEOF, "network", "network"},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "network timeout", "timeout"},
		{text("NetWork is down"), "", "error"},
		{text("Connection reset by peer"), "", "error"},
		{text("request REFUSED"), "", "error"},
		{text("host unreachable"), "", "error"},
		{context.DeadlineExceeded, "timeout", "timeout"},
		{&retry.TimeoutError{Limit: time.Second, Err: text("x")}, "timeout", "timeout"},
		{text("operation Timed Out"), "", "error"},
		{text("Timeout!"), "", "error"},
		{&statusError{500}, "server_error", "server_error"},
		{&statusError{599}, "server_error", "server_error"},
		{&statusError{600}, "", "error"},
		{&statusError{429}, "rate_limit", "rate_limit"},
		{&statusError{404}, "", "error"},
		{fmt.Errorf("503 once, then 429: %w", &statusError{404}), "", "error"}, // the status decides
		{text("HTTP 503"), "", "error"},
		{text("got 500, giving up"), "", "error"},
		{text("Internal Server Error"), "", "error"},
		{text("error 501"), "", "error"},
		{text("429."), "", "error"},
		{text("Rate Limit exceeded"), "", "error"},
		{text("Too Many Requests"), "", "error"},
		{&limitedError{true}, "rate_limit", "rate_limit"},
		{&limitedError{false}, "", "error"},
		{output("curl: (7) Failed to connect: Connection refused"), "", "exit"},
		{output("HTTP/1.1 502 Bad Gateway"), "", "exit"},
		{exit, "", "exit"},
		{&circuit.OpenError{Name: "connection"}, "circuit_open", "circuit_open"},
		{fmt.Errorf("call: %w", &circuit.OpenError{}), "circuit_open", "circuit_open"},
		{context.Canceled, "", "cancelled"},
		{&retry.PanicError{Value: "x"}, "", "panic"},
		{text("the customer refused the offer"), "", "error"},
		{&net.OpError{Op: "dial", Err: isCanceled{}}, "", "cancelled"}, // as net.Dialer has it
		{&retry.TimeoutError{Err: context.Canceled}, "timeout", "timeout"},
		{errors.Join(syscall.ECONNRESET, &statusError{503}), "network server_error", "server_error"},
		{errors.Join(text("x"), &statusError{502}), "server_error", "server_error"},
		{classyError{text("x")}, "", "budget_exceeded"},
		{fmt.Errorf("%w", classyError{text("x")}), "", "budget_exceeded"},
	}
	for _, test := range tests {
		var names []string
		for _, name := range driver.MatcherNames() {
			m, ok := driver.MatcherByName(name)
			if !ok {
				t.Fatalf("no matcher %s", name)
			}
			if m(test.err) {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != test.names {
			t.Errorf("%v (%T): accepted by %q, want %q", test.err, test.err, got, test.names)
		}
		if got := driver.Class(test.err); got != test.class {
			t.Errorf("%v (%T): class %q, want %q", test.err, test.err, got, test.class)
		}
	}
	if _, ok := driver.MatcherByName("Network"); ok {
		t.Error("names are in lower case")
	}
	if m := retry.ExitCode(111, 75); !m(exit) || m(&commandError{code: 1}) || m(text("75")) {
		t.Error("ExitCode")
	}
}

func TestPattern(t *testing.T) {
	m, err := retry.TextPattern(`^disk (full|busy)$`)
	if err != nil {
		t.Fatal(err)
	}
	for err, want := range map[error]bool{
		text("disk full"): true, text("Disk full"): false, text("the disk full"): false, output("disk busy"): true, text("x"): false,
	} {
		if got := m(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
	if _, err := retry.TextPattern(`(`); err == nil || !strings.Contains(err.Error(), `"("`) {
		t.Errorf("a bad pattern is answered with %v", err)
	}
	if _, err := retry.TextPattern(""); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty pattern is answered with %v", err)
	}
}

func TestCombinations(t *testing.T) {
	yes := func(error) bool { return true }
	no := func(error) bool { return false }
	tests := []struct {
		name string
		m    retry.Matcher
		want bool
	}{
		{"any of none", retry.Any(), false}, {"any", retry.Any(no, yes), true}, {"any of no", retry.Any(no, nil), false},
		{"all of none", retry.All(), true}, {"all", retry.All(yes, yes), true}, {"not all", retry.All(yes, no), false}, {"all with nil", retry.All(yes, nil), false},
		{"not", retry.Not(yes), false}, {"not no", retry.Not(no), true}, {"not nil", retry.Not(nil), true},
	}
	for _, test := range tests {
		if got := test.m(errFlaky); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestIfAndAbortOn(t *testing.T) {
	both := retry.Policy{If: retry.Network, AbortOn: retry.Pattern0("fatal")}
	tests := []struct {
		p      retry.Policy
		err    error
		reason driver.Reason
		n      int
	}{
		{retry.Policy{If: retry.Network}, syscall.ECONNRESET, driver.ReasonAttempts, 3},
		{retry.Policy{If: retry.Network}, text("no such file"), driver.ReasonNotRetryable, 1},
		{retry.Policy{If: retry.Any()}, syscall.ECONNRESET, driver.ReasonNotRetryable, 1},
		{both, syscall.ECONNRESET, driver.ReasonAttempts, 3},
		{both, fmt.Errorf("fatal: %w", syscall.ECONNRESET), driver.ReasonAborted, 1},
		{retry.Policy{AbortOn: retry.Network}, text("x"), driver.ReasonAttempts, 3},
	}
	for _, test := range tests {
		_, err := get(t.Context(), test.p, plan(test.err, test.err, test.err).call)
		ended(t, err, test.reason, test.n)
	}
}

// An error that wraps itself does not hang the matchers.
type selfish struct{}

func (e *selfish) Error() string { return "selfish" }
func (e *selfish) Unwrap() error { return e }

// twice wraps itself twice, which is a tree without end.
type twice struct{}

func (e *twice) Error() string   { return "twice" }
func (e *twice) Unwrap() []error { return []error{e, e} }

func TestSelfWrappingError(t *testing.T) {
	if retry.IsPermanent(&twice{}) || retry.Transient(&twice{}) || driver.Class(&twice{}) != "error" {
		t.Error("it is nothing in particular")
	}
	if got := driver.Class(&selfish{}); got != "error" {
		t.Errorf("class %q", got)
	}
	if retry.Network(&selfish{}) || retry.IsPermanent(&selfish{}) {
		t.Error("it is no network error, and not permanent")
	}
}

func TestIsAndAs(t *testing.T) {
	if m := retry.Is(io.EOF, os.ErrNotExist); !m(fmt.Errorf("x: %w", io.EOF)) || m(io.ErrUnexpectedEOF) || m(nil) {
		t.Error("Is")
	}
	if m := retry.As[*statusError](); !m(fmt.Errorf("x: %w", &statusError{404})) || m(io.EOF) {
		t.Error("As")
	}
}
