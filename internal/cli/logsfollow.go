package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// growEvery is how often the outputs of what runs are looked at.
const growEvery = 200 * time.Millisecond

// running is an attempt that runs, and what has been printed of its outputs.
type running struct {
	event.Event
	read map[string]*growth // by stream
}

// follow prints outputs until the run ends: those of attempts that run as they
// grow, by whole lines.
func (l *logPrinter) follow(ctx context.Context, f journal.EventFilter) error {
	f.Types = append(f.Types, event.StepStarted, event.AttemptStarted)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type next struct {
		e   event.Event
		err error
	}
	events := make(chan next)
	go func() { // ends with the events, or with ctx
		defer close(events)
		for e, err := range l.r.Follow(ctx, 1, f) {
			select {
			case events <- next{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(growEvery)
	defer tick.Stop()
	for {
		select {
		case n, more := <-events:
			if !more || n.err != nil {
				return n.err
			}
			if err := l.take(n.e); err != nil {
				return err
			}
		case <-tick.C:
			if err := l.grown(); err != nil {
				return err
			}
		}
	}
}

// brokenOff says of a run that was followed that it has not ended: what
// it does is over all the same, as its process was stopped or is gone.
func (s *streams) brokenOff(ctx context.Context, r *journal.Reader) error {
	if ctx.Err() != nil {
		return nil // who followed has seen enough
	}
	sum, err := r.Summary(ctx)
	if err == nil && sum.Status == event.Interrupted {
		fmt.Fprintf(s.err, "bide: run %s is interrupted, and no process has it; `bide resume %s` continues it\n", shortRun(r.Run()), shortRun(r.Run()))
	}
	return err
}

// began notes what runs.
func (l *logPrinter) began(e event.Event) {
	key := stepKey{e.Index, e.Step}
	if e.Type == event.StepStarted {
		l.runs[key] = &running{Event: e, read: map[string]*growth{}}
		return
	}
	r := l.runs[key]
	if r == nil {
		r = &running{Event: e}
		l.runs[key] = r
	}
	r.Attempt, r.read = e.Attempt, map[string]*growth{}
}

// ended notes that an attempt runs no more, or a whole step.
func (l *logPrinter) ended(e event.Event) {
	key := stepKey{e.Index, e.Step}
	if r := l.runs[key]; r != nil && e.Type == event.AttemptFailed {
		r.Attempt = 0
		return
	}
	delete(l.runs, key)
}

// grown prints the lines that came to the outputs of what runs.
func (l *logPrinter) grown() error {
	for _, r := range l.runs {
		if r.Attempt == 0 || !l.wanted(r.Event) {
			continue
		}
		number := l.number(r.Index, r.Attempt)
		for _, stream := range []string{"stdout", "stderr"} {
			if stream == "stderr" && l.f.raw {
				continue
			}
			p := r.read[stream]
			if p == nil {
				p = &growth{}
				r.read[stream] = p
			}
			err := p.lines(l.r.OutputFile(r.Index, journal.LogName(r.Step, l.at[r.Index]), r.Attempt, stream), func(lines io.Reader) error {
				l.found++
				return l.print(r.Event, number, "", stream, lines)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// growth is how far the file of an output that grows was read, in bytes.
type growth struct {
	printed int64 // whole lines, which were printed
	seen    int64 // where the next end of a line is looked for
}

// lines gives print the whole lines that came to a file, however long they are. A file
// that is not there yet, or not any more, has none.
func (p *growth) lines(name string, print func(io.Reader) error) (err error) {
	f, oerr := os.Open(name)
	if oerr != nil {
		return nil
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end := p.printed
	buf := make([]byte, 64<<10)
	for {
		n, rerr := f.ReadAt(buf, p.seen)
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			end = p.seen + int64(i) + 1
		}
		p.seen += int64(n)
		if rerr != nil { // the end, or what the end of the step finds as well
			break
		}
	}
	if end == p.printed {
		return nil
	}
	from := p.printed
	p.printed = end
	return print(io.NewSectionReader(f, from, end-from))
}

// printedOf is how much of an output of an attempt was printed while it ran.
func (l *logPrinter) printedOf(e event.Event, n int, stream string) int64 {
	if r := l.runs[stepKey{e.Index, e.Step}]; r != nil && r.Attempt == n {
		if p := r.read[stream]; p != nil {
			return p.printed
		}
	}
	return 0
}
