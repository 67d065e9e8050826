package cli

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/value"
)

// TestOutputsInOrderFitInMemory: what 8,000 items print while the first one runs, 4 KiB
// each, is given whole and in order, and is not held in memory.
func TestOutputsInOrderFitInMemory(t *testing.T) {
	const n, size = 8_000, 4 << 10
	j := newJobs(nil, jobsShown{Order: true})
	want := func(i int) string { return strings.Repeat(fmt.Sprintf("%05d ", i), size/6) + "\n" }
	next, heap := 1, uint64(0)
	show := func(e event.Event) bool {
		if e.Message != want(next) {
			t.Fatalf("the output of item %d is %.30q", next, e.Message)
		}
		next++
		return true
	}
	end := func(i int) {
		facts := []event.Event{
			{Seq: int64(2 * i), Type: event.StepFinished, Index: i, Data: []byte(value.JSON(map[string]any{"output": want(i)}))},
			{Seq: int64(2*i + 1), Type: event.ItemFinished, Index: i, Status: event.Succeeded, Data: []byte(value.JSON(map[string]any{"output": want(i)}))},
		}
		for _, e := range facts {
			if err := j.take(e, show); err != nil {
				t.Fatal(err)
			}
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	for i := n; i > 1; i-- {
		end(i)
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	if heap = m.HeapAlloc - min(before, m.HeapAlloc); heap > 16<<20 {
		t.Errorf("%d MiB are held in memory for %d MiB of output", heap>>20, n*size>>20)
	}
	end(1)
	if next != n+1 {
		t.Errorf("%d outputs were shown, want %d", next-1, n)
	}
	if _, err := j.rest(show, jobsDone); err != nil {
		t.Error(err)
	}
}

// TestShelfKeepsOrder: the records of an item come in the order of the run, wherever
// they were kept.
func TestShelfKeepsOrder(t *testing.T) {
	s := newShelf()
	s.size = heldInMemory // full
	for seq := range int64(3) {
		if err := s.put(event.Event{Seq: seq, Index: 7, Message: fmt.Sprint(seq)}); err != nil {
			t.Fatal(err)
		}
		s.size = 0
	}
	if got := s.items(); !slices.Equal(got, []int{7}) {
		t.Errorf("it has %v", got)
	}
	list, err := s.take(7)
	if err != nil || len(list) != 3 || len(s.items()) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	for seq, e := range list {
		if e.Seq != int64(seq) || e.Message != fmt.Sprint(seq) {
			t.Errorf("record %d is %+v", seq, e)
		}
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// TestLogOfJobsThatCannotBeWritten: it is told once, nothing is written after what is missing, and
// the batch has not succeeded.
func TestLogOfJobsThatCannotBeWritten(t *testing.T) {
	log, err := os.Open(os.DevNull) // which is not to be written
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	d := &plainDisplay{app: &app{streams: streams{out: io.Discard, err: &said}}, quiet: true, jobs: newJobs(nil, jobsShown{})}
	d.jobs.own, d.jobs.log = true, log
	for i := 1; i < 5; i++ {
		d.Emit(event.Event{Seq: int64(i), Type: event.ItemFinished, Status: event.Succeeded, Index: i})
	}
	d.close(nil)
	if n := strings.Count(said.String(), "the log of jobs ends before item"); n != 1 || !d.jobs.failed() {
		t.Errorf("it is told %d times, and has failed: %v\n%s", n, d.jobs.failed(), said.String())
	}
}
