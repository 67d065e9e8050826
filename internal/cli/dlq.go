package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/value"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func dlqCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters, and run them again",
		Long: `A work item that failed for good is a dead letter: it is kept with its data and the
whole history of its failed attempts until it is run again or purged.

--filter takes an expression over: item (the item's data), id, index, class,
message, group (letters of one class whose messages differ by numbers and paths
alone), attempts, step, step_label, exit_code, correlation_id, time, age (in
seconds), worktree, branch, eligible, retries_ended (why those of the item ended, as in
"budget"). Other names are fields of the item.`,
		Example: `  bide dlq list
  bide dlq show 01KAJ3 42
  bide dlq retry 01KAJ3 --filter 'class == "timeout" && item.priority > 3'`,
	}
	cmd.AddCommand(dlqListCmd(a), dlqShowCmd(a), dlqRetryCmd(a), dlqExportCmd(a), dlqPurgeCmd(a), dlqStatsCmd(a))
	return cmd
}

// letterFlags select dead letters.
type letterFlags struct {
	filter string
	items  []string
	older  string
	set    *pflag.FlagSet
}

func (f *letterFlags) register(fs *pflag.FlagSet) {
	f.set = fs
	fs.StringVar(&f.filter, "filter", "", "only those for which this expression is true; see bide dlq --help")
	fs.StringArrayVar(&f.items, "item", nil, "only this item, by its id, what it is called in lists, or its index (from 0); may be given several times")
	fs.StringVar(&f.older, "older-than", "", "only those that are at least this old, as in 2d")
}

// letterFilter is letterFlags after parsing.
type letterFilter struct {
	ids   []string
	expr  *expr.Expr
	older time.Duration
}

func (f *letterFlags) parse() (letterFilter, error) {
	out := letterFilter{ids: slices.Clone(f.items)}
	var errs []error
	var err error
	if f.set.Changed("filter") && strings.TrimSpace(f.filter) == "" { // a variable that nothing set selects all
		errs = append(errs, errors.New("--filter is empty: write a condition, or leave it out for all dead letters"))
	} else if f.filter != "" {
		if out.expr, err = expr.Parse(f.filter); err != nil {
			errs = append(errs, fmt.Errorf("--filter: %w", err))
		}
	}
	if f.set.Changed("older-than") {
		if out.older, err = duration.Parse(f.older); err != nil {
			errs = append(errs, fmt.Errorf("--older-than: %w", err))
		}
	}
	return out, misused(errs...)
}

func (f letterFilter) journal() journal.DeadLetterFilter {
	return journal.DeadLetterFilter{IDs: f.ids}
}

// accept decides whether the filter wants a letter.
func (f letterFilter) accept(l journal.DeadLetter) (bool, error) {
	if time.Since(l.Time) < f.older {
		return false, nil
	}
	if f.expr == nil {
		return true, nil
	}
	v, err := letterOf(l)
	if err != nil {
		return false, err
	}
	ok, err := f.expr.EvalBool(v)
	if err != nil {
		return false, usagef("--filter: dead letter %s: %w", visible(l.ID), err)
	}
	return ok, nil
}

// dlqListOptions are the options of dlq list.
type dlqListOptions struct {
	*app
	letterFlags
	id            string // of the run
	limit, offset int
}

