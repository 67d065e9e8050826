package limit

import (
	"context"
	"time"
)

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
