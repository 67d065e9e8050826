package action

import (
	"context"
	"io"
	"sync/atomic"
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
	start := time.Now()
	// running is the time since start, without that for which the command was stopped.
	running := func() time.Duration { return time.Since(start) - w.Proc.Suspended() }
	var heard atomic.Int64 // when it printed last
	heard.Store(int64(running()))
	go func() {
		for left := c.Stall; left > 0; left = c.Stall - (running() - time.Duration(heard.Load())) {
			select {
			case <-time.After(left):
			case <-watched.Done():
				return
			}
		}
		cancel(errStalled)
	}()
	beat := func(to io.Writer) io.Writer {
		return pulse(func(b []byte) (int, error) {
			heard.Store(int64(running()))
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
