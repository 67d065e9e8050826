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

// numbered is a script as Drive calls it, and notes the numbers of attempts.
func (s *script) numbered(numbers *[]int) func(context.Context, int) (string, error) {
	return func(ctx context.Context, n int) (string, error) {
		*numbers = append(*numbers, n)
		return s.call(ctx)
	}
}

func TestDriveIsDo(t *testing.T) {
	var numbers []int
	p := retry.Policy{Attempts: 5}
	v, err := driver.Drive(t.Context(), &driver.Operation{Policy: &p}, failing(3).numbered(&numbers))
	if v != "done" || err != nil || !reflect.DeepEqual(numbers, []int{1, 2, 3, 4}) {
		t.Errorf("%q, %v, attempts %v", v, err, numbers)
	}
	if _, err := driver.Drive[int](t.Context(), &driver.Operation{Policy: &p}, nil); err == nil {
		t.Error("a nil function is taken")
	}
	if _, err := get[int](t.Context(), p, nil); err == nil || errors.As(err, new(*retry.Error)) {
		t.Errorf("of a nil function it says %v", err)
	}
}

// An operation that is interrupted softly lets its attempt end, makes no
// further one, and continues in another life where it was.
func TestSoftInterruptionAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		soft, stop := context.WithCancelCause(t.Context())
		enough := errors.New("the run stops")
		p := retry.Policy{Attempts: 9, Backoff: doubling(10 * sec), Budget: 40 * sec, Observer: func(retry.Event) {}}
		s := failing(9)
		s.takes = 2 * sec
		time.AfterFunc(13*sec, func() { stop(enough) }) // in the second attempt
		var numbers []int
		_, err := driver.Drive(t.Context(), &driver.Operation{Policy: &p, Soft: soft}, s.numbered(&numbers))
		e := ended(t, err, driver.ReasonInterrupted, 2)
		if time.Since(s.began) != 14*sec || !errors.Is(err, enough) || errors.Is(err, retry.ErrExhausted) || e.Last != errFlaky {
			t.Errorf("after %v: %v", time.Since(s.began), err)
		}
		time.Sleep(time.Hour) // longer than the wait that is left, and than the budget
		_, err = driver.Drive(t.Context(), &driver.Operation{Policy: &p, State: e.State, Last: e.Last}, s.numbered(&numbers))
		e = ended(t, err, driver.ReasonBudget, 3) // 10 + 20 are slept, 40 more are not
		if !reflect.DeepEqual(numbers, []int{1, 2, 3}) || e.Slept != 30*sec {
			t.Errorf("attempts %v, slept %v", numbers, e.Slept)
		}
		_, err = driver.Drive(t.Context(), &driver.Operation{Policy: &retry.Policy{Attempts: 2}, State: e.State, Last: errFlaky}, s.numbered(&numbers))
		if e = ended(t, err, driver.ReasonAttempts, 3); e.Last != errFlaky || len(numbers) != 3 {
			t.Errorf("a resume with nothing left: %v, attempts %v", err, numbers)
		}
	})
}

// An interruption during the wait ends it at once.
func TestSoftInterruptionInTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, clock := range []driver.Clock{nil, &slowClock{}} {
			soft, stop := context.WithTimeout(t.Context(), 3*sec)
			defer stop()
			s := failing(9)
			_, err := driver.Drive(t.Context(), &driver.Operation{Policy: &retry.Policy{Backoff: doubling(time.Minute)}, Soft: soft, Clock: clock}, s.numbered(new([]int)))
			e := ended(t, err, driver.ReasonInterrupted, 1)
			if e.Last != errFlaky || time.Since(s.began) != 3*sec {
				t.Errorf("after %v: %v", time.Since(s.began), err)
			}
		}
	})
}

// slowClock goes at half the speed.
type slowClock struct{}

