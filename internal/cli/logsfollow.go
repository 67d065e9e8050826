package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// growEvery is how often the outputs of what runs are looked at.
const growEvery = 200 * time.Millisecond

// running is an attempt that runs, and what has been printed of its outputs.
type running struct {
	event.Event
	printed map[string]int64 // bytes, by stream
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

// brokenOff says of a run that was followed that it has not come to its end: what
// it does is over all the same, as its process was stopped or is gone.
func (a *app) brokenOff(ctx context.Context, r *journal.Reader) error {
	if ctx.Err() != nil {
		return nil // who followed has seen enough
	}
	sum, err := r.Summary(ctx)
	if err == nil && sum.Status == event.Interrupted {
		fmt.Fprintf(a.err, "bide: run %s is interrupted, and no process has it; `bide resume %s` continues it\n", shortRun(r.Run()), r.Run())
	}
	return err
}

// began notes what runs.
func (l *logPrinter) began(e event.Event) {
	key := stepKey{e.Index, e.Step}
	if e.Type == event.StepStarted {
		l.runs[key] = &running{Event: e, printed: map[string]int64{}}
		return
	}
	r := l.runs[key]
	if r == nil {
		r = &running{Event: e}
		l.runs[key] = r
	}
	r.Attempt, r.printed = e.Attempt, map[string]int64{}
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
			lines, err := newLines(l.r.OutputFile(r.Index, engine.LogName(r.Step, l.at[r.Index]), r.Attempt, stream), r.printed[stream])
			if err != nil || len(lines) == 0 {
				continue // it is not there yet, or no more
			}
			r.printed[stream] += int64(len(lines))
			l.found++
			if err := l.print(r.Event, number, "", stream, bytes.NewReader(lines)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostLines bounds what is read of a file at once, in bytes.
const mostLines = 4 << 20

// newLines reads the whole lines of a file from a byte on.
func newLines(name string, from int64) (lines []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines, err = io.ReadAll(io.NewSectionReader(f, from, mostLines))
	return lines[:bytes.LastIndexByte(lines, '\n')+1], err
}

// printedOf is how much of an output of an attempt was printed while it ran.
func (l *logPrinter) printedOf(e event.Event, n int, stream string) int64 {
	if r := l.runs[stepKey{e.Index, e.Step}]; r != nil && r.Attempt == n {
		return r.printed[stream]
	}
	return 0
}
