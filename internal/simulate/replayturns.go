package simulate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/step/virtual"
)

// recordedTurns are the limits of the machine on which a recorded run was made: what other
// runs held of them is not on record, but when each item and each attempt had its turn is.
type recordedTurns struct{ life *replayedLife }

// Take waits until the item or the attempt began; where it did not in this life, until its
// step ended or the handler of that began, as its breaker had opened meanwhile, or until
// something ends it.
func (t recordedTurns) Take(ctx context.Context, r limits.Request) (limits.Held, error) {
	l := t.life
	k := attemptKey{life: l.number, index: r.Index, round: r.Round, path: r.Who.Step, n: r.Number}
	k.again = l.tries.again(k)
	turns, n := l.was.starts[k], l.started[k]
	if n > 0 && n == len(turns) {
		return gone{}, nil // it has begun, and this is for an agent that it asks
	}
	if n < len(turns) {
		l.busy[k] = busy{ctx, turns[n]}
		defer delete(l.busy, k)
		turns = turns[n:]
	} else if turns = nil; k.path != "" {
		turns = l.given(k)
	}
	turn := l.over
	if len(turns) > 0 {
		if l.next(turns[0]) {
			return gone{}, nil
		}
		turn = make(chan struct{})
		l.clock.AtTurn(turns[0], func() { close(turn) }) // after the end of what had it, which its breaker has counted
	}
	if r.Waits != nil {
		r.Waits(&limits.Block{Limit: r.Names[0]})
	}
	return gone{}, r.Clock.Wait(ctx, -1, turn)
}

// given are the turns at which a step was given up whose next attempt did not begin, the
// first one first.
func (l *replayedLife) given(k attemptKey) (turns []virtual.Turn) {
	for _, k.n = range []int{atEnd, atHandler} {
		if list := l.was.starts[k]; l.started[k] < len(list) {
			turns = append(turns, list[l.started[k]])
		}
	}
	slices.SortFunc(turns, func(a, b virtual.Turn) int { return cmp.Compare(a.Number, b.Number) })
	return turns
}

// next reports whether a turn is the next one, and its time has come.
func (l *replayedLife) next(t virtual.Turn) bool {
	if t.At.After(l.clock.Now()) {
		return false
	}
	for l.through < len(l.passed) && (l.passed[l.through] || l.was.turns[l.through].IsZero()) {
		l.through++
	}
	for n := int(t.Number) - 1; n >= l.through && !l.was.turns[n].Before(t.At); n-- {
		if l.was.turns[n].Equal(t.At) && !l.passed[n] {
			return false
		}
	}
	return true
}

// pass says that a turn was taken.
func (l *replayedLife) pass(t virtual.Turn) { l.passed[t.Number] = true }

// turn waits for a turn: until its time, and until all turns of that time before it were
// taken that are.
func (l *replayedLife) turn(ctx context.Context, t virtual.Turn) error {
	defer l.pass(t)
	if l.next(t) {
		return context.Cause(ctx)
	}
	return l.clock.WaitTurn(ctx, t)
}

// Pause does nothing: nobody else is here who could wait.
func (recordedTurns) Pause([]string, time.Time, string, string) error { return nil }

// gone is what is held of a limit that is only on record.
type gone struct{}

// Release has nothing to give back.
func (gone) Release() {}
