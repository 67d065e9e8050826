package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/exec"
	"syscall"
	"time"

	"github.com/bide-dev/bide/retry"
)

var errGone = errors.New("gone")

func ExampleNew() {
	_, err := retry.New(retry.Policy{Attempts: -1})
	fmt.Println(err != nil)
	// Output: true
}

// For a variable of a package, whose policy is in the text of the program.
func ExampleMust() {
	var r = retry.Must(retry.New(retry.Policy{Attempts: 3}))
	fmt.Println(r.Policy().Attempts)
	// Output: 3
}

func ExampleIs() {
	m := retry.Is(errGone, fs.ErrNotExist)
	fmt.Println(m(fmt.Errorf("load: %w", errGone)), m(errors.New("gone")))
	// Output: true false
}

func ExampleAs() {
	m := retry.As[*fs.PathError]()
	fmt.Println(m(&fs.PathError{Op: "open", Path: "x", Err: errGone}), m(errGone))
	// Output: true false
}

func ExampleAny() {
	m := retry.Any(retry.Timeout, retry.Is(errGone))
	fmt.Println(m(context.DeadlineExceeded), m(errGone), m(errors.New("other")))
	// Output: true true false
}

func ExampleAll() {
	m := retry.All(retry.Transient, retry.Not(retry.Timeout))
	fmt.Println(m(syscall.ECONNRESET), m(context.DeadlineExceeded))
	// Output: true false
}

func ExampleNot() {
	m := retry.Not(retry.Is(errGone))
	fmt.Println(m(errors.New("busy")), m(errGone))
	// Output: true false
}

type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
func (e exit) ExitCode() int { return int(e) }

func ExampleExitCode() {
	m := retry.ExitCode(75) // EX_TEMPFAIL
	fmt.Println(m(exit(75)), m(exit(1)), m(exec.ErrNotFound))
	// Output: true false false
}

// For commands, which say in words what they know.
func ExampleTextPattern() {
	m, err := retry.TextPattern(`(?i)could not resolve|try again`)
	fmt.Println(m(errors.New("curl: Could not resolve host")), err)
	// Output: true <nil>
}

// What a function returns decides whether it is called again.
func Example_whichErrors() {
	r := retry.Must(retry.New(retry.Policy{Attempts: 3, If: retry.Transient}))
	for _, failure := range []error{
		&net.DNSError{Err: "no such host"},
		context.DeadlineExceeded,
		statusOf(503),
		statusOf(429),
		statusOf(404),
		errors.New("the name is wrong"),
		retry.Permanent(statusOf(503)),
	} {
		calls := 0
		err := retry.Do(context.Background(), r, func(context.Context) error {
			calls++
			return fmt.Errorf("fetch: %w", failure)
		})
		fmt.Println(calls, errors.Is(err, failure))
	}
	// Output:
	// 3 true
	// 3 true
	// 3 true
	// 3 true
	// 1 true
	// 1 true
	// 1 true
}

// statusOf is an error that has an HTTP status.
type statusOf int

func (s statusOf) Error() string   { return fmt.Sprintf("status %d", int(s)) }
func (s statusOf) HTTPStatus() int { return int(s) }

// A request that is wrong is not repeated, and is no failure of its target.
func ExamplePermanent() {
	r := retry.Must(retry.New(retry.Policy{Attempts: 5}))
	calls := 0
	err := retry.Do(context.Background(), r, func(context.Context) error {
		calls++
		return retry.Permanent(errGone)
	})
	fmt.Println(calls, errors.Is(err, errGone))
	// Output: 1 true
}

func ExampleIsPermanent() {
	fmt.Println(retry.IsPermanent(fmt.Errorf("save: %w", retry.Permanent(errGone))), retry.IsPermanent(errGone))
	// Output: true false
}

// The other side says how long to wait.
func ExampleAfter() {
	r := retry.Must(retry.New(retry.Policy{Attempts: 2}))
	began := time.Now()
	err := retry.Do(context.Background(), r, func(context.Context) error {
		return retry.After(20*time.Millisecond, errGone)
	})
	fmt.Println(time.Since(began) >= 20*time.Millisecond, errors.Is(err, errGone))
	// Output: true true
}

// A job that is not done in the end is looked at all the same.
func ExampleUnmet() {
	r := retry.Must(retry.New(retry.Policy{Attempts: 2}))
	poll := func(context.Context) (string, error) { return "running", nil }
	_, err := retry.Get(context.Background(), r, retry.Until(poll, func(state string) bool { return state == "done" }))
	state, ok := retry.Unmet[string](err)
	fmt.Println(state, ok)
	// Output: running true
}

// What is far below knows which attempt it is a part of.
func ExampleAttemptFrom() {
	r := retry.Must(retry.New(retry.Policy{Attempts: 2, NumberAttempts: true}))
	_ = retry.Do(context.Background(), r, func(ctx context.Context) error {
		fmt.Println(retry.AttemptFrom(ctx))
		return errGone
	})
	// Output:
	// 1
	// 2
}

// An operation within another: without a bound that would be nine calls.
func ExampleWithRetries() {
	r := retry.Must(retry.New(retry.Policy{Attempts: 3}))
	calls := 0
	err := retry.Do(retry.WithRetries(context.Background(), 2), r, func(ctx context.Context) error {
		return retry.Do(ctx, r, func(context.Context) error {
			calls++
			return errGone
		})
	})
	fmt.Println(calls, errors.Is(err, retry.ErrQuota))
	// Output: 3 true
}

func ExampleRetriesLeft() {
	n, bounded := retry.RetriesLeft(retry.WithRetries(context.Background(), 3))
	fmt.Println(n, bounded)
	// Output: 3 true
}
