package mapper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/retry"
)

// memory is a recorder that breaks after so many facts.
type memory struct {
	step.Details
	mu    sync.Mutex
	facts []event.Event
	left  int // -1: for ever
}

var errFull = errors.New("the memory is full")

func (m *memory) Record(facts ...event.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == 0 {
		return errFull
	}
	if m.left > 0 {
		m.left--
	}
	for _, f := range facts {
		f.Seq = int64(len(m.facts) + 1)
		m.facts = append(m.facts, f)
	}
	return nil
}

func (m *memory) Sync(context.Context) error { return nil }
func (m *memory) Show(event.Event)           {}

func (m *memory) full() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == 0 {
		return errFull
	}
	return nil
}

// table is a template whose agents end as a function says.
type table struct {
	run    func(x *Map, a Attempt) Ending
	handle func(it event.Item, d Due) error
	x      *Map
}

func (t *table) Run(_ context.Context, a *Attempt, e *Ending) { *e = t.run(t.x, *a) }
func (t *table) Handle(_ context.Context, it event.Item, d Due) error {
	return t.handle(it, d)
}
func (t *table) Label(event.Item) string { return "" }
func (t *table) Why(int) string          { return "" }

func broken(text string) Ending {
	f := failure.Failure{Class: "exit", Message: text, Exit: 7}
	return Ending{Err: &f, Failure: f, State: func() json.RawMessage { return json.RawMessage(`{"found":"it"}`) }}
}

type reads struct {
	mu    sync.Mutex
	calls int
	items int
}

func (r *reads) items1(n int) func(context.Context, int, int) ([]event.Item, error) {
	return func(_ context.Context, from, limit int) ([]event.Item, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		var out []event.Item
		for i := from; i <= n && len(out) < limit; i++ {
			out = append(out, event.Item{Index: i, ID: fmt.Sprint("i", i), Data: []byte("1")})
		}
		r.calls++
		r.items += len(out)
		return out, nil
	}
}

func newTest(t testing.TB, n int, cfg policy.Config, m *memory, tab *table, r *reads) *Map {
	t.Helper()
	x, err := New(Options{Policy: cfg, Total: n, Clock: clock.Machine{}, Recorder: m, Items: r.items1(n), Template: tab, Name: "run", Stopping: m.full})
	if err != nil {
		t.Fatal(err)
	}
	tab.x = x
	return x
}

func once(attempts int, delay time.Duration) *retry.Policy {
	return &retry.Policy{Attempts: attempts, Backoff: backoff.Schedule{Strategy: backoff.Fixed{}, Initial: delay}}
}

// TestRetriesReadNothingAgain: the retry of an item neither reads others again
// nor pushes out what was read ahead.
func TestRetriesReadNothingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		m, r := &memory{left: -1}, &reads{}
		tab := &table{run: func(_ *Map, a Attempt) Ending {
			time.Sleep(time.Millisecond)
			if a.Number == 1 {
				return broken("once")
			}
			return Ending{}
		}}
		x := newTest(t, n, policy.Config{MaxParallel: 4, Retry: once(2, time.Millisecond)}, m, tab, r)
		x.Run(t.Context())
		if o := x.Outcome(); o.Counts.Succeeded != n || o.Stop != "" || o.Stopped != nil {
			t.Fatalf("%+v", o)
		}
		if r.items > n+20 || r.calls > n/ahead+20 {
			t.Errorf("%d items read in %d calls, for %d", r.items, r.calls, n)
		}
	})
}

// TestShortageBlamesNoItem: items whose processes the system had no room for are
// tried again a moment later; where it lasts, the map stops, and they are pending.
func TestShortageBlamesNoItem(t *testing.T) {
	for _, lasts := range []time.Duration{3 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m, began := &memory{left: -1}, time.Now()
			tries := 0
			tab := &table{run: func(_ *Map, a Attempt) Ending {
				tries++
				if time.Since(began) < lasts {
					e := broken("fork: resource temporarily unavailable")
					e.Shortage = true
					return e
				}
				return Ending{}
			}}
			x := newTest(t, 20, policy.Config{MaxParallel: 1}, m, tab, &reads{})
			x.Run(t.Context())
			o := x.Outcome()
			switch {
			case o.Counts.Failed > 0:
				t.Errorf("items failed: %+v", o.Counts)
			case lasts < time.Minute && (o.Counts.Succeeded != 20 || time.Since(began) > 2*lasts || tries > 30):
				t.Errorf("after %v and %d tries: %+v", time.Since(began), tries, o)
			case lasts > time.Minute && (o.Stop != policy.ByShortage || time.Since(began) > 2*time.Minute):
				t.Errorf("after %v: %+v", time.Since(began), o)
			}
		})
	}
}

