package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
	"github.com/spf13/cobra"
)

// logsOptions are the options of logs.
type logsOptions struct {
	*app
	id         string // of the run
	item, step string
	attempt    int
	follow     bool
	raw        bool
}

func logsCmd(a *app) *cobra.Command {
	o := &logsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "logs [RUN]",
		Short: "Print the output of the steps of a run",
		Long: `Prints the outputs of the steps of a run in the order in which their attempts ended,
large ones whole. For an agent, it prints what the agent said and which tools it
used. -f follows the run until it ends, and prints lines as running steps write
them. Without RUN, it is the newest run of
this directory.

--step with a foreach, a goal_seek or another step that is made of steps prints the
outputs of those. A step of a run prints all its attempts and rounds, in order.

--attempt counts the attempts at a work item; for steps outside a map, those of the
step. What a step of an item repeats within one attempt is called a try.

On a terminal, colours are kept and other control sequences are shown as escapes.
With --raw, or into a file or a pipe, the output is unchanged.

Where the file of a large output is gone, the record still has its ends: they are
printed, that is said, and the exit status is 1.`,
		Example: `  bide logs
  bide logs 01KAJ3 --item 42 --attempt 2
  bide logs 01KAJ3 --step 'commands[1]' --raw > output.txt
  bide logs -f`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.item, "item", "", "only of this work item, by its id, what it is called, or its index (from 0)")
	fs.StringVar(&o.step, "step", "", "only of this step: its path, as in commands[2], its name or its id")
	fs.Var(&countFlag{&o.attempt}, "attempt", "only of the attempt of this number, from 1")
	fs.BoolVarP(&o.follow, "follow", "f", false, "wait for more until the run ends")
	fs.BoolVar(&o.raw, "raw", false, "only standard output, without headings; of an agent, its raw stream")
	return o.withJSON(cmd, "one JSON object per line: run, item, step, attempt, try, stream, text")
}

// logTypes are the types of events that have outputs, or say which attempt they are from.
var logTypes = []event.Type{event.ItemStarted, event.StepStarted, event.AttemptFailed, event.StepFinished, event.AgentMessage, event.ItemFinished}

func (o *logsOptions) run(ctx context.Context) error {
	if o.raw && o.json {
		return usagef("--raw and --json cannot be used together")
	}
	called := o.item // by the user
	return o.orItem(ctx, o.id, runArg{}, o.reading(o.id, func(r *journal.Reader) (err error) {
		if o.item, err = resolveItem(ctx, r, o.tell, o.item); err != nil {
			return err
		}
		l := &logPrinter{app: o.app, r: r, names: namesIn(ctx, r), f: o, p: o.palette(o.out), at: map[int]int{}, failed: map[stepKey]int{}, agentSaid: map[stepKey]bool{}, runs: map[stepKey]*running{}, spoken: map[int]bool{}, made: map[stepKey]*madeOf{}, labels: map[stepKey]string{}}
		if err := l.events(ctx, journal.EventFilter{Types: slices.Clone(logTypes), Item: o.item}); err != nil {
			return err
		}
		if l.found == 0 && o.step != "" {
			return l.noStep()
		}
		if l.printed == 0 {
			what, matches, meant := "run "+shortRun(r.Run()), "", ""
			if o.item != "" || o.step != "" || o.attempt != 0 || o.raw {
				matches = " that matches"
			}
			if o.item != "" {
				what = "item " + visible(called) + " of " + what
				if meant, err = letterCalled(ctx, r, o.item, showLetter); err != nil {
					return err
				}
				if meant != "" {
					meant = "; or " + meant
				}
			}
			o.tell("%s has printed nothing%s%s", what, matches, meant)
		}
		if n := l.cut; n > 0 {
			return fmt.Errorf("%s of run %s %s not whole: the record has the ends, and the %s the rest %s gone",
				diag.Count(n, "output"), r.Run(), diag.Plural(n, "is", "are"), diag.Plural(n, "file with", "files with"), diag.Plural(n, "is", "are"))
		}
		if o.follow {
			return o.brokenOff(ctx, r)
		}
		return nil
	}))
}

func (l *logPrinter) events(ctx context.Context, filter journal.EventFilter) error {
	if l.f.follow {
		return l.follow(ctx, filter)
	}
	for e, err := range l.r.Events(ctx, 1, filter) {
		if err != nil {
			return err
		}
		if err := l.take(e); err != nil {
			return err
		}
	}
	return nil
}

