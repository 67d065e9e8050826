package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/internal/event"
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

// tell has the map that goes on do something, and says whether there is one.
func (c *control) tell(do func(*mapper.Map)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil {
		do(c.m)
	}
	return c.m != nil
}

// forgetRequests forgets what was asked of the process before this one.
func forgetRequests(j *journal.Journal) error {
	if _, err := j.TakeStop(); err != nil {
		return err
	}
	return j.ControlTaken()
}

// takeControl does what another process asks for, if it does. Who asks is answered
// when that is on the disk: it holds over the end of this process.
func (g *guard) takeControl() {
	q, err := g.j.PeekControl()
	switch {
	case err != nil:
		g.x.NoteOnce("control", fmt.Sprintf("a request of another process: %v", err))
	case q == nil:
		return
	default:
		g.carryOut(q)
	}
	if g.j.Sync(context.Background()) != nil {
		return // the journal cannot be written: the run ends by that
	}
	if err := g.j.ControlTaken(); err != nil {
		g.x.NoteOnce("control", fmt.Sprintf("a request of another process: %v", err))
	}
}

// carryOut does what another process asks for, and records it.
func (g *guard) carryOut(q *journal.ControlRequest) {
	said := ""
	switch q.Do {
	case journal.Pause:
		g.x.Life.Hold()
		said = "is held: what runs goes on, and nothing new starts"
	case journal.Continue:
		g.x.Life.Release()
		g.control.tell((*mapper.Map).Wake)
		g.control.tell(func(m *mapper.Map) { m.EndHold() })
		said = "goes on"
	case journal.RetryNow:
		// Recorded before it is done: what waits after it is to be found waiting.
		g.recordControl(q, "tries again now whatever waits for a time")
		g.x.Agents.Lift(g.x.Clock.Now())
		if !g.control.tell(func(m *mapper.Map) { m.RetryNow(g.x.Life.RetryNow) }) {
			g.x.Life.RetryNow()
		}
		return
	case journal.Probe:
		said = "is not held"
		g.control.tell(func(m *mapper.Map) {
			if m.Probe() {
				said = "tries one item now"
			}
		})
	case journal.Parallel:
		g.control.parallel.Store(int64(q.Parallel))
		g.control.tell(func(m *mapper.Map) { m.SetParallel(q.Parallel) })
		said = fmt.Sprintf("has %d items at once from now on", q.Parallel)
	default:
		g.x.Note("another process asked for %q, which is not known", q.Do)
		return
	}
	g.recordControl(q, said)
}

func (g *guard) recordControl(q *journal.ControlRequest, said string) {
	_ = g.x.Recorder.Record(controlled(q, "another process asked for it: the run "+said)) // as tell
}

// controlled is the event of a request that is carried out.
func controlled(q *journal.ControlRequest, said string) event.Event {
	return event.Event{Type: event.RunControlled, Label: q.Do, Total: q.Parallel, Message: said}
}

// keepControl goes on as the run was told before this process. What a run that
// several share waits for, those decide who share it.
func (r *run) keepControl() {
	if r.state.Parallel > 0 {
		r.control.parallel.Store(int64(r.state.Parallel))
	}
	if since := r.state.Held; !since.IsZero() && r.opt.Part == nil {
		r.x.Life.Hold()
		r.note("the run is still paused, since %s: bide control %s continue", since.Local().Format(time.DateTime), r.x.Run)
	}
}

// ControlLater has the next process of a run, which none has now, go on in another
// way: with journal.Continue it is not paused, with journal.RetryNow nothing waits for
// its next attempt or the end of a rate limit. The error is journal.ErrNotInUse where
// there is nothing to change.
func ControlLater(ctx context.Context, st *journal.Store, id, do string) (err error) {
	j, err := st.Open(id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	s, err := j.State(ctx)
	if err != nil {
		return err
	}
	said := "the run is to go on when it is resumed"
	switch {
	case do == journal.Continue && !s.Held.IsZero():
	case do == journal.RetryNow && s.Waits(time.Now()):
		said = "nothing waits when the run is resumed"
	default:
		return journal.ErrNotInUse
	}
	return errors.Join(j.Append(controlled(&journal.ControlRequest{Do: do}, said)), j.Sync(ctx))
}
