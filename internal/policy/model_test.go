package policy

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/retry"
	"pgregory.net/rapid"
)

// model is the machine written down as plainly as can be: every item has a
// word for where it is, and every question is answered by looking at all
// of them. Place 0 of each list is not used.
type model struct {
	cfg       Config
	where     []string // pending, running, waiting, succeeded, failed, skipped
	failed    []int    // failed attempts
	slept     []time.Duration
	notBefore []time.Time

	stop           StopReason
	forGood        int
	breakerOpen    bool
	breakerUntil   time.Time
	halfOpen       bool
	failuresInRow  int
	successesInRow int
	probes         map[int]bool
	generation     int
	startedIn      []int // generation in which the item's agent started
}

func newModel(cfg Config, n int) *model {
	m := &model{cfg: cfg, where: make([]string, n+1), failed: make([]int, n+1), slept: make([]time.Duration, n+1),
		notBefore: make([]time.Time, n+1), startedIn: make([]int, n+1), probes: map[int]bool{}}
	for i := 1; i <= n; i++ {
		m.where[i] = "pending"
	}
	return m
}

func (m *model) count(where string) (n int) {
	for _, w := range m.where {
		if w == where {
			n++
		}
	}
	return n
}

func (m *model) finished() int { return m.count("succeeded") + m.count("failed") + m.count("skipped") }

// candidate gives the item that is to start next, or 0, and when.
func (m *model) candidate(now time.Time) (item int, when time.Time) {
	for i, w := range m.where {
		if w == "waiting" && (item == 0 || m.notBefore[i].Before(when)) {
			item, when = i, m.notBefore[i]
		}
	}
	if p := slices.Index(m.where, "pending"); p > 0 && (item == 0 || when.After(now)) {
		return p, now
	}
	return item, when
}

func (m *model) next(now time.Time) Decision {
	running := m.count("running")
	item, when := m.candidate(now)
	switch {
	case running > 0 && (m.stop != "" || item == 0 || running >= m.cfg.MaxParallel):
		return Decision{Kind: Idle}
	case m.stop != "":
		return Decision{Kind: Finished, Status: Stopped}
	case item == 0 && m.forGood > 0:
		return Decision{Kind: Finished, Status: CompletedWithFailures}
	case item == 0:
		return Decision{Kind: Finished, Status: Succeeded}
	}
	hold := NoHold
	if when.After(now) {
		hold = HoldRetry
	}
	if m.breakerOpen && m.breakerUntil.After(now) && m.breakerUntil.After(when) {
		when, hold = m.breakerUntil, HoldBreaker
	}
	if m.halfOpen && len(m.probes) >= m.cfg.Breaker.HalfOpenRequests {
		return Decision{Kind: Idle, Hold: HoldBreaker}
	}
	if hold != NoHold {
		return Decision{Kind: Wait, Until: when, Hold: hold}
	}
	return Decision{Kind: Start, Item: item, Attempt: m.failed[item] + 1}
}

func (m *model) started(item int) {
	m.where[item] = "running"
	if m.breakerOpen {
		m.breakerOpen, m.halfOpen = false, true
		m.generation++
		m.successesInRow = 0
	}
	if m.halfOpen {
		m.probes[item] = true
	}
	m.startedIn[item] = m.generation
}

func (m *model) breaker(item int, o Outcome, now time.Time) {
	if m.cfg.Breaker == nil || m.startedIn[item] != m.generation {
		return
	}
	open := func() {
		m.breakerOpen, m.halfOpen, m.breakerUntil = true, false, now.Add(m.cfg.Breaker.Timeout)
		m.generation++
		m.probes = map[int]bool{}
		m.failuresInRow = 0
	}
	delete(m.probes, item)
	switch {
	case o.Cancelled:
	case m.breakerOpen:
	case !m.halfOpen && o.OK:
		m.failuresInRow = 0
	case !m.halfOpen:
		if m.failuresInRow++; m.failuresInRow >= m.cfg.Breaker.FailureThreshold {
			open()
		}
	case o.OK:
		if m.successesInRow++; m.successesInRow >= m.cfg.Breaker.SuccessThreshold {
			m.halfOpen = false
			m.generation++
			m.probes = map[int]bool{}
			m.failuresInRow = 0
		}
	default:
		open()
	}
}

