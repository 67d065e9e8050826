package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// shapes are the two calls of each package on its own x, with the function given.
func shapes(r *retry.Retrier, b *circuit.Breaker, l *limit.Limit, h *hedge.Hedge, g *guard.Guard) map[string]func(context.Context, func(context.Context) error) error {
	get := func(fn func(context.Context) error) func(context.Context) (int, error) {
		if fn == nil {
			return nil
		}
		return func(ctx context.Context) (int, error) { return 1, fn(ctx) }
	}
	type call = func(context.Context, func(context.Context) error) error
	return map[string]call{
		"retry.Do":   func(ctx context.Context, fn func(context.Context) error) error { return retry.Do(ctx, r, fn) },
		"circuit.Do": func(ctx context.Context, fn func(context.Context) error) error { return circuit.Do(ctx, b, fn) },
		"limit.Do":   func(ctx context.Context, fn func(context.Context) error) error { return limit.Do(ctx, l, fn) },
		"hedge.Do":   func(ctx context.Context, fn func(context.Context) error) error { return hedge.Do(ctx, h, fn) },
		"guard.Do":   func(ctx context.Context, fn func(context.Context) error) error { return guard.Do(ctx, g, fn) },
		"retry.Get": func(ctx context.Context, fn func(context.Context) error) error {
			_, err := retry.Get(ctx, r, get(fn))
			return err
		},
		"circuit.Get": func(ctx context.Context, fn func(context.Context) error) error {
			_, err := circuit.Get(ctx, b, get(fn))
			return err
		},
		"limit.Get": func(ctx context.Context, fn func(context.Context) error) error {
			_, err := limit.Get(ctx, l, get(fn))
			return err
		},
		"hedge.Get": func(ctx context.Context, fn func(context.Context) error) error {
			_, err := hedge.Get(ctx, h, get(fn))
			return err
		},
		"guard.Get": func(ctx context.Context, fn func(context.Context) error) error {
			_, err := guard.Get(ctx, g, get(fn))
			return err
		},
	}
}

func made(t testing.TB) map[string]func(context.Context, func(context.Context) error) error {
	t.Helper()
	return shapes(retry.Must(retry.New(retry.Policy{})), circuit.Must(circuit.New(circuit.Config{})), limit.Concurrency(1),
		hedge.Must(hedge.New(hedge.Config{})), guard.Must(guard.New(retry.Policy{}, limit.Concurrency(1))))
}

// What is nil, or was not made by New, is an error that says so, and calls nothing.
func TestWhatWasNotMade(t *testing.T) {
	never := func(context.Context) error { t.Error("the function was called"); return nil }
	for name, call := range shapes(nil, nil, nil, nil, nil) {
		if err := call(t.Context(), never); err == nil || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s of nil: %v", name, err)
		}
	}
	for name, call := range shapes(nil, &circuit.Breaker{}, &limit.Limit{}, &hedge.Hedge{}, &guard.Guard{}) {
		if strings.HasPrefix(name, "retry.") { // of the zero Policy
			continue
		}
		if err := call(t.Context(), never); err == nil || !strings.Contains(err.Error(), "New") {
			t.Errorf("%s of one that was not made: %v", name, err)
		}
	}
	calls := 0
	if err := retry.Do(t.Context(), &retry.Retrier{}, func(context.Context) error { calls++; return errFlaky }); calls != 3 || !errors.Is(err, retry.ErrAttempts) {
		t.Errorf("the zero Retrier made %d calls: %v", calls, err)
	}
	for name, layer := range map[string]guard.Layer{"breaker": &circuit.Breaker{}, "limit": &limit.Limit{},
		"breaker of a policy": retry.Policy{Breaker: &circuit.Breaker{}}, "quota of a policy": retry.Policy{Quota: &retry.Quota{}}} {
		if _, err := guard.New(layer); err == nil || !strings.Contains(err.Error(), "New") {
			t.Errorf("a layer that is an unmade %s: %v", name, err)
		}
	}
}

