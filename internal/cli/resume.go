package cli

import (
	"context"
	"errors"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/spf13/cobra"
)

// resumeOptions are the options of resume.
type resumeOptions struct {
	runFlags
	id string
}

func resumeCmd(a *app) *cobra.Command {
	o := &resumeOptions{runFlags: runFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Continue an interrupted or failed run",
		Long: `Continues a run where it stopped: steps and items whose end is recorded do not run
again; waits, budgets, thresholds and breakers continue from where they were. Without RUN, it is
the newest run of this directory that can be resumed; bide docs "which run" has all
ways to name one.

If the workflow file has changed since, resume refuses and shows the
difference; --force continues with the file as it is now.`,
		Example: `  bide resume
  bide resume 01KAJ3 --force`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().Var(&countFlag{&o.MaxParallel}, "max-parallel", "items at once, instead of the recorded number")
	o.withheld(cmd)
	cmd.Flags().BoolVar(&o.force, "force", false, "continue although the workflow file has changed")
	o.showing(cmd)
	return cmd
}

func (o *resumeOptions) run(ctx context.Context) error {
	opt, err := o.options()
	if err != nil {
		return err
	}
	switch whole, is, err := o.elsewhere(o.id); {
	case err != nil:
		return o.explainError(err)
	case is:
		return o.resumeOn(ctx, opt, whole)
	}
	if o.jobs, err = o.continueJobs(ctx, o.id); err != nil {
		return o.explainError(err)
	}
	return o.execute(ctx, opt, func(ctx context.Context, opt engine.Options) (*engine.Summary, error) {
		sum, err := engine.Resume(ctx, o.id, opt)
		if o.jobs != nil && errors.As(err, new(*engine.FinishedError)) {
			o.jobs.over = true
		}
		return sum, err
	})
}
