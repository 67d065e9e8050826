package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/spf13/cobra"
)

// standing is what status tells: what runs, and what waits for somebody.
type standing struct {
	Home        string    `json:"home"`
	Running     []runInfo `json:"running"`
	Resumable   []runInfo `json:"resumable"`
	DeadLetters int       `json:"dead_letters"`
	Letters     []string  `json:"runs_with_dead_letters"`
}

// statusOptions are what status needs.
type statusOptions struct{ *app }

func statusCmd(a *app) *cobra.Command {
	o := &statusOptions{a}
	return o.withJSON(&cobra.Command{
		Use:   "status",
		Short: "Show what is running, and what is waiting to be resumed",
		Long: `Shows which runs are running, how many can be resumed, and how many dead letters
there are, with the command that continues each.`,
		Example: `  bide status
  bide status --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}, "print one JSON object")
}

func (o *statusOptions) run(ctx context.Context) error {
	st, err := o.openStore()
	if err != nil {
		return err
	}
	s := standing{Home: st.Dir, Running: []runInfo{}, Resumable: []runInfo{}, Letters: []string{}}
	for sum, err := range st.Runs(ctx) {
		if err != nil && sum.ID == "" {
			return err
		}
		i := infoOf(sum, err)
		switch {
		case i.Status == event.Running:
			s.Running = append(s.Running, i)
		case i.Resumable:
			s.Resumable = append(s.Resumable, i)
		}
		if n := sum.Items.DeadLettered; n > 0 {
			s.DeadLetters, s.Letters = s.DeadLetters+n, append(s.Letters, sum.ID)
		}
	}
	return answer(&o.streams, &s, o.printStatus)
}

func (o *statusOptions) printStatus(s *standing) error {
	if n := len(s.Running); n == 0 {
		fmt.Fprintln(o.out, "nothing runs")
	} else {
		fmt.Fprintln(o.out, diag.Count(n, "run is running", "runs are running"))
		if err := o.printRuns(s.Running); err != nil {
			return err
		}
	}
	var b strings.Builder
	if n := len(s.Resumable); n > 0 {
		last := s.Resumable[0]
		line := fmt.Sprintf("%s be resumed; the last is %s%s: bide resume %s", diag.Count(n, "run can", "runs can"), shortRun(last.Run), nameOf(visible(last.title())), shortRun(last.Run))
		b.WriteString(fold(line, o.columns(o.out), "  ") + "\n")
	}
	if s.DeadLetters > 0 {
		fmt.Fprintf(&b, "%s in %s: bide dlq list %s\n", diag.Count(s.DeadLetters, "dead letter"), diag.Count(len(s.Letters), "run"), shortRun(s.Letters[0]))
	}
	return o.print(b.String())
}
