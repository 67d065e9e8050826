package simulate

import (
	"context"
	"time"

	"github.com/bide-dev/bide/internal/limits"
)

// recordedTurns are the limits of the machine on which a recorded run was made: what other
// runs held of them is not on record, but when each item and each attempt had its turn is.
type recordedTurns struct{ life *replayedLife }

// Take waits until the item or the attempt began; where it did not in this life, until its
// step ended, as its breaker had opened meanwhile, or until something ends it.
func (t recordedTurns) Take(ctx context.Context, r limits.Request) (limits.Held, error) {
	l := t.life
	k := attemptKey{life: l.number, index: r.Index, round: r.Round, path: r.Who.Step, n: r.Number}
	k.again = l.tries.again(k)
	turns, n := l.was.starts[k], l.started[k]
	if n > 0 && n == len(turns) {
		return gone{}, nil // it has begun, and this is for an agent that it asks
	}
	if n >= len(turns) && k.path != "" {
		k.n = atEnd
		turns, n = l.was.starts[k], l.started[k]
	}
	turn := l.over
	if n < len(turns) {
		wait := turns[n].Sub(l.clock.Now())
		if wait <= 0 {
			return gone{}, nil
		}
		turn = make(chan struct{})
		l.clock.After(wait, func() { close(turn) }) // after the end of what had it, which its breaker has counted
	}
	if r.Waits != nil {
		r.Waits(&limits.Block{Limit: r.Names[0]})
	}
	return gone{}, r.Clock.Wait(ctx, -1, turn)
}

// Pause does nothing: nobody else is here who could wait.
func (recordedTurns) Pause([]string, time.Time, string, string) error { return nil }

// gone is what is held of a limit that is only on record.
type gone struct{}

// Release has nothing to give back.
func (gone) Release() {}
