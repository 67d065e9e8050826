package simulate

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
)

// TestReplayOfAResumedRun: a run whose process was killed in the middle of an attempt
// and that was resumed an hour later is replayed as one that went through.
func TestReplayOfAResumedRun(t *testing.T) {
	t.Parallel()
	store, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Create(journal.Header{Name: "w", Path: "w.yml", Kind: "workflow", Options: json.RawMessage(`{}`),
		Source: []byte("commands:\n  - {shell: a, retry: {attempts: 3, initial_delay: 1s, backoff: fixed}}\n  - {shell: b}\n")})
	if err != nil {
		t.Fatal(err)
	}
	at := began
	add := func(after time.Duration, e event.Event) {
		at = at.Add(after)
		e.Time = at
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	const a, b = "commands[0]", "commands[1]"
	add(0, event.Event{Type: event.RunStarted})
	add(0, event.Event{Type: event.StepStarted, Step: a})
	add(0, event.Event{Type: event.AttemptStarted, Step: a, Attempt: 1})
	add(2*time.Second, event.Event{Type: event.AttemptFailed, Step: a, Attempt: 1, Class: "exit", Data: json.RawMessage(`{"failure":{"exit":1}}`)})
	add(0, event.Event{Type: event.RetryScheduled, Step: a, Attempt: 1, DelayMS: 1000})
	add(time.Second, event.Event{Type: event.AttemptStarted, Step: a, Attempt: 2})
	add(time.Hour, event.Event{Type: event.RunResumed})
	add(0, event.Event{Type: event.AttemptStarted, Step: a, Attempt: 2})
	add(2*time.Second, event.Event{Type: event.AttemptFinished, Step: a, Attempt: 2})
	add(0, event.Event{Type: event.StepFinished, Step: a, Status: event.Succeeded, Attempts: 2})
	add(0, event.Event{Type: event.StepStarted, Step: b})
	add(0, event.Event{Type: event.AttemptStarted, Step: b, Attempt: 1})
	add(time.Second, event.Event{Type: event.AttemptFinished, Step: b, Attempt: 1})
	add(0, event.Event{Type: event.StepFinished, Step: b, Status: event.Succeeded, Attempts: 1})
	add(0, event.Event{Type: event.RunFinished, Status: event.Succeeded})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := store.Read(j.Run())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rec, err := Record(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rec.Program(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := rec.Replay(t.Context(), p, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got.Same != got.Decisions || got.Decisions != 5 || got.Beyond != 0 || got.Status != event.Succeeded || got.Makespan != rec.Took || rec.Took != 6*time.Second {
		t.Errorf("recorded %v; replayed %s in %v, %d of %d decisions, %d beyond, %q", rec.Took, got.Status, got.Makespan, got.Same, got.Decisions, got.Beyond, got.Different)
	}
}

// lateClock ends waits a moment after they are due, as machines do.
type lateClock struct {
	*virtual.Clock
	luck luck
}

func (c *lateClock) Wait(ctx context.Context, d time.Duration, ready <-chan struct{}) error {
	if d > 0 {
		d += time.Duration(c.luck.unit() * float64(3*time.Millisecond))
	}
	return c.Clock.Wait(ctx, d, ready)
}

func late(c *virtual.Clock, l luck) step.Clock { return &lateClock{c, l} }

// TestReplayOfABreaker: what a breaker of a map lets through depends on when workers ask,
// and where they ask late, items start no sooner in a replay than they did.
func TestReplayOfABreaker(t *testing.T) {
	t.Parallel()
	runs := 60
	if long {
		runs = 1000
	}
	f := parsed(t, "w.yml", "error_policy: {on_item_failure: retry, circuit_breaker: {failure_threshold: 2, timeout: 10ms}, retry_config: {attempts: 4, initial_delay: 4ms, jitter: full}}\n"+
		"map: {input: [1], max_parallel: 6, agent_template: [{shell: 'x ${item}', retry: {attempts: 2, initial_delay: 2ms, jitter: full}}]}")
	in := exactly(modelOf(t, "steps: {'*': {failures: {exit: 0.45}, latency: {uniform: [1ms, 12ms]}}}"))
	same, all := 0, 0
	for seed := range uint64(runs) {
		rec := madeRunOn(t, Options{File: f, Model: in, clock: late}, 24, seed)
		got, err := rec.Replay(t.Context(), Program{File: f}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if same, all = same+got.Same, all+got.Decisions; len(got.Different) > 0 {
			t.Errorf("seed %d: %d of %d decisions: %q, %q", seed, got.Same, got.Decisions, got.Different, got.Lacks)
		}
	}
	figure(t, "replay of maps with a breaker: decisions that are the same", float64(same), float64(all), float64(all))
}
