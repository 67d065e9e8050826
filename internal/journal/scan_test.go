package journal

import (
	"context"
	"fmt"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// TestScanGoesOn reads a journal in two goes while a word is added in between:
// each event is given once, in order.
func TestScanGoesOn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, err := OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Create(Header{Name: "n", Kind: "workflow"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	r, err := s.Read(j.Run())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	next := int64(1)
	for round := range 3 {
		for i := range 5 {
			e := event.Event{Type: event.StepStarted, Step: fmt.Sprintf("step-%d-%d", round, i), Index: i}
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		last, err := r.Scan(ctx, next, func(f *Fact) error {
			e, err := f.Event()
			if err != nil {
				return err
			}
			if e.Seq != f.Seq() || e.Type != f.Type() || e.Index != f.Index() || !e.Time.Equal(f.Time()) {
				t.Errorf("the fact of event %+v differs from it", e)
			}
			got = append(got, e.Step)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(5 * (round + 1)); last != want {
			t.Fatalf("round %d ended at event %d, want %d", round, last, want)
		}
		next = last + 1
	}
	for i, step := range got {
		if want := fmt.Sprintf("step-%d-%d", i/5, i%5); step != want {
			t.Errorf("event %d is of %q, want %q", i+1, step, want)
		}
	}
	if len(got) != 15 {
		t.Errorf("%d events were given, want 15", len(got))
	}
}
