package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// TestClocksDiffer: of a lane that is gone, an item's wait is no longer than its lane had
// decided, however wrong that machine's clock is.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Second
	for wrong, least := range map[time.Duration]time.Duration{-time.Hour: 0, 0: delay - time.Second, time.Hour: delay} {
		store := dirStore(t.TempDir())
		r := store.Run("run")
		if err := store.o.(dir).Found(r.name(), []string{"lanes", "lives"}, "plan.json", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		lease := Lease{Run: "run", Store: store.String(), Life: 1, ID: 1, Log: LaneLog(1, 1), Spans: []Span{{Item: 1}}}
		text, err := json.Marshal([]event.Event{{Type: event.ItemRetry, Index: 1, Time: time.Now().Add(wrong), DelayMS: delay.Milliseconds(), Class: "network"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.put(appendFrame(nil, text), "lanes", lease.Log+".log"); err != nil {
			t.Fatal(err)
		}
		out, err := (&Worker{}).Adopt(lease)
		if err != nil || len(out.Odd) != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
		if got := out.Odd[0].Judged.Delay; got < least || got > delay {
			t.Errorf("the lane's clock is %v ahead: the item waits %v, of %v", wrong, got, delay)
		}
	}
}

// TestScratchOfTheDead: a worker that begins removes the copies of those that were
// killed, and leaves those of others that work.
func TestScratchOfTheDead(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	alive, err := NewWorker(scratch)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := NewWorker(scratch)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead.scratch, "copy"), []byte("much"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dead.lock.Unlock(); err != nil { // as the end of its process does
		t.Fatal(err)
	}
	foreign := filepath.Join(scratch, "bide-worker-of-somebody")
	if err := syscall.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	next, err := NewWorker(scratch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead.scratch); !os.IsNotExist(err) {
		t.Errorf("the copies of a worker that was killed are there: %v", err)
	}
	for _, dir := range []string{alive.scratch, next.scratch, foreign} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	for _, w := range []*Worker{alive, next} {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(scratch, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
