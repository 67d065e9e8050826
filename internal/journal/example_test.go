package journal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// A run is begun, its process ends in the middle of a step, and another one
// continues with it.
func Example() {
	if err := example(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// commands[0]: succeeded, {"output":"ready"}
	// commands[1]: interrupted, 1 failed attempt, recovered 1 time
}

func example(ctx context.Context) error {
	home, err := os.MkdirTemp("", "bide")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	store, err := journal.OpenStore(home)
	if err != nil {
		return err
	}
	j, err := store.Create(journal.Header{Name: "nightly", Kind: "workflow", Source: []byte("commands: …")})
	if err != nil {
		return err
	}
	for _, e := range []event.Event{
		{Type: event.RunStarted, Label: "nightly"},
		{Type: event.StepStarted, Step: "commands[0]"},
		{Type: event.StepFinished, Step: "commands[0]", Status: event.Succeeded, Attempts: 1, Data: json.RawMessage(`{"output":"ready"}`)},
		{Type: event.StepStarted, Step: "commands[1]"},
		{Type: event.AttemptFailed, Step: "commands[1]", Attempt: 1, Class: "network"},
		{Type: event.RetryScheduled, Step: "commands[1]", Attempt: 1, DelayMS: 2000},
	} {
		if err := j.Append(e); err != nil {
			return err
		}
	}
	if err := j.Close(); err != nil { // with no run_finished: as if it was killed
		return err
	}

	if j, err = store.Open(""); err != nil {
		return err
	}
	state, err := j.State(ctx)
	if err != nil {
		return err
	}
	one, two := state.Steps["commands[0]"], state.Steps["commands[1]"]
	fmt.Printf("commands[0]: %s, %s\n", one.Status, one.Data)
	fmt.Printf("commands[1]: %s, %d failed attempt, recovered %d time\n", two.Status, two.Retry.Failures, two.Recoveries)
	return j.Close()
}
