package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
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
)

var errIgnored = errors.New("ignored")

// A breaker is driven by a text, a letter a call, and the state after each is
// compared: "." success, "F" failure, "I" an error that is ignored, "S" a slow
// success, "P" panic, "G" Goexit; "o" a second passes; "O" and "C" open and close
// by hand; "A" a permit is asked for and not answered. The states are c, o and h
// (half-open), "-" a refusal.
func TestPeersBreakers(t *testing.T) {
	consecutive := circuit.Config{FailureThreshold: 3, SuccessThreshold: 2, HalfOpenRequests: 2, Timeout: 2 * sec}
	rate := circuit.Config{FailureRate: 0.5, Window: 4, MinCalls: 4, SuccessThreshold: 1, Timeout: 2 * sec}
	inTime := circuit.Config{FailureRate: 0.5, WindowTime: 10 * sec, MinCalls: 3, Timeout: 2 * sec}
	slow := circuit.Config{SlowCall: sec, SlowRate: 0.5, Window: 4, MinCalls: 4, Timeout: 60 * sec}
	with := func(c circuit.Config, f func(*circuit.Config)) circuit.Config { f(&c); return c }
	for _, c := range []struct {
		peer, behaviour string
		config          circuit.Config
		calls, states   string
	}{
		{"gobreaker", "failures in a row", consecutive, "FF.FFF.", "ccccco-"},
		{"gobreaker", "half-open, then closed", consecutive, "FFFoo..", "ccoohhc"},
		{"gobreaker", "half-open, then open again", consecutive, "FFFoo.F.", "ccoohho-"},
		{"gobreaker", "so many at once in half-open", consecutive, "FFFooAAA", "ccoohhh-"},
		{"gobreaker", "a panic is a failure", with(consecutive, func(c *circuit.Config) { c.FailureThreshold = 1 }), "P.", "o-"},
		{"gobreaker", "what is excluded is neither", with(consecutive, func(c *circuit.Config) { c.IgnoreIf = func(err error) bool { return err == errIgnored } }), "FFIF.", "ccco-"},
		{"gobreaker", "and ends no probe", with(consecutive, func(c *circuit.Config) { c.IgnoreIf = func(err error) bool { return err == errIgnored } }), "FFFooII..", "ccoohhhhc"},
		{"gobreaker", "success by one's own rule", with(consecutive, func(c *circuit.Config) { c.FailureIf = func(err error) bool { return err == errDown } }), "IIIIFFF", "cccccco"},
		{"gobreaker", "excluded before the rule of success", with(consecutive, func(c *circuit.Config) {
			c.IgnoreIf, c.FailureIf = func(err error) bool { return err == errIgnored }, func(error) bool { return true }
		}), "IIIFFF", "ccccco"},
		{"gobreaker", "a rolling window", with(inTime, func(c *circuit.Config) { c.FailureRate = 0.6 }), "FFoooooooooooF.F", "ccccccccccccccco"},
		{"eapache", "errors that are old count no more", inTime, "FFoooooooooooFF", "ccccccccccccccc"},
		{"eapache", "panics count as errors", with(consecutive, func(c *circuit.Config) { c.FailureThreshold = 2 }), "PP", "co"},
		{"failsafe-go", "the success of a probe closes it", with(consecutive, func(c *circuit.Config) { c.FailureThreshold, c.SuccessThreshold = 1, 1 }), "Foo.", "oohc"},
		{"failsafe-go", "a rate over a number of calls", rate, "F.F.", "ccco"},
		{"failsafe-go", "old calls leave the window", rate, "F...F...F", "ccccccccc"},
		{"failsafe-go", "a rate over a time", inTime, "FoFo.", "cccco"},
		{"failsafe-go", "opened and closed by hand", consecutive, "O.C.", "o-cc"},
		{"failsafe-go", "the rate begins anew", rate, "FF..oo.FFF", "cccoohcccc"},
		{"resilience4j", "a rate, whatever the last call", with(rate, func(c *circuit.Config) { c.Window, c.MinCalls = 5, 5 }), "FFF..", "cccco"},
		{"resilience4j", "slow calls", slow, "S.S.", "ccco"},
		{"resilience4j", "slow calls that are few", slow, ".S...S...S", "cccccccccc"},
		{"resilience4j", "ignored calls are in no window", with(rate, func(c *circuit.Config) { c.IgnoreIf = func(err error) bool { return err == errIgnored } }), "FFIIIF.", "cccccco"},
		{"resilience4j", "a permit that is not answered comes back", with(consecutive, func(c *circuit.Config) { c.HalfOpenRequests, c.Lease = 1, sec }), "FFFooA.o..", "ccoohh-hhc"},
		{"resilience4j", "forced open", consecutive, "O.oo.", "o-ohh"},
		{"Polly", "fewer than the least throughput", with(inTime, func(c *circuit.Config) { c.MinCalls = 10 }), "FFFFFFFFF", "ccccccccc"},
		{"Polly", "a goroutine that ends is a failure", with(consecutive, func(c *circuit.Config) { c.FailureThreshold = 1 }), "G.", "o-"},
		{"Polly", "closing begins anew", consecutive, "FFFC FF", "ccoccc"},
	} {
		t.Run(c.peer+": "+c.behaviour, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, c.config)
				g, got := newGuard(t, b), ""
				for _, call := range strings.ReplaceAll(c.calls, " ", "") {
					got += breakerStep(t, b, g, call)
				}
				if got != c.states {
					t.Errorf("%s: %s, want %s", c.calls, got, c.states)
				}
			})
		})
	}
}