// A nil function is an error at the call, which says so and is not retried.
func TestNilFunctionsOfTheUser(t *testing.T) {
	for name, call := range made(t) {
		if err := call(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "the function is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	fn := func(context.Context) (int, error) { return 1, nil }
	r := retry.Must(retry.New(retry.Policy{}))
	events := 0
	g := guard.Must(guard.New(retry.Policy{Observer: func(retry.Event) { events++ }}))
	for name, err := range map[string]error{
		"Until of no function":  second(retry.Get(t.Context(), r, retry.Until(nil, func(int) bool { return true }))),
		"Until of no condition": second(retry.Get(t.Context(), r, retry.Until(fn, nil))),
		"Func of no function":   second(guard.Get(t.Context(), g, hedge.Func[int](hedge.Must(hedge.New(hedge.Config{})), nil))),
		"Or of no function":     second(guard.Or(t.Context(), g, nil, func(context.Context, error) (int, error) { return 1, nil })),
		"Or of no fallback":     second(guard.Or(t.Context(), g, fn, nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), "is nil") || errors.As(err, new(*retry.PanicError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if events > 0 {
		t.Errorf("%d events were told of calls that were not made", events)
	}
}

func second[T any](_ T, err error) error { return err }

// A context that has ended calls nothing, in any package, and its cause is found.
func TestAContextThatHasEnded(t *testing.T) {
	own := errors.New("own cause")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(own)
	late, end := context.WithDeadlineCause(t.Context(), time.Now().Add(-time.Hour), own)
	defer end()
	for name, call := range made(t) {
		for _, ctx := range []context.Context{cancelled, late} {
			err := call(ctx, func(context.Context) error { t.Errorf("%s called the function", name); return nil })
			if !errors.Is(err, own) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// The same breaker or limit twice is a mistake: it would be asked twice for one call,
// and a breaker's probe would be refused by itself.
func TestALayerTwice(t *testing.T) {
	b, l := circuit.Must(circuit.New(circuit.Config{})), limit.Concurrency(1)
	for name, layers := range map[string][]guard.Layer{
		"breaker":                {b, b},
		"breaker across a retry": {b, retry.Policy{}, b},
		"breaker of the policy":  {retry.Policy{Breaker: b}, b},
		"policies' breaker":      {retry.Policy{Breaker: b}, retry.Policy{Breaker: b}},
		"limit":                  {l, l},
		"limit across a retry":   {l, retry.Policy{}, l},
	} {
		if _, err := guard.New(layers...); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := guard.New(retry.Policy{}, retry.Policy{}, guard.Timeout(1), guard.Timeout(1), b, l); err != nil {
		t.Errorf("two retries and two timeouts: %v", err)
	}
}

// A guard inside itself takes a second slot. Where there is none it waits, until its
// context ends or the limit's longest wait is over, and gives everything back.
func TestAGuardInItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, slots := range []int{1, 2} {
			l := limit.Must(limit.New(limit.Config{Concurrency: slots, MaxWait: time.Minute}))
			g := guard.Must(guard.New(circuit.Must(circuit.New(circuit.Config{})), l))
			began := time.Now()
			err := guard.Do(t.Context(), g, func(ctx context.Context) error {
				return guard.Do(ctx, g, func(context.Context) error { return nil })
			})
			if took := time.Since(began); slots == 1 && (!errors.Is(err, limit.ErrRefused) || took != time.Minute) || slots == 2 && err != nil {
				t.Errorf("%d slots: %v after %v", slots, err, took)
			}
			if l.InUse() != 0 || l.Waiting() != 0 {
				t.Errorf("%d in use, %d waiting", l.InUse(), l.Waiting())
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err = guard.Do(ctx, g, func(ctx context.Context) error {
				return guard.Do(ctx, g, func(context.Context) error { return nil })
			})
			cancel()
			if slots == 1 && !errors.Is(err, context.DeadlineExceeded) || l.InUse() != 0 || l.Waiting() != 0 {
				t.Errorf("with a deadline: %v, %d in use, %d waiting", err, l.InUse(), l.Waiting())
			}
		}
	})
}

// Whoever is told of something may use what tells of it, and may take its time: nobody
// else waits for it.
func TestHooksMayUseTheGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g *guard.Guard
		var b *circuit.Breaker
		slots, rate := limit.Concurrency(1), limit.Rate(1, time.Second)
		var mu sync.Mutex
		told := map[string]bool{}
		var busy atomic.Bool
		use := func() {
			if !busy.CompareAndSwap(false, true) {
				return // within itself
			}
			defer busy.Store(false)
			b.State()
			b.Snapshot()
			slots.Waiting()
			slots.InUse()
			rate.Waiting()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = guard.Do(ctx, g, func(context.Context) error { return nil }) // it may be refused, but comes back
		}
		b = circuit.Must(circuit.New(circuit.Config{FailureThreshold: 2, Timeout: time.Second, OnChange: func(circuit.Change) { use() },
			FailureIf: func(error) bool { use(); return true }}))
		g = guard.Must(guard.New(
			retry.Policy{Attempts: 3, Backoff: backoff.Schedule{Initial: time.Second}, If: func(error) bool { use(); return true }},
			b, slots, rate, guard.Observe(func(e retry.Event) {
				mu.Lock()
				told[e.Type.String()] = true
				mu.Unlock()
				use()
			})))
		var wait sync.WaitGroup
		for i := range 4 {
			wait.Go(func() {
				_ = guard.Do(t.Context(), g, func(context.Context) error {
					time.Sleep(time.Second)
					if i%2 == 0 {
						return errFlaky
					}
					return nil
				})
			})
			synctest.Wait()
		}
		wait.Wait()
		for _, want := range []string{"queued", "attempt_failed", "wait_scheduled", "finished"} {
			if !told[want] {
				t.Errorf("%s was not told", want)
			}
		}
		if slots.InUse() != 0 || slots.Waiting() != 0 {
			t.Errorf("%d in use, %d waiting", slots.InUse(), slots.Waiting())
		}
	})
}

// A hook that blocks holds back its own call alone.
func TestAHookThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		slots := limit.Concurrency(1)
		blocking := guard.Must(guard.New(slots, guard.Observe(func(e retry.Event) {
			if e.Type == retry.Queued {
				<-release
			}
		})))
		holder, _ := limit.Join(slots)
		if !holder.Try() {
			t.Fatal("no slot")
		}
		done := false
		go func() {
			_ = guard.Do(t.Context(), blocking, func(context.Context) error { return nil })
			done = true
		}()
		synctest.Wait() // it is in its hook
		if slots.Waiting() != 1 {
			t.Errorf("%d are waiting", slots.Waiting())
		}
		holder.Release(limit.Result{})
		close(release)
		synctest.Wait()
		if !done || slots.InUse() != 0 {
			t.Errorf("done %v, %d in use", done, slots.InUse())
		}
	})
}

// A panic of whatever a user gives comes to the caller, or is its error; nothing stays
// taken, and the next call is made.
func TestPanicsInCallbacks(t *testing.T) {
	boom := func() { panic("boom") }
	type parts struct {
		policy  retry.Policy
		breaker circuit.Config
		observe func(retry.Event)
		refused func(error) bool
	}
	for name, build := range map[string]func(armed func()) parts{
		"If": func(f func()) parts { return parts{policy: retry.Policy{If: func(error) bool { f(); return true }}} },
		"AbortOn": func(f func()) parts {
			return parts{policy: retry.Policy{AbortOn: func(error) bool { f(); return false }}}
		},
		"Rule.On": func(f func()) parts {
			return parts{policy: retry.Policy{Rules: []retry.Rule{{On: func(error) bool { f(); return true }}}}}
		},
		"Strategy": func(f func()) parts {
			return parts{policy: retry.Policy{Backoff: backoff.Schedule{Strategy: strategy(f)}}}
		},
		"Rand": func(f func()) parts {
			return parts{policy: retry.Policy{Backoff: backoff.Schedule{Initial: 1, Jitter: backoff.Full}, Rand: random(f)}}
		},
		"FailureIf": func(f func()) parts {
			return parts{breaker: circuit.Config{FailureIf: func(error) bool { f(); return true }}}
		},
		"IgnoreIf": func(f func()) parts {
			return parts{breaker: circuit.Config{IgnoreIf: func(error) bool { f(); return true }}}
		},
		"OnChange": func(f func()) parts { return parts{breaker: circuit.Config{OnChange: func(circuit.Change) { f() }}} },
		"OpenFor": func(f func()) parts {
			return parts{breaker: circuit.Config{OpenFor: func(int) time.Duration { f(); return 1 }}}
		},
		"Store":     func(f func()) parts { return parts{breaker: circuit.Config{Store: store(f)}} },
		"RefusedIf": func(f func()) parts { return parts{refused: func(error) bool { f(); return false }} },
		"Observe":   func(f func()) parts { return parts{observe: func(retry.Event) { f() }} },
		"Observer":  func(f func()) parts { return parts{policy: retry.Policy{Observer: func(retry.Event) { f() }}} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for at := 1; ; at++ { // the call of the callback that panics
					calls := 0
					p := build(func() {
						if calls++; calls == at {
							boom()
						}
					})
					p.breaker.FailureThreshold, p.breaker.Timeout, p.breaker.HalfOpenRequests, p.breaker.SuccessThreshold = 2, time.Second, 1, 1
					p.policy.Attempts = 3
					b, slots := circuit.Must(circuit.New(p.breaker)), limit.Concurrency(1)
					throttle := limit.Must(limit.New(limit.Config{Throttle: &limit.ThrottleConfig{RefusedIf: p.refused}}))
					layers := []guard.Layer{p.policy, b, slots, throttle}
					if p.observe != nil {
						layers = append(layers, guard.Observe(p.observe))
					}
					g := guard.Must(guard.New(layers...))
					for range 3 {
						func() {
							defer func() { recover() }()
							_ = guard.Do(t.Context(), g, func(context.Context) error { return errFlaky })
						}()
						if slots.InUse() != 0 || slots.Waiting() != 0 {
							t.Fatalf("panic %d: %d in use, %d waiting", at, slots.InUse(), slots.Waiting())
						}
						time.Sleep(2 * time.Second)
					}
					if calls < at {
						if at == 1 {
							t.Fatal("it is never called")
						}
						return // each call of it has panicked once
					}
					time.Sleep(time.Hour)
					before := b.Snapshot()
					if err := guard.Do(t.Context(), g, func(context.Context) error { return nil }); err != nil || b.State() != circuit.Closed {
						t.Fatalf("panic %d: afterwards %v, the breaker is %v, before it was %+v", at, err, b.State(), before)
					}
				}
			})
		})
	}
}

