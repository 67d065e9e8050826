package web

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/journal"
)

// Waiting is what waits for somebody: what `bide status` says, in the same words.
type Waiting struct {
	Says string // how many runs wait, and how many are dismissed
	Runs []WaitingRun
}

// WaitingRun is a run that waits for somebody: what went wrong, why, and what to do.
type WaitingRun struct {
	ID, Title, Status, What string
	Why                     []WaitingWhy
	Commands                []string
}

// WaitingWhy is one reason.
type WaitingWhy struct {
	Text            string
	Filter, Command string // of a cause whose dead letters a command of its own runs again
}

// Todo is a command with its button.
type Todo struct {
	Command string
	Action  string // "" where a page has no button for it
	Button  string
}

// buttons are the commands that a page has a button for; the run's name follows.
var buttons = []struct{ command, action, button string }{
	{"bide resume ", "resume", "Resume"}, {"bide dlq retry ", "retry", "Retry"}, {"bide worktree merge ", "merge", "Merge"},
}

// Todos are the commands that continue the run or merge its work: the page of the run is a
// link already.
func (w WaitingRun) Todos() (list []Todo) {
	for _, c := range w.Commands {
		if strings.HasPrefix(c, "bide show ") {
			continue
		}
		t := Todo{Command: c}
		for _, b := range buttons {
			if c == b.command+journal.ShortRun(w.ID) || c == b.command+w.ID {
				t.Action, t.Button = b.action, b.button
			}
		}
		list = append(list, t)
	}
	return list
}

// waits keeps what waits for somebody: it is read anew when a run that is over has changed,
// or after a while, as work may have been merged by hand.
type waits struct {
	mu      sync.Mutex
	known   Waiting
	err     error
	version int64 // of the list of runs, for runs that are over; -1: what is known is old
	made    time.Time
	took    time.Duration
	reading chan struct{}  // closed when what is read is there; nil: nobody reads
	work    sync.WaitGroup // reading
}

const (
	waitsFor   = 15 * time.Second
	waitsFirst = 250 * time.Millisecond // that a page waits for what is being read
	waitsShare = 10                     // times as long as it took, it is not read again
)

// waiting gives what waits for somebody, as far as it is known.
func (s *Server) waiting(ctx context.Context) (Waiting, error) {
	if s.opt.Waiting == nil {
		return Waiting{}, nil
	}
	w := &s.waits
	version := s.list.overVersion()
	w.mu.Lock()
	age := time.Since(w.made)
	old := w.made.IsZero() || w.version < 0 || age > waitsFor || w.version != version && age > waitsShare*w.took
	if old && w.reading == nil && s.ends.Err() == nil {
		w.reading = make(chan struct{})
		w.work.Go(func() { s.readWaiting(version) })
	}
	reading := w.reading
	w.mu.Unlock()
	if reading != nil {
		select {
		case <-reading:
		case <-time.After(waitsFirst):
		case <-ctx.Done():
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known, w.err
}

// readWaiting reads it, and has the pages that show it ask again.
func (s *Server) readWaiting(version int64) {
	w, began := &s.waits, time.Now()
	w.mu.Lock()
	w.version = version // a dismissal meanwhile makes it old
	w.mu.Unlock()
	known, err := s.opt.Waiting(s.ends)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.err, w.made, w.took = known, err, time.Now(), time.Since(began)
	close(w.reading)
	if w.reading = nil; w.took > waitsFirst {
		s.list.touch()
	}
}

// forget has it read anew for the next page.
func (w *waits) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version = -1
}
