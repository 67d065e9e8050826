package cli

import (
	"context"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/spf13/cobra"
)

func (a *app) rerunCmd() *cobra.Command {
	f := &runFlags{}
	var one, from string
	cmd := &cobra.Command{
		Use:   "rerun [RUN]",
		Short: "Run a step again, or everything from a step on",
		Long: `Runs a step of a run again, although it has ended: with --step that one, with --from
also all that came after it. Everything else is taken over as it is recorded, with
the variables that it set; what failed or was never reached is run as "bide resume"
does. A step is named as "bide show" lists it: by its path or its label. Without RUN
it is the last run of this directory.

The items of a map are run again with "bide dlq retry". If the workflow file has
changed since, --force takes it as it is now.`,
		Example: `  bide rerun --step 'commands[2]'
  bide rerun nightly --from publish --force`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := f.options()
			if err != nil {
				return err
			}
			if (one == "") == (from == "") {
				return usagef("say which step is run again: --step NAME for it alone, or --from NAME for it and all that follow")
			}
			id := first(args)
			if id == "" {
				if id, err = a.lastHere(cmd, "", func(runInfo) bool { return true }); err != nil {
					return err
				}
			}
			return a.execute(cmd.Context(), f, opt, func(ctx context.Context, o engine.Options) (*engine.Summary, error) {
				return engine.Rerun(ctx, id, one+from, from != "", o)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&one, "step", "", "run this step again")
	fs.StringVar(&from, "from", "", "run this step and all that came after it again")
	f.withheld(cmd)
	fs.BoolVar(&f.force, "force", false, "continue although the workflow file has changed")
	f.showing(cmd, a)
	return cmd
}
