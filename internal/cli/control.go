package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// controls are the requests that a running run accepts.
var controls = []string{journal.Pause, journal.Continue, journal.Parallel, journal.RetryNow, journal.Probe, "stop"}

// controlOptions are the options of control.
type controlOptions struct {
	*app
	id     string
	q      journal.ControlRequest
	lifted []string // limits of the machine whose pauses were ended
}

func controlCmd(a *app) *cobra.Command {
	o := &controlOptions{app: a}
	cmd := &cobra.Command{
		Use:   "control [RUN] ACTION [N]",
		Short: "Pause, continue, resize or stop a running run",
		Long: `Asks the process of a run to change what it does. Without RUN, it is the newest run
of this directory that is running.

  pause       start nothing new: no item, step or attempt; what is running ends
  continue    start again; where the map is held, end the hold
  probe       try one item of a map that is held, now
  parallel N  run N items of the map at once
  retry-now   start all waiting retries of steps and items now, and end the
              pauses for rate limits: agents are asked again, and the limits of
              this machine that the run names are free again for all runs
  stop        stop, as "bide stop" does

Timeouts keep running while a run is paused. A pause and a number of items survive
the end of the process, even kill -9: a resumed run stays paused until you continue
it, which you can do before or after the resume. A pipeline can only be stopped.`,
		Example: `  bide control pause
  bide control nightly parallel 2
  bide control last retry-now`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			args = runFirst(args)
			if len(args) == 1 {
				return usagef("ACTION is missing; write: %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
			}
			o.id = args[0]
			if o.q, err = controlOf(args[1:]); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if flag := new(pflag.NotExistError); errors.As(err, &flag) {
			if _, aerr := strconv.Atoi(flag.GetSpecifiedShortnames()); aerr == nil {
				return usagef("parallel is %q; it must be %s", "-"+flag.GetSpecifiedShortnames(), someCount)
			}
		}
		return wrongFlag(cmd, err)
	})
	return cmd
}

// runFirst puts the name of a run before the action where it follows it, as in pause RUN; the
// number stays at the end.
func runFirst(args []string) []string {
	known := func(i int) bool { return slices.Contains(controls, args[i]) }
	switch {
	case len(args) == 2 && known(0) && !known(1) && args[0] != journal.Parallel:
		return []string{args[1], args[0]}
	case len(args) == 3 && args[0] == journal.Parallel && !known(1):
		return []string{args[1], args[0], args[2]}
	}
	return args
}

// namesNoRun says that the arguments of control begin with an action.
func namesNoRun(args []string) bool {
	if !slices.Contains(controls, args[0]) && formerly["bide control "+args[0]] == "" {
		return false
	}
	return len(args) == 1 || args[0] == journal.Parallel && len(args) == 2 && !slices.Contains(controls, args[1])
}

// controlOf reads the request for a run.
func controlOf(args []string) (journal.ControlRequest, error) {
	if name, n, ok := strings.Cut(args[0], "="); ok && name == journal.Parallel && len(args) == 1 {
		args = []string{name, n}
	}
	do := args[0]
	q := journal.ControlRequest{PID: os.Getpid(), Time: time.Now(), Do: do}
	switch {
	case formerly["bide control "+do] != "":
		return q, usagef("the action %s is not known; %s", do, formerly["bide control "+do])
	case !slices.Contains(controls, do):
		return q, usageError{unknownWord("the action", do, controls)}
	case do != journal.Parallel && len(args) > 1:
		return q, usagef("%q is one argument too many: %s takes none", args[1], do)
	case do != journal.Parallel:
		return q, nil
	case len(args) == 1:
		return q, usagef("parallel needs a number; write: bide control RUN parallel N")
	}
	var err error
	if q.Parallel, err = readCount(args[1]); err != nil {
		return q, usagef("parallel is %q; it must be %s", args[1], someCount)
	}
	return q, nil
}

func (o *controlOptions) run(ctx context.Context) error {
	if o.q.Do == "stop" {
		return (&stopOptions{app: o.app, id: o.id}).run(ctx)
	}
	switch id, is, err := o.elsewhere(o.id); {
	case err != nil:
		return err
	case is:
		return o.controlOn(ctx, id)
	}
	return o.here(ctx)
}

// here asks the process that has the run, and reports what came of it.
func (o *controlOptions) here(ctx context.Context) error {
	return o.reading(o.id, func(r *journal.Reader) error {
		switch kind := r.Header().Kind; {
		case kind == workflow.Dataflow.String():
			return usagef("run %s is a pipeline, whose calls can only be stopped: bide stop %s", r.Run(), r.Run())
		case o.q.Do == journal.Probe && kind != workflow.MapReduce.String():
			return usagef("run %s has no map, so probe does not apply", r.Run())
		case o.q.Do == journal.Parallel && kind != workflow.MapReduce.String():
			return usagef("run %s has no map, so parallel does not apply", r.Run())
		}
		before, err := r.State(ctx)
		if err != nil {
			return err
		}
		if o.q.Do == journal.RetryNow {
			if o.lifted, err = liftShared(r.Header()); err != nil {
				return err
			}
		}
		asked := false
		for {
			if !asked {
				switch err := r.RequestControl(o.q); {
				case errors.Is(err, journal.ErrNotInUse) && (o.q.Do == journal.Continue || o.q.Do == journal.RetryNow):
					return o.controlLater(ctx, r.Run())
				case errors.Is(err, journal.ErrNotInUse):
					return notInUse(ctx, r)
				case err == nil:
					asked = true
				case !errors.Is(err, journal.ErrRequested): // somebody else asked before us
					return err
				}
			} else if !r.ControlRequested() {
				return o.controlled(r.Run(), before)
			} else if held, err := r.InUse(); err != nil || !held {
				return errors.Join(err, notInUse(ctx, r))
			}
			if err := (clock.Machine{}).Wait(ctx, stopWait, nil); err != nil {
				return err
			}
		}
	})
}