func dlqListCmd(a *app) *cobra.Command {
	o := &dlqListOptions{app: a}
	cmd := &cobra.Command{
		Use:     "list [RUN]",
		Aliases: []string{"ls"},
		Short:   "List the dead letters of a run",
		Long: `Lists the dead letters of a run in the order of its items: those that were not run
again and not purged. Without RUN, it is the newest run of this directory
that has dead letters.`,
		Example: `  bide dlq list
  bide dlq list 01KAJ3 --filter 'exit_code == 7' --limit 20 --offset 40
  bide dlq list --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	o.register(cmd.Flags())
	cmd.Flags().IntVar(&o.limit, "limit", 0, "at most this many; 0 means all")
	cmd.Flags().IntVar(&o.offset, "offset", 0, "skip this many at the beginning")
	return o.withJSON(cmd, "print a JSON array")
}

func (o *dlqListOptions) run(ctx context.Context) error {
	if o.limit < 0 || o.offset < 0 {
		return usagef("--limit and --offset must be at least 0")
	}
	filter, err := o.parse()
	if err != nil {
		return err
	}
	return o.reading(o.id, func(r *journal.Reader) error {
		if err := filter.check(ctx, r, o.tell); err != nil {
			return err
		}
		p := o.palette(o.out)
		t := table{head: []string{"ITEM", "LABEL", "ATTEMPTS", "CLASS", "EXIT", "SINCE", "STEP", "MESSAGE"}, right: map[int]bool{2: true, 4: true}, flex: 7, also: []int{0, 6, 1}, drop: []int{1, 5, 4, 6, 2},
			block: true, most: map[int]int{1: 32, 6: 32}}
		t.paint = painted(3, func(s string) string { return p.sgr("31", s) })
		out, names := jsonArray{w: o.out}, namesIn(ctx, r)
		n := 0
		err := eachLetter(ctx, r, filter, func(i *letterInfo, _ journal.DeadLetter) error {
			n++
			switch {
			case n <= o.offset || o.limit > 0 && n > o.offset+o.limit:
				return nil
			case o.json:
				return out.add(i)
			}
			name, label := i.names()
			t.add(name, label, strconv.Itoa(i.Attempts), i.Class, exitText(i.ExitCode), i.Time.Local().Format(time.DateTime), stepName(i, names), oneLine(short(i)))
			return nil
		})
		if err != nil {
			return err
		}
		if o.json {
			return out.close()
		}
		if n == 0 {
			return o.noLetters(ctx, r)
		}
		return o.printLetters(r.Run(), &t, n)
	})
}

// stepName is the name of the failed step for a person.
func stepName(i *letterInfo, names *itemNames) string {
	if i.Step == "" {
		return ""
	}
	return visible(names.stepOf(i.Step, i.StepLabel, i.place, 0))
}

// short is the first thing to show a person: the last line that the step wrote on its standard
// error, else the message.
func short(i *letterInfo) string {
	if line := lastLine(i.last.Stderr); line != "" {
		return line
	}
	return i.Message
}

// noLetters reports that a run has no dead letter, or none that matches.
func (o *dlqListOptions) noLetters(ctx context.Context, r *journal.Reader) error {
	for _, err := range r.DeadLetters(ctx, journal.DeadLetterFilter{}) {
		if err != nil {
			return err
		}
		o.tell("no dead letter in run %s matches", shortRun(r.Run()))
		return nil
	}
	o.tell("run %s has no dead letters", shortRun(r.Run()))
	return nil
}

func (o *dlqListOptions) printLetters(run string, t *table, n int) error {
	if len(t.rows) == 0 {
		o.tell("%d dead letters, none after the first %d", n, o.offset)
		return nil
	}
	if err := t.print(o.out, o.columns(o.out)); err != nil {
		return err
	}
	if end := o.offset + len(t.rows); o.offset > 0 || end < n {
		more := ""
		if end < n {
			more = fmt.Sprintf("; --offset %d shows more", end)
		}
		o.tell("%d to %d of %d dead letters%s", o.offset+1, end, n, more)
		return nil
	}
	run = shortRun(run)
	o.tell("%s in run %s", diag.Count(n, "dead letter"), run)
	width := o.columns(o.err)
	hint(o.err, width, "all about one", "bide dlq show "+run+" ITEM")
	hint(o.err, width, "after the cause is mended", "bide dlq retry "+run)
	return nil
}

// dlqRetryOptions are the options of dlq retry.
type dlqRetryOptions struct {
	runFlags
	letters  letterFlags
	id       string // of the run
	recorded bool   // use the file as it was when the run began
	edited   string // the file with the new data of the item
}

func dlqRetryCmd(a *app) *cobra.Command {
	o := &dlqRetryOptions{runFlags: runFlags{app: a, progress: "auto"}}
	cmd := &cobra.Command{
		Use:   "retry [RUN] [ITEM...]",
		Short: "Run dead letters again, and then reduce",
		Long: `Runs dead letters again in the same run: with new attempts, under the same
correlation ids, and with their histories continued. Then reduce runs again with all
results. The workflow file is used as it is now, unless --as-recorded. Without RUN,
it is the newest run of this directory that has dead letters. Without ITEM, --item
and --filter, all of them run.

If all of them failed with merge conflicts, they run one after another, each on top
of the work merged before it, unless --max-parallel is given.

--data replaces all data of an item: a field that it leaves out is gone. The change
is shown.

While another process has the run, that process runs them in its map, and this
command shows what happens there. Until it has finished, a second retry of the run
is refused.`,
		Example: `  bide dlq retry
  bide dlq retry 37
  bide dlq retry 01KAJ3 --filter 'class == "network"' --max-parallel 2
  echo '{"name": "b", "size": 38}' | bide dlq retry --item 37 --data -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			o.letters.items = append(o.letters.items, args[1:]...)
			return o.run(cmd.Context())
		},
	}
	o.letters.register(cmd.Flags())
	cmd.Flags().Var(&countFlag{&o.MaxParallel}, "max-parallel", "items at once, instead of the recorded number")
	o.withheld(cmd)
	cmd.Flags().BoolVar(&o.recorded, "as-recorded", false, "use the workflow file as it was when the run began")
	cmd.Flags().StringVar(&o.edited, "data", "", "with one --item: a JSON file with all the data that it has from now on, - for standard input; they replace what it had, which stays in the record")
	o.showing(cmd)
	return cmd
}

