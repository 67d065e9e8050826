package engine

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
)

// control is what other processes may change of a run that goes on.
type control struct {
	parallel atomic.Int64 // items at once; 0: as it was begun with
	mu       sync.Mutex
	m        *mapper.Map // that goes on; nil: none
}

// begin says which map goes on; nil: none.
func (c *control) begin(m *mapper.Map) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m = m
}

// tell has the map that goes on do something.
func (c *control) tell(do func(*mapper.Map)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil {
		do(c.m)
	}
}

// forgetRequests forgets what was asked of the process before this one.
func forgetRequests(j *journal.Journal) error {
	if _, err := j.TakeStop(); err != nil {
		return err
	}
	_, err := j.TakeControl()
	return err
}

// takeControl does what another process asks for, if it does.
func (g *guard) takeControl() {
	q, err := g.j.TakeControl()
	if err != nil {
		g.x.NoteOnce("control", fmt.Sprintf("a request of another process: %v", err))
	}
	if q == nil || err != nil {
		return
	}
	said := ""
	switch q.Do {
	case journal.Pause:
		g.x.Life.Hold()
		said = "is held: what runs goes on, and nothing new starts"
	case journal.Continue:
		g.x.Life.Release()
		g.control.tell((*mapper.Map).Wake)
		said = "goes on"
	case journal.RetryNow:
		g.x.Life.RetryNow()
		g.control.tell((*mapper.Map).RetryNow)
		said = "tries again at once what waits for its next attempt"
	case journal.Parallel:
		g.control.parallel.Store(int64(q.Parallel))
		g.control.tell(func(m *mapper.Map) { m.SetParallel(q.Parallel) })
		said = fmt.Sprintf("has %d items at once from now on", q.Parallel)
	default:
		g.x.Note("another process asked for %q, which is not known", q.Do)
		return
	}
	g.tell("another process asked for it: the run " + said)
}