// strategy, random and store are callbacks behind an interface.
type (
	strategy func()
	random   func()
	store    func()
)

func (f strategy) After(int, time.Duration, time.Duration) time.Duration { f(); return 1 }
func (f random) Uint64() uint64                                          { f(); return 1 }
func (f store) Load(string) (s circuit.Snapshot, ok bool)                { return s, false }
func (f store) Save(string, circuit.Snapshot, circuit.Snapshot)          { f() }

// endsAt is a context that its caller cancels at the nth time that it is looked at.
type endsAt struct {
	context.Context
	cancel context.CancelCauseFunc
	left   atomic.Int64
}

var errOwn = errors.New("the caller's own")

func (c *endsAt) look() {
	if c.left.Add(-1) == 0 {
		c.cancel(errOwn)
	}
}

func (c *endsAt) Err() error {
	c.look()
	return c.Context.Err()
}

func (c *endsAt) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

func (c *endsAt) Deadline() (time.Time, bool) {
	c.look()
	return c.Context.Deadline()
}

// A caller that gives up at any point gets the call's value or its own cause, and
// leaves nothing taken.
func TestCancelledAtEveryPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		for at := int64(1); ; at++ {
			b := circuit.Must(circuit.New(circuit.Config{FailureThreshold: 1, HalfOpenRequests: 1, SuccessThreshold: 1, Timeout: time.Second}))
			slots, rate := limit.Concurrency(1), limit.Rate(1, time.Second)
			g := guard.Must(guard.New(retry.Policy{Attempts: 4, Backoff: backoff.Schedule{Initial: time.Second}, If: retry.Any(retry.Is(errFlaky), retry.CircuitOpen), Deadline: time.Hour},
				b, slots, rate, guard.Timeout(time.Minute), guard.Observe(func(retry.Event) {})))
			other := func(ctx context.Context) error { time.Sleep(time.Second); return nil }
			go limit.Do(t.Context(), slots, other) // so that it waits for its slot
			synctest.Wait()

			inner, cancel := context.WithCancelCause(t.Context())
			ctx := &endsAt{Context: inner, cancel: cancel}
			ctx.left.Store(at)
			calls := 0
			err := guard.Do(ctx, g, func(ctx context.Context) error {
				if calls++; calls == 1 {
					return errFlaky
				}
				return ctx.Err()
			})
			over := ctx.left.Load() > 0 // it was not looked at so often
			cancel(nil)
			switch {
			case err == nil:
			case !errors.Is(err, errOwn) || !errors.Is(err, context.Canceled):
				t.Errorf("at %d: %v", at, err)
			default:
				ended++
			}
			time.Sleep(time.Minute)
			if slots.InUse() != 0 || slots.Waiting() != 0 || rate.Waiting() != 0 || len(b.Snapshot().Probes) != 0 {
				t.Errorf("at %d: %d in use, %d and %d waiting, %+v", at, slots.InUse(), slots.Waiting(), rate.Waiting(), b.Snapshot())
			}
			if err := guard.Do(t.Context(), g, func(context.Context) error { return nil }); err != nil {
				t.Errorf("at %d: the next call: %v", at, err)
			}
			if over {
				break
			}
		}
		if ended < 5 {
			t.Errorf("only %d calls were ended by their caller", ended)
		}
	})
}

