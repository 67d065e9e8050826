package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
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

func (a *app) dlqCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters, and run them again",
		Long: `A work item that failed for good is a dead letter: it is kept with its data and the
whole history of its failed attempts until it is run again or purged.

--filter takes an expression over: item (the item's data), id, index, class,
message, group (letters of one class whose messages differ by numbers and paths
alone), attempts, step, step_label, exit_code, correlation_id, time, age (in
seconds), worktree, branch, eligible. Other names are fields of the item.`,
		Example: `  bide dlq list
  bide dlq show 01KAJ3 42
  bide dlq retry 01KAJ3 --filter 'class == "timeout" && item.priority > 3'`,
	}
	cmd.AddCommand(a.dlqListCmd(), a.dlqShowCmd(), a.dlqRetryCmd(), a.dlqExportCmd(), a.dlqPurgeCmd(), a.dlqStatsCmd())
	return cmd
}

// letterFlags say which dead letters are wanted.
type letterFlags struct {
	filter string
	items  []string
	older  string
}

func (f *letterFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.filter, "filter", "", "only those that this expression holds of; see bide dlq --help")
	fs.StringArrayVar(&f.items, "item", nil, "only this item, by its id or what it is called in lists; may be given several times")
	fs.StringVar(&f.older, "older-than", "", "only those that are at least so old, as in 2d")
}

// letterFilter is letterFlags, read.
type letterFilter struct {
	ids   []string
	expr  *expr.Expr
	older time.Duration
}

func (f *letterFlags) parse() (letterFilter, error) {
	out := letterFilter{ids: f.items}
	var errs []error
	var err error
	if f.filter != "" {
		if out.expr, err = expr.Parse(f.filter); err != nil {
			errs = append(errs, fmt.Errorf("--filter: %w", err))
		}
	}
	if f.older != "" {
		if out.older, err = duration.Parse(f.older); err != nil {
			errs = append(errs, fmt.Errorf("--older-than: %w", err))
		}
	}
	return out, misused(errs...)
}

func (f letterFilter) journal() journal.DeadLetterFilter {
	return journal.DeadLetterFilter{IDs: f.ids}
}

// accept has the last word on a letter.
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

