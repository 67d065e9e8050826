package policy

import (
	"time"

	"github.com/bide-dev/bide/internal/failure"
)

// This file holds the merge queue of a map while what is merged so far fails its verify: no
// item is to blame then. Items start as always, and wait to be merged. The delays of the
// probes, the longest hold and its action are those of SameError, or its defaults without
// it. A probe is a verify of what is merged so far, and one that succeeds ends the hold.

// QueueRed tells that what is merged so far fails its verify. It begins a hold, or is a
// probe of it that failed. The change is HoldStopped where the queue is to stop.
func (m *Machine) QueueRed(sign failure.Signature, message string, now time.Time) HoldChange {
	c := m.queueConfig()
	kind, over := HoldProbed, false
	if m.queue == nil {
		kind, over = HoldStarted, c.Stop
		m.queue = &HoldState{Queue: true, Since: now, Next: now.Add(c.Probe.Delay(1, 0, nil))}
	} else {
		over = m.queue.failed(&c, now)
	}
	m.queue.Signature, m.queue.Message, m.queue.Items = sign, message, m.parked
	if over {
		change := HoldChange{Kind: HoldStopped, State: m.queue.clone()}
		m.queue = nil
		return change
	}
	return HoldChange{Kind: kind, State: m.queue.clone()}
}

// QueueGreen tells that what is merged so far passes its verify. ok is false where the queue
// was not held.
func (m *Machine) QueueGreen() (change HoldChange, ok bool) {
	if m.queue == nil {
		return change, false
	}
	return m.endQueueHold("probes"), true
}

func (m *Machine) endQueueHold(why string) HoldChange {
	c := HoldChange{Kind: HoldEnded, State: m.queue.clone(), Why: why}
	m.queue = nil
	return c
}

// QueueHeld gives the hold of the merge queue; ok is false where it is not held.
func (m *Machine) QueueHeld() (s HoldState, ok bool) {
	if m.queue == nil {
		return s, false
	}
	return m.queue.clone(), true
}

// RestoreQueueHold puts the hold of the merge queue where it stood when the run went down.
func (m *Machine) RestoreQueueHold(s HoldState, now time.Time) {
	c := m.queueConfig()
	s.restored(&c, now)
	m.queue = &s
}

func (m *Machine) queueConfig() (c SameError) {
	if m.cfg.SameError != nil {
		c = *m.cfg.SameError
	}
	return c.Defaults()
}
