package engine

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/proc"
)

// Run starts a workflow and takes it to its end. The error is not nil only
// where the run could not begin or its journal could not be kept; how the
// workflow itself ended is in the summary.
func Run(ctx context.Context, opt Options) (*Summary, error) {
	if opt.Pipeline != nil {
		opt.File = opt.Pipeline.AsFile()
	}
	if err := fill(&opt); err != nil {
		return nil, err
	}
	if err := preflight(opt); err != nil {
		return nil, err
	}
	h, err := opt.header()
	if err != nil {
		return nil, err
	}
	j, err := opt.Store.Create(h)
	if err != nil {
		return nil, err
	}
	return execute(ctx, opt, j, &journal.State{})
}

// execute runs a workflow on an open journal, which it closes.
func execute(ctx context.Context, opt Options, j *journal.Journal, state *journal.State) (_ *Summary, err error) {
	defer func() { err = errors.Join(err, j.Close()) }()
	sup, err := proc.New(j.ProcDir(), proc.Options{NoCompanion: NoCompanion})
	if err != nil {
		return nil, err
	}
	defer func() { // while the disk works, what commands have left is looked for
		settled := begin(j.Settle)
		err = errors.Join(err, sup.Close(), settled())
	}()
	r := &run{opt: opt, file: opt.File, j: j, state: state, started: time.Now()}
	if opt.Part != nil && !opt.Part.Begin && !state.Started.IsZero() {
		r.started = state.Started
	}
	if err := letters.Forget(j); err != nil {
		return nil, err
	}
	end := r.local(sup)
	defer end()
	if opt.Commands != nil {
		opt.Commands(sup.Suspend)
	}
	g := guard{soft: opt.Soft, grace: opt.Grace, j: j, x: r.x, control: &r.control, kill: func() { sup.KillAll(syscall.SIGKILL) }}
	ctx, stop := g.watch(ctx)
	defer stop()

	sum := r.whole(ctx)
	sum.Dir = j.Dir()
	return sum, nil
}

// begin begins to do something, and gives the function that waits for its end.
func begin(do func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return func() error { return <-done }
}
