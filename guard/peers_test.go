package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/guard/guardhttp"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// What the tests of other libraries hold to, said with ours, in virtual time.
// bench/peers.tsv has each of their tests with the one of ours that holds the
// same, or the reason why there is none.

var (
	errDown  = errors.New("down")
	errOther = fmt.Errorf("other: %w", syscall.ECONNRESET)
)

// peerCase is an operation: which errors it meets, and what comes of it.
type peerCase struct {
	peer, behaviour string
	layers          []guard.Layer
	errs            []error // then it succeeds; nil in between is a success that the policy may not take
	calls           int
	took            time.Duration
	err             error // which errors.Is finds; nil: it succeeds
}

func runPeerCases(t *testing.T, cases func(t *testing.T) []peerCase) {
	t.Helper()
	names := cases(t)
	for i := range names {
		t.Run(names[i].peer+": "+names[i].behaviour, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := cases(t)[i] // made in the time of the bubble
				g, began, n := newGuard(t, c.layers...), time.Now(), 0
				err := guard.Do(t.Context(), g, func(context.Context) error {
					if n++; n <= len(c.errs) {
						return c.errs[n-1]
					}
					return nil
				})
				if n != c.calls || time.Since(began) != c.took || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("%d calls, %v, %v", n, time.Since(began), err)
				}
			})
		})
	}
}

func times(n int, err error) (list []error) {
	for range n {
		list = append(list, err)
	}
	return list
}

func only(p retry.Policy) []guard.Layer { return []guard.Layer{p} }

func waits(s backoff.Strategy, initial time.Duration) backoff.Schedule {
	return backoff.Schedule{Strategy: s, Initial: initial}
}

