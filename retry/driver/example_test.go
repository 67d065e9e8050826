package driver_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

var errGone = errors.New("gone")

// The names are those of retry_on in a workflow.
func ExampleMatcherByName() {
	m, ok := driver.MatcherByName("timeout")
	fmt.Println(ok, m(context.DeadlineExceeded))
	// Output: true true
}

func ExampleMatcherNames() {
	fmt.Println(driver.MatcherNames())
	// Output: [network timeout server_error rate_limit circuit_open]
}

func ExampleClass() {
	fmt.Println(driver.Class(syscall.ECONNREFUSED), driver.Class(context.DeadlineExceeded), driver.Class(errGone))
	// Output: network timeout error
}

func ExampleParseRetryAfter() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	seconds, ok := driver.ParseRetryAfter("120", now)
	date, _ := driver.ParseRetryAfter("Thu, 01 Jan 2026 12:00:30 GMT", now)
	_, none := driver.ParseRetryAfter("soon", now)
	fmt.Println(seconds, ok, date, none)
	// Output: 2m0s true 30s false
}

// A driver that continues what another process has begun.
func ExampleDrive() {
	o := driver.Operation{
		Policy: &driver.Policy{Attempts: 5},
		State:  driver.State{Attempt: 3},
		Last:   errGone,
	}
	n, err := driver.Drive(context.Background(), &o, func(_ context.Context, attempt int) (int, error) { return attempt, nil })
	fmt.Println(n, err)
	// Output: 4 <nil>
}

// A machine that continues from what a journal has of another.
func ExampleResumeMachine() {
	policy := driver.Policy{Attempts: 5}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m := driver.NewMachine(&policy, now)
	m.Next(errGone, now)
	_, d := driver.ResumeMachine(&policy, m.State(), now.Add(time.Hour))
	fmt.Println(d.Action)
	// Output: retry
}

// A machine makes the decisions in any time, here in none.
func ExampleNewMachine() {
	policy := retry.Policy{Attempts: 9, Backoff: backoff.Schedule{Initial: time.Second}, Budget: 5 * time.Second}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m := driver.NewMachine(&policy, now)
	for {
		d := m.Next(errors.New("busy"), now)
		if d.Action != driver.ActionRetry {
			fmt.Println(d.Action, d.Reason)
			return
		}
		fmt.Println(d.Action, d.Delay)
		now = now.Add(d.Delay)
	}
	// Output:
	// retry 1s
	// retry 2s
	// stop budget
}

// The caller has made the first attempt itself.
func ExampleRun() {
	policy := driver.Policy{Attempts: 3}
	n, err := driver.Run(context.Background(), &policy, errGone, func(context.Context) (int, error) { return 2, nil })
	fmt.Println(n, err)
	// Output: 2 <nil>
}

func ExampleCall() {
	_, err := driver.Call(context.Background(), func(context.Context) (int, error) { panic("no such item") })
	fmt.Println(err)
	// Output: panic: no such item
}

func ExampleRecovered() {
	call := func() (err error) {
		returned := false
		defer func() {
			if !returned {
				err = driver.Recovered(recover())
			}
		}()
		panic("no such item")
	}
	fmt.Println(call())
	// Output: panic: no such item
}

// Of the error of an operation the attempts before the last are not seen.
func ExampleVisit() {
	driver.Visit(fmt.Errorf("save: %w", errGone), func(err error) bool {
		fmt.Println(err)
		return false
	})
	// Output:
	// save: gone
	// gone
}

func ExampleNewQuota() {
	quota, err := driver.NewQuota(driver.QuotaConfig{Initial: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := driver.Policy{Attempts: 5, Quota: quota}
	m := driver.NewMachine(&policy, time.Time{})
	fmt.Println(m.Next(errGone, time.Time{}).Action, m.Next(errGone, time.Time{}).Reason)
	// Output: retry quota
}