// TestShortageFitsWhatThereIs: where the system has room for some of the items that
// may run at once, they run on, as many as fit, and none of them is given up.
func TestShortageFitsWhatThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const items, fit = 400, 4
		m, began := &memory{left: -1}, time.Now()
		var mu sync.Mutex
		tries, running := 0, 0
		tab := &table{run: func(_ *Map, a Attempt) Ending {
			mu.Lock()
			tries++
			full := running == fit
			if !full {
				running++
			}
			mu.Unlock()
			if full {
				e := broken("fork: too many open files")
				e.Shortage = true
				return e
			}
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return Ending{}
		}}
		x := newTest(t, items, policy.Config{MaxParallel: 100}, m, tab, &reads{})
		x.Run(t.Context())
		if o := x.Outcome(); o.Counts.Succeeded != items || o.Counts.Failed > 0 {
			t.Errorf("%+v", o)
		}
		if took := time.Since(began); took > 2*items/fit*time.Second || tries > 2*items {
			t.Errorf("%d items, %d at a time, took %v and %d tries", items, fit, took, tries)
		}
	})
}

// TestShortagePasses: once there is room again, as many items run at once as may.
func TestShortagePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const items, most = 2000, 50
		m, began := &memory{left: -1}, time.Now()
		var mu sync.Mutex
		running, peak := 0, 0
		tab := &table{run: func(_ *Map, a Attempt) Ending {
			mu.Lock()
			defer mu.Unlock()
			if running == 1 && time.Since(began) < 10*time.Second {
				e := broken("fork: too many open files")
				e.Shortage = true
				return e
			}
			running++
			peak = max(peak, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			return Ending{}
		}}
		x := newTest(t, items, policy.Config{MaxParallel: most}, m, tab, &reads{})
		x.Run(t.Context())
		if o := x.Outcome(); o.Counts.Succeeded != items {
			t.Errorf("%+v", o)
		}
		if took := time.Since(began); peak != most || took > 100*time.Second {
			t.Errorf("at most %d ran at once, all in %v", peak, took)
		}
	})
}

// TestPauseHoldsAll: an agent that meets a rate limit waits where it is, nobody
// starts meanwhile, no attempt is used up, and the answer after it is told.
func TestPauseHoldsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, began := &memory{left: -1}, time.Now()
		met := false
		var starts []time.Duration
		var mu sync.Mutex
		tab := &table{run: func(x *Map, a Attempt) Ending {
			mu.Lock()
			starts = append(starts, time.Since(began))
			first := !met
			met = true
			mu.Unlock()
			round, until, _ := x.Ask(t.Context(), time.Now())
			if first && until.IsZero() {
				time.Sleep(time.Second)
				if !x.Limited(t.Context(), round, time.Minute, step.MetLimit("claude"), time.Now()) {
					t.Error("a minute is longer than six hours")
				}
				_, until, _ = x.Ask(t.Context(), time.Now())
				if d := time.Until(until); d != time.Minute {
					t.Errorf("it waits %v", d)
				}
				time.Sleep(time.Until(until))
				round, _, _ = x.Ask(t.Context(), time.Now())
			}
			time.Sleep(2 * time.Second)
			x.Answered(round)
			return Ending{}
		}}
		x := newTest(t, 4, policy.Config{MaxParallel: 2}, m, tab, &reads{})
		x.Run(t.Context())
		if want := []time.Duration{0, 0, 61 * time.Second, 63 * time.Second}; !slices.Equal(starts, want) {
			t.Errorf("starts %v, want %v", starts, want)
		}
		var types []event.Type
		for _, f := range m.facts {
			if f.Type == event.RunPaused || f.Type == event.PauseEnded || f.Type == event.ItemRetry {
				types = append(types, f.Type)
			}
		}
		if !slices.Equal(types, []event.Type{event.RunPaused, event.PauseEnded}) {
			t.Errorf("%v", types)
		}
	})
}

