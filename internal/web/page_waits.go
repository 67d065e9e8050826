package web

import (
	"context"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/journal"
)

// Waiting is what waits for somebody: what `bide status` says, in the same words.
type Waiting struct {
	Says string // how many runs wait, and how many are dismissed
	Runs []WaitingRun
	More []string // the ids of those that are not among them
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

// waits keeps what waits for somebody: it is read again when a run that is over has changed,
// or after a while, as work may have been merged by hand.
type waits struct {
	kept[Waiting]
	version int64 // of the list of runs, for runs that are over; -1: what is known is old
}

const (
	waitsFor   = 15 * time.Second
	waitsFirst = 250 * time.Millisecond // that a page waits for what is being read
	waitsShare = 10                     // times as long as it took, it is not read again
)

// waiting gives what waits for somebody, as far as it is known. Where it comes late, the pages
// that show it ask again.
func (s *Server) waiting(ctx context.Context) (Waiting, error) {
	if s.opt.Waiting == nil {
		return Waiting{}, nil
	}
	w := &s.waits
	version := s.list.overVersion()
	old := func() bool {
		age := time.Since(w.made)
		if s.ends.Err() != nil || !w.made.IsZero() && w.version >= 0 && age <= waitsFor && (w.version == version || age <= waitsShare*w.took) {
			return false
		}
		w.version = version // a dismissal meanwhile makes it old
		return true
	}
	known, err, _ := w.look(ctx, waitsFirst, old, func() (Waiting, error) { return s.opt.Waiting(s.ends) }, func(took time.Duration) {
		if took > waitsFirst {
			s.list.touch()
		}
	})
	return known, err
}

// forget has it read again for the next page.
func (w *waits) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version = -1
}