func (a *app) dlqListCmd() *cobra.Command {
	f, limit, offset := &letterFlags{}, 0, 0
	cmd := &cobra.Command{
		Use:   "list [RUN]",
		Short: "List the dead letters of a run",
		Long: `Lists the dead letters of a run in the order of its items: those that were not run
again and not purged. Without RUN, it is the last run.`,
		Example: `  bide dlq list
  bide dlq list 01KAJ3 --filter 'exit_code == 7' --limit 20 --offset 40
  bide dlq list --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.dlqList(cmd.Context(), first(args), f, limit, offset)
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().IntVar(&limit, "limit", 0, "at most this many; 0 means all")
	cmd.Flags().IntVar(&offset, "offset", 0, "skip this many at the beginning")
	return a.withJSON(cmd, "print a JSON array")
}

func (a *app) dlqList(ctx context.Context, run string, f *letterFlags, limit, offset int) error {
	if limit < 0 || offset < 0 {
		return usagef("--limit and --offset must be at least 0")
	}
	filter, err := f.parse()
	if err != nil {
		return err
	}
	return a.reading(run, func(r *journal.Reader) error {
		if err := filter.check(ctx, r); err != nil {
			return err
		}
		p := a.palette(a.out)
		t := table{head: []string{"ITEM", "LABEL", "ATTEMPTS", "CLASS", "EXIT", "SINCE", "STEP", "MESSAGE"}, right: map[int]bool{2: true, 4: true}, flex: 7, also: []int{0, 6, 1}, drop: []int{1, 5, 4}}
		t.paint = painted(3, func(s string) string { return p.sgr("31", s) })
		out := jsonArray{w: a.out}
		n := 0
		err := eachLetter(ctx, r, filter, func(i *letterInfo, _ journal.DeadLetter) error {
			n++
			switch {
			case n <= offset || limit > 0 && n > offset+limit:
				return nil
			case a.json:
				return out.add(i)
			}
			name, label := i.names()
			t.add(name, cut(label, 32), strconv.Itoa(i.Attempts), i.Class, exitText(i.ExitCode), i.Time.Local().Format(time.DateTime), stepName(i), oneLine(short(i)))
			return nil
		})
		if err != nil {
			return err
		}
		if a.json {
			return out.close()
		}
		if n == 0 {
			return a.noLetters(ctx, r)
		}
		return a.printLetters(r.Run(), &t, n, offset)
	})
}

// stepName is what a person knows the failed step by.
func stepName(i *letterInfo) string {
	if i.StepLabel != "" {
		return cut(visible(i.StepLabel), 32)
	}
	return i.Step
}

// short is what a person is told first: the last line that the step wrote on
// its standard error, else the message.
func short(i *letterInfo) string {
	if line := lastLine(i.last.Stderr); line != "" {
		return line
	}
	return i.Message
}

// noLetters says that a run has no dead letter, or none that fits.
func (a *app) noLetters(ctx context.Context, r *journal.Reader) error {
	for _, err := range r.DeadLetters(ctx, journal.DeadLetterFilter{}) {
		if err != nil {
			return err
		}
		fmt.Fprintf(a.err, "bide: no dead letter in run %s matches\n", shortRun(r.Run()))
		return nil
	}
	fmt.Fprintf(a.err, "bide: run %s has no dead letters\n", shortRun(r.Run()))
	return nil
}

func (a *app) printLetters(run string, t *table, n, offset int) error {
	if len(t.rows) == 0 {
		fmt.Fprintf(a.err, "bide: %d dead letters, none after the first %d\n", n, offset)
		return nil
	}
	if err := t.print(a.out, a.columns(a.out)); err != nil {
		return err
	}
	if end := offset + len(t.rows); offset > 0 || end < n {
		more := ""
		if end < n {
			more = fmt.Sprintf("; --offset %d shows more", end)
		}
		fmt.Fprintf(a.err, "bide: %d to %d of %d dead letters%s\n", offset+1, end, n, more)
		return nil
	}
	run = shortRun(run)
	fmt.Fprintf(a.err, "bide: %s in run %s; after the mend: bide dlq retry %s\n", diag.Count(n, "dead letter"), run, run)
	return nil
}

func (a *app) dlqRetryCmd() *cobra.Command {
	f, l, recorded, edited := &runFlags{progress: "auto"}, &letterFlags{}, false, ""
	cmd := &cobra.Command{
		Use:   "retry [RUN]",
		Short: "Run dead letters again, and then reduce",
		Long: `Runs dead letters again in the same run: with new attempts, under their correlation
ids, and with what they report added to their histories. Then reduce runs again with
all results. The workflow file is used as it is now, unless --as-recorded. Without RUN,
it is the last run of this directory that has dead letters.

While the run goes on in another process, that process is asked to run them in the
map that goes on, and this one shows what happens there. A second retry of the same
run meanwhile is refused.`,
		Example: `  bide dlq retry
  bide dlq retry 01KAJ3 --filter 'class == "network"' --max-parallel 2
  bide dlq retry 01KAJ3 --item 17 --item 42`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id := first(args)
			if id == "" {
				var err error
				if id, err = a.lastHere(cmd, " with dead letters", func(i runInfo) bool { return i.Items.DeadLettered > 0 }); err != nil {
					return err
				}
			}
			return a.dlqRetry(cmd.Context(), id, f, l, recorded, edited)
		},
	}
	l.register(cmd.Flags())
	cmd.Flags().Var(&countFlag{&f.MaxParallel}, "max-parallel", "agents at once, instead of the recorded number")
	f.withheld(cmd)
	cmd.Flags().BoolVar(&recorded, "as-recorded", false, "use the workflow file as it was when the run began")
	cmd.Flags().StringVar(&edited, "data", "", "with one --item: a JSON file with the data that it has from now on, - for standard input; what it had is kept")
	f.showing(cmd, a)
	return cmd
}

func (a *app) dlqRetry(ctx context.Context, run string, f *runFlags, l *letterFlags, recorded bool, edited string) error {
	filter, err := l.parse()
	if err != nil {
		return err
	}
	opt, err := f.options()
	if err != nil {
		return err
	}
	var data map[int]json.RawMessage
	err = a.reading(run, func(r *journal.Reader) error {
		run = r.Run()
		if err := filter.check(ctx, r); err != nil || edited == "" {
			return err
		}
		data, err = a.editedItem(ctx, r, l.items, edited)
		return err
	})
	if err != nil {
		return err
	}
	if !a.json && !f.quiet {
		if err := a.lastErrors(ctx, run, filter); err != nil {
			return err
		}
	}
	if _, is, err := a.elsewhere(run); err != nil || is {
		if err == nil {
			err = a.requeueOn(ctx, f, opt, run, filter, recorded && edited == "")
		}
		return err
	}
	wanted := map[int]bool{}
	if err := a.reading(run, func(r *journal.Reader) error {
		return eachLetter(ctx, r, filter, func(i *letterInfo, _ journal.DeadLetter) error {
			wanted[i.place] = true
			return nil
		})
	}); err != nil {
		return err
	}
	if f.jobs, err = a.continueJobs(ctx, run, func(index int) bool { return wanted[index] }); err != nil {
		return err
	}
	err = a.execute(ctx, f, opt, func(ctx context.Context, o engine.Options) (*engine.Summary, error) {
		return engine.RetryDeadLetters(ctx, run, o, letters.Requeue{Filter: filter.journal(), Accept: filter.accept, Edited: data, AsRecorded: recorded})
	})
	switch {
	case errors.Is(err, letters.ErrNoDeadLetters):
		return fmt.Errorf("no dead letter in run %s matches: nothing was run; see `bide dlq list %s`", run, run)
	case errors.As(err, new(*letters.HandedOverError)), errors.Is(err, engine.ErrInterrupted):
		fmt.Fprintf(a.err, "bide: %s\n", err)
		return exitError(130)
	}
	return err
}

// lastErrors tells how the dead letters that are to be run again failed last.
func (a *app) lastErrors(ctx context.Context, run string, filter letterFilter) error {
	return a.reading(run, func(r *journal.Reader) error {
		n := 0
		err := eachLetter(ctx, r, filter, func(i *letterInfo, _ journal.DeadLetter) error {
			if n++; n <= mostFailures {
				name, label := i.names()
				fmt.Fprintf(a.err, "bide: item %s failed last after %s: %s\n", cmp.Or(label, name), diag.Count(i.Attempts, "attempt"), reason(i.Class, i.Message))
			}
			return nil
		})
		if n > mostFailures {
			fmt.Fprintf(a.err, "bide: and %d more, see bide dlq list %s\n", n-mostFailures, shortRun(run))
		}
		return err
	})
}

// editedItem reads the data that one item has from now on.
func (a *app) editedItem(ctx context.Context, r *journal.Reader, ids []string, path string) (map[int]json.RawMessage, error) {
	if len(ids) != 1 {
		return nil, usagef("--data is for one item: name it with --item")
	}
	var b []byte
	var err error
	if path == "-" {
		b, err = io.ReadAll(a.in)
	} else {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	if _, err := value.Parse(b); err != nil {
		return nil, usagef("--data %s is not JSON: %w", path, err)
	}
	it, _, err := findItem(ctx, r, ids[0])
	return map[int]json.RawMessage{it.Index: b}, err
}

func (a *app) dlqPurgeCmd() *cobra.Command {
	f, all, yes := &letterFlags{}, false, false
	cmd := &cobra.Command{
		Use:   "purge RUN",
		Short: "Give up dead letters",
		Long: `Gives up dead letters: their items stay failed, and are no longer listed or run
again. What happened stays in the events of the run.`,
		Example: `  bide dlq purge 01KAJ3 --item 17 -y
  bide dlq purge 01KAJ3 --older-than 30d
  bide dlq purge 01KAJ3 --all -y --json`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.dlqPurge(cmd.Context(), args[0], f, all, yes) },
	}
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do it without asking")
	return a.withJSON(cmd, "print one JSON object")
}

func (a *app) dlqPurge(ctx context.Context, run string, f *letterFlags, all, yes bool) (err error) {
	filter, err := f.parse()
	if err != nil {
		return err
	}
	some := len(f.items) > 0 || f.filter != "" || f.older != ""
	if some == all {
		return usagef("say which dead letters to give up: --item, --filter, --older-than, or --all")
	}
	st, err := a.store()
	if err != nil {
		return err
	}
	j, err := st.Open(run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if err := filter.check(ctx, &j.Reader); err != nil {
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
		if err := a.confirm(yes, fmt.Sprintf("Give up %s of run %s?", diag.Count(len(indexes), "dead letter"), j.Run())); err != nil {
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
	if a.json {
		return printJSON(a.out, out)
	}
	return a.printf("gave up %s of run %s\n", diag.Count(out.Removed, "dead letter"), out.Run)
}

// confirm asks before something is lost. Where nobody can be asked, -y is
// needed.
func (a *app) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	ask := a.ask()
	if ask == nil {
		return usagef("%s Nothing was done: say -y, as nobody can be asked here", question)
	}
	if !ask(question) {
		return errors.New("nothing was done")
	}
	return nil
}

// exitText is an exit status; one that there is not, as of a timeout, is none.
func exitText(code int) string {
	if code == 0 {
		return "-"
	}
	return strconv.Itoa(code)
}
