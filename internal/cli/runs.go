package cli

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
)

// unreadable is the status of a run whose journal cannot be read.
const unreadable = timeline.Unreadable

// runStatuses are the statuses that a run in the list can have.
var runStatuses = []string{event.Running, event.Interrupted, event.Succeeded, event.Failed, event.CompletedWithFailures, unreadable}

// runInfo is a run in the list of runs.
type runInfo struct {
	Run        string         `json:"run"`
	Name       string         `json:"name"`  // from the file; "" for none
	Title      string         `json:"title"` // its name for a person
	Kind       string         `json:"kind,omitempty"`
	Path       string         `json:"path,omitempty"`
	Dir        string         `json:"dir,omitempty"`
	Status     string         `json:"status"`
	Resumable  bool           `json:"resumable"`
	Started    time.Time      `json:"started,omitzero"`
	Finished   time.Time      `json:"finished,omitzero"`
	DurationMS int64          `json:"duration_ms"`
	Steps      event.Counts   `json:"steps"`
	Items      journal.Counts `json:"items"`
	Message    string         `json:"message,omitempty"`
	word       string         // the status for a person, from [unmerged.title]
}

func infoOf(s journal.Summary, err error) runInfo {
	i := runInfo{Run: s.ID, Name: s.Name, Title: titleOf(s), Kind: s.Kind, Path: s.Path, Dir: s.Dir, Status: s.Status, Steps: s.Steps, Items: s.Items}
	if err != nil {
		i.Status, i.Message = unreadable, err.Error()
		return i
	}
	i.Resumable = s.Status == event.Interrupted || s.Status == event.Failed
	i.word = unmergedOf(s.Status, s.Left).title(s.Status)
	i.Started, i.Finished = s.Started, s.Finished
	i.DurationMS = s.Took.Round(time.Millisecond).Milliseconds()
	return i
}

// shortRun is the short name of a run: the end of its id, which is random. The beginning is
// the time, which all runs of a day share.
var shortRun = journal.ShortRun

// shortly replaces the id of a run in a text by its short name. It keeps branches and paths,
// whose names have the id.
func shortly(text, run string) string { return strings.ReplaceAll(text, " "+run, " "+shortRun(run)) }

// wholeRun matches the id of a run that is a word of its own: in a path or the name of a
// branch it follows a slash.
var wholeRun = pattern.Lazy(`(^|[ (\x60])([0-9A-HJKMNP-TV-Z]{20})([0-9A-HJKMNP-TV-Z]{6})\b`)

// shortRuns replaces all ids of runs in a text by short names, for a person.
func shortRuns(text string) string { return wholeRun().ReplaceAllString(text, "$1$3") }

// started is the format of a run's start in a list.
const started = "2006-01-02 15:04"

// titleOf is the name of a run for a person: the name of its workflow, else that of its file,
// or the command of a batch.
func titleOf(s journal.Summary) string {
	if s.Title == "" && s.Path != "" {
		return filepath.Base(s.Path)
	}
	return s.Title
}

// work says how far a run got; short leaves out what is counted.
func (i runInfo) work(short bool) string {
	if i.Items.Total == 0 {
		text := stepCounts(stepWord(i.Kind == workflow.Dataflow.String()), i.Steps)
		if i.Status == event.Succeeded && i.Kind == workflow.MapReduce.String() {
			return strings.TrimSuffix("no items, "+text, ", ")
		}
		if !strings.Contains(text, ", ") { // else the first number would have no unit
			text = strings.TrimSuffix(text, " "+event.Succeeded)
		}
		return text
	}
	var text parts
	what := " items"
	if short {
		what = ""
	}
	text.add(true, "%d of %d%s", i.Items.Succeeded+i.Items.Skipped+i.Items.Unchanged, i.Items.Total, what)
	text.add(i.Items.Failed > 0, "%d failed", i.Items.Failed) // first, as the end of the line may be cut
	text.kinds(i.Items.KindCounts)
	text.add(i.Items.Unchanged > 0, "%d unchanged", i.Items.Unchanged)
	return strings.Join(text, ", ")
}

// kinds adds how many succeeded in another way than intended.
func (p *parts) kinds(k event.KindCounts) {
	for _, kind := range event.Kinds {
		if n := k.Of(kind); n != nil {
			p.add(*n > 0, "%d %s", *n, kind)
		}
	}
}

// runsOptions are the options of runs.
type runsOptions struct {
	*app
	status []string
	limit  int
}

