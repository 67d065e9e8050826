package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/spf13/cobra"
)

// clusterStatusOptions are what cluster status was asked to do.
type clusterStatusOptions struct {
	*app
}

func clusterStatusCmd(a *app) *cobra.Command {
	o := &clusterStatusOptions{a}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the workers of the Temporal server, and what its runs wait for",
		Long: `Shows the workers that take work of this version's protocol with their slots, how much waits for
a free slot, and each run in progress with what holds it up. The exit status is 1 where
something holds up a run.`,
		Example: `  bide cluster status
  bide cluster status --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	return o.withJSON(cmd, "print a JSON object")
}

func (o *clusterStatusOptions) run(ctx context.Context) error {
	text, err := temporal(ctx, nil, "cluster")
	if err != nil {
		return err
	}
	var s cluster.State
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("bide-temporal says %q: is it of the same version as bide?", text)
	}
	if o.json {
		err = printJSON(o.out, s)
	} else {
		err = o.print(s, time.Now())
	}
	if err == nil && s.HeldUp() {
		err = exitError(1)
	}
	return err
}

func (o *clusterStatusOptions) print(s cluster.State, now time.Time) error {
	if err := o.printf("Temporal at %s, namespace %s, protocol %d\n", s.Address, s.Namespace, s.Protocol); err != nil {
		return err
	}
	if err := o.printf("%s, %s\n", diag.Count(len(s.Workers), "worker"), diag.Count(s.Slots, "slot")); err != nil {
		return err
	}
	for _, w := range s.Workers {
		if err := o.printf("  %s: %s, heard of %s ago\n", w.Name, diag.Count(w.Slots, "slot"), now.Sub(w.Heard).Round(time.Second)); err != nil {
			return err
		}
	}
	waits := "nothing waits for a slot"
	if s.Waiting > 0 {
		waits = fmt.Sprintf("%s for a slot, for up to %s", diag.Count(s.Waiting, "lease waits", "leases wait"), s.For.Round(time.Second))
	}
	if err := o.printf("%s\n%s\n", waits, diag.Count(len(s.Runs), "run in progress", "runs in progress")); err != nil {
		return err
	}
	for _, r := range s.Runs {
		text := diag.Count(r.Leases, "open lease")
		if r.Trouble != "" {
			text = "held up: " + r.Trouble
		}
		if err := o.printf("  %s: since %s, %s\n", shortRun(r.Run), r.Since.Local().Format(time.DateTime), text); err != nil {
			return err
		}
	}
	return nil
}