func (*slowClock) Now() time.Time { return noon.Add(time.Since(noon) / 2) }
func (*slowClock) Wait(ctx context.Context, d time.Duration, ready <-chan struct{}) error {
	select {
	case <-time.After(2 * d):
		return nil
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestClockOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := failing(2)
		var waits time.Duration
		p := retry.Policy{Backoff: doubling(sec)}
		_, err := driver.Drive(t.Context(), &driver.Operation{Policy: &p, Clock: &slowClock{}, Observer: func(e retry.Event) {
			if e.Type == retry.Finished {
				waits = e.Duration
			}
		}}, s.numbered(new([]int)))
		if err != nil || waits != 3*sec || time.Since(s.began) != 6*sec {
			t.Errorf("%v, its time %v, ours %v", err, waits, time.Since(s.began))
		}
	})
}

// turnstile is an admission that refuses, waits, or lets through as told.
type turnstile struct {
	refusals []error // of each asking, nil to let through
	wait     time.Duration
	ends     []driver.End
	asked    int
	inside   bool
}

func (a *turnstile) Admit(ctx context.Context, _ int, queued func(driver.Source, time.Duration)) error {
	a.asked++
	if n := a.asked - 1; n < len(a.refusals) && a.refusals[n] != nil {
		return a.refusals[n]
	}
	if a.wait > 0 {
		if queued != nil {
			queued(driver.SourceLimit, 0)
		}
		select {
		case <-time.After(a.wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	a.inside = true
	return nil
}

func (a *turnstile) Done(e driver.End) {
	if !a.inside {
		panic("given back twice")
	}
	a.inside = false
	a.ends = append(a.ends, e)
}

func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("the queue is full")
		a := &turnstile{wait: sec}
		var seen []string
		op := driver.Operation{Policy: &retry.Policy{Backoff: doubling(sec)}, Admission: a, Observer: func(e retry.Event) {
			if e.Type == retry.Queued || e.Type == retry.AttemptStarted {
				seen = append(seen, fmt.Sprint(e.Type, e.Attempt, e.Waited, e.Source))
			}
		}}
		s := plan(errFlaky, retry.Permanent(errFlaky))
		_, err := driver.Drive(t.Context(), &op, s.numbered(new([]int)))
		ended(t, err, driver.ReasonNotRetryable, 2)
		if a.inside || len(a.ends) != 2 || a.ends[0].Outcome != circuit.Failure || a.ends[1].Outcome != circuit.Neutral {
			t.Errorf("it ended %+v", a.ends)
		}
		s.check(t, sec, 3*sec) // nothing is held in the wait
		if want := []string{"queued 1 0s limit", "attempt_started 1 1s policy", "queued 2 0s limit", "attempt_started 2 1s policy"}; !reflect.DeepEqual(seen, want) {
			t.Errorf("seen was %q", seen)
		}

		// A refusal ends the operation, without an attempt and without a wait.
		_, err = driver.Drive(t.Context(), &driver.Operation{Policy: &retry.Policy{}, Admission: &turnstile{refusals: []error{full}}}, failing(0).numbered(new([]int)))
		if e := ended(t, err, driver.ReasonLimit, 0); e.Last != full || !errors.Is(err, full) {
			t.Errorf("the error is %v", err)
		}
		// One that the policy names is retried.
		retried := retry.Policy{If: func(err error) bool { return err == full }}
		v, err := driver.Drive(t.Context(), &driver.Operation{Policy: &retried, Admission: &turnstile{refusals: []error{full}}}, failing(0).numbered(new([]int)))
		if v != "done" || err != nil {
			t.Error(err)
		}
		// A wait for admission ends with the operation.
		ctx, cancel := context.WithTimeout(t.Context(), sec)
		defer cancel()
		_, err = driver.Drive(ctx, &driver.Operation{Policy: &retry.Policy{}, Admission: &turnstile{wait: time.Hour}}, failing(0).numbered(new([]int)))
		ended(t, err, driver.ReasonCallerDeadline, 0)
		soft, stop := context.WithTimeout(t.Context(), sec)
		defer stop()
		_, err = driver.Drive(t.Context(), &driver.Operation{Policy: &retry.Policy{}, Soft: soft, Admission: &turnstile{wait: time.Hour}}, failing(0).numbered(new([]int)))
		ended(t, err, driver.ReasonInterrupted, 0)
	})
}

