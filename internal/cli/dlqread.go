package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/spf13/cobra"
)

// jsonArray writes a JSON array element by element.
type jsonArray struct {
	w      io.Writer
	opened bool
}

func (j *jsonArray) add(v any) error {
	var b strings.Builder
	if err := printJSONLine(&b, v); err != nil {
		return err
	}
	sep := ",\n  "
	if !j.opened {
		sep, j.opened = "[\n  ", true
	}
	_, err := io.WriteString(j.w, sep+strings.TrimSuffix(b.String(), "\n"))
	return err
}

func (j *jsonArray) close() error {
	end := "\n]\n"
	if !j.opened {
		end = "[]\n"
	}
	_, err := io.WriteString(j.w, end)
	return err
}

func lastLine(s string) string {
	s = strings.TrimRight(s, " \r\n\t")
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// letterShown is a dead letter with all details.
type letterShown struct {
	*letterInfo
	Stdout   string          `json:"stdout,omitempty"`
	Stderr   string          `json:"stderr,omitempty"`
	History  []failedAttempt `json:"history"`
	Logs     []string        `json:"logs"`
	Commands []string        `json:"commands"`
}

// failedAttempt is one entry of an item's history.
type failedAttempt struct {
	Event      event.Type `json:"event"`
	Time       time.Time  `json:"time"`
	Attempt    int        `json:"attempt,omitempty"`
	Status     string     `json:"status,omitempty"`
	DurationMS int64      `json:"duration_ms,omitempty"`
	DelayMS    int64      `json:"delay_ms,omitempty"`
	Step       string     `json:"step,omitempty"`
	StepLabel  string     `json:"step_label,omitempty"`
	ExitCode   int        `json:"exit_code,omitempty"`
	Class      string     `json:"class,omitempty"`
	Message    string     `json:"message,omitempty"`
	Stdout     string     `json:"stdout,omitempty"`
	Stderr     string     `json:"stderr,omitempty"`
	Stack      string     `json:"stack,omitempty"` // of a panic
	Worktree   string     `json:"worktree,omitempty"`
	Branch     string     `json:"branch,omitempty"`
	Log        string     `json:"log,omitempty"`
	shown      string     // the name of the step for a person
	ended      string     // why the retries ended, for a person
}

func failureOf(e event.Event) failedAttempt {
	f := failedAttempt{Event: e.Type, Time: e.Time, Attempt: max(e.Attempt, e.Attempts), Status: e.Status, DurationMS: e.DurationMS, DelayMS: e.DelayMS,
		Step: e.Step, ExitCode: e.ExitCode, Class: e.Class, Message: e.Message}
	var l struct {
		mapper.Letter
		Of failure.Failure `json:"failure"` // of an attempt of a step
	}
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &l) == nil {
		f.Stack = cmp.Or(l.Stack, l.Of.Stack)
		f.Stdout, f.Stderr = l.Printed()
		f.Worktree, f.Branch, f.Log = l.Worktree, l.Branch, l.Log
		f.Step, f.StepLabel = cmp.Or(f.Step, l.Step), l.StepLabel
	}
	f.ended = event.RetriesEnded(cmp.Or(l.RetriesEnded, e.Status))
	return f
}

// dlqShowOptions are the options of dlq show.
type dlqShowOptions struct {
	*app
	id   string // of the run
	item string
}

