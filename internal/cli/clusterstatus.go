package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/spf13/cobra"
)

// clusterStatusOptions are the options of cluster status.
type clusterStatusOptions struct {
	*app
}

func clusterStatusCmd(a *app) *cobra.Command {
	o := &clusterStatusOptions{a}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the workers of the Temporal server, and what its runs wait for",
		Long: `Shows the workers that fit this version of bide with their slots, how much work
waits for a slot, and each run in progress with what holds it up. If workers are
versions of a Temporal deployment, it shows those too. The exit status is 1 if
something holds up a run.`,
		Example: `  bide cluster status
  bide cluster status --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	return o.withJSON(cmd, "print a JSON object")
}

func (o *clusterStatusOptions) run(ctx context.Context) error {
	s, err := clusterState(ctx)
	if err != nil {
		return err
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

// clusterState asks the server for the states of workers and runs.
func clusterState(ctx context.Context) (s cluster.State, err error) {
	text, err := temporal(ctx, nil, "cluster")
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("bide-temporal says %q: is it of the same version as bide?", text)
	}
	return s, nil
}

func (o *clusterStatusOptions) print(s cluster.State, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", s.Server(), s.Work())
	for _, w := range s.Workers {
		fmt.Fprintf(&b, "  %s: %s, heard of %s\n", s.Named(w), diag.Count(w.Slots, "slot"), w.Ago(now))
	}
	fmt.Fprintf(&b, "%s\n%s\n", s.Waits(), s.Progress())
	for _, r := range s.Runs {
		fmt.Fprintf(&b, "  %s: since %s, %s\n", shortRun(r.Run), r.Since.Local().Format(time.DateTime), r.Says())
	}
	return o.printf("%s", b.String()) // the table has short names for runs
}