// Whatever ends the attempt, its admission comes back.
func TestAdmissionComesBack(t *testing.T) {
	a := &turnstile{}
	var wait sync.WaitGroup
	var finished []driver.Reason
	wait.Go(func() {
		op := driver.Operation{Policy: &retry.Policy{}, Admission: a, Observer: func(e retry.Event) {
			if e.Type == retry.Finished {
				finished = append(finished, e.Reason)
			}
		}}
		driver.Drive(t.Context(), &op, func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil })
		t.Error("it came back")
	})
	wait.Wait()
	var left *driver.GoexitError
	if a.inside || len(a.ends) != 1 || a.ends[0].Outcome != circuit.Failure || !errors.As(a.ends[0].Err, &left) || !strings.Contains(string(left.Stack), "TestAdmissionComesBack") {
		t.Errorf("after Goexit: %+v", a.ends)
	}
	if len(finished) != 1 {
		t.Errorf("it finished %v", finished)
	}
}

// Deadline is wall clock over all lives, and ends an attempt.
func TestDeadlineOfThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{Attempts: retry.Unlimited, Deadline: time.Minute, Backoff: backoff.Schedule{Initial: 7 * sec, Strategy: backoff.Fixed{}}}
		s := failing(99)
		_, err := get(t.Context(), p, s.call)
		e := ended(t, err, driver.ReasonDeadline, 9) // the ninth begins at 56 s
		if time.Since(s.began) != 56*sec || !errors.Is(err, retry.ErrExhausted) || !errors.Is(err, context.DeadlineExceeded) || e.Last != errFlaky {
			t.Errorf("after %v: %v", time.Since(s.began), err)
		}
		s = failing(99)
		s.takes = 50 * sec
		_, err = get(t.Context(), p, s.call)
		ended(t, err, driver.ReasonDeadline, 2)
		if time.Since(s.began) != time.Minute {
			t.Errorf("it ended after %v", time.Since(s.began))
		}
		if _, err := retry.New(retry.Policy{Attempts: retry.Unlimited}); err == nil {
			t.Error("unlimited attempts for ever are taken")
		}
		// The time between two lives counts.
		soft, stop := context.WithTimeout(t.Context(), 10*sec)
		defer stop()
		s = failing(99)
		_, err = driver.Drive(t.Context(), &driver.Operation{Policy: &p, Soft: soft}, s.numbered(new([]int)))
		e = ended(t, err, driver.ReasonInterrupted, 2)
		time.Sleep(51 * sec)
		_, err = driver.Drive(t.Context(), &driver.Operation{Policy: &p, State: e.State}, s.numbered(new([]int)))
		ended(t, err, driver.ReasonDeadline, 2)
	})
}

func TestUntil(t *testing.T) {
	n := 0
	count := func(context.Context) (int, error) { n++; return n, nil }
	four := retry.Until(count, func(v int) bool { return v == 4 })
	v, err := get(t.Context(), retry.Policy{Attempts: 5}, four)
	if v != 4 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	n = 0
	_, err = get(t.Context(), retry.Policy{}, four)
	e := ended(t, err, driver.ReasonAttempts, 3)
	var unmet *retry.UnmetError
	if !errors.As(err, &unmet) || unmet.Value != 3 || e.History[0].Class != "until" {
		t.Errorf("the error is %v", err)
	}
	if v, ok := retry.Unmet[int](err); v != 3 || !ok {
		t.Errorf("the last value is %v, %v", v, ok)
	}
	if v, ok := retry.Unmet[string](err); v != "" || ok {
		t.Errorf("a value of another type is %q, %v", v, ok)
	}
	if _, ok := retry.Unmet[int](errFlaky); ok {
		t.Error("there is a value in an error that has none")
	}
	_, err = get(t.Context(), retry.Policy{Attempts: 1}, retry.Until(count, func(int) bool { panic("boom") }))
	if !errors.As(err, new(*retry.PanicError)) {
		t.Errorf("a condition that panics: %v", err)
	}
	_, err = get(t.Context(), retry.Policy{Attempts: 2}, retry.Until(func(context.Context) (int, error) { return 0, errFlaky }, func(int) bool { t.Error("asked"); return true }))
	if !errors.Is(err, errFlaky) {
		t.Errorf("an error passes through as %v", err)
	}
}

