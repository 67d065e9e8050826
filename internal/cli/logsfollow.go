package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// growEvery is how often follow looks for new output.
const growEvery = 200 * time.Millisecond

// running is a running attempt, with how much of its outputs has been printed.
type running struct {
	event.Event
	read map[string]*growth // by stream
}

// follow prints outputs until the run ends. It prints those of running attempts as they grow,
// in whole lines.
func (l *logPrinter) follow(ctx context.Context, f journal.EventFilter) error {
	f.Types = append(f.Types, event.AttemptStarted)
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

// brokenOff reports that a run has not ended although follow has: its process was stopped or
// is gone.
func (s *streams) brokenOff(ctx context.Context, r *journal.Reader) error {
	if ctx.Err() != nil {
		return nil // the user has ended the command
	}
	sum, err := r.Summary(ctx)
	if err == nil && sum.Status == event.Interrupted {
		s.tell("run %s is interrupted, and no process has it; `bide resume %s` continues it", shortRun(r.Run()), shortRun(r.Run()))
	}
	return err
}

// began notes a running step.
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

// ended notes the end of an attempt, or of a whole step.
func (l *logPrinter) ended(e event.Event) {
	key := stepKey{e.Index, e.Step}
	if r := l.runs[key]; r != nil && e.Type == event.AttemptFailed {
		r.Attempt = 0
		return
	}
	delete(l.runs, key)
}

// grown prints new lines in the outputs of running steps.
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

// growth is how much of a growing output file was read, in bytes.
type growth struct {
	printed int64 // in whole lines
	seen    int64 // where the search for the next line end begins
}

// lines calls print with the new whole lines of a file, however long they are. A file that
// does not exist, or no longer exists, has none.
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
		if rerr != nil { // the end, or an error that the end of the step will meet too
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

// printedOf is how much of an attempt's output was printed while the attempt ran.
func (l *logPrinter) printedOf(e event.Event, n int, stream string) int64 {
	if r := l.runs[stepKey{e.Index, e.Step}]; r != nil && r.Attempt == n {
		if p := r.read[stream]; p != nil {
			return p.printed
		}
	}
	return 0
}
