package local

import (
	"errors"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
)

// TestWatchersAreToldWhatIsKept: a fact that could not be recorded is told to nobody.
func TestWatchersAreToldWhatIsKept(t *testing.T) {
	t.Parallel()
	store, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Create(journal.Header{Name: "told"})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	refused := errors.New("no room")
	var kept error
	r := &Recorder{Journal: j, Masks: func() *mask.Masker { return nil }, Kept: func([]event.Event) error { return kept },
		Sinks: []event.Sink{event.SinkFunc(func(e event.Event) { told = append(told, e.Message) })}}
	if err := r.Record(event.Event{Type: event.Note, Message: "first"}); err != nil {
		t.Fatal(err)
	}
	kept = refused
	if err := r.Record(event.Event{Type: event.Note, Message: "refused"}); !errors.Is(err, refused) {
		t.Errorf("Record gives %v", err)
	}
	kept = nil
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Record(event.Event{Type: event.Note, Message: "after the end"}); err == nil {
		t.Error("a journal that is closed takes a fact")
	}
	if len(told) != 1 || told[0] != "first" {
		t.Errorf("told of %q, want the first alone", told)
	}
}