// TestCutAnywhere cuts the record of a map with retries, handlers and breakers
// after each of its facts and continues: an item whose end is recorded does not run
// again, every handler runs until its end is recorded, and retries continue as they
// are recorded.
func TestCutAnywhere(t *testing.T) {
	const n = 6
	cfg := policy.Config{MaxParallel: 2, OnItemFailure: policy.Custom, Handler: "mend", Retry: once(3, 1234567*time.Nanosecond), MaxRecoveries: -1}
	for cut := 1; ; cut++ {
		whole := false
		synctest.Test(t, func(t *testing.T) {
			m := &memory{left: cut}
			ran, handled := map[int]int{}, map[int]int{}
			var mu sync.Mutex
			tab := &table{
				run: func(_ *Map, a Attempt) Ending {
					time.Sleep(time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					ran[a.Item.Index]++
					if a.Item.Index%2 == 0 || a.Item.Index == 1 && a.Number < 3 {
						return broken("no")
					}
					return Ending{}
				},
				handle: func(it event.Item, d Due) error {
					mu.Lock()
					defer mu.Unlock()
					handled[it.Index]++
					if d.Class != "exit" || d.Exit != 7 || string(d.State) != `{"found":"it"}` || d.Attempt < 3 {
						t.Errorf("the handler reads %+v", d)
					}
					return m.full()
				},
			}
			x := newTest(t, n, cfg, m, tab, &reads{})
			x.Run(t.Context())
			x.Outcome()
			if whole = m.left > 0; whole {
				return
			}
			// The next life.
			var st journal.State
			for _, f := range m.facts {
				if err := st.Apply(f); err != nil {
					t.Fatal(err)
				}
			}
			if err := st.Apply(event.Event{Type: event.RunResumed}); err != nil {
				t.Fatal(err)
			}
			before := len(m.facts)
			done := map[int]bool{}
			for i, rec := range st.Items.All() {
				done[i] = rec.Status.Done() || rec.Status == journal.ItemHandling
				if s := rec.Retry; rec.Status == journal.ItemWaiting && (s.Prev != 1234567 || s.Slept != time.Duration(s.Failures)*1234567) {
					t.Errorf("item %d: its retries are %+v", i, s)
				}
			}
			m.left = -1
			clear(ran)
			y := newTest(t, n, cfg, m, tab, &reads{})
			err := y.Restore(t.Context(), Recorded{Items: st.Items.All(), Pause: st.Pause,
				Event: func(_ context.Context, seq int64) (event.Event, error) { return m.facts[seq-1], nil }})
			if err != nil {
				t.Fatal(err)
			}
			if y.Open() {
				y.Run(t.Context())
			}
			if o := y.Outcome(); o.Counts.Finished() != n || o.Counts.Failed != n/2 || o.Stopped != nil {
				t.Errorf("cut after %d: %+v", cut, o)
			}
			for i := range ran {
				if done[i] {
					t.Errorf("cut after %d: item %d ran again", cut, i)
				}
			}
			ends := map[int]int{}
			for _, f := range m.facts {
				if f.Type == event.ItemFinished && f.Status != event.Interrupted {
					ends[f.Index]++
				}
			}
			for i := 1; i <= n; i++ {
				if ends[i] != 1 || i%2 == 0 && handled[i] == 0 {
					t.Errorf("cut after %d (%d facts): item %d has %d ends, its handler ran %d times", cut, before, i, ends[i], handled[i])
				}
			}
		})
		if whole || t.Failed() {
			return
		}
	}
}

// TestRequeueInTheMiddle: a dead letter that is given back runs again, with the
// data that it was edited to, and its attempts are counted on.
func TestRequeueInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{left: -1}
		var numbers []int
		tab := &table{}
		tab.run = func(x *Map, a Attempt) Ending {
			switch a.Item.Index {
			case 1:
				numbers = append(numbers, a.Number)
				if a.Number == 1 {
					return broken("no")
				}
			case 2:
				time.Sleep(time.Second)
				err := x.Requeue(t.Context(), []Again{{Index: 1, ID: "i1", Attempts: 1, Item: []byte("2")}}, func() (bool, error) { return true, nil })
				if err != nil {
					t.Error(err)
				}
			}
			return Ending{}
		}
		x := newTest(t, 2, policy.Config{MaxParallel: 2}, m, tab, &reads{})
		x.Run(t.Context())
		if o := x.Outcome(); o.Counts.Succeeded != 2 || !slices.Equal(numbers, []int{1, 2}) {
			t.Errorf("%+v, attempts %v", o, numbers)
		}
		i := slices.IndexFunc(m.facts, func(e event.Event) bool { return e.Type == event.ItemRequeued })
		if i < 0 || string(m.facts[i].Data) != `{"item":2}` {
			t.Errorf("%+v", m.facts)
		}
	})
}

