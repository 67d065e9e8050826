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
		Short: "Go on with an interrupted or failed run",
		Long: `Goes on with a run where it stopped: steps and items whose end is recorded are not
run again, waits, budgets, thresholds and breakers go on where they were. RUN is
an id or its beginning; without it, it is the last run.

If the workflow file has changed since, resume refuses and shows the
difference; --force goes on with the file as it is now.`,
		Example: `  bide resume
  bide resume 01KAJ3 --force`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if len(args) > 0 {
				id = args[0]
			}
			opt, err := f.options()
			if err != nil {
				return err
			}
			return a.execute(cmd.Context(), f, opt, func(ctx context.Context, o engine.Options) (*engine.Summary, error) {
				return engine.Resume(ctx, id, o)
			})
		},
	}
	cmd.Flags().IntVar(&f.maxParallel, "max-parallel", 0, "agents at once, instead of the recorded number")
	cmd.Flags().BoolVar(&f.force, "force", false, "go on although the workflow file has changed")
	f.showing(cmd, a)
	return cmd
}
