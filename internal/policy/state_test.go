package policy

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestStateGoesOn: a machine that is put down as JSON and taken up again at any
// moment decides as one that never was, with agents, leases and waits in mid-work;
// and a lease whose lane has judged its failures ends as one whose machine judges.
func TestStateGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		cfg.StartDelay = rapid.SampledFrom([]time.Duration{0, 2 * time.Second}).Draw(t, "start_delay")
		cfg.ErrorCollection = rapid.SampledFrom([]ErrorCollection{{}, {When: Batched, Size: 3}}).Draw(t, "collection")
		n := rapid.IntRange(0, 25).Draw(t, "n")
		a, errA := New(cfg, n)
		b, errB := New(cfg, n)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		now := time.Unix(1_000_000, 0)
		var open []Lease
		for range 120 {
			if rapid.IntRange(0, 3).Draw(t, "put down") == 0 {
				b = putDown(t, cfg, b)
				if x, y := stateText(t, a), stateText(t, b); x != y {
					t.Fatalf("%s\n%s", x, y)
				}
				for _, l := range open {
					if got := b.Leased(l.ID); !reflect.DeepEqual(got, l.Items) {
						t.Fatalf("%+v\n%+v", got, l.Items)
					}
				}
			}
			d := a.Next(now)
			if d != b.Next(now) {
				t.Fatalf("%+v\n%+v", d, b.Next(now))
			}
			switch {
			case d.Kind == Finished:
				return
			case d.Kind == Start && rapid.Bool().Draw(t, "start"):
				most := rapid.IntRange(1, 4).Draw(t, "most")
				la, ca, da := a.Reserve(most, now)
				lb, cb, db := b.Reserve(most, now)
				if !reflect.DeepEqual(la, lb) || !reflect.DeepEqual(ca, cb) || da != db {
					t.Fatalf("%+v %+v\n%+v %+v", la, da, lb, db)
				}
				if len(la.Items) > 0 {
					open = append(open, la)
				}
			case len(open) > 0 && rapid.IntRange(0, 5).Draw(t, "keep") == 0:
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				first := rapid.IntRange(1, len(open[i].Items)).Draw(t, "first")
				open[i].Items = open[i].Items[:first]
				if err := errors.Join(a.Keep(open[i].ID, first, now), b.Keep(open[i].ID, first, now)); err != nil {
					t.Fatal(err)
				}
			case len(open) > 0 && rapid.Bool().Draw(t, "settle"):
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				l := open[i]
				open = append(open[:i], open[i+1:]...)
				plain, judged := endsOf(t, a, l, now)
				lost := rapid.IntRange(0, 4).Draw(t, "lost") == 0
				va, errA := a.settle(l.ID, plain, now, lost)
				vb, errB := b.settle(l.ID, judged, now, lost)
				if errA != nil || errB != nil || !reflect.DeepEqual(va, vb) {
					t.Fatalf("%v %v\n%+v\n%+v", errA, errB, va, vb)
				}
			default:
				now = now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute}).Draw(t, "step"))
			}
		}
	})
}

func putDown(t *rapid.T, cfg Config, m *Machine) *Machine {
	var s State
	if err := json.Unmarshal([]byte(stateText(t, m)), &s); err != nil {
		t.Fatal(err)
	}
	again, err := FromState(cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func stateText(t *rapid.T, m *Machine) string {
	text, err := json.Marshal(m.State())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// endsOf draws how the agents of a lease ended: as they are, and with what the
// lane says of the failed ones.
func endsOf(t *rapid.T, m *Machine, l Lease, now time.Time) (plain, judged []End) {
	for _, it := range l.Items[:rapid.IntRange(0, len(l.Items)).Draw(t, "ended")] {
		o := Outcome{OK: rapid.IntRange(0, 2).Draw(t, "ok") > 0}
		if !o.OK {
			o.Err = errors.New("no")
			o.Cancelled = rapid.IntRange(0, 5).Draw(t, "cancelled") == 0
			o.RateLimited = rapid.IntRange(0, 9).Draw(t, "limited") == 0
		}
		plain = append(plain, End{it.Item, o})
		// A lane says of an item's first attempt when it began by its own clock.
		r := m.running[it.Item]
		st := r.state()
		it.Retry = &st
		_, o.Judged = m.Judge(it, o, now)
		judged = append(judged, End{it.Item, o})
	}
	return plain, judged
}

// TestStateFromOutside: what cannot be a machine is refused.
func TestStateFromOutside(t *testing.T) {
	m := machine(t, Config{MaxParallel: 2}, 5)
	if _, _, d := m.Reserve(2, t0); d.Kind != Start {
		t.Fatal(d)
	}
	for name, spoil := range map[string]func(*State){
		"counts":        func(s *State) { s.Counts.Pending++ },
		"a negative":    func(s *State) { s.Counts.Pending, s.Counts.Succeeded = -1, 4 },
		"cut short":     func(s *State) { s.Running[0].Record = s.Running[0].Record[:9] },
		"an item twice": func(s *State) { s.Running = append(s.Running, s.Running[0]) },
		"two leases":    func(s *State) { s.Leases = append(s.Leases, s.Leases[0]) },
		"another item":  func(s *State) { s.Leases[0].Spans = [][2]int{{5, 1}} },
		"not so many":   func(s *State) { s.Leases[0].Spans = [][2]int{{1, 1 << 60}} },
		"none":          func(s *State) { s.Leases[0].Spans = [][2]int{{1, 0}} },
		"fewer":         func(s *State) { s.Leases[0].Spans = [][2]int{{1, 1}} },
		"waiting":       func(s *State) { s.Waiting = make([]byte, 7) },
		"too many":      func(s *State) { s.Total = 1 },
	} {
		s := m.State()
		spoil(&s)
		if _, err := FromState(Config{MaxParallel: 2}, s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestStateIsSmall: what an item that waits takes of a state's JSON, of which
// 50,000 have to fit into a message.
func TestStateIsSmall(t *testing.T) {
	const n = 5_000
	m := machine(t, Config{MaxParallel: n, Retry: fixed(3, time.Hour)}, n)
	l, _, _ := m.Reserve(n, t0)
	if text, err := json.Marshal(m.State()); err != nil || len(text) > 1000 {
		t.Fatalf("a lease of items that begin: %d bytes, %v", len(text), err)
	}
	ends := make([]End, n)
	for i := range ends {
		ends[i] = End{i + 1, fails(errBoom)}
	}
	if _, err := m.Settle(l.ID, ends, t0); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(m.State())
	if err != nil || len(text) > 80*n {
		t.Fatal(len(text), err)
	}
	t.Logf("%d items that wait: %d bytes of JSON", n, len(text))
}