// Rules have delays and counts of their own, and are bounded together.
func TestRules(t *testing.T) {
	busy, broken := &statusError{429}, &statusError{503}
	rules := []retry.Rule{
		{On: retry.RateLimit, Attempts: 4, Backoff: &backoff.Schedule{Initial: 10 * sec, Strategy: backoff.Fixed{}}},
		{On: retry.ServerError, Attempts: 2},
	}
	tests := []struct {
		name   string
		p      retry.Policy
		errs   []error
		reason driver.Reason
		starts []time.Duration
	}{
		{"each its own delays", retry.Policy{Attempts: 9, Backoff: doubling(sec), Rules: rules}, []error{busy, errFlaky, busy, errFlaky}, 0,
			[]time.Duration{0, 10 * sec, 12 * sec, 22 * sec, 30 * sec}}, // the policy's count is of all
		{"its own bound", retry.Policy{Attempts: 9, Rules: rules}, []error{broken, errFlaky, broken}, driver.ReasonAttempts, make([]time.Duration, 3)},
		{"bounded by all", retry.Policy{Attempts: 4, Rules: rules}, []error{errFlaky, busy, broken, errFlaky}, driver.ReasonAttempts, []time.Duration{0, 0, 10 * sec, 10 * sec}},
		{"the default is the most of a rule", retry.Policy{Rules: rules}, []error{busy, busy, busy, busy}, driver.ReasonAttempts, []time.Duration{0, 10 * sec, 20 * sec, 30 * sec}},
		{"a rule in place of If", retry.Policy{If: retry.Network, Rules: rules}, []error{busy, errFlaky}, driver.ReasonNotRetryable, []time.Duration{0, 10 * sec}},
		{"abort wins", retry.Policy{AbortOn: retry.RateLimit, Rules: rules}, []error{busy}, driver.ReasonAborted, []time.Duration{0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := plan(test.errs...)
				_, err := get(t.Context(), test.p, s.call)
				s.check(t, test.starts...)
				if test.reason == 0 {
					if err != nil {
						t.Error(err)
					}
					return
				}
				ended(t, err, test.reason, len(test.starts))
			})
		})
	}
	// The counts outlive the machine.
	p := retry.Policy{Attempts: 9, Rules: rules}
	m := driver.NewMachine(&p, noon)
	m.Next(broken, noon)
	m, _ = driver.ResumeMachine(&p, m.State(), noon)
	if d := m.Next(broken, noon); d.Reason != driver.ReasonAttempts {
		t.Errorf("after a resume the decision is %+v", d)
	}
	bad := retry.Policy{Attempts: 3, Budget: sec, Rules: []retry.Rule{{Attempts: -1, Budget: -1, Backoff: &backoff.Schedule{Initial: -1}}, {On: retry.Network, Attempts: 4, Budget: 2 * sec}}}
	err := bad.Validate()
	for _, word := range []string{"Rules[0].On is nil", "Rules[0].Attempts is -1", "Rules[0].Budget", "Rules[0].Backoff: backoff: Initial", "Rules[1].Attempts is 4", "Rules[1].Budget is 2s"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in %v", word, err)
		}
	}
}