// itemFirst takes a first argument that names no run, but an item of the newest run with dead
// letters, as that item.
func (o *dlqRetryOptions) itemFirst(ctx context.Context) error {
	var err error = &journal.NotFoundError{Run: o.id} // so few characters are no run where they are an item
	if len(o.id) >= minRun {
		err = o.reading(o.id, func(*journal.Reader) error { return nil })
	}
	if run, it, exact := o.itemInstead(ctx, o.id, runArgs["bide dlq retry"], err); run != "" && exact {
		o.id, o.letters.items = run, append(o.letters.items, it.ID)
		return nil
	}
	if len(o.id) < minRun {
		return nil
	}
	return o.orItem(ctx, o.id, runArgs["bide dlq retry"], err)
}

// minRun is how many characters of the id of a run dlq retry takes for one before it looks for
// an item.
const minRun = 4

func (o *dlqRetryOptions) run(ctx context.Context) error {
	if err := o.itemFirst(ctx); err != nil {
		return err
	}
	filter, err := o.letters.parse()
	if err != nil {
		return err
	}
	opt, err := o.options()
	if err != nil {
		return err
	}
	var data, was map[int]json.RawMessage // of the edited item
	err = o.reading(o.id, func(r *journal.Reader) error {
		o.id = r.Run()
		err := filter.check(ctx, r, o.tell)
		if err == nil && len(filter.ids) > 1 { // one alone is told of when it is not found
			err = allLetters(ctx, r, filter, o.letters.items, "bide dlq retry --item")
		}
		if err != nil || o.edited == "" {
			return err
		}
		data, was, err = o.editedItem(ctx, r)
		return err
	})
	if err != nil {
		return o.orItem(ctx, o.id, runArgs["bide dlq retry"], err)
	}
	begins := func(now map[int]json.RawMessage) error {
		if o.json || o.quiet {
			return nil
		}
		err := o.lastErrors(ctx, filter)
		fmt.Fprint(o.err, changedItems(was, now))
		return err
	}
	if err := o.inTurn(ctx, filter, &opt); err != nil {
		return err
	}
	if _, is, err := o.elsewhere(o.id); err != nil || is {
		if err == nil {
			err = o.requeueOn(ctx, opt, filter, begins)
		}
		return err
	}
	if o.jobs, err = o.continueJobs(ctx, o.id); err != nil {
		return err
	}
	err = o.execute(ctx, opt, func(ctx context.Context, opt engine.Options) (*engine.Summary, error) {
		return engine.RetryDeadLetters(ctx, o.id, opt, letters.Requeue{Filter: filter.journal(), Accept: filter.accept, Edited: data, AsRecorded: o.recorded, Begins: begins})
	})
	switch {
	case errors.Is(err, letters.ErrNoDeadLetters):
		if len(filter.ids) == 1 && filter.expr == nil && filter.older == 0 {
			return o.reading(o.id, func(r *journal.Reader) error {
				return noLetter(ctx, r, filter.ids[0], o.letters.items[0], "bide dlq retry --item")
			})
		}
		if len(filter.ids) == 0 && filter.expr == nil && filter.older == 0 {
			return o.nothingToRetry(ctx)
		}
		return fmt.Errorf("no dead letter in run %s matches: nothing was run; see `bide dlq list %s`", o.id, o.id)
	case errors.As(err, new(*letters.HandedOverError)), errors.Is(err, engine.ErrInterrupted):
		o.tell("%s", err)
		return exitError(130)
	}
	return err
}

