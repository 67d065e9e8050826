package web

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestAPageIsMadeOnce for all who ask for it while the run is in one state; another state,
// another address, and an error are nobody else's.
func TestAPageIsMadeOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	j, err := s.store.Create(journal.Header{Name: "n", Kind: "workflow"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	add := func() {
		if err := errors.Join(j.Append(event.Event{Type: event.Note, Message: "x"}), j.Sync(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	add()
	var made atomic.Int32
	hold := make(chan struct{})
	fails := false
	p := &pages{Server: s.Server}
	f := p.share(func(w http.ResponseWriter, _ *http.Request, _ *run) error {
		made.Add(1)
		<-hold
		if fails {
			return errors.New("no page")
		}
		w.Header().Set("Content-Type", "text/x-made")
		w.WriteHeader(http.StatusAccepted)
		_, err := w.Write([]byte("made"))
		return err
	})
	ask := func(address string) (*httptest.ResponseRecorder, error) {
		w := httptest.NewRecorder()
		err := p.runs.with(j.Run(), func(run *run) error {
			return f(w, httptest.NewRequest(http.MethodGet, address, nil), run)
		})
		return w, err
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			w, err := ask("/a")
			if err != nil || w.Code != http.StatusAccepted || w.Body.String() != "made" || w.Header().Get("Content-Type") != "text/x-made" {
				t.Errorf("status %d, %q, %v", w.Code, w.Body, err)
			}
		})
	}
	close(hold)
	all.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("it was made %d times", n)
	}
	for address, want := range map[string]int32{"/b": 2} {
		if _, err := ask(address); err != nil || made.Load() != want {
			t.Errorf("%s: made %d times in all, want %d (%v)", address, made.Load(), want, err)
		}
	}
	run, err := p.runs.take(j.Run())
	if err != nil {
		t.Fatal(err)
	}
	defer p.runs.give(run)
	was := run.position()
	add()
	for run.position() == was { // what is known may be a moment old
		if err := run.look(t.Context(), func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ask("/a"); err != nil || made.Load() != 3 {
		t.Errorf("after an event: made %d times in all, want 3 (%v)", made.Load(), err)
	}
	fails = true
	for want := int32(4); want < 6; want++ {
		if _, err := ask("/c"); err == nil || made.Load() != want {
			t.Errorf("what fails: made %d times in all, want %d (%v)", made.Load(), want, err)
		}
	}
}
