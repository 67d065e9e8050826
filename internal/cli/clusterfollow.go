package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// followEvery is how often follow looks for new events.
const followEvery = 200 * time.Millisecond

// follow shows the events of a run on other machines, from the one after from, until the run
// has ended. An interrupt stops the run, a second one immediately. joins says that the run was
// in progress already; follow says so once it handles interrupts.
func (f *runFlags) follow(ctx context.Context, opt engine.Options, run string, from int64, joins bool) error {
	return f.execute(ctx, opt, func(hard context.Context, o engine.Options) (*engine.Summary, error) {
		sum, err := followed(hard, o, run, from, joins)
		if err == nil && sum != nil {
			f.landed(hard, o, run, sum)
		}
		return sum, err
	})
}

// followed shows a run until its end is recorded. It returns earlier if the run was asked to
// stop and its end cannot be recorded, and at a second interrupt in any case.
//
// It reads the copy of the run, which keepUp updates.
func followed(hard context.Context, o engine.Options, run string, from int64, joins bool) (*engine.Summary, error) {
	ctx, end := context.WithCancel(context.WithoutCancel(hard))
	defer end() // after the last answers have come
	over := false
	show := func(e event.Event) {
		switch e.Type {
		case event.RunFinished:
			over = true
		case event.RunResumed:
			over = false
		}
		for _, s := range o.Sinks {
			s.Emit(e)
		}
	}
	tick, ask := time.NewTicker(followEvery), time.NewTicker(askEvery)
	defer tick.Stop()
	defer ask.Stop()
	f := follower{soft: o.Soft.Done(), now: hard.Done(), stopped: make(chan error, 2), asked: make(chan onServer, 1), say: func(text string) {
		show(event.Event{Type: event.Note, Time: time.Now(), Run: run, Message: text})
	}}
	if joins {
		f.say(fmt.Sprintf("run %s is running; what happens from now on is shown", shortRun(run)))
	}
	for reported := ""; !over; {
		var wrong error
		select {
		case <-tick.C:
		case <-ask.C:
			if !f.asking {
				f.asking = true
				go func() { f.asked <- stateOn(ctx, run, askWait)[run] }()
			}
		case s := <-f.asked:
			wrong = f.takes(s, run)
		case <-f.soft:
			f.soft, f.since = nil, time.Now()
			go func() { f.stopped <- askStopOn(ctx, run, false) }()
		case <-f.now:
			f.now, f.leave = nil, time.After(leaveWait)
			go func() { f.stopped <- askStopOn(ctx, run, true) }()
		case wrong = <-f.stopped:
		case <-f.leave:
			f.left = true
		}
		// Show first what has happened in the meantime.
		switch err := newEvents(ctx, o.Store, run, &from, show); {
		case err == nil:
			reported = ""
		case !errors.As(err, new(*fs.PathError)) && !errors.As(err, new(*journal.DiskError)):
			return nil, err
		case err.Error() != reported:
			reported = err.Error()
			f.say("the state of the run cannot be read now:  " + reported)
		}
		switch {
		case over:
		case wrong != nil:
			return nil, wrong
		case f.left:
			f.say(fmt.Sprintf("run %s was asked to stop, and its end is not recorded yet%s; bide show %s shows its state, bide resume %[3]s continues it", run, f.because(), shortRun(run)))
			return nil, exitError(signalStatus(o.Soft))
		}
	}
	var sum *engine.Summary
	err := readRun(o.Store, run, func(r *journal.Reader) (err error) {
		sum, err = engine.SummaryOf(ctx, o, r)
		return err
	})
	return sum, err
}

// newEvents shows the events of a run that came after from.
func newEvents(ctx context.Context, st *journal.Store, run string, from *int64, show func(event.Event)) error {
	return readRun(st, run, func(r *journal.Reader) error {
		last, err := r.Last(ctx)
		if err != nil {
			return err
		}
		*from = min(*from, last) // smaller if the copy was made anew
		for e, err := range r.Events(ctx, *from+1, journal.EventFilter{}) {
			if err != nil {
				return err
			}
			*from = e.Seq
			show(e)
		}
		return nil
	})
}

const (
	// askEvery is how often follow asks whether something holds up the run that its record
	// does not show, and askWait how long an answer may take.
	askEvery = 3 * time.Second
	askWait  = 10 * time.Second
	// drainWait is how long a run that was asked to stop may take to end if its end cannot be
	// recorded: running steps have their grace. leaveWait is the same after a second
	// interrupt, whatever holds up the run.
	drainWait = engine.DefaultGrace + 5*time.Second
	leaveWait = 10 * time.Second
)

// follower is the state of one who follows a run, beside what the run records.
type follower struct {
	say       func(string)
	soft, now <-chan struct{}
	leave     <-chan time.Time
	left      bool
	since     time.Time // of the first interrupt
	stopped   chan error
	asked     chan onServer
	asking    bool
	trouble   string
	gone      int // how often in a row Temporal did not have the run
}

// takes processes an answer about the state of the run.
func (f *follower) takes(s onServer, run string) error {
	f.asking = false
	switch s.Word {
	case "": // nobody knows
		return nil
	case "running":
		f.gone = 0
	default:
		f.gone++
	}
	if f.gone > 0 && s.Trouble != "" {
		return errors.New(s.Trouble)
	}
	if f.gone > 3 {
		return fmt.Errorf("run %s was ended by Temporal before its end: `bide resume %s` continues with what is recorded", run, shortRun(run))
	}
	if s.Trouble != f.trouble {
		if s.Trouble == "" {
			f.say("the run continues")
		} else {
			f.say("the run is held up: " + s.Trouble)
		}
		f.trouble = s.Trouble
	}
	f.left = f.left || f.trouble != "" && !f.since.IsZero() && time.Since(f.since) > drainWait
	return nil
}

func (f *follower) because() string {
	if f.trouble == "" {
		return ""
	}
	return ": " + f.trouble
}