// logPrinter prints outputs, event by event.
type logPrinter struct {
	*app
	r     *journal.Reader
	f     *logsOptions
	names *itemNames
	p     palette

	at        map[int]int      // the present attempt of each running item, by index
	try       int              // the printed attempt of an item's step, within that
	failed    map[stepKey]int  // last failed attempt of a running step, requested or not
	agentSaid map[stepKey]bool // steps whose agent has said something
	runs      map[stepKey]*running
	spoken    map[int]bool // running items whose steps have printed something
	made      map[stepKey]*madeOf
	labels    map[stepKey]string // of running steps: what an agent says is recorded without
	last      string             // the last printed heading
	steps     []string           // some of the paths and labels that were seen

	found, printed int
	cut            int // outputs of which the file is gone, so that the record has only a part
}

// madeOf is a running step that is made of steps.
type madeOf struct {
	wanted bool // by its name
	spoke  bool // one of its steps has ended
}

// madeOfSteps are the actions that run steps. What one gives is what its last step printed, or
// a score: it prints nothing itself.
var madeOfSteps = []string{"foreach", "goal_seek", "validate", "workflow"}

// rounds are what a path has for the rounds of a step: @2, #1.
var rounds = pattern.Lazy(`[@#]\d+`)

// within calls visit for the running steps that a step is in.
func (l *logPrinter) within(e event.Event, visit func(*madeOf)) {
	if len(l.made) == 0 {
		return
	}
	path := rounds().ReplaceAllString(e.Step, "")
	for key, m := range l.made {
		if key.index == e.Index && strings.HasPrefix(path, rounds().ReplaceAllString(key.step, "")+".") {
			visit(m)
		}
	}
}

// starts notes a step that is made of steps.
func (l *logPrinter) starts(e event.Event) {
	var d struct {
		Action string `json:"action"`
	}
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) == nil && slices.Contains(madeOfSteps, d.Action) {
		l.made[stepKey{e.Index, e.Step}] = &madeOf{wanted: l.f.step != "" && l.named(e)}
	}
}

// named reports whether a step is the requested one.
func (l *logPrinter) named(e event.Event) bool {
	path, _, _ := strings.Cut(e.Step, "@")
	return e.Step == l.f.step || path == l.f.step || e.Label == l.f.step || rounds().ReplaceAllString(e.Step, "") == l.f.step
}

type stepKey struct {
	index int
	step  string
}

func (l *logPrinter) take(e event.Event) error {
	switch e.Type {
	case event.ItemStarted:
		l.at[e.Index] = e.Attempt
		l.names.of(e)
		return nil
	case event.ItemFinished:
		return l.itemEnd(e)
	case event.StepStarted, event.AttemptStarted:
		if e.Type == event.StepStarted {
			l.starts(e)
			l.labels[stepKey{e.Index, e.Step}] = e.Label
		}
		if l.f.follow {
			l.began(e)
		}
		return nil
	case event.StepFinished:
		l.within(e, func(m *madeOf) { m.spoke = true })
		defer delete(l.made, stepKey{e.Index, e.Step})
		defer l.ended(e)
		defer delete(l.labels, stepKey{e.Index, e.Step})
		defer delete(l.failed, stepKey{e.Index, e.Step})
	case event.AttemptFailed:
		defer func() { l.failed[stepKey{e.Index, e.Step}] = e.Attempt }()
		defer l.ended(e)
	case event.AgentMessage:
		e.Label = cmp.Or(e.Label, l.labels[stepKey{e.Index, e.Step}])
	}
	if e.Index > 0 {
		l.spoken[e.Index] = true
	}
	if !l.wanted(e) {
		return nil
	}
	l.found++
	key := stepKey{e.Index, e.Step}
	if m := l.made[key]; m != nil && m.spoke {
		return nil
	}
	switch e.Type {
	case event.AgentMessage:
		if e.Class == "" { // else another call follows, which may print its answer alone
			l.agentSaid[key] = true
		}
		return l.message(e)
	case event.AttemptFailed:
		return l.attempt(e, e.Attempt, event.Failed)
	}
	last := l.failed[key]
	said := l.agentSaid[key]
	delete(l.agentSaid, key)
	// The last failed attempt has been printed already; an agent's answer is the last thing
	// that it said.
	if e.Attempts > 0 && e.Attempts == last || e.Status == event.Skipped || said && !l.f.raw {
		return nil
	}
	return l.attempt(e, max(e.Attempts, 1), e.Status)
}