func breakerStep(t *testing.T, b *circuit.Breaker, g *guard.Guard, call rune) string {
	var err error
	switch call {
	case 'o':
		time.Sleep(sec)
	case 'O':
		b.Open(false)
	case 'C':
		b.Close()
	case 'A':
		_, err = b.Acquire()
	default:
		var wait sync.WaitGroup
		wait.Go(func() { err = guard.Do(t.Context(), g, peerCall(call)) })
		wait.Wait()
	}
	if errors.Is(err, circuit.ErrOpen) {
		return "-"
	}
	return b.State().String()[:1]
}

// peerCall is the call that a letter stands for.
func peerCall(call rune) func(context.Context) error {
	return func(context.Context) error {
		switch call {
		case 'F':
			return errDown
		case 'I':
			return errIgnored
		case 'S':
			time.Sleep(sec)
		case 'P':
			panic("boom")
		case 'G':
			runtime.Goexit()
		}
		return nil
	}
}

// What is told of a breaker, and what it can be asked.
func TestPeersBreakersBesides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// gobreaker, failsafe-go, resilience4j: changes are told, the name is in
		// errors, and they say when to come back.
		var told []string
		b := newBreaker(t, circuit.Config{Name: "db", FailureThreshold: 1, SuccessThreshold: 1, Timeout: 5 * sec,
			OnChange: func(c circuit.Change) { told = append(told, fmt.Sprintf("%s %v-%v", c.Name, c.From, c.To)) }})
		g := newGuard(t, b)
		guard.Do(t.Context(), g, peerCall('F'))
		time.Sleep(3 * sec)
		var refusal *circuit.OpenError
		if err := guard.Do(t.Context(), g, peerCall('.')); !errors.As(err, &refusal) || refusal.RetryAfter != 2*sec || !strings.Contains(err.Error(), `"db"`) {
			t.Errorf("refused with %v", err)
		}
		time.Sleep(2 * sec)
		guard.Do(t.Context(), g, peerCall('.'))
		if got := strings.Join(told, ", "); got != "db closed-open, db open-half_open, db half_open-closed" {
			t.Error(got)
		}
		// gobreaker: in two steps, and calls of an earlier generation count no more.
		old, err := b.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		guard.Do(t.Context(), g, peerCall('F'))
		time.Sleep(5 * sec)
		old.Done(circuit.Success)
		if b.State() != circuit.HalfOpen {
			t.Errorf("an answer of before made it %v", b.State())
		}
		// gobreaker (distributed), resilience4j: the state is saved and restored.
		again := newBreaker(t, circuit.Config{})
		if err := again.Restore(b.Snapshot()); err != nil || again.State() != b.State() {
			t.Errorf("%v: %v", err, again.State())
		}
		// failsafe-go, Polly: one breaker of many guards; a breaker in a breaker.
		inner, outer := newBreaker(t, circuit.Config{FailureThreshold: 1}), newBreaker(t, circuit.Config{FailureThreshold: 2})
		both := newGuard(t, outer, inner)
		for range 2 {
			guard.Do(t.Context(), both, peerCall('F'))
		}
		if inner.State() != circuit.Open || outer.State() != circuit.Open {
			t.Errorf("inner %v, outer %v", inner.State(), outer.State())
		}
		// failsafe-go, Polly: by the result.
		byResult := newBreaker(t, circuit.Config{FailureThreshold: 1})
		bad := retry.Until(func(context.Context) (string, error) { return "bad", nil }, func(v string) bool { return v != "bad" })
		_, err = guard.Get(t.Context(), newGuard(t, byResult), bad)
		if v, ok := retry.Unmet[string](err); v != "bad" || !ok || byResult.State() != circuit.Open {
			t.Errorf("%v, %v, %v", v, err, byResult.State())
		}
		// resilience4j: a rule that panics keeps no permit.
		panics := newBreaker(t, circuit.Config{FailureThreshold: 1, HalfOpenRequests: 1, Timeout: sec, FailureIf: func(error) bool { panic("rule") }})
		for range 3 {
			func() {
				defer func() { recover() }()
				guard.Do(t.Context(), newGuard(t, panics), peerCall('F'))
			}()
			time.Sleep(sec)
		}
		if _, err := panics.Acquire(); err != nil {
			t.Errorf("after three panics: %v", err)
		}
	})
}

