package flow

import (
	"context"

	"github.com/bide-dev/bide/internal/clock"
)

// A run that is to start nothing new ends its waits, and lets what runs come to
// its end. On the clock of this machine, package retry merges the two contexts,
// with a goroutine. On another, whose time is still while somebody computes,
// whoever waits is told of both ends by what is here.

// softly is the context of a wait: it ends with ctx and with the soft end of the
// run.
func (x *exec) softly(ctx context.Context) context.Context {
	if x.f.machine { // package retry has done it
		return ctx
	}
	return clock.Either{Context: ctx, Soft: x.opt.Soft}
}

// untilSoft is softly for a wait that is none of package retry's.
func (x *exec) untilSoft(ctx context.Context) (_ context.Context, stop func()) {
	if !x.f.machine || x.opt.Soft.Done() == nil {
		return x.softly(ctx), func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(x.opt.Soft, func() { cancel(context.Cause(x.opt.Soft)) })
	return ctx, func() { forget(); cancel(nil) }
}
