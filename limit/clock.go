package limit

import (
	"context"
	"time"
)

// Clock is the time that a limit lives in, and how one waits in it. It is safe
// for concurrent use, and comparable, as a pointer is.
type Clock interface {
	// Now returns the time, which never goes back.
	Now() time.Time
	// Wait returns nil after d, or as soon as ready gives a value, which it
	// takes; or the cause of ctx where that ends first. d less than 0 is no
	// bound.
	Wait(ctx context.Context, d time.Duration, ready <-chan struct{}) error
}

// now returns the time of the limit, in nanoseconds since epoch.
func (l *Limit) now() int64 {
	if l.c.Clock == nil {
		return int64(time.Since(epoch))
	}
	return int64(l.c.Clock.Now().Sub(epoch))
}

// sleep waits in the time of the limit.
func (l *Limit) sleep(ctx context.Context, d time.Duration, ready <-chan struct{}) error {
	if l.c.Clock != nil {
		return l.c.Clock.Wait(ctx, d, ready)
	}
	var due <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ready:
	case <-due:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