// namedLimits are the limits of the machine that the workflow of a run and its pipelines name.
// If the file cannot be read, whoever continues the run gets the reason.
func namedLimits(h journal.Header) []workflow.LimitRef {
	f, _ := workflow.Parse(h.Path, h.Source, workflow.Options{Unfilled: true, ReadFile: h.ReadFile})
	if f == nil {
		return nil
	}
	return dataflow.LoadSteps(f, h.Dir).Limits(f)
}

// liftShared ends the pauses of the limits that a run names. All runs of the machine share
// these limits: a user who makes one run ask again says that the provider answers. liftShared
// returns the names of the limits that were paused.
func liftShared(h journal.Header) (lifted []string, err error) {
	home, err := journal.Home()
	if err != nil {
		return nil, err
	}
	c, err := limits.Read(home)
	if err != nil || len(c.Limits) == 0 {
		return nil, err
	}
	names := slices.DeleteFunc(workflow.LimitNames(namedLimits(h)), func(name string) bool { _, ok := c.Limits[name]; return !ok })
	all := limits.Open(home, nil)
	lifted, err = all.Lift(names, time.Now())
	return lifted, errors.Join(err, all.Close())
}

// sharedText says which pauses of the machine were ended; "" for none.
func (o *controlOptions) sharedText() string {
	if len(o.lifted) == 0 {
		return ""
	}
	return "; the pause of " + strings.Join(o.lifted, ", ") + " is lifted for all runs"
}

// controlled reports that a run does what it was asked to. before is its state before.
func (o *controlOptions) controlled(run string, before *journal.State) error {
	text := o.q.Do
	if o.q.Parallel > 0 {
		text += " " + strconv.Itoa(o.q.Parallel)
	}
	text = fmt.Sprintf("run %s: %s", run, text)
	held := timeline.HoldupsOf(before)
	agents := held.AgentsText(shortRun(run), time.Now())
	switch {
	case o.q.Do == journal.RetryNow:
		if before.Limited(time.Now()) {
			if _, _, down := held.Agents(time.Now()); !down {
				text += "; the rate limit is lifted, and agents are asked again"
			} else {
				text += "; agents are asked again"
			}
		}
		text += o.sharedText()
	case o.q.Do == journal.Probe && before.Hold == nil && before.QueueHold == nil:
		text = fmt.Sprintf("run %s is not held", run)
	case o.q.Do == journal.Probe && before.QueueHold == nil && !before.Held.IsZero():
		text += "; but it is " + held.PausedText(shortRun(run)) + ", which ends the hold as well"
	case o.q.Do == journal.Continue && (before.Hold != nil || before.QueueHold != nil):
		text += "; the hold is ended"
	case o.q.Do != journal.Continue:
	case before.Held.IsZero() && agents != "":
		text = fmt.Sprintf("run %s is not paused; %s", run, agents)
	case before.Held.IsZero():
		text = fmt.Sprintf("run %s is not paused", run)
	case agents != "":
		text += "; " + agents
	}
	return o.printf("%s\n", text)
}

// nothingWaits is for a run that no process has and in which nothing is held back. It says
// what can be done with the run.
func (o *controlOptions) nothingWaits(ctx context.Context, run string) error {
	return o.reading(run, func(r *journal.Reader) error {
		sum, err := r.Summary(ctx)
		if err != nil {
			return err
		}
		if sum.Status != event.Interrupted && sum.Status != event.Failed {
			return usagef("run %s has ended (%s): nothing of it waits", shortRun(run), words(sum.Status))
		}
		what := "it is not paused"
		if o.q.Do == journal.RetryNow {
			what = "nothing of it waits for a time"
		}
		return o.printf("run %s: no process has it, and %s; bide resume %s continues it\n", run, what, shortRun(run))
	})
}

// controlLater records a request for the next process of a run that no process has now.
func (o *controlOptions) controlLater(ctx context.Context, run string) error {
	st, err := o.openStore()
	if err != nil {
		return err
	}
	switch err := letters.Later(ctx, st, run, o.q.Do); {
	case errors.Is(err, journal.ErrNotInUse) && len(o.lifted) > 0: // nothing of the run's own is held back
	case errors.Is(err, journal.ErrNotInUse):
		return o.nothingWaits(ctx, run)
	case err != nil:
		return err
	}
	return o.printf("run %s: %s%s; bide resume %s continues it\n", run, o.q.Do, o.sharedText(), shortRun(run))
}