// Slots and rates.
func TestPeersLimits(t *testing.T) {
	for _, c := range []struct {
		peer, behaviour string
		limits          func() []*limit.Limit
		callers         int
		takes           time.Duration
		began           string // when each began, or "-" where it was refused
	}{
		{"eapache, failsafe-go, resilience4j", "slots are waited for", func() []*limit.Limit { return []*limit.Limit{limit.Concurrency(2)} }, 5, sec, "0s 0s 1s 1s 2s"},
		{"failsafe-go", "a full bulkhead refuses", func() []*limit.Limit {
			return []*limit.Limit{limitOf(limit.Config{Concurrency: 2, Queue: limit.NoQueue})}
		}, 3, sec, "0s 0s -"},
		{"failsafe-go, eapache", "so long is waited for a slot", func() []*limit.Limit {
			return []*limit.Limit{limitOf(limit.Config{Concurrency: 1, MaxWait: 1500 * time.Millisecond})}
		}, 3, sec, "0s 1s -"},
		{"failsafe-go", "so many wait", func() []*limit.Limit { return []*limit.Limit{limitOf(limit.Config{Concurrency: 1, Queue: 1})} }, 3, sec, "0s 1s -"},
		{"failsafe-go", "a smooth rate", func() []*limit.Limit { return []*limit.Limit{limit.Rate(1, sec)} }, 4, 0, "0s 1s 2s 3s"},
		{"failsafe-go, resilience4j", "a rate with a burst", func() []*limit.Limit { return []*limit.Limit{limit.Rate(2, sec)} }, 5, 0, "0s 0s 500ms 1s 1.5s"},
		{"failsafe-go", "a wait that is too long is known at once", func() []*limit.Limit { return []*limit.Limit{limitOf(limit.Config{Rate: 1, Per: sec, MaxWait: sec})} }, 3, 0, "0s 1s -"},
		{"Polly", "no queue at a rate", func() []*limit.Limit { return []*limit.Limit{limitOf(limit.Config{Rate: 1, Queue: limit.NoQueue})} }, 2, 0, "0s -"},
		{"Polly", "slots and a rate", func() []*limit.Limit { return []*limit.Limit{limit.Concurrency(1), limit.Rate(1, 2*sec)} }, 3, 3 * sec, "0s 3s 6s"},
	} {
		t.Run(c.peer+": "+c.behaviour, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var layers []guard.Layer
				for _, l := range c.limits() {
					layers = append(layers, l)
				}
				g, start := newGuard(t, layers...), time.Now()
				began := make([]string, c.callers)
				var wait sync.WaitGroup
				for i := range c.callers {
					wait.Go(func() {
						began[i] = "-"
						err := guard.Do(t.Context(), g, func(context.Context) error {
							began[i] = time.Since(start).String()
							time.Sleep(c.takes)
							return nil
						})
						if (err != nil) != (began[i] == "-") || err != nil && !errors.Is(err, limit.ErrRefused) {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				wait.Wait()
				if got := strings.Join(began, " "); got != c.began {
					t.Errorf("began at %s, want %s", got, c.began)
				}
			})
		})
	}
	t.Run("failsafe-go: an adaptive limit goes up while used and down when slower", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := limitOf(limit.Config{Adaptive: &limit.AdaptiveConfig{Initial: 4, Min: 2, Max: 20}})
			g := newGuard(t, l)
			round := func(took time.Duration) {
				var wait sync.WaitGroup
				for range l.Max() {
					wait.Go(func() { guard.Do(t.Context(), g, func(context.Context) error { time.Sleep(took); return nil }) })
				}
				wait.Wait()
			}
			for range 10 {
				round(10 * time.Millisecond)
			}
			up := l.Max()
			for range 10 {
				round(time.Second)
			}
			if up <= 4 || l.Max() >= up {
				t.Errorf("up to %d, down to %d", up, l.Max())
			}
		})
	})
}