// How often, and which errors.
func TestPeersAttempts(t *testing.T) {
	forever := func(p retry.Policy) []guard.Layer {
		p.Attempts, p.Deadline = retry.Unlimited, time.Hour
		return only(p)
	}
	runPeerCases(t, func(t *testing.T) []peerCase {
		return []peerCase{
			{"failsafe-go", "used up", only(fixed(3, 0)), times(9, errDown), 3, 0, retry.ErrAttempts},
			{"failsafe-go", "the last failure is found", only(fixed(4, 0)), times(9, errDown), 4, 0, errDown},
			{"failsafe-go", "unlimited", forever(retry.Policy{}), times(5, errDown), 6, 0, nil},
			{"failsafe-go", "only what is handled", only(retry.Policy{If: retry.Is(errDown)}), []error{errDown, errOther}, 2, 0, errOther},
			{"failsafe-go", "what aborts", only(retry.Policy{AbortOn: retry.Is(errOther)}), []error{errDown, errOther}, 2, 0, retry.ErrAborted},
			{"failsafe-go", "by type", only(retry.Policy{If: retry.As[syscall.Errno]()}), []error{errOther, errDown}, 2, 0, errDown},
			{"failsafe-go", "a retry in a retry multiplies", []guard.Layer{fixed(2, 0), fixed(3, 0)}, times(9, errDown), 6, 0, errDown},
			{"cenkalti", "permanent", only(fixed(3, 0)), []error{retry.Permanent(errDown)}, 1, 0, errDown},
			{"cenkalti", "permanent, wrapped, on the last attempt", only(fixed(2, 0)), []error{errOther, fmt.Errorf("x: %w", retry.Permanent(errDown))}, 2, 0, retry.ErrNotRetryable},
			{"cenkalti", "success at the last try", only(fixed(3, 0)), times(2, errDown), 3, 0, nil},
			{"cenkalti", "a nil pointer that asks to wait knows nothing", only(fixed(2, 0)), times(1, (*guardhttp.StatusError)(nil)), 2, 0, nil},
			{"avast", "first well", only(fixed(10, sec)), nil, 1, 0, nil},
			{"avast", "attempts of one error", only(retry.Policy{Attempts: 9, Rules: []retry.Rule{{On: retry.Is(errOther), Attempts: 2}}}), []error{errDown, errOther, errDown, errOther, errDown}, 4, 0, errOther},
			{"avast", "of one error without a bound on all", forever(retry.Policy{Rules: []retry.Rule{{On: retry.Is(errOther), Attempts: 1}, {On: retry.Is(errDown), Attempts: 3}}}), []error{errDown, errOther}, 2, 0, errOther},
			{"avast", "an error of a cancellation counts like any", forever(retry.Policy{Rules: []retry.Rule{{On: retry.Is(context.Canceled), Attempts: 1}}}), times(3, context.Canceled), 1, 0, retry.ErrAttempts},
			{"avast", "until it succeeds", forever(retry.Policy{}), times(100, errDown), 101, 0, nil},
			{"avast", "only if", only(retry.Policy{Attempts: 10, If: func(err error) bool { return err.Error() == "down" }}), []error{errDown, errDown, errOther}, 3, 0, errOther},
			{"sethvargo", "nothing is retried that is not marked", only(retry.Policy{If: retry.As[*guardhttp.StatusError]()}), times(3, errDown), 1, 0, errDown},
			{"sethvargo", "what is marked is", only(retry.Policy{If: retry.As[*guardhttp.StatusError]()}), times(2, &guardhttp.StatusError{Status: 500}), 3, 0, nil},
			{"eapache", "no retry", only(fixed(1, 0)), times(1, errDown), 1, 0, errDown},
			{"eapache", "a white list", only(retry.Policy{If: retry.Is(errDown, errOther)}), []error{errDown, errOther}, 3, 0, nil},
			{"eapache", "a black list", only(retry.Policy{AbortOn: retry.Is(errOther)}), []error{errOther}, 1, 0, errOther},
			{"Polly", "never retried", only(fixed(1, 0)), times(1, errDown), 1, 0, errDown},
			{"Polly", "as often as an int holds", only(retry.Policy{Attempts: 1<<31 - 1}), times(2000, errDown), 2001, 0, nil},
			{"resilience4j", "ignored exceptions", only(retry.Policy{AbortOn: retry.Any(retry.Is(errOther), retry.Timeout)}), []error{errDown, context.DeadlineExceeded}, 2, 0, context.DeadlineExceeded},
			{"tenacity", "conditions are joined", only(retry.Policy{If: retry.All(retry.Network, retry.Not(retry.Is(errDown)))}), []error{errOther, errDown}, 2, 0, errDown},
			{"tenacity", "either condition", only(retry.Policy{If: retry.Any(retry.Network, retry.Is(errDown))}), []error{errOther, errDown}, 3, 0, nil},
			{"tenacity", "by the cause of an error", only(retry.Policy{If: retry.Is(syscall.ECONNRESET)}), []error{errOther, errDown}, 2, 0, errDown},
			{"tenacity", "by its text", only(retry.Policy{If: text(t, "^(down|other.*)$")}), []error{errDown, errOther}, 3, 0, nil},
			{"tenacity", "not by its text", only(retry.Policy{If: retry.Not(text(t, "^down$"))}), []error{errOther, errDown}, 2, 0, errDown},
			{"tenacity", "switched off", only(retry.Policy{Attempts: 1}), times(1, errDown), 1, 0, errDown},
		}
	})
}

