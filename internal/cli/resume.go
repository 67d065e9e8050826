package cli

import (
	"context"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/spf13/cobra"
)

func (a *app) resumeCmd() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Continue an interrupted or failed run",
		Long: `Continues a run where it stopped: steps and items whose end is recorded do not run
again; waits, budgets, thresholds and breakers continue from where they were. RUN is
an id, its beginning or end, last, last-1, or the name of a workflow; without it, it
is the last run of this directory that can be resumed.

If the workflow file has changed since, resume refuses and shows the
difference; --force continues with the file as it is now.`,
		Example: `  bide resume
  bide resume 01KAJ3 --force`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := f.options()
			if err != nil {
				return err
			}
			id := first(args)
			if id == "" {
				if id, err = a.lastHere(cmd, " to go on with", func(i runInfo) bool { return i.Resumable }); err != nil {
					return err
				}
			}
			switch whole, is, err := a.elsewhere(id); {
			case err != nil:
				return a.explainError(err)
			case is:
				return a.resumeOn(cmd.Context(), f, opt, whole)
			}
			if f.jobs, err = a.continueJobs(cmd.Context(), id, nil); err != nil {
				return a.explainError(err)
			}
			return a.execute(cmd.Context(), f, opt, func(ctx context.Context, o engine.Options) (*engine.Summary, error) {
				return engine.Resume(ctx, id, o)
			})
		},
	}
	cmd.Flags().Var(&countFlag{&f.MaxParallel}, "max-parallel", "agents at once, instead of the recorded number")
	f.withheld(cmd)
	cmd.Flags().BoolVar(&f.force, "force", false, "continue although the workflow file has changed")
	f.showing(cmd, a)
	return cmd
}