// nothingToRetry reports that a run has no dead letters. It exits with the status of the run,
// as resume does if there is nothing to resume.
func (o *dlqRetryOptions) nothingToRetry(ctx context.Context) error {
	return o.reading(o.id, func(r *journal.Reader) error {
		st, err := r.Summary(ctx)
		if err != nil {
			return err
		}
		rest := ""
		if n := st.Items.Pending; n > 0 && infoOf(st, nil).Resumable { // those of a retry that was stopped too
			rest = fmt.Sprintf("; %s %s pending, and bide resume %s continues the run", diag.Count(n, "item"), diag.Plural(n, "is", "are"), shortRun(o.id))
		}
		o.tell("run %s has no dead letters: nothing was run%s", shortRun(o.id), rest)
		switch st.Status {
		case event.Succeeded:
			return nil
		case event.CompletedWithFailures:
			return exitError(3)
		}
		return exitError(1)
	})
}

// lastErrors shows why the dead letters that will run again had failed.
func (o *dlqRetryOptions) lastErrors(ctx context.Context, filter letterFilter) error {
	return o.reading(o.id, func(r *journal.Reader) error {
		n := 0
		err := eachLetter(ctx, r, filter, func(i *letterInfo, _ journal.DeadLetter) error {
			if n++; n <= mostFailures {
				name, label := i.names()
				o.tell("item %s runs again; it had failed after %s: %s", cmp.Or(label, name), diag.Count(i.Attempts, "attempt"), reason(i.Class, i.Message))
			}
			return nil
		})
		if n > mostFailures {
			o.tell("and %d more, see bide dlq list %s", n-mostFailures, shortRun(o.id))
		}
		if changed := new(engine.ChangedError); n > 0 && !o.recorded && errors.As(engine.Unchanged(r.Header()), &changed) {
			o.tell("%s has changed since the run began, and is used as it is now; --as-recorded uses it as it was:\n%s", visible(changed.Path), indent(visibleLines(changed.Diff), "  "))
		}
		return err
	})
}

// inTurn makes letters run one after another if all of them had conflicts: at once, they would
// begin from the same commit and conflict again.
func (o *dlqRetryOptions) inTurn(ctx context.Context, filter letterFilter, opt *engine.Options) error {
	conflicts, others := 0, 0
	err := o.reading(o.id, func(r *journal.Reader) error {
		return eachLetter(ctx, r, filter, func(i *letterInfo, _ journal.DeadLetter) error {
			if i.Class == "conflict" {
				conflicts++
			} else {
				others++
			}
			return nil
		})
	})
	if err != nil || conflicts < 2 || others > 0 || opt.MaxParallel > 0 {
		return err
	}
	opt.MaxParallel = 1
	if !o.json && !o.quiet {
		o.tell("they had conflicts, and run one after another, each upon what the one before it has merged; --max-parallel has them run at once")
	}
	return nil
}

// changedItems shows how the data of items change, by the lines of their JSON that differ.
func changedItems(was, now map[int]json.RawMessage) string {
	var b strings.Builder
	lines := func(data json.RawMessage) string {
		var out bytes.Buffer
		if json.Indent(&out, bytes.TrimSpace(data), "", "  ") != nil {
			return string(data)
		}
		return out.String()
	}
	for index, data := range now {
		changes := diag.Diff(lines(was[index]), lines(data))
		if len(changes) == 0 {
			b.WriteString("bide: its data are as they were\n")
			continue
		}
		b.WriteString("bide: its data are replaced as a whole, and change in these lines:\n")
		for n, l := range changes {
			if n == mostChanges {
				fmt.Fprintf(&b, "  and %s\n", diag.Count(len(changes)-n, "more line", "more lines"))
				break
			}
			if l.Sign != '@' {
				fmt.Fprintf(&b, "  %c %s\n", l.Sign, diag.Clip(visible(l.Text), 200))
			}
		}
	}
	return b.String()
}

// mostChanges is how many lines of a change are shown.
const mostChanges = 40

// editedItem reads the new data of one item, and returns it with the present data.
func (o *dlqRetryOptions) editedItem(ctx context.Context, r *journal.Reader) (now, was map[int]json.RawMessage, _ error) {
	if len(o.letters.items) != 1 {
		return nil, nil, usagef("--data is for one item: name it with --item")
	}
	var b []byte
	var err error
	if o.edited == "-" {
		b, err = io.ReadAll(o.in)
	} else {
		b, err = os.ReadFile(o.edited)
	}
	if err != nil && strings.HasPrefix(strings.TrimSpace(o.edited), "{") {
		return nil, nil, usagef("--data takes the name of a file, not the data: write them to one, or to standard input with --data -")
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, usagef("--data takes the name of a file that has all the data of the item as JSON, and there is no file %s; write: --data FILE, or --data - for standard input", visible(o.edited))
	}
	if err != nil {
		return nil, nil, usagef("--data: %w", err)
	}
	if _, err := value.Parse(b); err != nil {
		return nil, nil, usagef("--data %s is not JSON: %w", o.edited, err)
	}
	it, _, err := findItem(ctx, r, o.letters.items[0])
	if err == nil {
		b, err = editedBatchItem(it, b)
	}
	return map[int]json.RawMessage{it.Index: b}, map[int]json.RawMessage{it.Index: it.Data}, err
}

