package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/web"
	"github.com/spf13/cobra"
)

// standing is what status prints: what is running, and what needs a person.
type standing struct {
	Home        string     `json:"home"`
	Running     []underway `json:"running"`
	Resumable   []runInfo  `json:"resumable"`
	DeadLetters int        `json:"dead_letters"`
	Letters     []string   `json:"runs_with_dead_letters"`
	Waiting     []todo     `json:"waiting"`   // runs that need a person, the newest first
	Dismissed   int        `json:"dismissed"` // how many further runs would need a person, but were dismissed
	more        []string   // further runs that need a person
}

// underway is a run in progress, and what holds it up, or else which step runs.
type underway struct {
	runInfo
	Why []string `json:"why"`
}

// todo is a run that needs a person: what went wrong, why, and what to do.
type todo struct {
	runInfo
	What     string   `json:"what"`
	Why      []string `json:"why"`
	Causes   []remedy `json:"causes"` // if there are several: those with a command of their own
	Commands []string `json:"commands"`
}

// remedy is one of several causes, and the command that retries what failed for it.
type remedy struct {
	Why     string `json:"why"`
	Filter  string `json:"filter"` // selects the dead letters
	Command string `json:"command"`
}

// remedyOf returns the command for one cause; "" if the cause has none of its own.
func (t *todo) remedyOf(why string) (r remedy) {
	if i := slices.IndexFunc(t.Causes, func(r remedy) bool { return r.Why == why }); i >= 0 {
		r = t.Causes[i]
	}
	return r
}

// maxTodos is how many runs status describes in full, and maxWhys how many causes of each.
const (
	maxTodos = 10
	maxWhys  = 3
)

// statusOptions are the options of status.
type statusOptions struct {
	*app
	dismiss []string // runs, or all
}

func statusCmd(a *app) *cobra.Command {
	o := &statusOptions{app: a}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is running, what failed and why, and what to do about it",
		Long: `Shows the runs in progress with what holds them up, or the step that runs, and the newest runs that wait
for you: interrupted, failed, with failed items, with work that is not merged, or with a journal that cannot be read.
Each has its cause and the commands that continue it. Run it first thing in the morning.

--dismiss takes a run that needs nothing more off this list. Nothing is removed: the
run stays in "bide runs", can be resumed, and comes back if it fails again.`,
		Example: `  bide status
  bide status --json
  bide status --dismiss 9NDAAW
  bide status --dismiss all`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().StringArrayVar(&o.dismiss, "dismiss", nil, "a run to take off the list, or all; may be given several times")
	return o.withJSON(cmd, "print one JSON object")
}

func (o *statusOptions) run(ctx context.Context) error {
	st, err := o.openStore()
	if err != nil {
		return err
	}
	if len(o.dismiss) > 0 {
		return o.putAside(ctx, st)
	}
	s := newStanding(st)
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
	return answer(&o.streams, s, o.printStatus)
}

func newStanding(st *journal.Store) *standing {
	return &standing{Home: st.Dir, Running: []underway{}, Resumable: []runInfo{}, Letters: []string{}, Waiting: []todo{}}
}

// putAside dismisses runs that need a person.
func (o *statusOptions) putAside(ctx context.Context, st *journal.Store) error {
	all := slices.Contains(o.dismiss, "all")
	var only []string
	if !all {
		var err error
		if only, err = o.resolveRuns(ctx, st, o.dismiss); err != nil {
			return err
		}
	}
	var done []string
	var wrong error // about runs that the user named
	for sum, err := range st.Runs(ctx) {
		if err != nil && sum.ID == "" {
			return err
		}
		named := slices.Contains(only, sum.ID)
		switch i := infoOf(sum, err); {
		case !all && !named:
		case i.Status == event.Running:
			if named {
				wrong = errors.Join(wrong, usagef("run %s is %s: only a run that waits for somebody can be dismissed", shortRun(sum.ID), words(i.Status)))
			}
		case waits(i, sum, unmergedOf(i.Status, sum.Left)) && !st.Dismissed(sum):
			if err := st.Dismiss(sum); err != nil {
				return err
			}
			done = append(done, shortRun(sum.ID))
		case named:
			wrong = errors.Join(wrong, usagef("run %s waits for nobody: it is %s", shortRun(sum.ID), words(i.Status)))
		}
	}
	text := fmt.Sprintf("%d runs are dismissed; bide runs still lists them\n", len(done))
	switch {
	case len(done) == 1:
		text = fmt.Sprintf("run %s is dismissed; bide runs still lists it\n", done[0])
	case len(done) == 0 && wrong != nil:
		return wrong
	case len(done) == 0:
		text = "no run waits\n"
	}
	return errors.Join(o.print(text), wrong)
}

