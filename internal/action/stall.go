package action

import (
	"context"
	"io"
	"time"

	"github.com/bide-dev/bide/internal/proc"
)

// errStalled is the cause of a command's end that printed nothing for too long.
var errStalled = &TimeoutError{Silent: true}

// run runs a process, which is ended where it is silent for c.Stall. The context
// that it gives says why it was ended.
func (w *World) run(ctx context.Context, c *Call, p *proc.Cmd) (proc.Result, context.Context, error) {
	if c.Stall <= 0 {
		r, err := w.Proc.Run(ctx, p)
		return r, ctx, err
	}
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := time.AfterFunc(c.Stall, func() { cancel(errStalled) })
	defer t.Stop()
	beat := func(to io.Writer) io.Writer {
		return pulse(func(b []byte) (int, error) {
			t.Reset(c.Stall)
			if to == nil {
				return len(b), nil
			}
			return to.Write(b)
		})
	}
	p.Stdout, p.Stderr = beat(p.Stdout), beat(p.Stderr)
	if p.Terminal != nil && p.Terminal.Screen != nil {
		own := *p.Terminal
		own.Screen = beat(own.Screen)
		p.Terminal = &own
	}
	r, err := w.Proc.Run(watched, p)
	if context.Cause(watched) == error(errStalled) {
		ctx = watched
	}
	return r, ctx, err
}

// pulse is a writer that is a function.
type pulse func([]byte) (int, error)

func (f pulse) Write(b []byte) (int, error) { return f(b) }