func (m *model) ended(item int, o Outcome, now time.Time) {
	m.breaker(item, o, now)
	switch {
	case o.OK:
		m.where[item] = "succeeded"
	case o.Cancelled:
		m.where[item], m.notBefore[item] = "waiting", time.Time{}
		return
	default:
		m.failed[item]++
		delay := m.cfg.Retry.Backoff.Initial
		if !o.LeftOut && m.failed[item] < m.cfg.Retry.Attempts && m.slept[item]+delay <= m.cfg.Retry.Budget {
			m.slept[item] += delay
			m.where[item], m.notBefore[item] = "waiting", now.Add(delay)
			return
		}
		m.forGood++
		m.where[item] = "failed"
		if m.cfg.OnItemFailure == Skip || o.LeftOut {
			m.where[item] = "skipped"
		}
	}
	failedNow := !o.OK
	if m.stop != "" {
		return
	}
	switch {
	case failedNow && m.cfg.OnItemFailure == Stop && !o.LeftOut:
		m.stop = ByItemFailure
	case failedNow && m.cfg.ContinueOnFailure != nil && !*m.cfg.ContinueOnFailure:
		m.stop = ByFirstFailure
	case failedNow && m.cfg.MaxFailures > 0 && m.forGood == m.cfg.MaxFailures:
		m.stop = ByMaxFailures
	case m.cfg.FailureThreshold != nil && m.finished() >= 10 && (failedNow || m.finished() == 10) &&
		m.forGood > 0 && m.forGood*1000 >= int(*m.cfg.FailureThreshold*1000+0.5)*m.finished():
		m.stop = ByFailureThreshold
	}
}

func drawConfig(t *rapid.T) Config {
	cfg := Config{
		MaxParallel:   rapid.IntRange(1, 5).Draw(t, "max_parallel"),
		OnItemFailure: rapid.SampledFrom([]Action{DeadLetter, DeadLetter, Skip, Stop}).Draw(t, "on_item_failure"),
		MaxFailures:   rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "max_failures"),
		Retry: &retry.Policy{
			Attempts: rapid.IntRange(1, 4).Draw(t, "attempts"),
			Budget:   time.Duration(rapid.SampledFrom([]int{20, 100}).Draw(t, "budget")) * time.Second,
			Backoff:  backoff.Schedule{Strategy: backoff.Fixed{}, Initial: time.Duration(rapid.IntRange(0, 10).Draw(t, "delay")) * time.Second},
		},
	}
	if rapid.Bool().Draw(t, "has threshold") {
		f := float64(rapid.IntRange(0, 1000).Draw(t, "threshold")) / 1000
		cfg.FailureThreshold = &f
	}
	if rapid.IntRange(0, 3).Draw(t, "continue") == 0 {
		cfg.ContinueOnFailure = new(bool)
	}
	if rapid.Bool().Draw(t, "has breaker") {
		cfg.Breaker = &circuit.Config{
			FailureThreshold: rapid.IntRange(1, 5).Draw(t, "failure_threshold"),
			SuccessThreshold: rapid.IntRange(1, 3).Draw(t, "success_threshold"),
			HalfOpenRequests: rapid.IntRange(1, 3).Draw(t, "half_open_requests"),
			Timeout:          30 * time.Second,
		}
	}
	return cfg
}

