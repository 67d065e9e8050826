package flow

import (
	"context"
	"sync/atomic"

	"github.com/bide-dev/bide/internal/clock"
)

// group is goroutines of a clock that somebody waits for. One is started only
// by another of the group, or before the wait, so that it cannot become empty
// and then not.
type group struct {
	n    atomic.Int64
	idle chan struct{} // closed by the last, if somebody waits
}

// awaitedBit is set in the number of goroutines while somebody waits.
const awaitedBit = 1 << 62

// start starts a goroutine.
func (g *group) start(c clock.Clock, f func()) {
	g.n.Add(1)
	c.Go(func() {
		defer g.ended()
		f()
	})
}

func (g *group) ended() {
	if g.n.Add(-1) == awaitedBit {
		close(g.idle)
	}
}

// wait returns when all have ended.
func (g *group) wait(c clock.Clock) {
	if g.n.Load() == 0 {
		return
	}
	g.idle = make(chan struct{})
	if g.n.Or(awaitedBit) != 0 {
		_ = c.Wait(context.Background(), -1, g.idle) // it has no other end
	}
	g.n.Store(0)
}
