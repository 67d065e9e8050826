package retry_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

var errFlaky = errors.New("flaky")

// script is an operation that fails with the errors given, one each attempt,
// then succeeds. It notes when it was called.
type script struct {
	began  time.Time
	starts []time.Duration // since began
	errs   []error
	takes  time.Duration
}

func plan(errs ...error) *script { return &script{began: time.Now(), errs: errs} }

// failing is an operation that fails n times.
func failing(n int) *script {
	s := plan()
	for range n {
		s.errs = append(s.errs, errFlaky)
	}
	return s
}

func (s *script) call(ctx context.Context) (string, error) {
	s.starts = append(s.starts, time.Since(s.began))
	if s.takes > 0 {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if n := len(s.starts); n <= len(s.errs) {
		return "", s.errs[n-1]
	}
	return "done", nil
}

func (s *script) check(t *testing.T, want ...time.Duration) {
	t.Helper()
	if !reflect.DeepEqual(s.starts, want) {
		t.Errorf("attempts began after %v, want %v", s.starts, want)
	}
}

// ended expects an *Error with the reason and number of attempts.
func ended(t *testing.T, err error, reason driver.Reason, attempts int) *retry.Error {
	t.Helper()
	var e *retry.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v (%T), want a *retry.Error", err, err)
	}
	if e.Reason != reason || e.Attempts != attempts {
		t.Fatalf("ended with %v after %d attempts, want %v after %d: %v", e.Reason, e.Attempts, reason, attempts, err)
	}
	if reason.Err() == nil || !errors.Is(err, reason.Err()) {
		t.Errorf("errors.Is does not find %v", reason.Err())
	}
	return e
}

func doubling(initial time.Duration) backoff.Schedule { return backoff.Schedule{Initial: initial} }

const sec = time.Second

func TestAttemptsAndDelays(t *testing.T) {
	tests := []struct {
		name   string
		p      retry.Policy
		fails  int
		starts []time.Duration
		reason driver.Reason
	}{
		{"first attempt succeeds", retry.Policy{}, 0, []time.Duration{0}, 0},
		{"zero policy: 3 attempts at once", retry.Policy{}, 9, []time.Duration{0, 0, 0}, driver.ReasonAttempts},
		{"1 attempt means no retry", retry.Policy{Attempts: 1, Backoff: doubling(sec)}, 9, []time.Duration{0}, driver.ReasonAttempts},
		{"success on the third", retry.Policy{Attempts: 4, Backoff: doubling(100 * time.Millisecond)}, 2, []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond}, 0},
		{"exponential", retry.Policy{Attempts: 5, Backoff: doubling(sec)}, 9, []time.Duration{0, sec, 3 * sec, 7 * sec, 15 * sec}, driver.ReasonAttempts},
		{"budget 5s, delays 1 2 4", retry.Policy{Attempts: 9, Backoff: doubling(sec), Budget: 5 * sec}, 9, []time.Duration{0, sec, 3 * sec}, driver.ReasonBudget},
		{"budget to the second", retry.Policy{Attempts: 9, Backoff: doubling(sec), Budget: 7 * sec}, 9, []time.Duration{0, sec, 3 * sec, 7 * sec}, driver.ReasonBudget},
		{"attempts before budget", retry.Policy{Attempts: 2, Backoff: doubling(sec), Budget: 7 * sec}, 9, []time.Duration{0, sec}, driver.ReasonAttempts},
	}
	for _, test := range tests {
		for _, timed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, timed %v", test.name, timed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, p := failing(test.fails), test.p
					p.Timed = timed
					v, err := get(t.Context(), p, s.call)
					s.check(t, test.starts...)
					if test.reason == 0 {
						if v != "done" || err != nil {
							t.Fatalf("the result is %q, %v", v, err)
						}
						return
					}
					e := ended(t, err, test.reason, len(test.starts))
					if v != "" || e.Last != errFlaky || len(e.History) != e.Attempts {
						t.Errorf("the result is %q with the last error %v and %d attempts recorded", v, e.Last, len(e.History))
					}
					// The end comes with the last attempt: there is no wait after it.
					if now := time.Since(s.began); now != test.starts[len(test.starts)-1] {
						t.Errorf("it ended after %v", now)
					}
				})
			})
		}
	}
}

func TestErrorCarriesEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &statusError{503}
		s := plan(first, fmt.Errorf("dial: %w", errFlaky), errFlaky)
		s.takes = 2 * sec
		_, err := get(t.Context(), retry.Policy{Backoff: doubling(sec), Timed: true}, s.call)
		e := ended(t, err, driver.ReasonAttempts, 3)
		want := []driver.Attempt{
			{Number: 1, Start: s.began, Duration: 2 * sec, Delay: sec, Class: "server_error", Message: "status 503", Err: first},
			{Number: 2, Start: s.began.Add(3 * sec), Duration: 2 * sec, Delay: 2 * sec, Class: "error", Message: "dial: flaky", Err: s.errs[1]},
			{Number: 3, Start: s.began.Add(7 * sec), Duration: 2 * sec, Class: "error", Message: "flaky", Err: errFlaky},
		}
		for i := range e.History {
			if !e.History[i].Start.Equal(want[i].Start) {
				t.Errorf("attempt %d began at %v, want %v", i+1, e.History[i].Start, want[i].Start)
			}
			e.History[i].Start = want[i].Start
		}
		if !reflect.DeepEqual(e.History, want) {
			t.Errorf("the history is\n%+v, want\n%+v", e.History, want)
		}
		if e.Slept != 3*sec || e.Elapsed != 9*sec {
			t.Errorf("slept %v, elapsed %v", e.Slept, e.Elapsed)
		}
		var status *statusError
		if errors.As(err, &status) || !errors.Is(err, errFlaky) || !errors.Is(err, retry.ErrExhausted) {
			t.Error("the last error is not found, or an earlier one is")
		}
		if got, want := err.Error(), "attempts used up after 3 attempts: flaky"; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	})
}

// Lesson: not every error is kept for ever, but the first and the last are.
func TestHistoryIsBounded(t *testing.T) {
	n := 0
	_, err := get(t.Context(), retry.Policy{Attempts: 1000}, func(context.Context) (int, error) {
		n++
		return 0, fmt.Errorf("number %d", n)
	})
	e := ended(t, err, driver.ReasonAttempts, 1000)
	var numbers []int
	for _, a := range e.History {
		numbers = append(numbers, a.Number)
		if a.Message != fmt.Sprintf("number %d", a.Number) {
			t.Errorf("attempt %d says %q", a.Number, a.Message)
		}
	}
	want := []int{1, 2, 3, 4, 989, 990, 991, 992, 993, 994, 995, 996, 997, 998, 999, 1000}
	if !reflect.DeepEqual(numbers, want) {
		t.Errorf("kept are the attempts %v, want %v", numbers, want)
	}
}

// The clock is first read at the first failure, unless the policy is Timed.
func TestTheFirstAttemptIsTimedOnRequest(t *testing.T) {
	for _, timed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := failing(9)
			s.takes = sec
			_, err := get(t.Context(), retry.Policy{Timed: timed, Backoff: doubling(sec)}, s.call)
			e := ended(t, err, driver.ReasonAttempts, 3)
			first, elapsed := time.Duration(0), 5*sec
			if timed {
				first, elapsed = sec, 6*sec
			}
			if e.Elapsed != elapsed || e.History[0].Duration != first || e.History[0].Start.IsZero() == timed || e.History[1].Duration != sec {
				t.Errorf("timed %v: elapsed is %v, the history %+v", timed, e.Elapsed, e.History)
			}
		})
	}
}

// An error that is not retried is that also on the last attempt.
func TestPermanentOnTheLastAttempt(t *testing.T) {
	for _, attempts := range []int{1, 2, 5} {
		s := plan(errFlaky, retry.Permanent(errFlaky))
		if attempts == 1 {
			s = plan(fmt.Errorf("wrapped: %w", retry.Permanent(errFlaky)))
		}
		_, err := get(t.Context(), retry.Policy{Attempts: attempts}, s.call)
		e := ended(t, err, driver.ReasonNotRetryable, min(attempts, 2))
		if !retry.IsPermanent(err) || !errors.Is(err, errFlaky) || !strings.HasSuffix(e.Error(), "flaky") {
			t.Errorf("the error is %v", err)
		}
	}
	if retry.Permanent(nil) != nil || retry.IsPermanent(errFlaky) {
		t.Error("nil and other errors are not permanent")
	}
}

