package policy

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/bide-dev/bide/circuit"
	"pgregory.net/rapid"
)

// TestLeasesOfOneItem: a machine that hands out leases of one item decides as
// one that is told of each start and end.
func TestLeasesOfOneItem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		n := rapid.IntRange(0, 25).Draw(t, "n")
		a, errA := New(cfg, n)
		b, errB := New(cfg, n)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		now := time.Unix(1_000_000, 0)
		var running []Lease
		for range 400 {
			da, db := a.Next(now), b.Next(now)
			if da != db {
				t.Fatalf("%+v\n%+v", da, db)
			}
			if da.Kind == Finished {
				return
			}
			if da.Kind == Start && (len(running) == 0 || rapid.Bool().Draw(t, "start")) {
				ca, err := a.Started(da.Item, now)
				l, cb, d := b.Reserve(1, now)
				if err != nil || d != da || len(l.Items) != 1 || !sameItem(l.Items[0], da) || !reflect.DeepEqual(ca, cb) {
					t.Fatalf("%v; lease %+v of %+v; %v %v", err, l, d, ca, cb)
				}
				running = append(running, l)
				continue
			}
			if len(running) > 0 && (da.Kind != Wait || rapid.Bool().Draw(t, "end")) {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				l := running[i]
				running = append(running[:i], running[i+1:]...)
				o := Outcome{OK: rapid.Bool().Draw(t, "ok")}
				if !o.OK {
					o.Err = errors.New("no")
					o.Cancelled = rapid.IntRange(0, 5).Draw(t, "cancelled") == 0
				}
				va, err := a.Finished(l.Items[0].Item, o, now)
				vb, errB := b.Settle(l.ID, []End{{l.Items[0].Item, o}}, now)
				if err != nil || errB != nil || !reflect.DeepEqual(va, vb[0]) {
					t.Fatalf("%v %v\n%+v\n%+v", err, errB, va, vb)
				}
				if a.Counts() != b.Counts() || a.Stopped() != b.Stopped() {
					t.Fatalf("%+v %s\n%+v %s", a.Counts(), a.Stopped(), b.Counts(), b.Stopped())
				}
				continue
			}
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute}).Draw(t, "step"))
		}
	})
}

// lane works off a lease: it knows nothing but its items and its credits.
type lane struct {
	lease         Lease
	ends          []End
	failures, row int
}

func (l *lane) over() bool {
	c := l.lease
	return len(l.ends) == len(c.Items) || c.Failures > 0 && l.failures >= c.Failures || c.Row > 0 && l.row >= c.Row
}

// TestLanesKeepToTheBounds: in whatever order any number of lanes work and
// settle, and are lost, no bound is overstepped by more than the items that are
// in flight, one a lane; and every item comes to exactly one end.
func TestLanesKeepToTheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{MaxParallel: rapid.IntRange(1, 8).Draw(t, "lanes"), MaxRecoveries: -1}
		switch rapid.IntRange(0, 3).Draw(t, "bound") {
		case 0:
			cfg.MaxFailures = rapid.IntRange(1, 20).Draw(t, "max_failures")
		case 1:
			rate := float64(rapid.IntRange(0, 10).Draw(t, "threshold")) / 10
			cfg.FailureThreshold = &rate
		case 2:
			no := false
			cfg.ContinueOnFailure = &no
		case 3:
			cfg.Breaker = &circuit.Config{FailureThreshold: rapid.IntRange(1, 10).Draw(t, "row"), Timeout: time.Hour}
		}
		n := rapid.IntRange(1, 200).Draw(t, "n")
		m, err := New(cfg, n)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1_000_000, 0)
		var lanes []*lane
		truth := Counts{} // what has happened, settled or not
		atStop := -1      // failures that the machine knew of when it stopped
		ended := map[int]bool{}
		for range 2000 {
			l, _, d := m.Reserve(rapid.IntRange(1, 30).Draw(t, "most"), now)
			if d.Kind == Start {
				lanes = append(lanes, &lane{lease: l})
			}
			if len(lanes) == 0 {
				if d.Kind != Finished && cfg.Breaker == nil {
					t.Fatalf("nothing runs, and %+v", d)
				}
				break
			}
			i := rapid.IntRange(0, len(lanes)-1).Draw(t, "lane")
			w := lanes[i]
			if !w.over() && rapid.IntRange(0, 9).Draw(t, "early") > 0 {
				item := w.lease.Items[len(w.ends)].Item
				if ended[item] {
					t.Fatalf("item %d runs after its end", item)
				}
				ended[item] = true
				o := Outcome{OK: rapid.IntRange(0, 3).Draw(t, "fails") > 0}
				if o.OK {
					truth.Succeeded++
					w.row = 0
				} else {
					o.Err = errors.New("no")
					truth.Failed++
					w.failures++
					w.row++
				}
				w.ends = append(w.ends, End{item, o})
				continue
			}
			if kept := len(w.ends) + 1; kept < len(w.lease.Items) && rapid.IntRange(0, 3).Draw(t, "slow") == 0 {
				w.lease.Items = w.lease.Items[:kept]
				if err := m.Keep(w.lease.ID, kept, now); err != nil {
					t.Fatal(err)
				}
				continue
			}
			lanes = append(lanes[:i], lanes[i+1:]...)
			settle := m.Settle
			if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
				settle = m.Lost
			}
			verdicts, err := settle(w.lease.ID, w.ends, now)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range verdicts {
				if v.Stop != NotStopped && atStop < 0 {
					atStop = m.Counts().Failed
					for _, later := range w.ends[i+1:] { // told after it, at the same time
						if !later.Outcome.OK {
							atStop--
						}
					}
				}
			}
		}
		switch {
		case cfg.MaxFailures > 0 && truth.Failed > cfg.MaxFailures+cfg.MaxParallel-1,
			cfg.ContinueOnFailure != nil && truth.Failed > cfg.MaxParallel,
			atStop >= 0 && truth.Failed > atStop+cfg.MaxParallel-1:
			t.Fatalf("%d failures, %d when it stopped, with %d lanes: %+v", truth.Failed, atStop, cfg.MaxParallel, cfg)
		}
		if c := m.Counts(); len(lanes) == 0 && (c.Succeeded != truth.Succeeded || c.Failed != truth.Failed || c.Running != 0) {
			t.Fatalf("%+v, but there were %+v", c, truth)
		}
	})
}