// TestModel runs the machine and the model side by side through random maps,
// in virtual time, to their end.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		n := rapid.IntRange(0, 40).Draw(t, "items")
		m, err := New(cfg, n)
		if err != nil {
			t.Fatal(err)
		}
		ref := newModel(cfg, n)
		now := t0
		cancels := 5
		for step := 0; ; step++ {
			if step > 10_000 {
				t.Fatal("the map does not end")
			}
			got, want := m.Next(now), ref.next(now)
			if !sameDecision(got, want) {
				t.Fatalf("step %d at %v: %+v, model %+v", step, now.Sub(t0), got, want)
			}
			checkCounts(t, m.Counts(), ref)
			if got.Kind == Finished {
				return
			}
			if got.Kind == Start && rapid.IntRange(0, 2).Draw(t, "start") > 0 {
				if _, err := m.Started(got.Item, now); err != nil {
					t.Fatal(err)
				}
				ref.started(got.Item)
				continue
			}
			var running []int
			for i, w := range ref.where {
				if w == "running" {
					running = append(running, i)
				}
			}
			if got.Kind == Wait && (len(running) == 0 || rapid.Bool().Draw(t, "wait")) {
				now = got.Until
				continue
			}
			if len(running) == 0 {
				continue
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
			i := rapid.SampledFrom(running).Draw(t, "ends")
			o := []Outcome{ok, fails(errBoom), fails(errBoom), {LeftOut: true, Err: errBoom}, {Cancelled: true}}[rapid.IntRange(0, 4).Draw(t, "outcome")]
			if o.Cancelled {
				if cancels--; cancels < 0 {
					o = ok
				}
			}
			v, err := m.Finished(i, o, now)
			if err != nil {
				t.Fatal(err)
			}
			before := ref.stop
			ref.ended(i, o, now)
			if m.Stopped() != ref.stop || (v.Stop != NotStopped) != (ref.stop != before) {
				t.Fatalf("step %d: stopped %q, model %q; verdict %+v", step, m.Stopped(), ref.stop, v)
			}
			if v.Attempt > cfg.Retry.Attempts {
				t.Fatalf("attempt %d of %d", v.Attempt, cfg.Retry.Attempts)
			}
		}
	})
}

func sameDecision(a, b Decision) bool {
	return a.Kind == b.Kind && a.Item == b.Item && a.Attempt == b.Attempt && a.Hold == b.Hold && a.Status == b.Status && a.Until.Equal(b.Until)
}

func checkCounts(t *rapid.T, c Counts, ref *model) {
	want := Counts{
		Total: len(ref.where) - 1, Pending: ref.count("pending"), Running: ref.count("running"), Retrying: ref.count("waiting"),
		Succeeded: ref.count("succeeded"), Failed: ref.count("failed"), Skipped: ref.count("skipped"),
		DeadLettered: c.DeadLettered, FailedForGood: ref.forGood,
	}
	if c != want || c.Pending+c.Running+c.Retrying+c.Finished() != c.Total {
		t.Fatalf("%+v, model %+v", c, want)
	}
}

