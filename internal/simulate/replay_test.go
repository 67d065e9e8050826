package simulate

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
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
