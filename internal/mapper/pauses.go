package mapper

import (
	"context"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
)

// The steps of an item ask agents, which a rate limit may turn away. Then the
// step waits where it is, as all that would ask do, and nothing of the item is
// done again. The pause is the machine's: a Map is a step.Pauses.

// Ask has the machine say when an agent may be asked.
func (x *Map) Ask(ctx context.Context, now time.Time) (round int, until time.Time, beyond bool) {
	_ = x.ask(ctx, func() { // cannot be cancelled
		round, until = x.machine.Ask(now)
		beyond = x.machine.TooLong(now)
	})
	return round, until, beyond
}

// Limited tells the machine that an agent was turned away by a rate limit. Where
// that lasts longer than the map waits, it stops, and ok is false.
func (x *Map) Limited(ctx context.Context, round int, after time.Duration, met step.Met, now time.Time) (ok bool) {
	_ = x.ask(ctx, func() {
		ok = x.machine.Limited(round, after, now)
		x.record(x.paused(ok, met, now))
	})
	return ok
}

// Answered tells the machine that an agent got another answer.
func (x *Map) Answered(round int) {
	x.tell(func() {
		if x.machine.Answered(round) {
			x.record(event.Event{Type: event.PauseEnded, Time: x.Clock.Now()})
		}
	})
}

func (x *Map) paused(ok bool, met step.Met, now time.Time) event.Event {
	e := step.PausedFact(x.machine.Snapshot().Pause, ok, met, now)
	if !ok {
		value.Put(&x.whys, policy.ByRateLimit, e.Message)
	}
	return e
}
