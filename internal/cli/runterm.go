package cli

import (
	"syscall"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/local"
)

// lender returns a function that gives the terminal to a step that runs alone; nil if there is
// no terminal, or if the output of steps is not shown. The step's standard output is connected
// to the terminal unless another program reads it: a command prints for a person what it does
// not print for a program. Its standard error is not connected, so that errors can be told
// apart from output.
func (f *runFlags) lender(sig *interrupts, watch *event.Queue, show display) func(bool) (*local.Lent, error) {
	if f.json || f.quiet || f.progress == "none" {
		return nil
	}
	return func(read bool) (*local.Lent, error) {
		if sig.soft.Err() != nil {
			return nil, nil // the display is closed, and cannot give it away
		}
		c := f.openConsole()
		if c == nil {
			return nil, nil
		}
		if c.out = c.out && !read; !c.in && !c.out {
			c.close()
			return nil, nil
		}
		c.err, c.apart = false, true // so that what is typed is not recorded as output
		c.press, c.stops = func(int32) { sig.raise(syscall.SIGINT) }, &sig.stops
		watch.Flush(sig.soft) // earlier lines come above
		back := show.lend(c.out)
		t, release, err := c.attach()
		if err != nil {
			back()
			c.close()
			return nil, err
		}
		return &local.Lent{Terminal: t, Return: func() bool {
			watch.Flush(sig.soft)
			back()
			release()
			c.close()
			pressed := c.presses.Load() > 0
			if pressed {
				<-sig.soft.Done()
			}
			return pressed
		}}, nil
	}
}
