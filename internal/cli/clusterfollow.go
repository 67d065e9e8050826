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

// followEvery is how often it is looked what has happened.
const followEvery = 200 * time.Millisecond

// follow shows a run that others continue with, behind an event, until it has ended. An interrupt stops
// it, a second one at once. That it joins a run in progress is said when an interrupt is heeded.
func (f *runFlags) follow(ctx context.Context, opt engine.Options, run string, from int64, joins bool) error {
	return f.execute(ctx, opt, func(hard context.Context, o engine.Options) (*engine.Summary, error) {
		sum, err := followed(hard, o, run, from, joins)
		if err == nil && sum != nil {
			f.landed(hard, o, run, sum)
		}
		return sum, err
	})
}

// followed shows a run until its end is recorded. It leaves one that was asked to stop
// earlier where its end cannot be recorded, and at a second interrupt in any case.
//
// What it shows is read from the copy of the run, which whoever looks at it keeps up.
func followed(hard context.Context, o engine.Options, run string, from int64, joins bool) (*engine.Summary, error) {
	ctx, end := context.WithCancel(context.WithoutCancel(hard))
	defer end() // with what is still asked
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
	for told := ""; !over; {
		var wrong error
		select {
		case <-tick.C:
		case <-ask.C:
			if !f.asking {
				f.asking = true
				go func() { f.asked <- standsOn(ctx, run, askWait)[run] }()
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
		// What has happened meanwhile comes first.
		switch err := newEvents(ctx, o.Store, run, &from, show); {
		case err == nil:
			told = ""
		case !errors.As(err, new(*fs.PathError)) && !errors.As(err, new(*journal.DiskError)):
			return nil, err
		case err.Error() != told:
			told = err.Error()
			f.say("the state of the run cannot be read now:  " + told)
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

// newEvents shows what has come to a run behind an event.
func newEvents(ctx context.Context, st *journal.Store, run string, from *int64, show func(event.Event)) error {
	return readRun(st, run, func(r *journal.Reader) error {
		last, err := r.Last(ctx)
		if err != nil {
			return err
		}
		*from = min(*from, last) // of a copy that was made anew
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
	// askEvery is how often it is asked whether something holds a run up that its
	// record does not tell, and askWait how long an answer may take.
	askEvery = 3 * time.Second
	askWait  = 10 * time.Second
	// drainWait is how long a run may take to end that was asked to stop, and whose
	// end cannot be recorded: what runs has its grace. leaveWait is the same of one
	// that was asked to stop at once, whatever holds it up.
	drainWait = engine.DefaultGrace + 5*time.Second
	leaveWait = 10 * time.Second
)

// follower is who follows a run, beside what is recorded of it.
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
	gone      int // how often Temporal did not have it
}

// takes takes how the run stands.
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
