package cli

import (
	"context"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/spf13/cobra"
)

// rerunOptions are the options of rerun.
type rerunOptions struct {
	runFlags
	id         string
	step, from string // one of them is set
}

func rerunCmd(a *app) *cobra.Command {
	o := &rerunOptions{runFlags: runFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "rerun [RUN]",
		Short: "Run a step again, or everything from a step on",
		Long: `Runs a finished step of a run again: with --step that step alone, with --from also
all that came after it. Other finished steps keep their recorded results and
variables; steps that failed or were never reached run, as "bide resume" does. A step is named as "bide show" lists it: by its path or its label. Without RUN,
it is the newest run of this directory.

The items of a map are run again with "bide dlq retry". If the workflow file has
changed since, --force takes it as it is now.`,
		Example: `  bide rerun --step 'commands[2]'
  bide rerun nightly --from publish --force`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.step, "step", "", "run this step again")
	fs.StringVar(&o.from, "from", "", "run this step and all that came after it again")
	o.withheld(cmd)
	fs.BoolVar(&o.force, "force", false, "continue although the workflow file has changed")
	o.showing(cmd)
	return cmd
}

func (o *rerunOptions) run(ctx context.Context) error {
	opt, err := o.options()
	if err != nil {
		return err
	}
	if (o.step == "") == (o.from == "") {
		return usagef("say which step is run again: --step NAME for it alone, or --from NAME for it and all that follow")
	}
	return o.execute(ctx, opt, func(ctx context.Context, opt engine.Options) (*engine.Summary, error) {
		return engine.Rerun(ctx, o.id, o.step+o.from, o.from != "", opt)
	})
}