// One limit and one breaker in many guards, used by many goroutines with whatever ends
// calls have: never more than the slots at once, and at the end nothing is taken.
func TestSharedByMany(t *testing.T) {
	slots := limit.Must(limit.New(limit.Config{Concurrency: 3, Queue: 50}))
	rate := limit.Rate(1_000_000, time.Second)
	b := circuit.Must(circuit.New(circuit.Config{FailureThreshold: 50, Timeout: time.Microsecond, HalfOpenRequests: 2, SuccessThreshold: 1}))
	h := hedge.Must(hedge.New(hedge.Config{Delay: 50 * time.Microsecond, Ratio: 1}))
	throttle := limit.Throttle()
	guards := []*guard.Guard{
		guard.Must(guard.New(slots)),
		guard.Must(guard.New(retry.Policy{}, b, slots, rate)),
		guard.Must(guard.New(rate, retry.Policy{Attempts: 2}, guard.Timeout(time.Millisecond), slots, b, throttle)),
	}
	var inside, most, calls atomic.Int64
	var wait sync.WaitGroup
	for n := range 100 {
		wait.Go(func() {
			for i := range 20 {
				ctx, cancel := context.WithTimeout(limit.WithPriority(context.Background(), i%3), time.Duration(1+i)*time.Millisecond)
				_, _ = guard.Get(ctx, guards[(n+i)%len(guards)], func(ctx context.Context) (int, error) {
					now := inside.Add(1)
					defer inside.Add(-1)
					calls.Add(1)
					for {
						if seen := most.Load(); now <= seen || most.CompareAndSwap(seen, now) {
							break
						}
					}
					return hedge.Get(ctx, h, func(ctx context.Context) (int, error) {
						switch (n * i) % 7 {
						case 0:
							return 0, errFlaky
						case 1:
							panic("boom")
						case 2:
							<-ctx.Done()
							return 0, ctx.Err()
						}
						return 1, nil
					})
				})
				cancel()
			}
		})
	}
	wait.Wait()
	if most.Load() > 3 || most.Load() < 2 || calls.Load() < 100 {
		t.Errorf("%d ran at once, in %d calls", most.Load(), calls.Load())
	}
	if slots.InUse() != 0 || slots.Waiting() != 0 || rate.Waiting() != 0 {
		t.Errorf("%d in use, %d and %d waiting", slots.InUse(), slots.Waiting(), rate.Waiting())
	}
	eventually := time.Now().Add(10 * time.Second)
	for b.State() != circuit.Closed && time.Now().Before(eventually) {
		_ = circuit.Do(t.Context(), b, func(context.Context) error { return nil })
	}
	if s := b.Snapshot(); s.State != circuit.Closed || len(s.Probes) > 0 {
		t.Errorf("the breaker is stuck: %+v", s)
	}
}