// A second attempt beside a slow one.
func TestPeersHedges(t *testing.T) {
	always := func(error) bool { return true }
	for _, c := range []struct {
		peer, behaviour string
		config          hedge.Config
		takes           []time.Duration
		errs            []error
		calls           int32
		took            time.Duration
		winner          int32 // 0: it fails
	}{
		{"failsafe-go", "none before the delay", hedge.Config{Delay: 2 * sec}, []time.Duration{sec}, []error{nil}, 1, sec, 1},
		{"failsafe-go", "one after it", hedge.Config{Delay: sec}, []time.Duration{time.Hour, sec}, []error{nil, nil}, 2, 2 * sec, 2},
		{"failsafe-go", "the first may still win", hedge.Config{Delay: sec}, []time.Duration{1500 * time.Millisecond, time.Hour}, []error{nil, nil}, 2, 1500 * time.Millisecond, 1},
		{"failsafe-go", "as many as there may be", hedge.Config{Delay: sec, Max: 3}, []time.Duration{time.Hour, time.Hour, time.Hour, sec}, make([]error, 4), 4, 4 * sec, 4},
		{"Polly", "after a failure, at once", hedge.Config{Delay: time.Hour, HedgeIf: always}, []time.Duration{0, 0}, []error{errDown, nil}, 2, 0, 2},
		{"Polly", "after each failure, until there are no more", hedge.Config{Delay: time.Hour, Max: 2, HedgeIf: always}, make([]time.Duration, 3), times(3, errDown), 3, 0, 0},
		{"Polly", "not after a failure that is not handled", hedge.Config{Delay: time.Hour, HedgeIf: func(err error) bool { return err != errDown }}, make([]time.Duration, 2), times(2, errDown), 1, 0, 0},
		{"Polly", "all at once", hedge.Config{Delay: 1, Max: 2}, []time.Duration{3 * sec, 2 * sec, sec}, make([]error, 3), 3, sec + 2, 3},
	} {
		t.Run(c.peer+": "+c.behaviour, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.config.Ratio = 1
				h := mustHedge(t, c.config)
				for range 3 { // saves up
					hedge.Do(t.Context(), h, peerCall('.'))
				}
				var calls atomic.Int32
				start := time.Now()
				winner, err := hedge.Get(t.Context(), h, func(ctx context.Context) (int32, error) {
					n := calls.Add(1)
					select {
					case <-ctx.Done():
						return 0, ctx.Err()
					case <-time.After(c.takes[n-1]):
						return n, c.errs[n-1]
					}
				})
				if calls.Load() != c.calls || time.Since(start) != c.took || (err == nil) != (c.winner > 0) || err == nil && winner != c.winner {
					t.Errorf("%d calls, %d won after %v, %v", calls.Load(), winner, time.Since(start), err)
				}
			})
		})
	}
	t.Run("failsafe-go: a quantile, learned first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := mustHedge(t, hedge.Config{Ratio: 1})
			for range 30 {
				hedge.Do(t.Context(), h, func(context.Context) error { time.Sleep(5 * time.Millisecond); return nil })
			}
			var calls atomic.Int32
			hedge.Do(t.Context(), h, func(ctx context.Context) error {
				if calls.Add(1) == 1 {
					<-ctx.Done()
				}
				return nil
			})
			if h.Delay() != 5*time.Millisecond || calls.Load() != 2 {
				t.Errorf("after %v: %d calls", h.Delay(), calls.Load())
			}
		})
	})
}

