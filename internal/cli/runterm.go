package cli

import (
	"syscall"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/local"
)

// lender gives the steps of a run that are alone the terminal that it is on;
// nil where there is none, or nobody is shown what they print. A step's
// standard output is on it unless something else reads that: a command prints
// for a person what it does not print for a program. Its standard error is not,
// so that what failed can be told from what it printed.
func (f *runFlags) lender(sig *interrupts, watch *event.Queue, show display) func(bool) (*local.Lent, error) {
	if f.json || f.quiet || f.progress == "none" {
		return nil
	}
	return func(read bool) (*local.Lent, error) {
		if sig.soft.Err() != nil {
			return nil, nil // nobody has it any more who could give it
		}
		c := f.openConsole()
		if c == nil {
			return nil, nil
		}
		if c.out = c.out && !read; !c.in && !c.out {
			c.close()
			return nil, nil
		}
		c.err, c.apart = false, true // what is typed is no output, and is not recorded
		c.press, c.stops = func(int32) { sig.raise(syscall.SIGINT) }, &sig.stops
		watch.Flush(sig.soft) // what was told before stands above
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