// itemEnd prints the end of an attempt at an item. If its steps have printed nothing, its own
// output is printed.
func (l *logPrinter) itemEnd(e event.Event) error {
	defer func() {
		delete(l.at, e.Index)
		delete(l.spoken, e.Index)
	}()
	if l.spoken[e.Index] || l.f.step != "" || l.f.attempt > 0 && l.f.attempt != max(e.Attempt, e.Attempts) {
		return nil
	}
	var d struct {
		Output string    `json:"output"`
		Raw    value.Raw `json:"raw"`
		File   string    `json:"output_file"`
	}
	if len(e.Data) == 0 {
		return nil
	}
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	d.Output = d.Raw.Text("/output", d.Output)
	if d.File != "" {
		if b, err := os.ReadFile(d.File); err == nil {
			d.Output = string(b)
		} else {
			l.cut++
		}
	}
	if d.Output == "" {
		return nil
	}
	l.try = 0
	return l.print(e, max(e.Attempt, e.Attempts), e.Status, "stdout", strings.NewReader(d.Output))
}

// wanted reports whether an event belongs to a requested step and attempt.
func (l *logPrinter) wanted(e event.Event) bool {
	if l.f.step != "" {
		if len(l.steps) < nearAmong {
			l.steps = append(l.steps, e.Step)
		}
		named := l.named(e)
		l.within(e, func(m *madeOf) { named = named || m.wanted })
		if !named {
			return false
		}
	}
	if l.f.attempt == 0 {
		return true
	}
	if e.Index > 0 {
		return l.at[e.Index] == l.f.attempt
	}
	if e.Type == event.AgentMessage {
		return l.failed[stepKey{e.Index, e.Step}]+1 == l.f.attempt
	}
	return max(e.Attempt, e.Attempts) == l.f.attempt
}

func (l *logPrinter) noStep() error {
	end := ";"
	hint := diag.DidYouMean(l.f.step, l.steps)
	for _, s := range l.steps { // of calls: notes[0].Note is meant by notes, notes[0] and Note
		if hint == "" && (strings.HasPrefix(s, l.f.step+"[") || strings.HasPrefix(s, l.f.step+".") || strings.HasSuffix(s, "."+l.f.step)) {
			hint = fmt.Sprintf("did you mean %q?", s)
		}
	}
	if hint != "" {
		end = "; " + hint
	}
	return usagef("run %s has no output of a step %s%s see `bide show %s`", l.r.Run(), visible(l.f.step), end, l.r.Run())
}

// message prints what an agent said or did.
func (l *logPrinter) message(e event.Event) error {
	if l.f.raw {
		return nil
	}
	text := e.Message
	var d struct {
		Tool  string `json:"tool"`
		Input string `json:"input"`
	}
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) == nil && d.Tool != "" {
		text = "[" + d.Tool + "] " + clipped(d.Input)
	}
	number := l.number(e.Index, l.failed[stepKey{e.Index, e.Step}]+1)
	if number == 1 && e.Index == 0 {
		number = 0 // most steps have one attempt
	}
	return l.print(e, number, "", "agent", strings.NewReader(text))
}

// number is the attempt at a work item if index is set: its steps count their attempts within
// it. For a step of the run itself it is n.
func (l *logPrinter) number(index, n int) int {
	l.try = 0
	if index > 0 && l.at[index] > 0 {
		l.try = n
		return l.at[index]
	}
	return n
}