func runsCmd(a *app) *cobra.Command {
	o := &runsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the runs, newest first",
		Long: `Lists the runs that are recorded, newest first. A run whose process has died is
interrupted: "bide resume" continues it, as with a failed one.

RUN, in all commands, is the short name in this list, an id, its beginning or end,
the name of a workflow (its newest run), last, or last-1 (the run before last). last
is the newest run of this directory, or of this machine if this directory has none.
Without RUN, most commands take last; see bide docs "which run".`,
		Example: `  bide runs
  bide runs --status interrupted,failed
  bide runs --limit 10 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringSliceVar(&o.status, "status", nil, "only these: "+strings.Join(runStatuses, ", "))
	cmd.Flags().IntVar(&o.limit, "limit", 0, "at most this many; 0 means all")
	return o.withJSON(cmd, "print a JSON array")
}

// withJSON adds the flag --json to a command.
func (s *streams) withJSON(cmd *cobra.Command, usage string) *cobra.Command {
	cmd.Flags().BoolVar(&s.json, "json", false, usage)
	return cmd
}

// oneOf checks that each word is a known one. It accepts blanks and hyphens in place of
// underscores.
func oneOf(flag string, got []string, known []string) ([]string, error) {
	out := make([]string, len(got))
	var errs []error
	for i, g := range got {
		out[i] = strings.NewReplacer("-", "_", " ", "_").Replace(strings.TrimSpace(g))
		if slices.Contains(known, out[i]) {
			continue
		}
		errs = append(errs, unknownWord("--"+flag, g, known))
	}
	return out, misused(errs...)
}

// unknownWord is the error for a word that is not a known one.
func unknownWord(what, word string, known []string) error {
	hint := cmp.Or(diag.DidYouMean(word, known), "write one of "+strings.Join(known, ", "))
	return fmt.Errorf("%s %s is not known; %s", what, word, hint)
}

func (o *runsOptions) run(ctx context.Context) error {
	status, err := oneOf("status", o.status, runStatuses)
	if err != nil {
		return err
	}
	if o.limit < 0 {
		return usagef("--limit is %d; it must be at least 0, which means all", o.limit)
	}
	st, err := o.openStore()
	if err != nil {
		return err
	}
	list := []runInfo{}
	for s, err := range st.Runs(ctx) {
		if err != nil && s.ID == "" {
			return err
		}
		i := infoOf(s, err)
		if len(status) > 0 && !slices.Contains(status, i.Status) {
			continue
		}
		list = append(list, i)
		if o.limit > 0 && len(list) == o.limit {
			break
		}
	}
	for run, s := range troublesOn(ctx, st, list) {
		if i := slices.IndexFunc(list, func(i runInfo) bool { return i.Run == run }); i >= 0 && s.Trouble != "" {
			list[i].Message = "held up: " + s.Trouble
		}
	}
	if len(list) == 0 && len(status) > 0 && !o.json {
		o.tell("no run has this status; bide runs lists all of them, with theirs")
		return nil
	}
	return answer(&o.streams, list, o.printRuns)
}

func (s *streams) printRuns(list []runInfo) error {
	if len(list) == 0 {
		s.tell("there is no such run; `bide run FILE` makes one")
		return nil
	}
	t := table{head: []string{"RUN", "STATUS", "STARTED", "TOOK", "WORK", "NAME"}, right: map[int]bool{3: true}, flex: 5, also: []int{4}, drop: []int{3, 2},
		last: []int{1}, spare: []int{5}, keep: map[int]int{4: len("4999 of 5000 items, 10 failed")}}
	width := s.columns(s.out)
	if width > 0 && width < narrowWidth {
		return s.print(s.runBlocks(list, width))
	}
	t.paint = paintStatus(s.palette(s.out), 1)
	for _, i := range list {
		began, name := "", i.Title
		if !i.Started.IsZero() {
			began = i.Started.Local().Format(started)
		}
		if i.Message != "" {
			name = i.Message
		}
		t.add(shortRun(i.Run), cmp.Or(i.word, words(i.Status)), began, took(i.DurationMS), i.work(false), name)
	}
	return t.print(s.out, width)
}

// runBlocks describes each run in a few lines, for a terminal that is too narrow for a table.
func (s *streams) runBlocks(list []runInfo, width int) string {
	var b strings.Builder
	p := s.palette(s.out)
	for _, i := range list {
		by := strings.Repeat(" ", len(shortRun(i.Run))+len(gap))
		line := func(text string) { b.WriteString(someLines(by+text, width, by) + "\n") }
		head := shortRun(i.Run) + gap + cmp.Or(i.word, words(i.Status))
		b.WriteString(strings.Replace(cut(head, width), cmp.Or(i.word, words(i.Status)), p.status(cmp.Or(i.word, words(i.Status))), 1) + "\n")
		line(visible(i.Title))
		if work := i.work(false); work != "" {
			line(work)
		}
		if i.Message != "" {
			line(visible(i.Message))
		}
	}
	return b.String()
}

// took is a duration for a person, with about three digits.
func took(ms int64) string {
	if ms == 0 {
		return ""
	}
	return duration.Format(duration.Round(time.Duration(ms) * time.Millisecond))
}