// waits reports whether a run that has ended needs a person.
func waits(i runInfo, sum journal.Summary, left unmerged) bool {
	return i.Status == unreadable || i.Resumable && !left.ended || sum.Items.DeadLettered > 0 || left.What != ""
}

// run adds a run in progress.
func (s *standing) run(ctx context.Context, st *journal.Store, i runInfo) error {
	return readRun(st, i.Run, func(r *journal.Reader) error {
		of, err := showNow(ctx, st, r)
		if err != nil {
			return err
		}
		why := of.why()
		if now := of.running(); len(why) == 0 && now != "" {
			why = append(why, now)
		}
		s.Running = append(s.Running, underway{i, why})
		return nil
	})
}

// running says which step of the run itself is running, and for how long; "" if none is.
func (s *shown) running() string {
	for _, i := range slices.Backward(s.StepList) {
		if i.Status == event.Running && i.Attempts > 0 {
			return fmt.Sprintf("%s is running, attempt %d, for %s", oneLine(cmp.Or(i.filled, i.Label, i.Step)), i.Attempts, took(i.DurationMS))
		}
	}
	return ""
}

// wait adds a run that needs a person.
func (s *standing) wait(ctx context.Context, st *journal.Store, i runInfo, sum journal.Summary) error {
	if i.Status == event.Running {
		return nil
	}
	left := unmergedOf(i.Status, sum.Left)
	if !waits(i, sum, left) {
		return nil
	}
	if st.Dismissed(sum) {
		s.Dismissed++
		return nil
	}
	if len(s.Waiting) == maxTodos {
		s.more = append(s.more, i.Run)
		return nil
	}
	if i.Status == unreadable {
		i.Title = "a run" // its name is in the journal
		s.Waiting = append(s.Waiting, todo{runInfo: i, What: "cannot be read", Why: []string{i.Message}, Causes: []remedy{}, Commands: []string{"bide show " + shortRun(i.Run)}})
		return nil
	}
	return readRun(st, i.Run, func(r *journal.Reader) error {
		of, err := showOf(ctx, r)
		if err != nil {
			return err
		}
		if left = of.left; !waits(i, sum, left) {
			return nil // it was merged by hand
		}
		t := todo{runInfo: i, Why: []string{}, Causes: []remedy{}, Commands: []string{}}
		t.fill(of, sum)
		if i.Status == event.Interrupted {
			t.Why = append([]string{of.how}, t.Why...)
		}
		s.Waiting = append(s.Waiting, t)
		return nil
	})
}

func (t *todo) fill(of *shown, sum journal.Summary) {
	run := shortRun(t.Run)
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
		t.What = of.left.title(t.Status)
	}
	if t.Resumable {
		t.Why = append(t.Why, of.why()...)
	}
	if !of.Limited.IsZero() && t.Resumable {
		t.Why = append(t.Why, "a resume is worth it then")
	}
	for n, c := range of.Errors {
		if n == maxWhys {
			t.Why = append(t.Why, "and other causes")
			break
		}
		why := causeText(c, reason("", c.Example))
		t.Why = append(t.Why, why)
		if all := sum.Items.DeadLettered; len(of.Errors) > 1 && c.Group != "" && all > 0 && all == sum.Items.Failed {
			filter := fmt.Sprintf("class == %q", c.Class)
			if slices.ContainsFunc(of.Errors, func(o journal.Cause) bool { return o.Class == c.Class && o.Group != c.Group }) {
				filter = fmt.Sprintf("group == %q", c.Group)
			}
			t.Causes = append(t.Causes, remedy{why, filter, "bide dlq retry " + run + " --filter " + diag.ShellQuote(filter)})
		}
	}
	if of.left.What != "" {
		t.Why = append(t.Why, of.left.What)
	}
	for _, c := range of.left.commands(t.Run, t.Resumable, sum.Items.DeadLettered > 0) {
		t.Commands = append(t.Commands, shortly(c, t.Run))
	}
	t.Commands = append(t.Commands, "bide show "+run)
}