func dlqShowCmd(a *app) *cobra.Command {
	o := &dlqShowOptions{app: a}
	return o.withJSON(&cobra.Command{
		Use:   "show [RUN] ITEM",
		Short: "Show a dead letter with its whole history",
		Long: `Shows a dead letter: the item's data, every failed attempt from the first to the
last with its output, where its work and its logs are, and commands to look further.
ITEM is the item's id, what it is called in lists, or its index, from 0. Without RUN, it takes the newest run of this directory that has dead letters.`,
		Example: `  bide dlq show 42
  bide dlq show 01KAJ3 42 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id, o.item = args[0], args[1]
			return o.run(cmd.Context())
		},
	}, "print one JSON object")
}

func (o *dlqShowOptions) run(ctx context.Context) error {
	return o.reading(o.id, func(r *journal.Reader) error {
		id, err := resolveItem(ctx, r, o.tell, o.item)
		if err != nil {
			return err
		}
		var s *letterShown
		err = eachLetter(ctx, r, letterFilter{ids: []string{id}}, func(i *letterInfo, _ journal.DeadLetter) error {
			s = &letterShown{letterInfo: i, Stdout: i.last.Stdout, Stderr: i.last.Stderr, History: []failedAttempt{}, Logs: []string{}}
			return nil
		})
		if err != nil {
			return err
		}
		if s == nil {
			return noLetter(ctx, r, id, o.item, showLetter)
		}
		if err := s.fill(ctx, r); err != nil {
			return err
		}
		return answer(&o.streams, s, o.printLetter)
	})
}

// historyTypes are the types of events in a dead letter's history.
var historyTypes = []event.Type{event.ItemStarted, event.AttemptFailed, event.RetryScheduled, event.ItemRetry, event.ItemFinished, event.ItemRequeued, event.ItemReturned}

// fill collects the history, the logs and the commands.
func (s *letterShown) fill(ctx context.Context, r *journal.Reader) error {
	names := namesIn(ctx, r)
	for e, err := range r.Events(ctx, 1, journal.EventFilter{Index: s.place, Types: historyTypes}) {
		if err != nil {
			return err
		}
		if e.Type == event.ItemStarted {
			continue
		}
		f := failureOf(e)
		if f.Step != "" {
			f.shown = names.stepOf(f.Step, cmp.Or(e.Label, f.StepLabel), s.place, e.Seq)
		}
		s.History = append(s.History, f)
	}
	files, err := r.OutputFiles(s.place)
	if err != nil {
		return err
	}
	s.Logs = append(s.Logs, files...)
	id := diag.ShellWord(itemWord(ctx, r, s.item()))
	s.Commands = []string{
		"bide logs " + s.Run + " --item " + id,
		"bide events " + s.Run + " --item " + id,
	}
	if s.Branch != "" {
		s.Commands = append(s.Commands, "git log -p "+diag.ShellWord(s.Branch))
	}
	if s.Worktree != "" {
		s.Commands = append(s.Commands, "cd "+diag.ShellWord(s.Worktree))
	}
	s.Commands = append(s.Commands, "bide dlq retry "+s.Run+" --item "+id)
	return nil
}

// noLetter says why an item is no dead letter, which the user named with a word. instead is the
// command that takes another item in its place.
func noLetter(ctx context.Context, r *journal.Reader, id, word, instead string) error {
	it, _, err := findItem(ctx, r, id)
	if err != nil {
		return err
	}
	st, err := r.State(ctx)
	if err != nil {
		return err
	}
	rec := st.Items.At(it.Index)
	meant, err := letterCalled(ctx, r, word, instead)
	if err != nil {
		return err
	}
	if meant != "" {
		meant = "; or " + meant
	}
	return usagef("item %s of run %s is no dead letter: its status is %s, after %s; see `bide events %s --item %s`%s", visible(it.Name()), shortRun(r.Run()),
		rec.Status, diag.Count(rec.Attempts, "attempt"), shortRun(r.Run()), diag.ShellWord(itemWord(ctx, r, it)), meant)
}

// allLetters reports each of the items that the user named that is no dead letter. command is
// the one that takes another item in its place.
func allLetters(ctx context.Context, r *journal.Reader, f letterFilter, words []string, command string) error {
	if len(f.ids) == 0 {
		return nil
	}
	found := map[string]bool{}
	for l, err := range r.DeadLetters(ctx, letterFilter{ids: f.ids}.journal()) {
		if err != nil {
			return err
		}
		found[l.ID] = true
	}
	var errs []error
	for i, id := range f.ids {
		if !found[id] {
			errs = append(errs, noLetter(ctx, r, id, words[i], command))
		}
	}
	return misused(errs...)
}

// showLetter is the command that shows a dead letter.
const showLetter = "bide dlq show"

// letterCalled proposes the dead letter whose data matches what the user wrote for an id, or
// the only one whose name has it, as in/f37.txt has 37, with a command; "" if there is none.
func letterCalled(ctx context.Context, r *journal.Reader, id, command string) (meant string, err error) {
	var called, within []event.Item
	err = eachLetter(ctx, r, letterFilter{}, func(i *letterInfo, _ journal.DeadLetter) error {
		name, _ := i.names()
		switch {
		case name == visible(i.Item)+" ("+visible(id)+")":
			called = append(called, i.item())
		case len(within) < 2 && holdsWord(name, visible(id)):
			within = append(within, i.item())
		}
		return nil
	})
	if called = append(called, within...); err != nil || len(called) == 0 || len(called) == len(within) && len(within) > 1 {
		return "", err
	}
	return fmt.Sprintf("is %s meant? %s %s", visible(called[0].Name()), command, diag.ShellWord(visible(itemWord(ctx, r, called[0])))), nil
}

func (o *dlqShowOptions) printLetter(s *letterShown) error {
	p := o.palette(o.out)
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			b.WriteString(fold(fmt.Sprintf("%-11s %s", name, text), o.columns(o.out), "            ") + "\n")
		}
	}
	name, label := s.names()
	line("item", p.bold(name)+fmt.Sprintf(", index %d (the first is 0) of run %s", s.Index, shortRun(s.Run)))
	line("label", label)
	line("correlation", s.CorrelationID)
	line("failed", s.Time.Local().Format(time.DateTime)+", after "+diag.Count(s.Attempts, "attempt"))
	line("class", p.sgr("31", s.Class))
	line("branch", s.Branch)
	line("worktree", s.Worktree)
	line("retry", retryText(s.letterInfo))
	b.WriteString("\n" + p.bold("data") + "\n" + indent(prettyJSON(s.Data), "  ") + "\n")
	b.WriteString("\n" + p.bold("history") + "\n")
	for _, f := range s.History {
		f.print(&b, p, o.columns(o.out))
	}
	if len(s.Logs) > 0 {
		b.WriteString("\n" + p.bold("logs") + "\n" + indent(strings.Join(s.Logs, "\n"), "  ") + "\n")
	}
	b.WriteString("\n" + p.bold("next") + "\n" + indent(shortly(strings.Join(s.Commands, "\n"), s.Run), "  ") + "\n")
	return o.print(b.String())
}

// retryText says whether it makes sense to run a letter again.
func retryText(i *letterInfo) string {
	switch {
	case i.Class == "input":
		return "after the file or the data is fixed (--data): as they are, every attempt is refused"
	case !i.Eligible:
		return "when you know why: the run went down each time that it ran"
	}
	return "yes"
}

func prettyJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}

// print writes one entry. Attempts of steps, which are called tries as in logs, are indented
// further than those of the item, which repeat the last of them.
func (f failedAttempt) print(b *strings.Builder, p palette, width int) {
	layout, by := "2006-01-02 15:04:05.000", strings.Repeat(" ", 27)
	if width > 0 && width < narrowWidth {
		layout, by = "01-02 15:04:05", "    "
	}
	at := f.Time.Local().Format(layout)
	line := func(format string, args ...any) {
		b.WriteString(fold("  "+at+"  "+fmt.Sprintf(format, args...), width, by) + "\n")
	}
	switch f.Event {
	case event.AttemptFailed:
		var of parts
		of.add(true, "%s", oneLine(f.shown))
		of.add(f.Attempt > 1, "try %d", f.Attempt)
		how := f.Class
		if f.ExitCode != 0 {
			how += fmt.Sprintf(", exit status %d", f.ExitCode)
		}
		line("  %s: %s (%s)", strings.Join(of, ", "), how, cmp.Or(took(f.DurationMS), "0s"))
		for _, text := range []string{f.Stdout, f.Stderr, f.Stack} {
			if strings.TrimSpace(text) != "" {
				bar := by[2:] + "| "
				var lines []string
				for l := range strings.SplitSeq(indent(text, bar), "\n") {
					lines = append(lines, fold(l, width, bar))
				}
				b.WriteString(p.dim(strings.Join(lines, "\n")) + "\n")
			}
		}
		if f.ended != "" {
			line("  no retry: %s", f.ended)
		}
	case event.RetryScheduled:
		line("  try %d follows in %s", f.Attempt+1, millis(f.DelayMS))
	case event.ItemRetry:
		line("attempt %d at the item failed: %s", f.Attempt, f.text())
		line("attempt %d follows in %s", f.Attempt+1, millis(f.DelayMS))
	case event.ItemRequeued:
		by := "by `bide dlq retry`"
		if f.Message != "" {
			by = "after a hold: " + f.text()
		}
		line("run again %s", by)
	case event.ItemReturned:
		line("does not count, because the map was held for it: %s", f.text())
	case event.ItemFinished:
		if f.Status == event.DeadLettered {
			line("attempt %d at the item failed for good: %s", f.Attempt, f.text())
			if f.ended != "" {
				line("no retry of the item: %s", f.ended)
			}
			return
		}
		line("attempt %d: %s %s", f.Attempt, words(f.Status), f.text())
	}
}

func (f failedAttempt) text() string { return oneLine(f.Message) }

var csvHead = []string{"run", "item", "index", "correlation_id", "time", "attempts", "class", "exit_code", "step", "step_label", "message", "worktree", "branch", "log", "eligible", "retries_ended", "data"}

func csvRow(i *letterInfo) []string {
	return []string{i.Run, i.Item, strconv.Itoa(i.Index), i.CorrelationID, i.Time.Format(time.RFC3339Nano), strconv.Itoa(i.Attempts), i.Class,
		strconv.Itoa(i.ExitCode), i.Step, i.StepLabel, i.Message, i.Worktree, i.Branch, i.Log, strconv.FormatBool(i.Eligible), i.RetriesEnded, string(i.Data)}
}

var exportFormats = []string{"json", "jsonl", "csv"}

// exporter returns functions that write dead letters in a format: add writes one letter, end
// writes what follows the last.
func exporter(format string, w io.Writer) (add func(*letterInfo) error, end func() error) {
	switch format {
	case "jsonl":
		return func(i *letterInfo) error { return printJSONLine(w, i) }, func() error { return nil }
	case "csv":
		c := csv.NewWriter(w)
		err := c.Write(csvHead)
		add = func(i *letterInfo) error { return errors.Join(err, c.Write(csvRow(i))) }
		return add, func() error { c.Flush(); return errors.Join(err, c.Error()) }
	}
	list := &jsonArray{w: w}
	return func(i *letterInfo) error { return list.add(i) }, list.close
}

// dlqExportOptions are the options of dlq export.
type dlqExportOptions struct {
	*app
	letterFlags
	id           string // of the run
	format, file string
}

func dlqExportCmd(a *app) *cobra.Command {
	o := &dlqExportOptions{app: a}
	cmd := &cobra.Command{
		Use:   "export [RUN]",
		Short: "Write dead letters as JSON, JSON lines or CSV",
		Long: `Writes the dead letters of a run, with the data of their items. Without RUN, it is the
newest run of this directory that has them. The format is that of --format, else that of the file's name, else JSON. An existing
file is replaced only after everything is written.`,
		Example: `  bide dlq export > letters.json
  bide dlq export 01KAJ3 --format csv -o letters.csv
  bide dlq export 01KAJ3 --format jsonl --filter 'class == "timeout"'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	o.register(cmd.Flags())
	cmd.Flags().StringVar(&o.format, "format", "", "json, jsonl, csv")
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "write to this file")
	return o.withJSON(cmd, "the same as --format json")
}

func (o *dlqExportOptions) run(ctx context.Context) error {
	filter, err := o.parse()
	if err != nil {
		return err
	}
	format, err := o.formatOf()
	if err != nil {
		return err
	}
	return o.reading(o.id, func(r *journal.Reader) error {
		if err := filter.check(ctx, r, o.tell); err != nil {
			return err
		}
		n := 0
		write := func(w io.Writer) error {
			b := bufio.NewWriter(w)
			add, end := exporter(format, b)
			err := eachLetter(ctx, r, filter, func(i *letterInfo, _ journal.DeadLetter) error {
				n++
				return add(i)
			})
			return errors.Join(err, end(), b.Flush())
		}
		if o.file == "" || o.file == "-" {
			return write(o.out)
		}
		if err := replaceFile(o.file, 0o600, write); err != nil {
			return err
		}
		o.tell("%s written to %s", diag.Count(n, "dead letter"), o.file)
		return nil
	})
}

func (o *dlqExportOptions) formatOf() (string, error) {
	switch {
	case o.format == "" && o.json:
		return "json", nil
	case o.format == "":
		if ext := strings.TrimPrefix(filepath.Ext(o.file), "."); slices.Contains(exportFormats, ext) {
			return ext, nil
		}
		return "json", nil
	}
	if _, err := oneOf("format", []string{o.format}, exportFormats); err != nil {
		return "", err
	}
	if o.json && o.format != "json" {
		return "", usagef("--json and --format %s cannot be used together", o.format)
	}
	return o.format, nil
}

// letterStats counts dead letters.
type letterStats struct {
	Run      string    `json:"run"`
	Total    int       `json:"total"`
	Eligible int       `json:"eligible"`
	Attempts int       `json:"attempts"` // of all letters together
	Oldest   time.Time `json:"oldest,omitzero"`
	Newest   time.Time `json:"newest,omitzero"`
	ByClass  []count   `json:"by_class"`
	ByStep   []count   `json:"by_step"`
	ByAge    []count   `json:"by_age"`
}

type count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// ageSpan is a range of ages by which letters are counted.
type ageSpan struct {
	name string
	upTo time.Duration
}

var ages = []ageSpan{{"under 1h", time.Hour}, {"1h to 1d", 24 * time.Hour}, {"1d to 7d", 7 * 24 * time.Hour}, {"over 7d", 1<<63 - 1}}

// dlqStatsOptions are the options of dlq stats.
type dlqStatsOptions struct {
	*app
	letterFlags
	id string // of the run
}

func dlqStatsCmd(a *app) *cobra.Command {
	o := &dlqStatsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "stats [RUN]",
		Short: "Count dead letters by class, step and age",
		Long: `Counts the dead letters of a run. Without RUN, it is the newest run of this directory
that has dead letters.`,
		Example: `  bide dlq stats
  bide dlq stats 01KAJ3 --filter 'attempts > 3' --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	o.register(cmd.Flags())
	return o.withJSON(cmd, "print one JSON object")
}

func (o *dlqStatsOptions) run(ctx context.Context) error {
	filter, err := o.parse()
	if err != nil {
		return err
	}
	return o.reading(o.id, func(r *journal.Reader) error {
		if err := filter.check(ctx, r, o.tell); err != nil {
			return err
		}
		s := letterStats{Run: r.Run()}
		class, step, age := map[string]int{}, map[string]int{}, make([]int, len(ages))
		err := eachLetter(ctx, r, filter, func(i *letterInfo, _ journal.DeadLetter) error {
			s.note(i)
			class[i.Class]++
			step[cmp.Or(i.StepLabel, i.Step, "(no step)")]++
			age[slices.IndexFunc(ages, func(x ageSpan) bool { return time.Since(i.Time) < x.upTo })]++
			return nil
		})
		if err != nil {
			return err
		}
		s.ByClass, s.ByStep, s.ByAge = sorted(class), sorted(step), []count{}
		for n, x := range ages {
			if age[n] > 0 {
				s.ByAge = append(s.ByAge, count{x.name, age[n]})
			}
		}
		return answer(&o.streams, &s, o.printStats)
	})
}

func (s *letterStats) note(i *letterInfo) {
	s.Total++
	s.Attempts += i.Attempts
	if i.Eligible {
		s.Eligible++
	}
	if s.Oldest.IsZero() || i.Time.Before(s.Oldest) {
		s.Oldest = i.Time
	}
	if i.Time.After(s.Newest) {
		s.Newest = i.Time
	}
}

// sorted lists a map of counts, the greatest first.
func sorted(m map[string]int) []count {
	out := []count{}
	for name, n := range m {
		out = append(out, count{name, n})
	}
	slices.SortFunc(out, func(x, y count) int { return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Name, y.Name)) })
	return out
}

func (o *dlqStatsOptions) printStats(s *letterStats) error {
	if s.Total == 0 {
		return o.printf("no dead letters in run %s\n", s.Run)
	}
	head := fmt.Sprintf("%s in run %s, %s, the oldest of %s", diag.Count(s.Total, "dead letter"), shortRun(s.Run), diag.Count(s.Attempts, "attempt"), s.Oldest.Local().Format(time.DateTime))
	_, err := fmt.Fprintln(o.out, fold(head, o.columns(o.out), "  "))
	for _, part := range []struct {
		name string
		list []count
	}{{"CLASS", s.ByClass}, {"STEP", s.ByStep}, {"AGE", s.ByAge}} {
		t := table{head: []string{"COUNT", part.name}, right: map[int]bool{0: true}, flex: 1, block: true}
		for _, c := range part.list {
			t.add(strconv.Itoa(c.Count), c.Name)
		}
		err = errors.Join(err, o.section(&t))
	}
	return err
}