// Event names what an observer needs of a wait: what the attempt before died of.
func TestAWaitTellsOfItsError(t *testing.T) {
	var text string
	g := guard.Must(guard.New(retry.Policy{Attempts: 2}, guard.Observe(func(e retry.Event) {
		if e.Type == retry.WaitScheduled {
			text += fmt.Sprint(e.Attempt, " ", e.Delay, " ", e.Err, "; ")
		}
	})))
	_ = guard.Do(t.Context(), g, func(context.Context) error { return errFlaky })
	if want := "1 0s " + errFlaky.Error() + "; "; text != want {
		t.Errorf("told %q, want %q", text, want)
	}
}

// A nil context is an error at the call, which says so and calls nothing.
func TestANilContext(t *testing.T) {
	never := func(context.Context) error { t.Error("the function was called"); return nil }
	var none context.Context
	for name, call := range made(t) {
		if err := call(none, never); err == nil || !strings.HasSuffix(err.Error(), "the context is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	fn := func(context.Context) (int, error) { return 1, never(nil) }
	g := guard.Must(guard.New(retry.Policy{Timeout: time.Second}))
	l := limit.Concurrency(1)
	p := retry.Policy{Attempts: 2}
	for name, err := range map[string]error{
		"guard.Or":                second(guard.Or(none, g, fn, func(context.Context, error) (int, error) { return fn(nil) })),
		"a policy with a timeout": second(guard.Get(none, g, fn)),
		"driver.Run":              second(driver.Run(none, &p, nil, fn)),
		"driver.Drive":            second(driver.Drive(none, &driver.Operation{Policy: &p}, func(context.Context, int) (int, error) { return fn(nil) })),
		"Set.Acquire":             limit.Set{l}.Acquire(none, limit.Request{}),
	} {
		if err == nil || !strings.HasSuffix(err.Error(), "the context is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l.InUse() != 0 {
		t.Errorf("%d slots are in use", l.InUse())
	}
	rounds := 0
	var err error
	for a := range retry.Loop(none, retry.Must(retry.New(retry.Policy{}))) {
		rounds++
		err = a.Context().Err()
		a.End(&err)
	}
	if rounds != 1 || err == nil || !strings.HasSuffix(err.Error(), "the context is nil") {
		t.Errorf("Loop ran its body %d times: %v", rounds, err)
	}
}

// What New did not make answers every question, and lets nothing through.
func TestQuestionsToWhatWasNotMade(t *testing.T) {
	for name, b := range map[string]*circuit.Breaker{"nil": nil, "zero": {}} {
		b.Open(true)
		b.Close()
		if b.State() != circuit.Open || b.Name() != "" || b.Counts() != (circuit.Counts{}) || b.Driver() != nil {
			t.Errorf("a %s breaker is %v, %q, %v", name, b.State(), b.Name(), b.Counts())
		}
		if s := b.Snapshot(); s.State != circuit.Open {
			t.Errorf("the snapshot of a %s breaker is %+v", name, s)
		}
		if err := b.Restore(circuit.Snapshot{}); err == nil || !strings.Contains(err.Error(), "New") {
			t.Errorf("Restore of a %s breaker: %v", name, err)
		}
	}
	var l limit.Limit
	if l.Max() != 0 || l.InUse() != 0 || l.Waiting() != 0 || l.Refusing() != 0 || l.IsRate() || l.String() != "limit" {
		t.Errorf("the zero limit has %d slots, %d used, %d waiting, and refuses %v", l.Max(), l.InUse(), l.Waiting(), l.Refusing())
	}
	for name, s := range map[string]limit.Set{"the zero limit": {&l}, "Concurrency(0)": {limit.Concurrency(0)}, "Rate(0, 1s)": {limit.Rate(0, time.Second)}} {
		if s.Try() {
			t.Errorf("%s lets an attempt through", name)
		}
		if err := s.Acquire(t.Context(), limit.Request{}); err == nil || !strings.HasPrefix(err.Error(), "limit: ") {
			t.Errorf("%s: %v", name, err)
		}
		s.Cancel()
		s.Release(limit.Result{})
	}
}
