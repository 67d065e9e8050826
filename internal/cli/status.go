package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/spf13/cobra"
)

// standing is what status tells: what runs, and what waits for somebody.
type standing struct {
	Home        string     `json:"home"`
	Running     []underway `json:"running"`
	Resumable   []runInfo  `json:"resumable"`
	DeadLetters int        `json:"dead_letters"`
	Letters     []string   `json:"runs_with_dead_letters"`
	Waiting     []todo     `json:"waiting"` // for somebody, the newest first
	more        int        // runs that wait as well and are not in it
}

// underway is a run in progress, and what holds it up.
type underway struct {
	runInfo
	Why []string `json:"why"`
}

// todo is a run that waits for somebody: what went wrong, why, and what to do.
type todo struct {
	runInfo
	What     string   `json:"what"`
	Why      []string `json:"why"`
	Commands []string `json:"commands"`
}

// maxTodos is how many runs status tells of in full, and maxWhys how many causes of one.
const (
	maxTodos = 10
	maxWhys  = 3
)

// statusOptions are what status needs.
type statusOptions struct{ *app }

func statusCmd(a *app) *cobra.Command {
	o := &statusOptions{a}
	return o.withJSON(&cobra.Command{
		Use:   "status",
		Short: "Show what is running, what failed and why, and what to do about it",
		Long: `Shows which runs are running and what holds them up, and the newest that wait for you: what was interrupted
or failed and why, which items failed, whose work is not merged, each with the commands
that continue it. It is the first thing to ask in the morning.`,
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
	s := standing{Home: st.Dir, Running: []underway{}, Resumable: []runInfo{}, Letters: []string{}, Waiting: []todo{}}
	for sum, err := range st.Runs(ctx) {
		if err != nil && sum.ID == "" {
			return err
		}
		i := infoOf(sum, err)
		switch {
		case i.Status == event.Running:
			if err := s.run(ctx, st, i); err != nil {
				return err
			}
		case i.Resumable:
			s.Resumable = append(s.Resumable, i)
		}
		if n := sum.Items.DeadLettered; n > 0 {
			s.DeadLetters, s.Letters = s.DeadLetters+n, append(s.Letters, sum.ID)
		}
		if err := s.wait(ctx, st, i, sum); err != nil {
			return err
		}
	}
	return answer(&o.streams, &s, o.printStatus)
}

// run takes a run in progress.
func (s *standing) run(ctx context.Context, st *journal.Store, i runInfo) error {
	return readRun(st, i.Run, func(r *journal.Reader) error {
		of, err := showNow(ctx, st, r)
		if err != nil {
			return err
		}
		s.Running = append(s.Running, underway{i, of.why()})
		return nil
	})
}

// wait takes a run that waits for somebody.
func (s *standing) wait(ctx context.Context, st *journal.Store, i runInfo, sum journal.Summary) error {
	if i.Status == event.Running || i.Status == unreadable {
		return nil
	}
	if !i.Resumable && sum.Items.DeadLettered == 0 && sum.Left.What == "" {
		return nil
	}
	if len(s.Waiting) == maxTodos {
		s.more++
		return nil
	}
	return readRun(st, i.Run, func(r *journal.Reader) error {
		of, err := showOf(ctx, r)
		if err != nil {
			return err
		}
		t := todo{runInfo: i, Why: []string{}, Commands: []string{}}
		t.fill(of, sum)
		if i.Status == event.Interrupted {
			t.Why = append([]string{of.how}, t.Why...)
		}
		s.Waiting = append(s.Waiting, t)
		return nil
	})
}

func (t *todo) fill(of *shown, sum journal.Summary) {
	run, left, merge := shortRun(t.Run), sum.Left.What, sum.Left.Command
	switch {
	case t.Status == event.Interrupted:
		t.What = "interrupted"
		if work := t.work(false); work != "" {
			t.What += " after " + work
		}
	case t.Status == event.Failed:
		t.What = "failed"
		t.Why = append(t.Why, strings.ReplaceAll(strings.TrimSpace(of.Message), "\n", "; "))
	case sum.Items.Failed > 0:
		t.What = fmt.Sprintf("%d of %s failed", sum.Items.Failed, diag.Count(sum.Items.Total, "item"))
	default:
		t.What = words(t.Status)
	}
	if t.Resumable {
		t.Why = append(t.Why, of.why()...)
	}
	if !of.Limited.IsZero() && t.Resumable {
		t.Why = append(t.Why, "a resume is worth it then; to ask them now: bide control "+run+" retry-now")
	}
	for n, c := range of.Errors {
		if n == maxWhys {
			t.Why = append(t.Why, "and other causes")
			break
		}
		t.Why = append(t.Why, causeText(c, reason("", c.Example)))
	}
	if t.Resumable && (merge == "" || t.Status != event.Failed) { // else only the merge is missing
		t.Commands = append(t.Commands, "bide resume "+run)
	}
	if sum.Items.DeadLettered > 0 {
		t.Commands = append(t.Commands, "bide dlq retry "+run)
	}
	if left != "" {
		t.Why = append(t.Why, left)
	}
	if merge != "" {
		t.Commands = append(t.Commands, strings.Replace(merge, t.Run, run, 1))
	}
	t.Commands = append(t.Commands, "bide show "+run)
}

// stoppedHow says how an interrupted run ended.
func stoppedHow(r *journal.Reader, sum journal.Summary) string {
	switch {
	case r.IsElsewhere():
		return "no process of this machine follows it"
	case sum.Finished.IsZero():
		return "its process died: it was killed, or the machine went down"
	}
	return "it was stopped, by Ctrl-C, a signal or bide stop"
}

// printRunning lists the runs in progress, and says of each what holds it up.
func (o *statusOptions) printRunning(list []underway) error {
	var infos []runInfo
	var b strings.Builder
	for _, r := range list {
		infos = append(infos, r.runInfo)
		for _, why := range r.Why {
			b.WriteString(fold(shortRun(r.Run)+"  "+oneLine(why), o.columns(o.out), "        ") + "\n")
		}
	}
	if err := o.printRuns(infos); err != nil {
		return err
	}
	return o.print(b.String())
}

func (o *statusOptions) printStatus(s *standing) error {
	if n := len(s.Running); n == 0 {
		fmt.Fprintln(o.out, "nothing is running")
	} else {
		fmt.Fprintln(o.out, diag.Count(n, "run is running", "runs are running"))
		if err := o.printRunning(s.Running); err != nil {
			return err
		}
	}
	if len(s.Waiting) == 0 {
		return nil
	}
	p, width := o.palette(o.out), o.columns(o.out)
	var b strings.Builder
	n := len(s.Waiting) + s.more
	fmt.Fprintf(&b, "\n%s for you", diag.Count(n, "run waits", "runs wait"))
	if s.more > 0 {
		fmt.Fprintf(&b, "; these are the newest, bide runs has all")
	}
	b.WriteString("\n")
	for _, t := range s.Waiting {
		b.WriteString("\n" + fold(fmt.Sprintf("%s  %s: %s", shortRun(t.Run), p.bold(visible(t.title())), p.sgr(statusCode(t.Status), t.What)), width, "        ") + "\n")
		for _, why := range t.Why {
			b.WriteString(fold("        "+oneLine(why), width, "          ") + "\n")
		}
		for _, c := range t.Commands {
			b.WriteString("    " + c + "\n")
		}
	}
	return o.print(b.String())
}