// TestRestoreAtAnyMoment takes a machine down at random, restores another from
// what a journal would know, and continues; the results must be those of a map
// that never went down.
func TestRestoreAtAnyMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{MaxParallel: 3, MaxFailures: rapid.SampledFrom([]int{0, 4}).Draw(t, "max_failures"), MaxRecoveries: -1, Retry: fixed(3, time.Second)}
		const n = 30
		failsTimes := rapid.SliceOfN(rapid.IntRange(0, 3), n, n).Draw(t, "failures of each item")
		journal := map[int]ItemState{}
		m, _ := New(cfg, n)
		now := t0
		for {
			if rapid.IntRange(0, 9).Draw(t, "crash") == 0 {
				m, _ = New(cfg, n)
				for i, s := range journal {
					v, err := m.Restore(i, s, now)
					if err != nil {
						t.Fatal(err)
					}
					s.Recoveries = v.Recoveries
					journal[i] = s
				}
				m.Resume(false)
			}
			d := m.Next(now)
			if d.Kind == Wait {
				now = d.Until
				continue
			}
			if d.Kind == Finished {
				break
			}
			if d.Kind == Start {
				if _, err := m.Started(d.Item, now); err != nil {
					t.Fatal(err)
				}
				s := journal[d.Item]
				s.Standing = WasRunning
				journal[d.Item] = s
				if d.Attempt != s.Attempts+1 {
					t.Fatalf("item %d: attempt %d after %d failures", d.Item, d.Attempt, s.Attempts)
				}
				if rapid.Bool().Draw(t, "more") {
					continue
				}
			}
			for i, s := range journal {
				if s.Standing != WasRunning {
					continue
				}
				if _, running := m.running[i]; !running {
					continue
				}
				o := ok
				if s.Attempts < failsTimes[i-1] {
					o = fails(errBoom)
					s.Attempts++
				}
				v, err := m.Finished(i, o, now)
				if err != nil {
					t.Fatal(err)
				}
				s.Standing, s.Retry, s.NotBefore, s.Fate = WasWaiting, v.Retry, v.NotBefore, v.Fate
				if v.Fate.Final() {
					s.Standing = WasFinished
				}
				journal[i] = s
				break
			}
		}
		wantFailed := 0
		for _, f := range failsTimes {
			if f == 3 {
				wantFailed++
			}
		}
		c := m.Counts()
		if cfg.MaxFailures == 0 && (c.Failed != wantFailed || c.Succeeded != n-wantFailed) {
			t.Fatalf("%+v, want %d failed", c, wantFailed)
		}
		if cfg.MaxFailures > 0 && wantFailed >= cfg.MaxFailures && (m.Stopped() != ByMaxFailures || c.FailedForGood < cfg.MaxFailures) {
			t.Fatalf("%+v, stopped %q", c, m.Stopped())
		}
	})
}

// runMap runs n items, of which every tenth fails once.
func runMap(tb testing.TB, n, parallel int) {
	p := fixed(2, time.Second)
	m, err := New(Config{MaxParallel: parallel, Retry: p, MaxFailures: n, Breaker: &circuit.Config{}}, n)
	if err != nil {
		tb.Fatal(err)
	}
	now := t0
	queue := make([]int, 0, parallel)
	for {
		d := m.Next(now)
		switch d.Kind {
		case Start:
			if _, err := m.Started(d.Item, now); err != nil {
				tb.Fatal(err)
			}
			queue = append(queue, d.Item)
			if d.Attempt == 1 && d.Item%10 == 0 {
				queue[len(queue)-1] = -d.Item
			}
			continue
		case Wait:
			if len(queue) == 0 {
				now = d.Until
				continue
			}
		case Finished:
			if c := m.Counts(); c.Succeeded != n {
				tb.Fatalf("%+v", c)
			}
			return
		}
		for _, i := range queue {
			o, item := ok, i
			if i < 0 {
				o, item = fails(errBoom), -i
			}
			if _, err := m.Finished(item, o, now); err != nil {
				tb.Fatal(err)
			}
		}
		queue = queue[:0]
		now = now.Add(time.Microsecond)
	}
}

func TestAMillionItemsInBoundedMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m, err := New(Config{MaxParallel: 1, Retry: fixed(2, time.Hour)}, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	// The worst case: every item waits for its second attempt.
	for range 1_000_000 {
		d := m.Next(t0)
		if _, err := m.Started(d.Item, t0); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Finished(d.Item, fails(errBoom), t0); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	perItem := float64(after.HeapAlloc-before.HeapAlloc) / 1e6
	t.Logf("%.0f bytes for each waiting item", perItem)
	if perItem > 80 {
		t.Errorf("%.0f bytes for each waiting item", perItem)
	}
	if c := m.Counts(); c.Retrying != 1_000_000 {
		t.Fatalf("%+v", c)
	}
	runtime.KeepAlive(m)
}

func BenchmarkMap(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				runMap(b, n, 16)
			}
		})
	}
}

func BenchmarkNextAfterResume(b *testing.B) {
	const n = 1_000_000
	m, err := New(Config{}, n)
	if err != nil {
		b.Fatal(err)
	}
	for i := range n - 1 {
		if _, err := m.Restore(i+1, ItemState{Standing: WasFinished}, t0); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if d := m.Next(t0); d.Item != n {
			b.Fatal(d)
		}
	}
}