// A policy has no state and no clock of its own.
func TestPolicyIsReusable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := retry.New(retry.Policy{Attempts: 4, Backoff: doubling(sec), Budget: 10 * sec})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() {
				for range 2 {
					s := failing(9)
					_, err := retry.Get(t.Context(), r, s.call)
					ended(t, err, driver.ReasonAttempts, 4)
					s.check(t, 0, sec, 3*sec, 7*sec)
				}
			})
		}
		wait.Wait()
	})
}

func TestPanicIsAFailedAttempt(t *testing.T) {
	for _, p := range []retry.Policy{{}, {Timed: true}, {Timeout: time.Minute}} {
		n := 0
		v, err := get(t.Context(), p, func(context.Context) (int, error) {
			if n++; n < 3 {
				panic(errFlaky)
			}
			return n, nil
		})
		if v != 3 || err != nil {
			t.Errorf("the result is %v, %v", v, err)
		}
		_, err = get(t.Context(), p, func(context.Context) (int, error) { panic(errFlaky) })
		e := ended(t, err, driver.ReasonAttempts, 3)
		var panicked *retry.PanicError
		if !errors.As(err, &panicked) || panicked.Value != errFlaky || !strings.Contains(string(panicked.Stack), "TestPanicIsAFailedAttempt") {
			t.Errorf("the error is %v", err)
		}
		if e.History[2].Class != "panic" || e.History[2].Message != "panic: flaky" || !errors.Is(err, errFlaky) {
			t.Errorf("the attempt is %+v", e.History[2])
		}
	}
}

// Runtime.Goexit in an attempt gives the permit back, and the goroutine
// ends.
func TestGoexitGivesThePermitBack(t *testing.T) {
	b := breaker(t, circuit.Config{FailureThreshold: 1})
	var wait sync.WaitGroup
	wait.Go(func() {
		_, err := get(t.Context(), retry.Policy{Breaker: b, Timeout: time.Hour}, func(context.Context) (int, error) {
			runtime.Goexit()
			return 0, nil
		})
		t.Errorf("it returned %v", err)
	})
	wait.Wait()
	if got := b.State(); got != circuit.Open {
		t.Errorf("the breaker is %v", got)
	}
}

func TestInvalidPolicyMakesNoAttempt(t *testing.T) {
	bad := retry.Policy{Attempts: -1, Budget: -1, Timeout: -1, RetryAfterMax: -1, Backoff: backoff.Schedule{Initial: -1}}
	s := failing(0)
	_, err := get(t.Context(), bad, s.call)
	if err == nil || len(s.starts) != 0 {
		t.Fatalf("%d attempts, %v", len(s.starts), err)
	}
	for _, word := range []string{"Attempts", "Budget", "Timeout", "RetryAfterMax", "Backoff: backoff: Initial"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not named in %v", word, err)
		}
	}
	if _, err := retry.New(bad); err == nil {
		t.Error("New takes it")
	}
}

func TestAttemptFrom(t *testing.T) {
	var numbers []int
	fn := func(ctx context.Context) (int, error) {
		numbers = append(numbers, retry.AttemptFrom(ctx))
		return 0, errFlaky
	}
	for _, p := range []retry.Policy{{NumberAttempts: true}, {NumberAttempts: true, Timeout: time.Minute}, {}} {
		_, err := get(t.Context(), p, fn)
		ended(t, err, driver.ReasonAttempts, 3)
	}
	if want := []int{1, 2, 3, 1, 2, 3, 0, 0, 0}; !reflect.DeepEqual(numbers, want) {
		t.Errorf("the attempts saw %v, want %v", numbers, want)
	}
}