// editedBatchItem is the new data of an item. For a batch it has all parts of the argument.
func editedBatchItem(it event.Item, data []byte) ([]byte, error) {
	var was, is batchItem
	if json.Unmarshal(it.Data, &was) != nil || was.Arg == "" || was != newBatchItem(was.Arg, it.Index) {
		return data, nil // not in the form that a batch writes
	}
	if json.Unmarshal(data, &is) != nil || is.Arg == "" {
		return nil, usagef("--data: the items of a batch have the form {\"arg\": TEXT}, and this has no arg; nothing was run")
	}
	next := newBatchItem(is.Arg, it.Index)
	next.ID = it.ID
	return json.Marshal(next)
}

// dlqPurgeOptions are the options of dlq purge.
type dlqPurgeOptions struct {
	*app
	letterFlags
	id       string // of the run
	all, yes bool
}

func dlqPurgeCmd(a *app) *cobra.Command {
	o := &dlqPurgeOptions{app: a}
	cmd := &cobra.Command{
		Use:   "purge RUN",
		Short: "Give up dead letters",
		Long: `Gives up dead letters: their items stay failed, and are no longer listed or run
again. What happened stays in the events of the run.`,
		Example: `  bide dlq purge 01KAJ3 --item 17 -y
  bide dlq purge 01KAJ3 --older-than 30d
  bide dlq purge 01KAJ3 --all -y --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return o.run(cmd.Context())
		},
	}
	o.register(cmd.Flags())
	cmd.Flags().BoolVar(&o.all, "all", false, "all of them")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do it without asking")
	return o.withJSON(cmd, "print one JSON object")
}

func (o *dlqPurgeOptions) run(ctx context.Context) (err error) {
	filter, err := o.parse()
	if err != nil {
		return err
	}
	some := len(o.items) > 0 || o.filter != "" || o.older != ""
	if some == o.all {
		return usagef("say which dead letters to give up: --item, --filter, --older-than, or --all")
	}
	st, err := o.openStore()
	if err != nil {
		return err
	}
	j, err := st.Open(o.id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	err = filter.check(ctx, &j.Reader, o.tell)
	if err == nil {
		err = allLetters(ctx, &j.Reader, filter, o.items, "bide dlq purge "+shortRun(j.Run())+" --item")
	}
	if err != nil {
		return err
	}
	out := struct {
		Run     string   `json:"run"`
		Removed int      `json:"removed"`
		Items   []string `json:"items"`
	}{Run: j.Run(), Items: []string{}}
	var indexes []int
	err = eachLetter(ctx, &j.Reader, filter, func(i *letterInfo, _ journal.DeadLetter) error {
		out.Items, indexes = append(out.Items, i.Item), append(indexes, i.place)
		return nil
	})
	if err != nil {
		return err
	}
	if len(indexes) > 0 {
		if err := o.confirm(o.yes, fmt.Sprintf("Give up %s of run %s?", diag.Count(len(indexes), "dead letter"), shortRun(j.Run()))); err != nil {
			return err
		}
	}
	for n, index := range indexes {
		if err := j.Append(event.Event{Type: event.ItemRemoved, Phase: "map", Item: out.Items[n], Index: index}); err != nil {
			return err
		}
	}
	if err := j.Sync(ctx); err != nil {
		return err
	}
	out.Removed = len(indexes)
	if o.json {
		return printJSON(o.out, out)
	}
	return o.printf("gave up %s of run %s\n", diag.Count(out.Removed, "dead letter"), out.Run)
}

// confirm asks before something is lost. If there is nobody to ask, -y is required.
func (s *streams) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	ask := s.ask()
	if ask == nil {
		return usagef("%s Nothing was done: say -y, as nobody can be asked here", question)
	}
	if !ask(question) {
		return errors.New("nothing was done")
	}
	return nil
}

// exitText is an exit status, empty if there is none, as after a timeout.
func exitText(code int) string {
	if code == 0 {
		return "-"
	}
	return strconv.Itoa(code)
}
