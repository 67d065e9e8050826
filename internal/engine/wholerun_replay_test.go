package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/simulate"
)

// hardToReplay are seeds of runs whose replay once differed: a step that its handler begins
// again draws random values; a life is interrupted at the moment in which something ends; a
// rate limit rejects agents in the middle of an attempt; a process died after a breaker had
// counted an attempt that was not recorded yet. In the next four, items are interrupted
// after a step that follows another one had begun. In six, several things happen at one
// moment, and the order matters; in one of these, the last item has the map stop after the
// run was interrupted. In the last two, a run was killed when it had just been asked to
// continue, and the handler of a step began where its breaker was open.
var hardToReplay = []int{2783, 2949, 4948, 6494, 10470, 4271, 4925, 6142, 13016, 2577, 4185, 10041, 14441, 15796, 13388, 57531, 98101}

// TestWholeRunsReplayed: whole runs that were killed, interrupted and continued are
// replayed from their records, and all decisions are the same.
func TestWholeRunsReplayed(t *testing.T) {
	t.Parallel()
	first, n := fromEnv(t, "BIDE_WHOLE_FROM", 0), fromEnv(t, "BIDE_WHOLE_RUNS", seedsAlways())
	var next, failed, decisions, same, lives atomic.Int64
	one := func(seed int) {
		p := newPlan(uint64(seed))
		if seed%3 == 0 {
			p.Asks = asksOf(uint64(seed))
		}
		if seed%4 == 1 {
			p.newer(uint64(seed))
		}
		r, err := runPlan(p, nil)
		var got *simulate.Replayed
		if err == nil {
			got, err = r.replay()
		}
		if err != nil {
			failed.Add(1)
			t.Errorf("seed %d: %v", seed, err)
			return
		}
		lives.Add(int64(len(r.lives)))
		decisions.Add(int64(got.Decisions))
		same.Add(int64(got.Same))
		if len(got.Different) > 0 && len(got.Lacks) == 0 {
			failed.Add(1)
			t.Errorf("seed %d: %d of %d decisions are the same:\n\t%s", seed, got.Same, got.Decisions, strings.Join(got.Different, "\n\t"))
		}
	}
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() < 5; i = int(next.Add(1)) - 1 {
				one(first + i)
			}
		})
	}
	for i, seed := range hardToReplay {
		if !raceEnabled || i%5 == 0 {
			one(seed)
		}
	}
	all.Wait()
	t.Logf("%d of %d decisions of %d runs with %d lives are the same", same.Load(), decisions.Load(), n, lives.Load())
}

// asksOf gives the requests of another process: a pause that ends, another number of items
// at once, an end of all waits.
func asksOf(seed uint64) (list []planAsk) {
	random := rand.New(rand.NewPCG(seed, 27))
	at := 1 + random.IntN(3000)
	list = append(list, planAsk{AfterMS: at, Do: journal.Pause}, planAsk{AfterMS: at + 1 + random.IntN(60_000), Do: journal.Continue})
	if random.IntN(2) == 0 {
		list = append(list, planAsk{AfterMS: random.IntN(5000), Do: journal.Parallel, Parallel: 1 + random.IntN(4)})
	}
	return append(list, planAsk{AfterMS: random.IntN(90_000), Do: journal.RetryNow})
}

// newer adds keys to a plan that the oracle of whole runs does not know: a width that is
// found out, canaries, holds, chains of agents, limits of the machine.
func (p *plan) newer(seed uint64) {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 28))}
	one := m.one
	if p.Items > 0 {
		if p.Items = max(p.Items, m.IntN(20)); one(2) {
			p.Width = []string{`"auto"`, `{"min": 1, "max": 6}`, `{"min": 2, "max": 3}`}[m.IntN(3)]
		}
		if one(3) {
			p.Canary = 1 + m.IntN(3)
		}
		if p.OnItem != "custom" && one(2) {
			p.SameError = fmt.Sprintf(`{"count": %d, "share": 0.5, "probe": {"initial_delay": "%dms"}, "close": %d, "max_hold": "%ds"}`, 2+m.IntN(2), 1+m.IntN(3000), 1+m.IntN(2), 10+m.IntN(200))
		}
	}
	p.Chain, p.Limited, p.Uneven = one(2), one(2), true
	p.every(func(s *planStep) {
		switch {
		case s.Kind == "" && !s.Sets && p.Chain && one(3):
			s.Kind, s.USD = "agent", float64(m.IntN(3))/4
			fallthrough
		case s.Kind == "agent" && p.Chain && one(2):
			s.Fail = planFail{Class: []string{"rate_limit", "network"}[m.IntN(2)], Times: 1 + m.IntN(4), Mod: m.IntN(3)}
		case s.Kind == "" && p.SameError != "" && s.Fail.Class == "" && one(2):
			s.Fail = planFail{Class: "exit", Times: 1 + m.IntN(2)}
		}
	})
}

// record gives the record of a whole run: what each of its lives has left to the next, with
// the beginnings that the lives of a process have.
func (r *wholeRun) record() (h journal.Header, items []event.Item, events []event.Event) {
	h = journal.Header{Name: "whole", Path: r.file.Path, Kind: r.file.Kind.String(), Source: r.plan.file(), Options: json.RawMessage(`{}`), Started: r.began,
		Others: map[string][]byte{"/plan/sub.yml": r.plan.subFile()}}
	for i, l := range r.lives {
		facts := l.leave()
		if i+1 < len(r.lives) {
			facts = r.lives[i+1].journal[:r.lives[i+1].base]
		}
		if len(facts) >= len(events) {
			events = facts
		}
	}
	return h, items, slices.Clone(events)
}

// replay replays a whole run from its record.
func (r *wholeRun) replay() (*simulate.Replayed, error) {
	h, _, events := r.record()
	rec, err := simulate.Record(context.Background(), recordedRun{h, events, r.items(nil)})
	if err != nil {
		return nil, err
	}
	got, err := rec.Replay(context.Background(), simulate.Program{File: r.file}, 1)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return got, nil
}

// recordedRun is a record in memory.
type recordedRun struct {
	header journal.Header
	events []event.Event
	items  func(func() ([]event.Item, error)) ([]event.Item, error)
}

func (r recordedRun) Run() string            { return "virtual" }
func (r recordedRun) Header() journal.Header { return r.header }

func (r recordedRun) Events(context.Context, int64, journal.EventFilter) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, e := range r.events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Items gives none: the replay reads the items of the file.
func (r recordedRun) Items(context.Context, int, int) ([]event.Item, error) { return nil, nil }
