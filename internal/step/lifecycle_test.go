package step_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
)

// TestUntilEndsWithHalt: what waits for others before its work begins has ended when Halt
// returns, not some time later, which would be another moment of a virtual clock each time.
func TestUntilEndsWithHalt(t *testing.T) {
	t.Parallel()
	budget := &step.BudgetError{}
	for range 100 {
		clock := virtual.NewClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
		life, end := step.NewLifecycle(clock, context.Background())
		ctx, stop := life.Until(t.Context())
		begun, stopBegun := life.Until(step.Finish(t.Context()))
		gone, stopGone := life.Until(t.Context())
		stopGone()
		if ctx.Err() != nil || begun.Err() != nil || !errors.Is(gone.Err(), context.Canceled) {
			t.Fatal("a run that has not ended has ended what waits in it")
		}
		if life.Halt(budget); !errors.Is(context.Cause(ctx), budget) || begun.Err() != nil {
			t.Fatalf("after a budget: %v, and what has begun %v", context.Cause(ctx), begun.Err())
		}
		if life.Halt(step.ErrInterrupted); !errors.Is(context.Cause(begun), step.ErrInterrupted) {
			t.Fatalf("after an interrupt: %v", begun.Err())
		}
		if late, stopLate := life.Until(t.Context()); late.Err() == nil {
			t.Fatal("a wait begins that has ended")
		} else {
			stopLate()
		}
		stop()
		stopBegun()
		end()
	}
}
