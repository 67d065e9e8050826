package cluster

import (
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/policy"
)

// Broken says that lanes cannot work. They are tried again after a wait, which grows until
// a lane can work. The zero value says that all can work.
type Broken struct {
	Rounds int       `json:"rounds,omitempty"` // in a row, in which no lane could work
	Until  time.Time `json:"until,omitzero"`   // no lane begins before this time
	Why    string    `json:"why,omitempty"`    // the reason that was reported last
	Told   bool      `json:"told,omitempty"`   // it was reported that no lane can work
}

const (
	firstHold = time.Second
	maxHold   = 30 * time.Second
)

// HoldOf gives how long no lane is tried after so many rounds in which none could work.
func HoldOf(rounds int) time.Duration {
	return min(firstHold<<min(max(rounds-1, 0), 10), maxHold)
}

// Broken ends a lease whose lane could not work. s is what is known of it.
func (c *Coordinator) Broken(id int, s Settled, why string, now time.Time) error {
	if err := c.settle(id, s, now, false); err != nil {
		return err
	}
	if s.Done > 0 {
		return nil
	}
	b := &c.broken
	if !now.Before(b.Until) { // failures in one round count once
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

// mended notes that a lane could work.
func (c *Coordinator) mended(now time.Time) {
	if c.broken.Told {
		c.note(now, "workers can work for this run again")
		c.broken.Why = ""
	}
	c.broken.Rounds, c.broken.Until, c.broken.Told = 0, time.Time{}, false
}

// held gives the time before which no lane begins, because none could work; the zero time
// if one may begin. A map that stops does not wait.
func (c *Coordinator) held(now time.Time) time.Time {
	if now.Before(c.broken.Until) && c.m.Stopped() == policy.NotStopped {
		return c.broken.Until
	}
	return time.Time{}
}

func (c *Coordinator) note(now time.Time, text string) {
	c.Tell(now, event.Event{Type: event.Note, Time: now, Message: text})
}