// Lesson 11: nested operations multiply, and the inner one can know.
func TestNestedOperationsMultiply(t *testing.T) {
	calls := 0
	_, err := get(t.Context(), retry.Policy{Attempts: 3, NumberAttempts: true}, func(ctx context.Context) (int, error) {
		return get(ctx, retry.Policy{Attempts: 4}, func(ctx context.Context) (int, error) {
			if retry.AttemptFrom(ctx) == 0 {
				t.Error("the inner operation does not see the outer")
			}
			calls++
			return 0, errFlaky
		})
	})
	ended(t, err, driver.ReasonAttempts, 3)
	if calls != 12 {
		t.Errorf("%d calls, want 12", calls)
	}
}

// A permanent error inside ends the outside too. A cancellation does not: it is
// not the outer operation that was cancelled.
func TestNestedStops(t *testing.T) {
	for inner, want := range map[error]int{retry.Permanent(errFlaky): 1, context.Canceled: 9} {
		calls := 0
		_, err := get(t.Context(), retry.Policy{}, func(ctx context.Context) (int, error) {
			return get(ctx, retry.Policy{}, func(context.Context) (int, error) { calls++; return 0, inner })
		})
		if calls != want || !errors.Is(err, inner) {
			t.Errorf("%v: %d calls, %v", inner, calls, err)
		}
	}
}

func TestObserverSeesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(t, circuit.Config{FailureThreshold: 2, Timeout: 10 * sec, SuccessThreshold: 1})
		began := time.Now()
		var seen []string
		observe := func(e retry.Event) {
			line := fmt.Sprintf("%v %v #%d", e.Time.Sub(began), e.Type, e.Attempt)
			if e.Delay > 0 || e.Type == retry.WaitScheduled {
				line += fmt.Sprintf(" delay %v", e.Delay)
			}
			if e.Duration > 0 {
				line += fmt.Sprintf(" took %v", e.Duration)
			}
			if e.Reason != 0 {
				line += " " + e.Reason.String()
			}
			seen = append(seen, line)
		}
		s := failing(9)
		s.takes = sec
		p := retry.Policy{Attempts: 4, Backoff: doubling(sec), Breaker: b, Observer: observe, If: retry.Any(retry.CircuitOpen, retry.Pattern0("flaky"))}
		_, err := get(t.Context(), p, s.call)
		ended(t, err, driver.ReasonAttempts, 4)
		want := []string{
			"0s attempt_started #1",
			"1s attempt_failed #1 took 1s",
			"1s wait_scheduled #1 delay 1s",
			"2s attempt_started #2",
			"3s attempt_failed #2 took 1s",
			"3s wait_scheduled #2 delay 2s",
			"5s refused #3",
			"5s wait_scheduled #3 delay 8s", // until the breaker is half-open
			"13s attempt_started #4",
			"14s attempt_failed #4 took 1s",
			"14s finished #4 took 14s attempts",
		}
		if !reflect.DeepEqual(seen, want) {
			t.Errorf("seen was\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
		}
		seen = nil
		time.Sleep(time.Minute)
		if _, err := get(t.Context(), p, failing(0).call); err != nil {
			t.Fatal(err)
		}
		if len(seen) != 2 || !strings.HasSuffix(seen[1], "finished #1") {
			t.Errorf("of a success was seen %q", seen)
		}
	})
}

// An observer's panic is not taken for one of the attempt.
func TestObserverPanics(t *testing.T) {
	b := breaker(t, circuit.Config{FailureThreshold: 1})
	defer func() {
		if recover() != "observer" || b.State() != circuit.Closed {
			t.Errorf("the breaker is %v", b.State())
		}
	}()
	_, err := get(t.Context(), retry.Policy{Breaker: b, Observer: func(retry.Event) { panic("observer") }}, failing(0).call)
	t.Errorf("it returned %v", err)
}

// TestErrorEndsWithAWord: an error without a text leaves no blank at the end.
func TestErrorEndsWithAWord(t *testing.T) {
	t.Parallel()
	_, err := retry.Get(t.Context(), retry.Must(retry.New(retry.Policy{Attempts: 1})), func(context.Context) (int, error) { return 0, errors.New("") })
	if got := err.Error(); got != strings.TrimRight(got, " :") {
		t.Errorf("%q", got)
	}
}