func text(t *testing.T, re string) retry.Matcher {
	t.Helper()
	m, err := retry.TextPattern(re)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// atLeast is a strategy of one's own: no shorter than so.
type atLeast struct {
	backoff.Strategy
	least time.Duration
}

func (s atLeast) After(n int, initial, max time.Duration) time.Duration {
	return s.least + s.Strategy.After(n, initial, max)
}

// How long between them, and when it is enough.
func TestPeersWaits(t *testing.T) {
	list := backoff.Custom{Delays: []time.Duration{sec, 5 * sec}}
	runPeerCases(t, func(t *testing.T) []peerCase {
		return []peerCase{
			{"cenkalti", "constant", only(fixed(4, sec)), times(3, errDown), 4, 3 * sec, nil},
			{"cenkalti", "the longest time in all", only(retry.Policy{Attempts: retry.Unlimited, Deadline: 5 * sec, Backoff: waits(backoff.Fixed{}, 2*sec)}), times(9, errDown), 3, 4 * sec, retry.ErrDeadline},
			{"cenkalti", "and the last error is in its end", only(retry.Policy{Deadline: sec, Backoff: waits(backoff.Fixed{}, 2*sec)}), times(9, errDown), 1, 0, errDown},
			{"cenkalti", "a wait that would overflow", only(retry.Policy{Deadline: time.Hour, Backoff: backoff.Schedule{Initial: backoff.Unlimited, Max: backoff.Unlimited}}), times(9, errDown), 1, 0, retry.ErrDeadline},
			{"cenkalti", "an error that asks to wait", only(fixed(3, sec)), []error{retry.After(7*sec, errDown), errDown}, 3, 8 * sec, nil},
			{"cenkalti", "does not make more attempts", only(fixed(1, sec)), []error{retry.After(7*sec, errDown)}, 1, 0, errDown},
			{"cenkalti", "less than nothing: no retry", only(fixed(3, sec)), []error{retry.After(-1, errDown)}, 1, 0, retry.ErrRetryAfter},
			{"cenkalti", "nothing: the policy's own", only(fixed(3, sec)), []error{retry.After(0, errDown)}, 2, sec, nil},
			{"avast", "doubled, to the longest", only(retry.Policy{Attempts: 6, Backoff: backoff.Schedule{Initial: sec, Max: 5 * sec}}), times(9, errDown), 6, (1 + 2 + 4 + 5 + 5) * sec, errDown},
			{"avast", "two strategies together", only(retry.Policy{Attempts: 4, Backoff: waits(atLeast{backoff.Linear{}, 10 * sec}, sec)}), times(3, errDown), 4, (11 + 12 + 13) * sec, nil},
			{"sethvargo", "fibonacci", only(retry.Policy{Attempts: 6, Backoff: waits(backoff.Fibonacci{}, sec)}), times(5, errDown), 6, 12 * sec, nil},
			{"sethvargo", "capped", only(retry.Policy{Attempts: 5, Backoff: backoff.Schedule{Initial: sec, Max: 3 * sec}}), times(4, errDown), 5, (1 + 2 + 3 + 3) * sec, nil},
			{"sethvargo", "a function of one's own", only(retry.Policy{Attempts: 3, Backoff: waits(atLeast{backoff.Fixed{}, 3 * sec}, 0)}), times(2, errDown), 3, 6 * sec, nil},
			{"eapache", "a list", only(retry.Policy{Attempts: 3, Backoff: waits(list, 0)}), times(2, errDown), 3, 6 * sec, nil},
			{"eapache", "a limited exponential", only(retry.Policy{Attempts: 5, Backoff: backoff.Schedule{Initial: sec, Max: 2 * sec}}), times(4, errDown), 5, 7 * sec, nil},
			{"failsafe-go", "with a longest duration", only(retry.Policy{Attempts: 9, Deadline: sec, Backoff: waits(backoff.Fixed{}, 400*time.Millisecond)}), times(9, errDown), 3, 800 * time.Millisecond, retry.ErrDeadline},
			{"failsafe-go", "by what the error says", only(retry.Policy{Attempts: 3, Rules: []retry.Rule{{On: retry.Is(errOther), Backoff: &backoff.Schedule{Initial: 9 * sec}}}}), []error{errDown, errOther}, 3, 9 * sec, nil},
			{"retryablehttp", "linear", only(retry.Policy{Attempts: 4, Backoff: waits(backoff.Linear{}, sec)}), times(3, errDown), 4, 6 * sec, nil},
			{"Polly", "a hint of the answer", only(fixed(3, 0)), []error{&guardhttp.StatusError{Status: 429, After: 7 * sec, HasAfter: true}}, 2, 7 * sec, nil},
			{"Polly", "linear, exponential and constant", []guard.Layer{retry.Policy{Attempts: 3, Backoff: waits(backoff.Exponential{Base: 3}, sec)}}, times(2, errDown), 3, 4 * sec, nil},
			{"tenacity", "different waits for different errors", only(retry.Policy{Rules: []retry.Rule{{On: retry.Is(errOther), Backoff: &backoff.Schedule{Initial: 9 * sec}}}}), []error{errDown, errOther}, 3, 9 * sec, nil},
			{"tenacity", "stop before the delay", only(retry.Policy{Attempts: 9, Budget: 3 * sec, Backoff: waits(nil, sec)}), times(3, errDown), 3, 3 * sec, retry.ErrBudget},
			{"tenacity", "whichever is first", only(retry.Policy{Attempts: 2, Budget: time.Hour, Deadline: time.Hour, Backoff: waits(nil, sec)}), times(3, errDown), 2, sec, retry.ErrAttempts},
			{"tenacity", "incrementing", only(retry.Policy{Attempts: 4, Backoff: waits(backoff.Linear{Increment: 2 * sec}, sec)}), times(3, errDown), 4, (1 + 3 + 5) * sec, nil},
			{"tenacity", "a chain of waits", only(retry.Policy{Attempts: 3, Backoff: waits(list, 0)}), times(2, errDown), 3, 6 * sec, nil},
			{"tenacity", "none", only(retry.Policy{}), times(2, errDown), 3, 0, nil},
		}
	})
}

// Jitter: within its range, at the cap too, and not all alike.
func TestPeersJitter(t *testing.T) {
	for _, c := range []struct {
		peer          string
		s             backoff.Schedule
		n             int
		least, widest time.Duration
	}{
		{"sethvargo, avast: full", backoff.Schedule{Initial: sec, Jitter: backoff.Full}, 3, 0, 4 * sec},
		{"cenkalti: ±50 %", backoff.Schedule{Initial: sec, Jitter: backoff.Factor, JitterFactor: 0.5}, 3, 2 * sec, 6 * sec},
		{"resilience4j: ±50 %, the cap is never exceeded", backoff.Schedule{Initial: sec, Max: 3 * sec, Jitter: backoff.Factor, JitterFactor: 0.5}, 3, 1500 * time.Millisecond, 3 * sec},
		{"sethvargo: at most ±100 %", backoff.Schedule{Initial: sec, Jitter: backoff.Factor, JitterFactor: 1}, 1, 0, 2 * sec},
		{"Polly: decorrelated", backoff.Schedule{Initial: sec, Jitter: backoff.Decorrelated}, 1, sec, 3 * sec},
		{"tenacity: full, at the cap", backoff.Schedule{Initial: sec, Max: 10 * sec, Jitter: backoff.Full}, 1 << 30, 0, 10 * sec},
		{"avast: after 1,000,000 attempts, the longest that can be", backoff.Schedule{Initial: sec, Max: backoff.Unlimited, Jitter: backoff.Full}, 1e6, 0, backoff.Unlimited},
	} {
		least, greatest := c.s.Range(c.n, 0)
		if least != c.least || greatest != c.widest {
			t.Errorf("%s: from %v to %v", c.peer, least, greatest)
		}
		r, seen := backoff.NewRand(1), map[time.Duration]bool{}
		for range 200 {
			d := c.s.Delay(c.n, 0, r)
			if seen[d] = true; d < least || d > greatest {
				t.Errorf("%s: %v is out of the range", c.peer, d)
			}
		}
		if len(seen) < 190 {
			t.Errorf("%s: only %d of 200 differ", c.peer, len(seen))
		}
	}
}

// A result that is not good enough, hints of results, and what the end knows.
func TestPeersResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, began := 0, time.Now()
		// tenacity, Polly, failsafe-go, resilience4j: until the result is good, also
		// beside errors.
		v, err := guard.Get(t.Context(), newGuard(t, retry.Policy{Attempts: 9}), retry.Until(func(context.Context) (int, error) {
			if n++; n == 2 {
				return 0, errDown
			}
			return n, nil
		}, func(v int) bool { return v >= 4 }))
		if v != 4 || err != nil {
			t.Errorf("until: %v, %v", v, err)
		}
		// failsafe-go: the last result is in the end.
		_, err = guard.Get(t.Context(), newGuard(t, retry.Policy{Attempts: 2}), retry.Until(func(context.Context) (string, error) { return "poor", nil }, func(string) bool { return false }))
		var unmet *retry.UnmetError
		if !errors.As(err, &unmet) || unmet.Value != "poor" {
			t.Errorf("the last result: %v", err)
		}
		// failsafe-go, resilience4j: the wait that a result asks for.
		n = 0
		_, err = guard.Get(t.Context(), newGuard(t, retry.Policy{}), retry.Until(func(context.Context) (busy, error) {
			if n++; n == 1 {
				return busy(9 * sec), nil
			}
			return 0, nil
		}, func(v busy) bool { return v == 0 }))
		if err != nil || time.Since(began) != 9*sec {
			t.Errorf("the wait of a result: %v after %v", err, time.Since(began))
		}
		// avast, eapache, failsafe-go: every error, the last, and their number.
		n = 0
		_, err = guard.Get(t.Context(), newGuard(t, retry.Policy{Attempts: 3}), func(context.Context) (int, error) { n++; return 0, fmt.Errorf("error %d", n) })
		var e *retry.Error
		if !errors.As(err, &e) || e.Attempts != 3 || len(e.History) != 3 || e.History[0].Message != "error 1" || e.Last.Error() != "error 3" {
			t.Errorf("the history: %v", err)
		}
		// eapache: a panic is a failure, with its stack.
		_, err = guard.Get(t.Context(), newGuard(t, retry.Policy{Attempts: 2}), func(context.Context) (int, error) { panic("boom") })
		var p *retry.PanicError
		if !errors.As(err, &p) || p.Value != "boom" || !strings.Contains(string(p.Stack), "TestPeersResults") {
			t.Errorf("a panic: %v", err)
		}
	})
}