// stoppedHow says how an interrupted run ended.
func stoppedHow(r *journal.Reader, sum journal.Summary) string {
	switch {
	case r.IsElsewhere():
		return "no process of this machine follows it"
	case sum.Finished.IsZero():
		return "its process died: it was killed, the machine went down, or its disk was full"
	}
	return "it was stopped, by Ctrl-C, a signal or bide stop"
}

// printRunning lists the runs in progress, with what holds up each of them.
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

// says says how many runs need a person.
func (s *standing) says() string {
	n := len(s.Waiting) + len(s.more)
	switch {
	case n == 0 && s.Dismissed == 0:
		return "no run waits for you"
	case n == 0:
		return fmt.Sprintf("no run waits for you; %s dismissed, see bide runs", diag.Count(s.Dismissed, "run is", "runs are"))
	}
	text := diag.Count(n, "run waits", "runs wait") + " for you"
	if s.Dismissed > 0 {
		text += fmt.Sprintf(", and %d %s dismissed", s.Dismissed, diag.Plural(s.Dismissed, "is", "are"))
	}
	if len(s.more) > 0 {
		text += "; these are the newest, bide runs has all"
	}
	return text
}

// waiting lists what needs a person for the dashboard, in the words of status.
func waiting(ctx context.Context, st *journal.Store) (web.Waiting, error) {
	s := newStanding(st)
	for sum, err := range st.Runs(ctx) {
		if err != nil && sum.ID == "" {
			return web.Waiting{}, err
		}
		if err := s.wait(ctx, st, infoOf(sum, err), sum); err != nil {
			return web.Waiting{}, err
		}
	}
	w := web.Waiting{Says: s.says(), More: s.more}
	for _, t := range s.Waiting {
		run := web.WaitingRun{ID: t.Run, Title: visible(t.Title), Status: t.Status, What: t.What, Commands: t.Commands}
		for _, why := range t.Why {
			r := t.remedyOf(why)
			run.Why = append(run.Why, web.WaitingWhy{Text: oneLine(why), Filter: r.Filter, Command: r.Command})
		}
		w.Runs = append(w.Runs, run)
	}
	return w, nil
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
	if len(s.Waiting) == 0 && s.Dismissed == 0 {
		return nil
	}
	if len(s.Waiting) == 0 {
		return o.printf("\n%s\n", fold(s.says(), o.columns(o.out), "  "))
	}
	p, width := o.palette(o.out), o.columns(o.out)
	var b strings.Builder
	b.WriteString("\n" + fold(s.says(), width, "  ") + "\n")
	for _, t := range s.Waiting {
		b.WriteString("\n" + fold(fmt.Sprintf("%s  %s: %s", shortRun(t.Run), p.bold(visible(t.Title)), p.sgr(statusCode(t.Status), t.What)), width, "        ") + "\n")
		for _, why := range t.Why {
			b.WriteString(fold("        "+oneLine(why), width, "          ") + "\n")
			if r := t.remedyOf(why); r.Command != "" {
				b.WriteString("          " + r.Command + "\n")
			}
		}
		for _, c := range t.Commands {
			b.WriteString("    " + c + "\n")
		}
	}
	b.WriteString("\n")
	hintAt(&b, width, "", "one that needs nothing more", "bide status --dismiss RUN")
	return o.print(b.String())
}
