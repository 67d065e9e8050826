package cluster

import (
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/policy"
)

// Broken is that lanes cannot work: it is tried again after a wait that grows as
// long as no lane can. Its zero value is that all can.
type Broken struct {
	Rounds int       `json:"rounds,omitempty"` // in a row, in which no lane could
	Until  time.Time `json:"until,omitzero"`   // before which none begins
	Why    string    `json:"why,omitempty"`    // that was told last
	Told   bool      `json:"told,omitempty"`   // that none can
}

const (
	firstHold = time.Second
	maxHold   = 30 * time.Second
)

// HoldOf is how long nobody tries after so many rounds in which nobody could.
func HoldOf(rounds int) time.Duration {
	return min(firstHold<<min(max(rounds-1, 0), 10), maxHold)
}

// Broken takes what is known of a lease whose lane could not work.
func (c *Coordinator) Broken(id int, s Settled, why string, now time.Time) error {
	if err := c.settle(id, s, now, false); err != nil {
		return err
	}
	if s.Done > 0 {
		return nil
	}
	b := &c.broken
	if !now.Before(b.Until) { // those of one round are one
		b.Rounds++
		b.Until = now.Add(HoldOf(b.Rounds))
	}
	if why != b.Why {
		b.Why = why
		c.note(now, "a worker could not work: "+why)
	}
	if b.Rounds > 1 && len(c.open) == 0 && !b.Told {
		b.Told = true
		c.note(now, "no worker can work for this run: "+why+"; it is tried again each "+maxHold.String()+" at the latest")
	}
	return nil
}

// mended is that a lane could work.
func (c *Coordinator) mended(now time.Time) {
	if c.broken.Told {
		c.note(now, "workers can work for this run again")
		c.broken.Why = ""
	}
	c.broken.Rounds, c.broken.Until, c.broken.Told = 0, time.Time{}, false
}

// held is until when no lane begins, as none could; the zero time: it may. A map that
// stops waits for nothing.
func (c *Coordinator) held(now time.Time) time.Time {
	if now.Before(c.broken.Until) && c.m.Stopped() == policy.NotStopped {
		return c.broken.Until
	}
	return time.Time{}
}

func (c *Coordinator) note(now time.Time, text string) {
	c.Tell(now, event.Event{Type: event.Note, Time: now, Message: text})
}
