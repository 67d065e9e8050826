package letters

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
	"github.com/bide-dev/bide/internal/step"
)

// Control is what other processes may change of a running run.
type Control struct {
	parallel atomic.Int64 // items at once; 0: as it was begun with
	mu       sync.Mutex
	m        *mapper.Map // the running one; nil: none
}

// Begin says which map is running; nil: none.
func (c *Control) Begin(m *mapper.Map) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m = m
}

// tell has the running map do something, and says whether there is one.
func (c *Control) tell(do func(*mapper.Map)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil {
		do(c.m)
	}
	return c.m != nil
}

// Forget forgets what was asked of the process before this one.
func Forget(j *journal.Journal) error {
	if _, err := j.TakeStop(); err != nil {
		return err
	}
	return j.ControlTaken()
}

// Take does what another process asks for, if it does. Who asks is answered
// when that is on the disk: it holds over the end of this process.
func (c *Control) Take(x *step.Executor, j *journal.Journal) {
	q, err := j.PeekControl()
	switch {
	case err != nil:
		x.NoteOnce("control", fmt.Sprintf("a request of another process: %v", err))
	case q == nil:
		return
	default:
		c.CarryOut(x, q)
	}
	if j.Sync(context.Background()) != nil {
		return // the journal cannot be written: the run ends by that
	}
	if err := j.ControlTaken(); err != nil {
		x.NoteOnce("control", fmt.Sprintf("a request of another process: %v", err))
	}
}

// CarryOut does what another process asks for, and records it; where something may begin
// by it, before that.
func (c *Control) CarryOut(x *step.Executor, q *journal.ControlRequest) {
	switch q.Do {
	case journal.Pause:
		x.Life.Hold() // and what it has not stopped is recorded before it
		recordControl(x, q, "is paused: what is running continues, and nothing new starts")
	case journal.Continue:
		recordControl(x, q, "continues")
		x.Life.Release()
		c.tell((*mapper.Map).Wake)
		c.tell(func(m *mapper.Map) { m.EndHold() })
	case journal.RetryNow:
		recordControl(x, q, "tries again now whatever waits for a time")
		x.Agents.Lift(x.Clock.Now())
		if !c.tell(func(m *mapper.Map) { m.RetryNow(x.Life.RetryNow) }) {
			x.Life.RetryNow()
		}
	case journal.Probe:
		said := "is not held"
		c.tell(func(m *mapper.Map) {
			if !m.Probe() {
				return
			}
			if said = "tries now whether it need be held"; paused(x) {
				said = "is paused, and tries whether it need be held when it continues"
			}
		})
		recordControl(x, q, said)
	case journal.Parallel:
		recordControl(x, q, fmt.Sprintf("has %d items at once from now on", q.Parallel))
		c.parallel.Store(int64(q.Parallel))
		c.tell(func(m *mapper.Map) { m.SetParallel(q.Parallel) })
	default:
		x.Note("another process asked for %q, which is not known", q.Do)
	}
}

// paused reports whether somebody has paused the run.
func paused(x *step.Executor) bool {
	_, held := x.Life.Held()
	return held
}

func recordControl(x *step.Executor, q *journal.ControlRequest, said string) {
	_ = x.Recorder.Record(controlled(q, "another process asked for it: the run "+said)) // as tell
}

// controlled is the event of a request that is carried out.
func controlled(q *journal.ControlRequest, said string) event.Event {
	return event.Event{Type: event.RunControlled, Label: q.Do, Total: q.Parallel, Message: said}
}

// Parallel is how many items run at once by a request; 0: nobody has asked.
func (c *Control) Parallel() int { return int(c.parallel.Load()) }

// Keep has a run be as it was told before this process. What a run that several
// share waits for, those decide who share it.
func (c *Control) Keep(x *step.Executor, st *journal.State, shared bool) {
	if st.Parallel > 0 {
		c.parallel.Store(int64(st.Parallel))
	}
	if since := st.Held; !since.IsZero() && !shared {
		x.Life.Hold()
		x.NotePassing("the run is still paused, since %s: bide control %s continue", since.Local().Format(time.DateTime), x.Run)
	}
}

// Later has the next process of a run, which none has now, continue in another
// way: with journal.Continue it is not paused, with journal.RetryNow nothing waits for
// its next attempt or the end of a rate limit. The error is journal.ErrNotInUse where
// there is nothing to change.
func Later(ctx context.Context, st *journal.Store, id, do string) (err error) {
	j, err := st.Open(id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	s, err := j.State(ctx)
	if err != nil {
		return err
	}
	said := "the run is to continue when it is resumed"
	switch {
	case do == journal.Continue && !s.Held.IsZero():
	case do == journal.RetryNow && s.Waits(time.Now()):
		said = "nothing waits when the run is resumed"
	default:
		return journal.ErrNotInUse
	}
	return errors.Join(j.Append(controlled(&journal.ControlRequest{Do: do}, said)), j.Sync(ctx))
}