// Something else instead, and layers in every order.
func TestPeersFallbackAndOrder(t *testing.T) {
	open := newBreaker(t, circuit.Config{})
	open.Open(true)
	down := func(context.Context) (string, error) { return "", errDown }
	slow := func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	for _, c := range []struct {
		peer   string
		layers func() []guard.Layer
		fn     func(context.Context) (string, error)
		want   string
		took   time.Duration
	}{
		{"failsafe-go, Polly: of a failure", func() []guard.Layer { return only(fixed(2, 0)) }, down, "instead of " + retry.ErrAttempts.Error(), 0},
		{"failsafe-go: not of a success", func() []guard.Layer { return only(fixed(2, 0)) }, func(context.Context) (string, error) { return "well", nil }, "well", 0},
		{"Polly: of a result", func() []guard.Layer {
			return []guard.Layer{guard.FallbackIf(retry.As[*retry.UnmetError]())}
		}, retry.Until(func(context.Context) (string, error) { return "poor", nil }, func(v string) bool { return v != "poor" }), "instead of the condition is not met by poor", 0},
		{"failsafe-go, resilience4j: of an open breaker", func() []guard.Layer { return []guard.Layer{open} }, down, "instead of circuit is held open by hand", 0},
		{"failsafe-go: of a timeout", func() []guard.Layer { return []guard.Layer{guard.Timeout(sec)} }, slow, "instead of attempt timed out after 1s", sec},
		{"failsafe-go: a timeout around a retry", func() []guard.Layer { return []guard.Layer{guard.Timeout(5 * sec), fixed(9, 2*sec)} }, down, "instead of attempt would take longer than its timeout of 5s: no time left", 4 * sec},
		{"failsafe-go: a retry around a timeout", func() []guard.Layer { return []guard.Layer{fixed(3, 0), guard.Timeout(sec)} }, slow, "instead of " + retry.ErrAttempts.Error(), 3 * sec},
		{"failsafe-go: a timeout in a timeout", func() []guard.Layer { return []guard.Layer{guard.Timeout(5 * sec), guard.Timeout(sec)} }, slow, "instead of attempt timed out after 1s", sec},
		{"failsafe-go: a breaker around a retry sees one failure", func() []guard.Layer {
			return []guard.Layer{newBreaker(t, circuit.Config{FailureThreshold: 2}), fixed(3, 0)}
		}, down, "instead of " + retry.ErrAttempts.Error(), 0},
		{"failsafe-go: in a retry, each", func() []guard.Layer {
			return []guard.Layer{fixed(3, 0), newBreaker(t, circuit.Config{FailureThreshold: 2})}
		}, down, "instead of circuit open", 0},
		{"failsafe-go: a timeout around a hedge", func() []guard.Layer {
			return []guard.Layer{guard.Timeout(3 * sec)}
		}, hedge.Func(mustHedge(t, hedge.Config{Delay: sec, Ratio: 1}), slow), "instead of attempt timed out after 3s", 3 * sec},
		{"failsafe-go: a retry around a hedge", func() []guard.Layer {
			return []guard.Layer{fixed(2, sec)}
		}, hedge.Func(mustHedge(t, hedge.Config{Delay: sec, Ratio: 1}), down), "instead of " + retry.ErrAttempts.Error(), sec},
	} {
		t.Run(c.peer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, start := newGuard(t, c.layers()...), time.Now()
				got, err := guard.Or(t.Context(), g, c.fn, func(_ context.Context, err error) (string, error) { return fmt.Sprint("instead of ", err), nil })
				if err != nil || !strings.HasPrefix(got, c.want) || time.Since(start) != c.took {
					t.Errorf("%q, %v after %v", got, err, time.Since(start))
				}
			})
		})
	}
	// failsafe-go: none of a call that its caller has ended, and a fallback that fails.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := guard.Or(ctx, newGuard(t), down, func(context.Context, error) (string, error) { t.Error("called"); return "", nil }); err == nil {
		t.Error("no error")
	}
	if _, err := guard.Or(t.Context(), newGuard(t), down, func(context.Context, error) (string, error) { return "", errOther }); !errors.Is(err, errDown) || !errors.Is(err, errOther) {
		t.Error(err)
	}
}

