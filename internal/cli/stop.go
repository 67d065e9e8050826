package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/spf13/cobra"
)

// stopOptions are the options of stop.
type stopOptions struct {
	*app
	id  string
	now bool
}

func stopCmd(a *app) *cobra.Command {
	o := &stopOptions{app: a}
	cmd := &cobra.Command{
		Use:   "stop [RUN]",
		Short: "Stop a run in progress",
		Long: `Asks the process of a run to stop, as Ctrl-C does: nothing new starts, running steps
have 10 s to end, and "bide resume" continues the run. --now kills running steps
immediately. Without RUN, it is the newest run of this directory that is running.

It waits until the process has ended.`,
		Example: `  bide stop
  bide stop 01KAJ3 --now`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.now, "now", false, "kill running steps immediately")
	return cmd
}

// stopWait is how often stop checks whether the process has left the run.
const stopWait = 100 * time.Millisecond

func (o *stopOptions) run(ctx context.Context) error {
	switch id, is, err := o.elsewhere(o.id); {
	case err != nil:
		return err
	case is:
		return o.stopOn(ctx, id)
	}
	return o.reading(o.id, func(r *journal.Reader) error {
		err := r.RequestStop(journal.StopRequest{PID: os.Getpid(), Time: time.Now(), Now: o.now})
		if errors.Is(err, journal.ErrNotInUse) {
			return notInUse(ctx, r)
		}
		if err != nil {
			return err
		}
		for {
			held, err := r.InUse()
			if err != nil {
				return err
			}
			if !held {
				return o.printStopped(ctx, r)
			}
			if err := (clock.Machine{}).Wait(ctx, stopWait, nil); err != nil {
				return err
			}
		}
	})
}

// notInUse says that no process has a run, and what has become of the run.
func notInUse(ctx context.Context, r *journal.Reader) error {
	sum, err := r.Summary(ctx)
	if err != nil {
		return err
	}
	now := "it has " + words(sum.Status)
	switch i := infoOf(sum, nil); {
	case i.Resumable:
		now = "bide resume " + shortRun(r.Run()) + " continues it"
	case sum.Items.DeadLettered > 0:
		now += "; bide dlq retry " + shortRun(r.Run()) + " runs what failed again"
	}
	return usagef("run %s: %w; %s", r.Run(), journal.ErrNotInUse, now)
}

// printStopped says how a run ended that no process has any more. It may have succeeded or
// failed before its process saw the request.
func (o *stopOptions) printStopped(ctx context.Context, r *journal.Reader) error {
	sum, err := r.Summary(ctx)
	if err != nil {
		return err
	}
	if infoOf(sum, nil).Resumable {
		err = o.printf("stopped run %s; `bide resume %s` continues it\n", r.Run(), r.Run())
	} else {
		err = o.printf("run %s has ended by itself: %s\n", r.Run(), words(sum.Status))
	}
	return err
}