// BenchmarkItems is what an item costs the map itself.
func BenchmarkItems(b *testing.B) {
	m := &memory{left: -1, facts: make([]event.Event, 0, 3*b.N)}
	tab := &table{run: func(*Map, Attempt) Ending { return Ending{} }}
	x := newTest(b, b.N, policy.Config{MaxParallel: 8}, m, tab, &reads{})
	b.ReportAllocs()
	b.ResetTimer()
	x.Run(b.Context())
	if o := x.Outcome(); o.Counts.Succeeded != b.N {
		b.Fatalf("%+v", o)
	}
}

// TestEarlierAgentLeavesPause: an agent of a map that was asked before another one
// met a rate limit does not end the pause with its answer.
func TestEarlierAgentLeavesPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{left: -1}
		tab := &table{run: func(x *Map, a Attempt) Ending {
			round, _, _ := x.Ask(t.Context(), time.Now())
			if a.Item.Index == 2 {
				time.Sleep(5 * time.Second)
				x.Answered(round)
				return Ending{}
			}
			time.Sleep(time.Second)
			x.Limited(t.Context(), round, time.Minute, step.MetLimit("claude"), time.Now())
			round, until, _ := x.Ask(t.Context(), time.Now())
			time.Sleep(time.Until(until))
			x.Answered(round)
			return Ending{}
		}}
		began := time.Now()
		newTest(t, 2, policy.Config{MaxParallel: 2}, m, tab, &reads{}).Run(t.Context())
		for _, f := range m.facts {
			if f.Type == event.PauseEnded && f.Time.Sub(began) != 61*time.Second {
				t.Errorf("the pause ended after %s", f.Time.Sub(began))
			}
		}
	})
}

// TestALetterRepeatsNothing: what the fact of a failed attempt says itself is not in its data,
// and what a handler reads is whole.
func TestALetterRepeatsNothing(t *testing.T) {
	e := &ending{Ending: broken("no"), a: Attempt{Item: event.Item{ID: "i1", Index: 1}, Number: 2}, took: time.Second}
	x := newTest(t, 1, policy.Config{MaxParallel: 1}, &memory{left: -1}, &table{}, &reads{})
	for _, fate := range []policy.Fate{policy.ItemRetry, policy.ItemDeadLettered} {
		fact, _ := x.fact(e, &policy.Verdict{Fate: fate}, time.Time{})
		if fact.Class == "" || fact.Message != "no" || fact.DurationMS != 1000 {
			t.Errorf("%+v", fact)
		}
		for _, name := range []string{"class", "message", "exit", "at", "duration_ms", "exit_code"} {
			if strings.Contains(string(fact.Data), `"`+name+`":`) {
				t.Errorf("%s is in the data too: %s", name, fact.Data)
			}
		}
	}
	_, due := x.fact(e, &policy.Verdict{Fate: policy.ItemHandled}, time.Time{})
	if l := due.due.Letter; l.Class == "" || l.Message != "no" || l.Attempt != 2 || l.DurationMS != 1000 {
		t.Errorf("%+v", l)
	}
}
