package mapper

import (
	"context"
	"encoding/json"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
)

// Again is a dead letter that is to be run again.
type Again struct {
	Index    int // of the item, from 1
	ID       string
	Attempts int // made so far
	// Item is the item's data from now on; nil leaves it as it is.
	Item json.RawMessage
}

// Requeue gives dead letters another chance while the map is running. take is
// called once it is certain that the map can take them, and has the last word.
// It comes too late, which is no error, where the map is over or stops.
func (x *Map) Requeue(ctx context.Context, list []Again, take func() (bool, error)) error {
	var err error
	ready := make(chan struct{})
	x.tell(func() { err = x.requeue(list, take); close(ready) })
	select {
	case <-ready:
		return err
	case <-x.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (x *Map) requeue(list []Again, take func() (bool, error)) error {
	now := x.Clock.Now()
	if x.machine.Stopped() != policy.NotStopped || x.machine.Next(now).Kind == policy.Finished {
		return nil
	}
	if taken, err := take(); err != nil || !taken {
		return err
	}
	for _, l := range list {
		if err := x.machine.Requeue(l.Index, now); err != nil {
			return err
		}
		x.before[l.Index] = l.Attempts
		if l.Item != nil {
			x.feed.forget(l.Index)
		}
		x.record(RequeuedFact(l))
	}
	return nil
}

// RequeuedFact is the record of a dead letter that is run again.
func RequeuedFact(l Again) event.Event {
	e := event.Event{Type: event.ItemRequeued, Phase: phase, Item: l.ID, Index: l.Index}
	if l.Item != nil {
		e.Data = step.Data(map[string]json.RawMessage{"item": l.Item})
	}
	return e
}
