package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// askStopOn asks Temporal to stop a run.
func askStopOn(ctx context.Context, run string, now bool) error {
	args := []string{"stop", run}
	if now {
		args = append(args, "now")
	}
	_, err := temporal(ctx, nil, args...)
	if err == nil {
		return nil
	}
	if word, werr := wordOf(ctx, run); werr == nil && word != "running" {
		return fmt.Errorf("run %s is no longer known to Temporal, so there is nothing to stop: bide show %[1]s shows what is recorded, bide resume %[1]s continues with that", shortRun(run))
	}
	return fmt.Errorf("run %s could not be stopped, and may still be running: %w", run, err)
}

// tellOn sends a request to the map of a running run.
func tellOn(ctx context.Context, run string, q cluster.Control) error {
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	_, err = temporal(ctx, bytes.NewReader(text), "control", run)
	return err
}

// controlOn is bide control for a run on Temporal.
func (o *controlOptions) controlOn(ctx context.Context, run string) error {
	return o.reading(run, func(r *journal.Reader) error {
		before, err := r.State(ctx)
		if err != nil {
			return err
		}
		if err := tellOn(ctx, run, cluster.Control{Do: o.q.Do, Parallel: o.q.Parallel}); err != nil {
			return err
		}
		return o.controlled(run, before)
	})
}

// requeueOn asks Temporal to run dead letters again: in the running map, or in a new execution
// of the run.
func (o *dlqRetryOptions) requeueOn(ctx context.Context, opt engine.Options, filter letterFilter, begins func(map[int]json.RawMessage) error) error {
	if !o.recorded || o.edited != "" || opt.MaxParallel > 0 {
		return usagef("a run on Temporal keeps the file and the items that it began with: write --as-recorded, without --data and --max-parallel")
	}
	var list []journal.DeadLetter
	err := o.reading(o.id, func(r *journal.Reader) error {
		return eachLetter(ctx, r, filter, func(_ *letterInfo, l journal.DeadLetter) error {
			list = append(list, l)
			return nil
		})
	})
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return fmt.Errorf("no dead letter in run %s matches: nothing was run; see `bide dlq list %s`", o.id, o.id)
	}
	if err := begins(nil); err != nil {
		return err
	}
	return o.resumeOn(ctx, opt, o.id, list...)
}

// overOn is the status of a run that has nothing left to do; "" for any other.
func overOn(ctx context.Context, home *journal.Store, run string) (status string, err error) {
	err = readRun(home, run, func(r *journal.Reader) error {
		sum, err := r.Summary(ctx)
		if sum.Status == event.Succeeded || sum.Status == event.CompletedWithFailures {
			status = sum.Status
		}
		return err
	})
	return status, err
}

// stopOn asks Temporal to stop a run, and waits until it has stopped; an interrupt ends the
// wait.
func (o *stopOptions) stopOn(ctx context.Context, run string) error {
	if err := askStopOn(ctx, run, o.now); err != nil {
		return err
	}
	begin, asked := time.Now(), time.Now()
	for inUse := true; inUse; {
		var err error
		if inUse, err = o.inUse(run); err != nil {
			return err
		}
		if inUse && time.Since(asked) > askEvery && time.Since(begin) > drainWait {
			asked = time.Now()
			if why := stateOn(ctx, run, askWait)[run].Trouble; why != "" {
				return fmt.Errorf("run %s was asked to stop, and its end is not recorded yet: %s", run, why)
			}
		}
		if err := (clock.Machine{}).Wait(ctx, stopWait, nil); err != nil {
			return err
		}
	}
	return o.printf("stopped run %s; `bide resume %s` continues it\n", run, run)
}
