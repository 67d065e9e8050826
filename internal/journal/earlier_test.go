package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// TestUnchangedIsRead: a word that is none of the vocabulary is met by a reader that
// was opened before there was such a word, by a fold and by results.
func TestUnchangedIsRead(t *testing.T) {
	s := newStore(t)
	j := newJournal(t, s)
	if _, _, err := j.PutItems(t.Context(), list(4)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Read(j.Run())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	add(t, j,
		event.Event{Type: event.RunStarted},
		event.Event{Type: event.ItemFinished, Index: 1, Status: event.Unchanged, Message: "unchanged since run X", Data: []byte(`{"print":"p","output":"one"}`)},
		event.Event{Type: event.ItemsCompared, Total: 1},
		event.Event{Type: event.ItemStarted, Index: 2, Attempt: 1},
		event.Event{Type: event.ItemFinished, Index: 2, Status: event.Succeeded, Attempts: 1},
		event.Event{Type: event.ItemStarted, Index: 3, Attempt: 1})
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := r.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := st.Items.Counts(); got != (Counts{Total: 4, Unchanged: 1, Succeeded: 1, Pending: 2, Running: 1}) || !st.Compared || st.Items.At(1).Status != ItemUnchanged {
		t.Errorf("the counts are %+v, compared %t", got, st.Compared)
	}
	again, err := s.Read(j.Run())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	var got []string
	for res, err := range again.Results(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(res.Index, " ", res.Status))
	}
	if want := []string{"1 unchanged", "2 succeeded"}; !slices.Equal(got, want) {
		t.Errorf("the results are %q, want %q", got, want)
	}
	got = nil
	if err := again.Lasts(t.Context(), func(index int, seq int64, status ItemStatus, data string) error {
		got = append(got, fmt.Sprint(index, " ", seq, " ", status, " ", data))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{`1 2 unchanged {"print":"p","output":"one"}`, "2 5 succeeded ", "3 6 pending "}; !slices.Equal(got, want) {
		t.Errorf("the last events are %q, want %q", got, want)
	}
}

// TestEarlier orders runs by when they were written to, and tells of those that
// cannot be read.
func TestEarlier(t *testing.T) {
	s := newStore(t)
	var ids []string
	for i := range 4 {
		j, err := s.Create(Header{Name: "flow", Dir: fmt.Sprint(i / 3)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.Run())
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	at := func(id string, minute int) {
		for _, name := range []string{dbName, dbName + walSuffix} {
			when := time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)
			if err := os.Chtimes(filepath.Join(s.RunDir(id), name), when, when); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	for i, minute := range []int{3, 1, 2, 4} {
		at(ids[i], minute)
	}
	find := func(but string, most int) (found, lost []string) {
		found, err := s.Earlier(but, most, func(h Header) bool { return h.Dir == "0" }, func(run string, _ error) { lost = append(lost, run) })
		if err != nil {
			t.Fatal(err)
		}
		return found, lost
	}
	if got, _ := find("", 9); !slices.Equal(got, []string{ids[0], ids[2], ids[1]}) {
		t.Errorf("the runs are %q of %q", got, ids)
	}
	if got, _ := find(ids[0], 1); !slices.Equal(got, []string{ids[2]}) {
		t.Errorf("the runs but for the first are %q", got)
	}
	if err := os.WriteFile(filepath.Join(s.RunDir(ids[2]), dbName), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, lost := find("", 9); len(got) != 2 || !slices.Equal(lost, []string{ids[2]}) {
		t.Errorf("the runs are %q, and %q cannot be read", got, lost)
	}
}