// busy is a result that asks to be asked later.
type busy time.Duration

func (b busy) RetryAfter() (time.Duration, bool) { return time.Duration(b), true }

// The caller's end: before, during an attempt, during a wait of any kind.
func TestPeersCancellation(t *testing.T) {
	why := errors.New("the customer went away")
	held := limit.Concurrency(1)
	for _, c := range []struct {
		peer   string
		layers []guard.Layer
		after  time.Duration
		calls  int
	}{
		{"cenkalti, sethvargo, avast: before the first call", only(fixed(3, sec)), 0, 0},
		{"failsafe-go: during an attempt", only(fixed(3, sec)), sec, 1},
		{"avast, eapache: during the wait", only(fixed(3, time.Hour)), 3 * sec, 1},
		{"avast: of any number", only(retry.Policy{Attempts: retry.Unlimited, Deadline: time.Hour, Backoff: waits(backoff.Fixed{}, sec)}), 11 * sec, 4},
		{"failsafe-go: while a slot is waited for", []guard.Layer{held}, sec, 0},
		{"failsafe-go: while a token is waited for", []guard.Layer{fixed(9, 0), limit.Rate(1, time.Hour)}, 5 * sec, 1},
		{"failsafe-go: in a hedge", nil, 1500 * time.Millisecond, 2},
	} {
		t.Run(c.peer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Things that know the time are made in it.
				layers := c.layers
				if len(layers) == 2 {
					layers = []guard.Layer{layers[0], limit.Rate(1, time.Hour)}
				}
				if len(layers) > 0 && layers[0] == guard.Layer(held) {
					s, err := limit.Join(held)
					if err != nil || !s.Try() {
						t.Fatal(err)
					}
					defer s.Cancel()
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.after == 0 {
					cancel(why)
				} else {
					time.AfterFunc(c.after, func() { cancel(why) })
				}
				n, began := make(chan int, 1), time.Now()
				n <- 0
				do := func(fn func(context.Context) error) error { return guard.Do(ctx, newGuard(t, layers...), fn) }
				if len(layers) == 0 {
					h := mustHedge(t, hedge.Config{Delay: sec, Ratio: 1})
					do = func(fn func(context.Context) error) error { return hedge.Do(ctx, h, fn) }
				}
				err := do(func(ctx context.Context) error {
					n <- 1 + <-n
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(2 * sec):
						return errDown
					}
				})
				if calls := <-n; calls != c.calls || !errors.Is(err, why) && !errors.Is(err, context.Canceled) || time.Since(began) != c.after {
					t.Errorf("%d calls, %v after %v", calls, err, time.Since(began))
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // retryablehttp, cenkalti: a deadline that is nearer than the wait
		ctx, cancel := context.WithTimeout(t.Context(), sec)
		defer cancel()
		began := time.Now()
		err := guard.Do(ctx, newGuard(t, fixed(9, 10*sec)), func(context.Context) error { return errDown })
		if !errors.Is(err, errDown) || !errors.Is(err, retry.ErrCallerDeadline) || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func mustHedge(t *testing.T, c hedge.Config) *hedge.Hedge {
	t.Helper()
	h, err := hedge.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// What observers are told, in order, and who is told nothing.
func TestPeersObservers(t *testing.T) {
	for _, c := range []struct {
		peer   string
		layers func(t *testing.T) []guard.Layer
		errs   []error
		want   string
	}{
		{"failsafe-go, tenacity: success", func(*testing.T) []guard.Layer { return only(fixed(2, sec)) }, nil, "attempt_started finished"},
		{"failsafe-go, cenkalti, avast, tenacity: a retry", func(*testing.T) []guard.Layer { return only(fixed(3, sec)) }, times(1, errDown), "attempt_started attempt_failed:down wait_scheduled:1s attempt_started finished"},
		{"failsafe-go: used up", func(*testing.T) []guard.Layer { return only(fixed(2, sec)) }, times(2, errDown), "attempt_started attempt_failed:down wait_scheduled:1s attempt_started attempt_failed:down finished:attempts"},
		{"failsafe-go, cenkalti: an error that ends it", func(*testing.T) []guard.Layer { return only(fixed(2, sec)) }, []error{retry.Permanent(errDown)}, "attempt_started attempt_failed:down finished:not_retryable"},
		{"failsafe-go, resilience4j: a breaker refuses", func(t *testing.T) []guard.Layer {
			b := newBreaker(t, circuit.Config{})
			b.Open(true)
			return []guard.Layer{b}
		}, nil, "refused finished:circuit_open"},
		{"failsafe-go: a bulkhead refuses", func(t *testing.T) []guard.Layer {
			l := limitOf(limit.Config{Concurrency: 1, Queue: limit.NoQueue})
			if s, err := limit.Join(l); err != nil || !s.Try() {
				t.Fatal(err)
			}
			return []guard.Layer{l}
		}, nil, "refused finished:limit"},
		{"failsafe-go: a rate is waited for", func(*testing.T) []guard.Layer { return []guard.Layer{fixed(2, 0), limit.Rate(1, sec)} }, times(1, errDown),
			"attempt_started attempt_failed:down wait_scheduled:0s queued:1s attempt_started finished"},
		{"Polly, failsafe-go: a hedge", func(t *testing.T) []guard.Layer { return nil }, times(1, errDown), "attempt_started hedged finished"},
		{"failsafe-go: a timeout", func(*testing.T) []guard.Layer { return []guard.Layer{guard.Timeout(sec)} }, times(1, context.DeadlineExceeded), "attempt_started attempt_failed:attempt timed out after 1s finished:attempts"},
	} {
		t.Run(c.peer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				n := 0
				tell := func(e retry.Event) {
					s := e.Type.String()
					switch {
					case e.Type == retry.Finished && e.Reason != driver.ReasonNone:
						s += ":" + e.Reason.String()
					case e.Type == retry.AttemptFailed:
						s += ":" + e.Err.Error()
					case e.Type == retry.WaitScheduled, e.Type == retry.Queued:
						s += ":" + e.Delay.String()
					}
					told = append(told, s)
				}
				layers := c.layers(t)
				work := func(ctx context.Context) error {
					if n++; n > len(c.errs) {
						return nil
					}
					if c.errs[n-1] == context.DeadlineExceeded {
						<-ctx.Done()
						return ctx.Err()
					}
					return c.errs[n-1]
				}
				if inner := work; layers == nil {
					h := mustHedge(t, hedge.Config{Delay: time.Hour, HedgeIf: func(error) bool { return true }, Observer: tell})
					work = func(ctx context.Context) error { return hedge.Do(ctx, h, inner) }
				}
				guard.Do(t.Context(), newGuard(t, append(layers, guard.Observe(tell))...), work)
				if got := strings.Join(told, " "); got != c.want {
					t.Errorf("told %q", got)
				}
			})
		})
	}
}
