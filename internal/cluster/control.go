package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/policy"
)

// Control is a request to a running map: one of the requests of package journal, or to run
// dead letters again.
type Control struct {
	Do       string `json:"do"`
	Parallel int    `json:"parallel,omitempty"`
	// Again are the dead letters, if Do is Requeue.
	Again []Letter `json:"again,omitempty"`
}

// Requeue is the Control that runs dead letters again.
const Requeue = "requeue"

// Letter is a dead letter.
type Letter struct {
	Index int    `json:"index"` // of the item, from 1
	ID    string `json:"id"`
}

// MaxLetters is how many dead letters one Control names: it is one message.
const MaxLetters = 10_000

// ErrNoMap says that no map is running that could do what was asked.
var ErrNoMap = errors.New("its map is not running now, and only that can be paused, continued, given another number of items at once or dead letters, or told to try again at once")

// Control does what somebody asked for.
func (c *Coordinator) Control(q Control, now time.Time) error {
	if c.m.Stopped() != policy.NotStopped || c.m.Next(now).Kind == policy.Finished {
		return ErrNoMap
	}
	said := ""
	switch q.Do {
	case journal.Pause:
		c.paused, said = true, "is paused: what is running continues, and nothing new starts"
	case journal.Continue:
		c.paused, said = false, "continues"
	case journal.RetryNow:
		c.m.RetryNow(now)
		said = "tries again now whatever waits for a time"
	case journal.Parallel:
		if q.Parallel < 1 {
			return fmt.Errorf("%d items at once: must be at least 1", q.Parallel)
		}
		c.cfg.MaxParallel = q.Parallel
		c.m.SetParallel(q.Parallel)
		said = fmt.Sprintf("has %d items at once from now on", q.Parallel)
	case Requeue:
		return c.requeue(q.Again, now)
	case journal.Probe:
		return errors.New("a run on Temporal is never held by one error, so there is nothing to probe")
	default:
		return fmt.Errorf("%q is not known", q.Do)
	}
	c.Tell(now, event.Event{Type: event.RunControlled, Time: now, Label: q.Do, Total: q.Parallel, Message: "somebody asked for it: the run " + said})
	return nil
}

// requeue gives dead letters back to the map. Items that are no longer dead letters are
// skipped.
func (c *Coordinator) requeue(list []Letter, now time.Time) error {
	n := 0
	for _, l := range list {
		if c.again[l.Index] {
			continue
		}
		err := c.m.Requeue(l.Index, now)
		if errors.Is(err, policy.ErrOver) {
			return ErrNoMap
		}
		if err != nil {
			continue
		}
		n++
		c.again[l.Index] = true
		e := mapper.RequeuedFact(mapper.Again{Index: l.Index, ID: l.ID})
		e.Time = now
		c.Tell(now, e)
	}
	if n == 0 {
		return errors.New("none of these is a dead letter any more")
	}
	return nil
}
