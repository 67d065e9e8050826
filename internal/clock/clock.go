// Package clock is the port through which a run has its time: what time it is,
// and all waiting. [Machine] is the time of this machine; step/virtual has one
// that jumps to the next moment at which something is due.
package clock

import (
	"context"
	"sync"
	"time"

	"github.com/bide-dev/bide/retry/driver"
)

// Clock is time, and all that waits for it or for others. Whoever runs under a
// Clock blocks in it alone: not on a channel, a lock that is held over a wait,
// a timer or a WaitGroup, and starts goroutines with it alone. So a virtual
// clock knows when everybody waits, and continues to the next moment at which
// somebody does not. It is safe for concurrent use.
type Clock interface {
	driver.Clock
	// WithTimeout is ctx, ended after d with a cause.
	WithTimeout(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc)
	// Together calls f with 0 to n-1, all at once, each in a goroutine of its
	// own, and returns when all have returned.
	Together(n int, f func(i int))
	// Go calls f in a goroutine of its own. Its end is for whoever starts it to
	// see to.
	Go(f func())
}

// Either is the context of a wait that ends with the first of two. It is for the
// waits of a clock that is not the machine's: its Done is that of the first
// context alone.
type Either struct {
	context.Context
	Soft context.Context
}

// Err tells of either end.
func (e Either) Err() error {
	if err := e.Context.Err(); err != nil {
		return err
	}
	return e.Soft.Err()
}

// Machine is the clock of this machine.
type Machine struct{}

// Now is the machine's time.
func (Machine) Now() time.Time { return time.Now() }

// Wait waits for d, or until ready is, or until ctx ends.
func (Machine) Wait(ctx context.Context, d time.Duration, ready <-chan struct{}) error {
	if d == 0 {
		return nil
	}
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
	case <-ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// WithTimeout ends ctx after d.
func (Machine) WithTimeout(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, cause)
}

// Together calls f n times at once.
func (Machine) Together(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// Go starts a goroutine.
func (Machine) Go(f func()) { go f() }
