package mapper

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
)

// lanes are the workers that were started while the map is running. They belong to who
// has the turn.
type lanes struct {
	count int
	start func()          // another worker
	more  []chan struct{} // closed as they end
}

// SetParallel changes how many agents run at once from now on, at least 1. It
// does nothing once the map is over.
func (x *Map) SetParallel(n int) {
	x.tell(func() {
		x.machine.SetParallel(n)
		x.staff(n)
	})
}

// staff starts workers until there are n, or as many as items.
func (x *Map) staff(n int) {
	for x.lanes.count < min(n, x.Total) {
		x.lanes.count++
		x.busy++ // until it says that it is free
		over := make(chan struct{})
		x.lanes.more = append(x.lanes.more, over)
		x.Clock.Go(func() {
			defer close(over)
			x.lanes.start()
		})
	}
}

// widen records that another number of agents may run at once, and has workers for it.
func (x *Map) widen() {
	c, ok := x.machine.Width()
	if !ok {
		return
	}
	x.record(event.Event{Type: event.WidthChanged, Time: x.Clock.Now(), Phase: phase, Total: c.To, Message: c.String(),
		Data: step.Data(c.Fact())})
	x.staff(c.To)
}

// restoreWidth puts the number of agents at once where it stood.
func (x *Map) restoreWidth(fact json.RawMessage) error {
	if len(fact) == 0 {
		return nil
	}
	var s policy.WidthFact
	if err := json.Unmarshal(fact, &s); err != nil {
		return fmt.Errorf("the recorded number of items at once: %w", err)
	}
	return x.machine.RestoreWidth(s.State)
}

// RetryNow ends the waits of the items that wait for their next attempt, and the
// pause for a rate limit. Then it wakes the agents that wait for the end of that pause.
func (x *Map) RetryNow(wake func()) {
	x.tell(func() {
		x.machine.RetryNow(x.Clock.Now())
		wake()
	})
}

// held says whether a start has to wait because the map is held.
func (x *Map) held(d policy.Decision) bool {
	return d.Kind == policy.Start && x.Held != nil && x.Held()
}

// open prepares what a turn needs to start workers later.
func (x *Map) open(ctx context.Context, workers int) {
	x.lanes.count = workers
	x.lanes.start = func() { x.work(ctx) }
}

// join waits for the end of the workers that were started later.
func (x *Map) join(ctx context.Context) {
	for _, over := range x.lanes.more {
		if err := x.Clock.Wait(context.WithoutCancel(ctx), -1, over); err != nil {
			panic(errProtocol("a wait that cannot be cancelled", err))
		}
	}
}