// attempt prints the outputs of an attempt that has ended.
func (l *logPrinter) attempt(e event.Event, n int, status string) error {
	var d struct {
		Output, Stdout, Stderr string
		Raw                    value.Raw
		File                   string                 `json:"output_file"`
		StderrFile             string                 `json:"stderr_file"`
		Failure                struct{ Stack string } // of a panic
	}
	if len(e.Data) > 0 {
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return fmt.Errorf("event %d: %w", e.Seq, err)
		}
	}
	// The names of the files have the number of the step's own attempt.
	number, before := l.number(e.Index, n), l.printed
	if l.f.raw {
		if done, err := l.file(e, n, number, status, "agent"); done || err != nil {
			return err
		}
	}
	for _, s := range []struct{ stream, inline, file string }{
		{"stdout", cmp.Or(d.Raw.Text("/output", d.Output), d.Raw.Text("/stdout", d.Stdout)), d.File}, {"stderr", d.Raw.Text("/stderr", d.Stderr), d.StderrFile},
	} {
		if s.stream == "stderr" && l.f.raw {
			continue
		}
		if done, err := l.file(e, n, number, status, s.stream); done || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		rest := s.inline[min(l.printedOf(e, n, s.stream), int64(len(s.inline))):]
		if rest == "" {
			continue
		}
		if s.file != "" || e.Type == event.AttemptFailed && step.IsEnd(s.inline) {
			l.cut++
		}
		if err := l.print(e, number, status, s.stream, strings.NewReader(rest)); err != nil {
			return err
		}
	}
	if status == event.Failed && l.printed == before && !l.agentSaid[stepKey{e.Index, e.Step}] {
		// An agent whose output could not be read has nothing but its raw output.
		if _, err := l.file(e, n, number, status, "agent"); err != nil {
			return err
		}
	}
	if d.Failure.Stack == "" || l.f.raw {
		return nil
	}
	return l.print(e, number, status, "stack", strings.NewReader(d.Failure.Stack))
}

// file prints the file of an output, and reports whether there is one.
func (l *logPrinter) file(e event.Event, n, number int, status, stream string) (done bool, err error) {
	f, err := os.Open(l.r.OutputFile(e.Index, journal.LogName(e.Step, l.at[e.Index]), n, stream))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	from, err := f.Seek(l.printedOf(e, n, stream), io.SeekStart)
	if err != nil {
		return true, err
	}
	if info, err := f.Stat(); err != nil || info.Size() <= from && from > 0 {
		return true, err // all of it was printed while it ran
	}
	return true, l.print(e, number, status, stream, f)
}

// print prints one output under a heading that names its step or item.
func (l *logPrinter) print(e event.Event, number int, status, stream string, text io.Reader) error {
	l.printed++
	switch {
	case l.json:
		return l.object(e, number, stream, text)
	case l.f.raw:
		return copyLines(l.out, text)
	}
	var of parts
	of.add(e.Item != "", "item %s", l.names.of(e))
	of.add(true, "%s", visible(l.names.step(e)))
	of.add(number > 0, "attempt %d", number)
	of.add(l.try > 1, "try %d", l.try)
	of.add(stream != "stdout", "%s", stream)
	of.add(status == event.Failed, "%s", l.p.status(status))
	if head := strings.Join(of, ", "); head != l.last {
		if l.last != "" {
			fmt.Fprintln(l.out)
		}
		if _, err := fmt.Fprintln(l.out, l.p.bold(fold("==> "+head, l.columns(l.out), "    "))); err != nil {
			return err
		}
		l.last = head
	}
	if !isTerminal(l.out) {
		return copyLines(l.out, text)
	}
	safe := &safeText{w: l.out}
	return errors.Join(copyLines(safe, text), safe.Close())
}

// copyLines copies a text and ends its last line.
func copyLines(to io.Writer, text io.Reader) error {
	w := &lineEnd{w: to}
	if _, err := io.Copy(w, text); err != nil || !w.open {
		return err
	}
	_, err := io.WriteString(to, "\n")
	return err
}

func (l *logPrinter) object(e event.Event, number int, stream string, text io.Reader) error {
	return streamJSONLine(l.out, struct {
		Run     string `json:"run"`
		Item    string `json:"item,omitempty"`
		Index   *int   `json:"index,omitempty"`
		Step    string `json:"step"`
		Label   string `json:"label,omitempty"`
		Attempt int    `json:"attempt,omitempty"`
		Try     int    `json:"try,omitempty"` // of an item's step, within the attempt at the item
		Stream  string `json:"stream"`
	}{l.r.Run(), e.Item, indexOf(e), e.Step, e.Label, number, l.try, stream}, "text", text)
}

// lineEnd records whether the last line that it passed on has no end.
type lineEnd struct {
	w    io.Writer
	open bool
}

func (l *lineEnd) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.open = p[len(p)-1] != '\n'
	}
	return l.w.Write(p)
}

// indexOf is the position of an event's item in the list, from 0; nil if the event has no
// item.
func indexOf(e event.Event) *int {
	if e.Index == 0 {
		return nil
	}
	index := event.Number(e.Index)
	return &index
}
