package flow

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/clock"
)

// timeout is the context of an attempt that has a time of its own. It costs a
// timer only where somebody waits for its end: a function that asks for nothing
// gets it for the reading of a clock.
type timeout struct {
	context.Context // the one around
	clock           clock.Clock
	deadline        time.Time

	mu    sync.Mutex
	real  context.Context // made by the first who waits
	end   context.CancelFunc
	ended bool
}

// errExpired is the cause of the end of a timeout.
var errExpired = fmt.Errorf("attempt timed out: %w", context.DeadlineExceeded)

func withTimeout(outer context.Context, c clock.Clock, limit time.Duration) *timeout {
	t := &timeout{Context: outer, clock: c, deadline: c.Now().Add(limit)}
	if d, ok := outer.Deadline(); ok && d.Before(t.deadline) {
		t.deadline = d
	}
	return t
}

// made gives the context that does the work.
func (t *timeout) made() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.real == nil {
		t.real, t.end = t.clock.WithTimeout(t.Context, t.deadline.Sub(t.clock.Now()), errExpired)
		if t.ended {
			t.end()
		}
	}
	return t.real
}

func (t *timeout) Deadline() (time.Time, bool) { return t.deadline, true }
func (t *timeout) Done() <-chan struct{}       { return t.made().Done() }
func (t *timeout) Err() error                  { return t.made().Err() }

// Value asks the context that does the work, which is how package context finds
// it.
func (t *timeout) Value(key any) any { return t.made().Value(key) }

// expired reports whether the time is over.
func (t *timeout) expired() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.real != nil {
		return context.Cause(t.real) == errExpired
	}
	return !t.clock.Now().Before(t.deadline)
}

// cancel ends the context.
func (t *timeout) cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended = true; t.end != nil {
		t.end()
	}
}
