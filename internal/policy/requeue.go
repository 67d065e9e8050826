package policy

import (
	"errors"
	"fmt"
	"time"
)

// ErrOver: Requeue was called when the map has ended or stops.
var ErrOver = errors.New("policy: the map is over")

// Requeue gives an item that has become a dead letter another chance while the
// map continues: it starts as soon as an agent may, like one that has never
// failed. The machine does not keep which items have ended; that the item
// is a dead letter is for the caller to know. The error is [ErrOver] when the
// map has ended or stops.
func (m *Machine) Requeue(item int, now time.Time) error {
	switch _, running := m.running[item]; {
	case item < 1 || item > m.n:
		return fmt.Errorf("policy: item %d: the map has %d items", item, m.n)
	case running || m.counts.DeadLettered == 0:
		return fmt.Errorf("policy: item %d is no dead letter", item)
	case m.stop != NotStopped || m.Next(now).Kind == Finished:
		return ErrOver
	}
	m.requeue(item, ItemDeadLettered, longAgo, now)
	return nil
}

// requeue has an item run again that failed for good: a dead letter, or one that was skipped.
func (m *Machine) requeue(item int, was Fate, at instant, now time.Time) {
	m.waiting.push(record{item: uint32(item), began: instantOf(now), first: longAgo, notBefore: at})
	if was == ItemSkipped {
		m.counts.Skipped--
	} else {
		m.counts.DeadLettered--
		m.counts.Failed--
	}
	m.counts.FailedForGood--
	m.counts.Retrying++
}
