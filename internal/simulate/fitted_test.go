package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
)

// What is fitted to one run, beside the model that has made the run: the truth, which
// no real server tells.

// made is the record of a simulated run.
type made struct {
	file   *workflow.File
	events []event.Event
	items  []event.Item
}

func (m made) Run() string { return "made" }

func (m made) Header() journal.Header {
	return journal.Header{Name: "made", Path: m.file.Path, Kind: m.file.Kind.String(), Source: m.file.Source, Options: json.RawMessage(`{}`)}
}

func (m made) Events(context.Context, int64, journal.EventFilter) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, e := range m.events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m made) Items(_ context.Context, from, limit int) ([]event.Item, error) {
	from = min(from-1, len(m.items))
	return m.items[from:min(from+limit, len(m.items))], nil
}

// madeRun is the recording of a run of a file in a world.
func madeRun(t testing.TB, f *workflow.File, world *Model, items int, seed uint64) *Recording {
	t.Helper()
	return madeRunOn(t, Options{File: f, Model: world}, items, seed)
}

// madeRunOn is one with options of its own.
func madeRunOn(t testing.TB, o Options, items int, seed uint64) *Recording {
	t.Helper()
	m := made{file: o.File, items: Items(items)}
	o.Seeds, o.First, o.Items, o.data = 1, seed, m.items, true
	o.Facts = func(_ int, e event.Event) { m.events = append(m.events, e) }
	samples(t, o)
	rec, err := Record(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// truth is what runs of a file are like in a world.
func truth(t testing.TB, f *workflow.File, world *Model, items int) *Report {
	return Summarize(samples(t, Options{File: f, Model: world, Seeds: 100, First: 1000, Items: Items(items)}), false)
}

// predicted is what a recording says of a file.
func predicted(t testing.TB, rec *Recording, f *workflow.File) *Report {
	t.Helper()
	says, err := rec.Simulate(t.Context(), Program{File: f}, 50)
	if err != nil {
		t.Fatal(err)
	}
	return says
}

func mapped(t testing.TB, parallel int, policy string) *workflow.File {
	t.Helper()
	return parsed(t, "w.yml", fmt.Sprintf("map:\n  input: [1]\n  max_parallel: %d\n  agent_template: [{shell: 'x ${item}', retry: {%s}}]\n", parallel, policy))
}

// TestForesightFittedWidth: how long attempts take at a number at once that a run has not shown
// nobody knows, unless they are those of a queue. The first sentence says so, and the answer
// is as wide as that makes it, whether the number goes up or down.
func TestForesightFittedWidth(t *testing.T) {
	t.Parallel()
	withoutDetector(t)
	shared := func(l luck) func(int, int, time.Duration, int) (string, time.Duration) {
		return func(item, _ int, _ time.Duration, busy int) (string, time.Duration) {
			one := l.with(uint64(item))
			return "", time.Duration((20 + 60*one.unit()) * max(1, float64(busy)/4) * float64(time.Millisecond))
		}
	}
	const once = "attempts: 1"
	for _, s := range []server{
		{name: "queue", model: "steps: {'*': {latency: {queue: {capacity: 4, service: 50ms}}}}"},
		{name: "free", model: "steps: {'*': {latency: {uniform: [20ms, 80ms]}}}"},
		{name: "shared", own: shared},
	} {
		rec := s.recording(t, policyAt{8, once}, s.world(t), 300, 1)
		if same := predicted(t, rec, mapped(t, 8, once)); len(same.Assumed) > 0 {
			t.Errorf("%s: nothing changes, and it assumes %q", s.name, same.Assumed)
		}
		for _, width := range []int{4, 16} {
			says := predicted(t, rec, mapped(t, width, once))
			real := Summarize(s.truth(t, policyAt{width, once}, s.world(t), 300, 100), false).Makespan.P50
			if float64(real) < 0.9*float64(says.Makespan.P5) || float64(real) > 1.1*float64(says.Makespan.P95) {
				t.Errorf("%s, from 8 to %d at once: it takes %s, and %s to %s are said", s.name, width, Span(real), Span(says.Makespan.P5), Span(says.Makespan.P95))
			}
			want := fmt.Sprintf("assuming that attempts take about as long with %d items at once as with 8, which a run with max_parallel %d would tell", width, width)
			if got := says.Sentence(); strings.HasPrefix(got, want) == (s.name == "queue") {
				t.Errorf("%s, from 8 to %d: %s", s.name, width, got)
			}
		}
		want := "more would make them longer, or fewer shorter"
		if s.name == "queue" {
			want = "those of a queue that serves 4 of them, each in about 48ms"
		}
		if text := strings.Join(rec.Warnings(), "\n"); !strings.Contains(text, want) {
			t.Errorf("%s: %s", s.name, text)
		}
	}
}

// TestForesightFittedOutage: an outage ended after the last attempt that it failed, and before the
// first one that it did not, at a time that nobody knows: so it does not end later than
// it did, which would make each run longer.
func TestForesightFittedOutage(t *testing.T) {
	t.Parallel()
	withoutDetector(t)
	world := exactly(modelOf(t, "steps: {'*': {latency: {uniform: [20ms, 80ms]}, outages: [{from: 1s, for: 30s, class: network}]}}"))
	f, other := mapped(t, 3, "attempts: 12, initial_delay: 6s, backoff: fixed, jitter: equal"), mapped(t, 3, "attempts: 99, initial_delay: 500ms, backoff: fixed")
	off, inside, is := 0.0, 0, truth(t, other, world, 100)
	const runs = 20
	for seed := range uint64(runs) {
		rec := madeRun(t, f, world, 100, seed)
		says := predicted(t, rec, other)
		off += float64(says.Makespan.P50)/float64(is.Makespan.P50) - 1
		const untold = "as it was (one run does not tell how often it is down, or for how long; more runs would), and "
		if text := says.Sentence(); !strings.HasPrefix(text, "assuming that x ${item} is down again at ") || !strings.Contains(text, untold) {
			t.Errorf("what one run does not tell of outages is not in %q", text)
		}
		if says.Makespan.P5 <= is.Makespan.P50 && is.Makespan.P50 <= says.Makespan.P95 {
			inside++
		}
	}
	figure(t, "an outage is fitted: the median is off by, in the mean", off/runs, -0.03, 0.03)
	figure(t, "an outage is fitted: real medians inside the 90 % band", float64(inside), 17, runs)
}

// TestForesightFittedRandom: outages come at random, and a run has met some of them. Whether
// these were one, two or more, most other runs make as many attempts as were predicted.
func TestForesightFittedRandom(t *testing.T) {
	t.Parallel()
	withoutDetector(t)
	world := exactly(modelOf(t, "steps: {'*': {latency: {uniform: [40ms, 160ms]}, outages: [{mean_up: 3s, mean_down: 600ms}]}}"))
	const items, runs = 600, 100
	f := mapped(t, 6, patient[0].retry)
	seeds := uint64(6)
	if long {
		seeds = 24
	}
	real := samples(t, Options{File: f, Model: world, Seeds: runs, First: 5000, Items: Items(items)})
	inside := 0
	for seed := range seeds {
		says := predicted(t, madeRun(t, f, world, items, seed), f).Attempts
		for _, r := range real {
			if n := int64(r.Attempts); says.P5 <= n && n <= says.P95 {
				inside++
			}
		}
	}
	figure(t, "outages at random are fitted: attempts of real runs inside the 90 % band, %", 100*float64(inside)/float64(runs*seeds), 80, 97)
}
