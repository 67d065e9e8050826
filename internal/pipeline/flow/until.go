package flow

import (
	"context"
	"runtime/debug"

	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry"
)

// unmet is the failure of an attempt whose value the call's `until` does not
// accept; nil where it accepts it or there is none.
func (op *operation) unmet(ctx context.Context, v any) (err error) {
	fr, at := op.fr, op.s.node.Call.Until
	if at < 0 {
		return nil
	}
	s := newPureFrame(fr.x, at, fr)
	s.ctx, s.now, s.item = ctx, 1, v
	defer func() {
		if p := recover(); p != nil {
			err = retry.Permanent(s.nodeError(s.at, &retry.PanicError{Value: p, Stack: debug.Stack()}))
		}
	}()
	fr.ahead(s.fn.Captures)
	ok, err := s.need(s.fn.Result)
	switch {
	case err != nil:
		return retry.Permanent(err)
	case !value.Truthy(ok):
		return &retry.UnmetError{Value: v}
	}
	return nil
}
