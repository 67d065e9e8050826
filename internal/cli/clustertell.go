package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// askStop has Temporal stop a run.
func (a *app) askStop(ctx context.Context, run string, now bool) error {
	args := []string{"stop", run}
	if now {
		args = append(args, "now")
	}
	_, err := a.temporal(ctx, nil, args...)
	if err != nil {
		err = fmt.Errorf("run %s could not be stopped, and goes on: %w", run, err)
	}
	return err
}

// tellOn has the map of a run that goes on do something.
func (a *app) tellOn(ctx context.Context, run string, q cluster.Control) error {
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	_, err = a.temporal(ctx, bytes.NewReader(text), "control", run)
	return err
}

// controlOn is bide control of a run on Temporal.
func (a *app) controlOn(ctx context.Context, run string, q journal.ControlRequest) error {
	if err := a.tellOn(ctx, run, cluster.Control{Do: q.Do, Parallel: q.Parallel}); err != nil {
		return err
	}
	return a.controlled(run, q)
}

// requeueOn has Temporal run dead letters again: in the map that goes on, or in a new
// life of the run.
func (a *app) requeueOn(ctx context.Context, f *runFlags, opt engine.Options, run string, filter letterFilter, plain bool) error {
	if !plain || opt.MaxParallel > 0 {
		return usagef("a run on Temporal keeps to the file and the items as they were when it began: write --as-recorded, without --data and --max-parallel")
	}
	var list []journal.DeadLetter
	err := a.reading(run, func(r *journal.Reader) error {
		return letters(ctx, r, filter, func(_ *letterInfo, l journal.DeadLetter) error {
			list = append(list, l)
			return nil
		})
	})
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return fmt.Errorf("no dead letter in run %s fits: nothing was run; see `bide dlq list %s`", run, run)
	}
	return a.resumeOn(ctx, f, opt, run, list...)
}

// over is the status of a run in which nothing is left to do; "" of any other.
func (a *app) over(ctx context.Context, home *journal.Store, run string) (string, error) {
	r, err := home.Read(run)
	if err != nil {
		return "", err
	}
	sum, err := r.Summary(ctx)
	if err = errors.Join(err, r.Close()); err != nil {
		return "", err
	}
	if sum.Status == event.Succeeded || sum.Status == event.CompletedWithFailures {
		return sum.Status, nil
	}
	return "", nil
}

// stopOn asks Temporal to stop a run, and waits until it has; an interrupt ends the wait.
func (a *app) stopOn(ctx context.Context, run string, now bool) error {
	if err := a.askStop(ctx, run, now); err != nil {
		return err
	}
	begin, asked := time.Now(), time.Now()
	for goesOn := true; goesOn; {
		err := a.reading(run, func(r *journal.Reader) (err error) {
			goesOn, err = r.InUse()
			return err
		})
		if err != nil {
			return err
		}
		if goesOn && time.Since(asked) > askEvery && time.Since(begin) > drainWait {
			asked = time.Now()
			if why := a.stands(ctx, run, askWait)[run].Trouble; why != "" {
				return fmt.Errorf("run %s was asked to stop, and its end is not recorded yet: %s", run, why)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(stopWait):
		}
	}
	return a.printf("stopped run %s; `bide resume %s` goes on with it\n", run, run)
}
