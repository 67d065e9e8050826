package event

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a sink that takes nothing until it may.
type slow struct {
	may chan struct{}
	mu  sync.Mutex
	got []string
}

func (s *slow) Emit(e Event) {
	<-s.may
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, fmt.Sprint(e.Seq, len(e.Message)))
}

func TestAStuckWatcherHoldsNothingUpAndMissesNothing(t *testing.T) {
	s := &slow{may: make(chan struct{})}
	q := NewQueue(s, t.TempDir())
	q.limit = 64 << 10
	const n = 500
	for i := range n { // many times what is held in memory
		q.Emit(Event{Seq: int64(i), Type: Output, Message: strings.Repeat("x", 4096)})
	}
	if q.end == 0 {
		t.Error("nothing is in the file")
	}
	close(s.may)
	if missed := q.Close(t.Context()); missed != 0 || len(s.got) != n {
		t.Fatalf("%d missed, %d taken", missed, len(s.got))
	}
	for i, got := range s.got {
		if got != fmt.Sprint(i, 4096) {
			t.Fatalf("event %d is %s", i, got)
		}
	}
}

func TestFileIsUsedAgain(t *testing.T) {
	s := &slow{may: make(chan struct{})}
	q := NewQueue(s, t.TempDir())
	q.limit = 64 << 10
	big := Event{Message: strings.Repeat("x", 64<<10)}
	n := 0
	for range 3 {
		for range 4 {
			big.Seq = int64(n)
			q.Emit(big)
			n++
		}
		for range 4 {
			s.may <- struct{}{}
		}
		q.Flush(t.Context())
		if q.end != 0 {
			t.Error("the file is not empty")
		}
	}
	if missed := q.Close(t.Context()); missed != 0 || len(s.got) != n {
		t.Fatalf("%d missed, %d of %d taken: %v", missed, len(s.got), n, s.got)
	}
}

// TestTheFileHasABound: it holds no more than its room, whether the watcher is stuck
// or only slow; what has no room is counted, and what is handed over is in order.
func TestTheFileHasABound(t *testing.T) {
	s := &slow{may: make(chan struct{})}
	q := NewQueue(s, t.TempDir())
	q.limit, q.room = 16<<10, 100_001 // no multiple of a record
	sent := 0
	largest := int64(0)
	emit := func() {
		q.Emit(Event{Seq: int64(sent), Message: strings.Repeat("x", 1000+sent%700)})
		sent++
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.file == nil {
			return
		}
		info, err := q.file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	for range 60 {
		emit()
	}
	for range 1000 { // it takes as fast as more comes, and never has all
		emit()
		s.may <- struct{}{}
	}
	for range 500 { // stuck
		emit()
	}
	if largest > q.room || largest < q.room/2 {
		t.Errorf("the file had %d bytes, its room is %d", largest, q.room)
	}
	close(s.may)
	missed := q.Close(t.Context())
	if missed < 300 || missed > 500 || missed+len(s.got) != sent {
		t.Errorf("%d missed and %d taken of %d", missed, len(s.got), sent)
	}
	last := -1
	for _, got := range s.got {
		var seq, length int
		if _, err := fmt.Sscan(got, &seq, &length); err != nil || seq <= last || length != 1000+seq%700 {
			t.Fatalf("after %d comes %q (%v)", last, got, err)
		}
		last = seq
	}
}

func TestCloseGivesUpAStuckWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{may: make(chan struct{})}
		q := NewQueue(s, "")
		for i := range 100 {
			q.Emit(Event{Seq: int64(i)})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if missed := q.Close(ctx); missed < 100 {
			t.Errorf("%d missed", missed)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("after %s", took)
		}
		close(s.may)
	})
}

func TestUrgentGoesBefore(t *testing.T) {
	s := &slow{may: make(chan struct{})}
	q := NewQueue(s, "")
	for i := range 100 {
		q.Emit(Event{Seq: int64(i)})
	}
	told := make(chan int, 1)
	q.Urgent(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		told <- len(s.got)
	})
	close(s.may)
	if n := <-told; n > 1 { // one was in the sink's hands already
		t.Errorf("told after %d events", n)
	}
	q.Flush(t.Context())
	if len(s.got) != 100 {
		t.Errorf("%d after Flush", len(s.got))
	}
	q.Close(t.Context())
}

func TestWithoutRoomForTheFileEventsAreCounted(t *testing.T) {
	s := &slow{may: make(chan struct{})}
	q := NewQueue(s, "/nonexistent/directory")
	q.limit = 64 << 10
	for range 3 {
		q.Emit(Event{Message: strings.Repeat("x", 64<<10)})
	}
	close(s.may)
	if missed := q.Close(t.Context()); missed == 0 || missed+len(s.got) != 3 {
		t.Errorf("%d missed, %v taken", missed, s.got)
	}
}

func BenchmarkQueue(b *testing.B) {
	q := NewQueue(SinkFunc(func(Event) {}), "")
	e := Event{Type: AttemptStarted, Step: "commands[0]"}
	b.ReportAllocs()
	for b.Loop() {
		q.Emit(e)
	}
	q.Close(b.Context())
}