// The retries of a target are bounded together.
func TestPeersQuotas(t *testing.T) {
	q, err := retry.NewQuota(retry.QuotaConfig{Ratio: 0.2, Initial: 2, Capacity: 2})
	if err != nil {
		t.Fatal(err)
	}
	p := retry.Policy{Attempts: 10, Quota: q}
	call := func(p retry.Policy, errs ...error) (calls int, err error) {
		err = guard.Do(t.Context(), newGuard(t, p), func(context.Context) error {
			if calls++; calls <= len(errs) {
				return errs[calls-1]
			}
			return nil
		})
		return calls, err
	}
	one := p
	one.Attempts = 1
	never := p
	never.If = retry.Is(errOther)
	for i, step := range []struct {
		p       retry.Policy
		errs    []error
		calls   int
		err     error
		balance float64
	}{
		{never, times(1, errDown), 1, retry.ErrNotRetryable, 2}, // avast: what is not retried takes nothing
		{one, times(1, errDown), 1, retry.ErrAttempts, 2},       // avast: nor does the last attempt
		{p, times(1, errDown), 2, nil, 2},                       // avast, AWS: a retry that succeeds gives its token back
		{p, times(9, errDown), 3, retry.ErrQuota, 0},            // avast, failsafe-go: it gates retries
		{p, times(9, errDown), 1, errDown, 0.2},                 // and the error is found beside it
		{p, nil, 1, nil, 0.4},                                   // a success earns a part of one
	} {
		calls, err := call(step.p, step.errs...)
		if calls != step.calls || !errors.Is(err, step.err) || (err == nil) != (step.err == nil) || q.Balance() != step.balance {
			t.Errorf("step %d: %d calls, %v, balance %v", i, calls, err, q.Balance())
		}
	}
}

// HTTP: what is sent again, with what, and what the client gets in the end.
func TestPeersHTTP(t *testing.T) {
	policy := retry.Policy{Attempts: 3, If: retry.Transient, Backoff: backoff.Schedule{Initial: time.Microsecond}}
	type seen struct{ method, body, header string }
	for _, c := range []struct {
		peer, method, path string
		statuses           []int
		bodies             int // how many arrive
		status             int
	}{
		{"retryablehttp, failsafe-go: well at once", "GET", "/", nil, 1, 200},
		{"retryablehttp: the body is sent again", "PUT", "/", []int{502, 503}, 3, 200},
		{"retryablehttp: no more attempts, the answer comes as it is", "GET", "/", []int{500, 500, 500}, 3, 500},
		{"retryablehttp, failsafe-go: 429", "GET", "/", []int{429}, 2, 200},
		{"retryablehttp: 501 is an answer", "GET", "/", []int{501}, 1, 501},
		{"retryablehttp: 404 too", "HEAD", "/", []int{404}, 1, 404},
		{"retryablehttp, failsafe-go: a redirect is followed with its body", "PUT", "/moved", []int{0, 503}, 3, 200},
	} {
		t.Run(c.peer, func(t *testing.T) {
			var got []seen
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				got = append(got, seen{r.Method, string(b), r.Header.Get("Attempt")})
				if r.URL.Path == "/moved" {
					http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
				} else if n := len(got); n <= len(c.statuses) {
					w.WriteHeader(c.statuses[n-1])
				}
			}))
			defer s.Close()
			// Each attempt may be prepared and logged: the base transport knows its number.
			base := roundTripper(func(r *http.Request) (*http.Response, error) {
				r.Header.Set("Attempt", fmt.Sprint(retry.AttemptFrom(r.Context())))
				return http.DefaultTransport.RoundTrip(r)
			})
			client := &http.Client{Transport: guardhttp.Transport(base, newGuard(t, policy))}
			request, err := http.NewRequestWithContext(t.Context(), c.method, s.URL+c.path, strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != c.status || len(got) != c.bodies || got[len(got)-1].method != c.method || got[len(got)-1].body != "body" {
				t.Errorf("%d, arrived %+v", answer.StatusCode, got)
			}
			if c.path == "/" && got[len(got)-1].header != fmt.Sprint(c.bodies) {
				t.Errorf("the last attempt was number %s of %d", got[len(got)-1].header, c.bodies)
			}
		})
	}
	for peer, url := range map[string]string{ // retryablehttp, failsafe-go: what no retry mends
		"an unknown scheme": "foo://x", "a host that is none": "http://a b/",
	} {
		n := 0
		base := roundTripper(func(r *http.Request) (*http.Response, error) { n++; return http.DefaultTransport.RoundTrip(r) })
		client := &http.Client{Transport: guardhttp.Transport(base, newGuard(t, policy))}
		if answer, err := client.Get(url); err == nil || n > 1 {
			t.Errorf("%s: %v after %d calls", peer, answer, n)
		}
	}
	tls := httptest.NewUnstartedServer(http.NotFoundHandler()) // with a certificate that nobody knows
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	defer tls.Close()
	n := 0
	base := roundTripper(func(r *http.Request) (*http.Response, error) { n++; return http.DefaultTransport.RoundTrip(r) })
	if _, err := (&http.Client{Transport: guardhttp.Transport(base, newGuard(t, policy))}).Get(tls.URL); err == nil || n != 1 {
		t.Errorf("%v after %d calls", err, n)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