// TestCreditsOfTheBreaker: lanes that only fail open the breaker after no more
// than its failures in a row and those in flight.
func TestCreditsOfTheBreaker(t *testing.T) {
	for lanes := 1; lanes <= 6; lanes++ {
		m, err := New(Config{MaxParallel: lanes, Breaker: &circuit.Config{FailureThreshold: 5, Timeout: time.Hour}}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1_000_000, 0)
		sum := 0
		for range lanes {
			l, _, d := m.Reserve(100, now)
			if d.Kind != Start || l.Row < 1 {
				t.Fatalf("%+v %+v", l, d)
			}
			sum += l.Row
		}
		if most := max(5+lanes-1, lanes); sum > most {
			t.Errorf("%d lanes may fail %d times, more than %d", lanes, sum, most)
		}
	}
}

// TestLeaseErrors: what no lease has is refused and changes nothing.
func TestLeaseErrors(t *testing.T) {
	m, err := New(Config{MaxParallel: 2}, 4)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0)
	l, _, _ := m.Reserve(2, now)
	before := m.Counts()
	ok := Outcome{OK: true}
	for name, try := range map[string]func() error{
		"another lease": func() error { _, err := m.Settle(l.ID+1, nil, now); return err },
		"another item":  func() error { _, err := m.Settle(l.ID, []End{{4, ok}}, now); return err },
		"twice":         func() error { _, err := m.Settle(l.ID, []End{{1, ok}, {1, ok}}, now); return err },
		"by itself":     func() error { _, err := m.Finished(1, ok, now); return err },
	} {
		if err := try(); err == nil || m.Counts() != before {
			t.Errorf("%s: %v, %+v", name, err, m.Counts())
		}
	}
	if v, err := m.Lost(l.ID, []End{{1, ok}}, now); err != nil || len(v) != 2 || v[1].Item != 2 || v[1].Recoveries != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if d := m.Next(now); d.Kind != Start || d.Item != 2 || d.Recoveries != 1 {
		t.Errorf("%+v", d)
	}
}

// TestASuccessMayStop: until enough items have finished, the next success may
// be the one that makes the rate of failures count, and no lane continues after it.
func TestASuccessMayStop(t *testing.T) {
	rate := 0.2
	m, err := New(Config{MaxParallel: 1, FailureThreshold: &rate}, 100)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0)
	for i := range 11 {
		want := 1
		if i >= MinFinishedForThreshold {
			want = 50
		}
		l, _, _ := m.Reserve(50, now)
		if len(l.Items) != want {
			t.Fatalf("lease %d has %d items, want %d", i, len(l.Items), want)
		}
		if _, err := m.Settle(l.ID, []End{{l.Items[0].Item, Outcome{OK: true}}}, now); err != nil {
			t.Fatal(err)
		}
	}
}

func sameItem(l Leased, d Decision) bool {
	return l.Item == d.Item && l.Attempt == d.Attempt && l.Recoveries == d.Recoveries
}
