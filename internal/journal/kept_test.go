package journal

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// What a run that is over comes to is read from the file that is kept, as long as its
// journal is the one that it was made from; it is never otherwise than what the events
// come to.
func TestKeptSummary(t *testing.T) {
	s := newStore(t)
	j, err := s.Create(header())
	if err != nil {
		t.Fatal(err)
	}
	dir := j.Dir()
	db, keptFile := filepath.Join(dir, dbName), filepath.Join(dir, keptList)
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	add(t, j, event.Event{Type: event.RunStarted, Time: at},
		event.Event{Type: event.StepStarted, Step: "commands[0]", Attempt: 1, Time: at}, event.Event{Type: event.StepFinished, Step: "commands[0]", Status: event.Succeeded, Time: at},
		event.Event{Type: event.Note, Class: event.Unmerged, Label: "bide worktree merge x", Message: "work is left; merge it with: bide worktree merge x", Time: at},
		event.Event{Type: event.RunFinished, Status: event.CompletedWithFailures, Time: at.Add(time.Second), DurationMS: 900})

	listed := func() Summary {
		t.Helper()
		for sum, err := range s.Runs(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			return sum
		}
		t.Fatal("no run is listed")
		return Summary{}
	}
	folded := func() Summary {
		t.Helper()
		r, err := s.Read("")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		sum, err := r.Summary(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	same := func(when string, got, want Summary) {
		t.Helper()
		if !got.Started.Equal(want.Started) || !got.Finished.Equal(want.Finished) {
			t.Errorf("%s: the times are %v and %v, want %v and %v", when, got.Started, got.Finished, want.Started, want.Finished)
		}
		got.Started, got.Finished = want.Started, want.Finished
		if got.Status == event.Running {
			got.Took = want.Took // it continues
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	isKept := func() bool { _, err := os.Stat(keptFile); return err == nil }
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	same("while a process has it", listed(), folded())
	if isKept() {
		t.Fatal("the summary of a run is kept that a process has")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	want := folded()
	if !reflect.DeepEqual(want.Left, Left{What: "work is left", Command: "bide worktree merge x"}) || want.Steps.Succeeded != 1 {
		t.Fatalf("%+v", want)
	}
	same("just over", listed(), want)
	if !isKept() {
		t.Fatal("it is not kept")
	}

	// The journal is not read: it may be anything of the same size and time.
	whole, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(db)
	if err != nil {
		t.Fatal(err)
	}
	put := func(path string, text []byte, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	put(db, bytes.Repeat([]byte{7}, len(whole)), info.ModTime())
	same("kept", listed(), want)
	put(db, whole, info.ModTime())

	// A file that is damaged, or another program's, does not count.
	file, err := os.ReadFile(keptFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, sha256.Size, len(file) / 2, len(file) - 1} {
		bad := bytes.Clone(file)
		bad[at]++
		put(keptFile, bad, info.ModTime())
		if _, ok := keptIn(dir); ok {
			t.Errorf("a file with another byte at %d counts", at)
		}
		put(keptFile, bad[:at], info.ModTime())
		if _, ok := keptIn(dir); ok {
			t.Errorf("a file of %d bytes counts", at)
		}
	}
	put(keptFile, bytes.Repeat(file, 1), info.ModTime())
	same("whole again", listed(), want)

	// The next life.
	if j, err = s.Open(""); err != nil {
		t.Fatal(err)
	}
	if _, ok := keptIn(dir); ok {
		t.Error("it counts while a process has the run")
	}
	add(t, j, event.Event{Type: event.RunResumed, Time: at.Add(time.Hour)})
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	same("resumed", listed(), folded())
	if listed().Status != event.Running {
		t.Error("it is not running")
	}
	add(t, j, event.Event{Type: event.RunFinished, Status: event.Succeeded, Time: at.Add(2 * time.Hour), DurationMS: 900})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	same("over again", listed(), folded())
	same("kept again", listed(), folded())
	if got := listed(); got.Status != event.Succeeded || !reflect.DeepEqual(got.Left, Left{}) {
		t.Errorf("%+v", got)
	}

	// A life that leaves size and time of the journal as they were: what is kept of the one
	// before does not count.
	if info, err = os.Stat(db); err != nil {
		t.Fatal(err)
	}
	if j, err = s.Open(""); err != nil {
		t.Fatal(err)
	}
	add(t, j, event.Event{Type: event.RunResumed, Time: at.Add(3 * time.Hour)}, event.Event{Type: event.RunFinished, Status: event.Failed, Time: at.Add(4 * time.Hour), DurationMS: 900})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(db); err != nil || after.Size() != info.Size() {
		t.Fatalf("the journal has another size: %v, %v", after, err)
	}
	if err := os.Chtimes(db, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got := listed(); got.Status != event.Failed {
		t.Errorf("the list has what the life before came to: %+v", got)
	}
}

// What an interrupted run comes to is kept as well: nothing changes of it before a process
// takes it.
func TestKeptSummaryOfAnInterruptedRun(t *testing.T) {
	s := newStore(t)
	j, err := s.Create(header())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	add(t, j, event.Event{Type: event.RunStarted, Time: at}, event.Event{Type: event.StepStarted, Step: "commands[0]", Attempt: 1, Time: at.Add(time.Second)})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	var lists [2]Summary
	for i := range lists {
		for sum, err := range s.Runs(t.Context()) {
			if lists[i] = sum; err != nil {
				t.Fatal(err)
			}
		}
		if kept, ok := keptIn(j.Dir()); !ok || kept.Status != event.Interrupted {
			t.Errorf("%v is kept: %+v", ok, kept)
		}
	}
	if a, b := lists[0], lists[1]; a.Status != event.Interrupted || a.Took != time.Second || !a.Started.Equal(b.Started) || a.Took != b.Took || a.Steps != b.Steps {
		t.Errorf("the lists have %+v and %+v", a, b)
	}
}
