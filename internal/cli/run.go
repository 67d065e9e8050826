package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
)

// runFlags are the flags of run, resume and dlq retry that change how a run works.
type runFlags struct {
	*app
	pipelineFlags
	clusterFlags
	engine.Settings       // those that are flags without conversion
	metricsFile           string
	traceItems            string
	params, files, failOn []string
	paramFile             string
	progress              string
	strict, dryRun, quiet bool
	force, ui             bool
	jobs                  *jobs // of a batch: shows its outputs
}

// runOptions are the options of run.
type runOptions struct {
	runFlags
	path string
	rest []string // the arguments after the path
}

func runCmd(a *app) *cobra.Command {
	o := &runOptions{runFlags: runFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "run FILE [ARG...]",
		Short: "Run a workflow or pipeline file",
		Long: `Runs a workflow (YAML) or a pipeline (.cst) to its end. All problems of the file are reported before anything
starts. What happens is recorded: "bide resume" continues a run that was
interrupted, killed or failed.

The output of steps goes to standard output and standard error as it comes; progress
goes to standard error. A shell step that runs alone gets the terminal: it can ask
questions, receives keys and Ctrl-C, and prints colours unless something reads its
output. Your typing is shown and not recorded. Keys that the step does not read stay
for the next reader of the terminal, if the system allows it.

The outputs of a pipeline go to standard output at its end, as one JSON object.`,
		Example: `  bide run nightly.yml
  bide run review.yml --map 'src/*.go' --max-parallel 4
  bide run deploy.yml --param env=staging --json
  bide run search.cst --input query=backoff --input limit=5`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.path, o.rest = args[0], args[1:]
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&o.params, "param", nil, "a parameter, NAME=VALUE")
	fs.StringVar(&o.paramFile, "param-file", "", "parameters from a JSON or YAML file")
	fs.StringArrayVar(&o.Args, "args", nil, "run the workflow once for each of these arguments ($ARG)")
	fs.StringArrayVar(&o.files, "map", nil, "run the workflow once for each file that matches the pattern")
	fs.StringVar(&o.Profile, "profile", "", "use a profile of the file")
	fs.Var(&countFlag{&o.MaxParallel}, "max-parallel", "items at once, instead of the file's max_parallel; attempts at once of a pipeline's calls (default 64)")
	fs.Var(&countFlag{&o.Canary}, "canary", "run this many items of a map first, alone; the others start when all of them have succeeded")
	fs.VarP(&countFlag{&o.MaxIterations}, "max-iterations", "n", "repeat the steps up to N times, until a round changes nothing")
	fs.BoolVar(&o.FailFast, "fail-fast", false, "with --args, --map and pipelines: stop at the first that fails")
	fs.BoolVar(&o.All, "all", false, "run all items of a map, also those that skip_unchanged would leave out")
	fs.BoolVar(&o.strict, "strict", false, "treat warnings about the file as errors")
	fs.BoolVar(&o.dryRun, "dry-run", false, "show what would be run, and run nothing")
	fs.StringVar(&o.Isolation, "isolation", "", "auto, worktree, none: where steps run")
	fs.StringVarP(&o.Dir, "path", "p", "", "directory to run in (default: here)")
	fs.BoolVar(&o.ui, "ui", false, "show the run in a browser while it runs, as bide ui does")
	fs.StringVar(&o.on, "on", "", "temporal: share the run among the machines that run bide worker")
	fs.StringVar(&o.store, "store", "", "with --on: dir:PATH, a directory that all workers see (default $BIDE_STORE, else a directory of this machine)")
	fs.Var(&countFlag{&o.priority}, "priority", fmt.Sprintf("with --on: from 1 (served first) to %d, if runs wait for the same workers (default %d)", cluster.LastPriority, cluster.UsualPriority))
	fs.BoolVar(&o.detach, "detach", false, "with --on: do not wait for the run's end")
	o.pipelineFlags.add(fs)
	o.showing(cmd)
	return cmd
}

// showing adds the flags that all commands that run steps share: how to show what happens, and
// where to send it.
func (f *runFlags) showing(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVarP(&f.Yes, "yes", "y", false, "merge the run's work at the end without asking")
	fs.BoolVar(&f.AllowRedBase, "allow-red-base", false, "items of a map need not pass checks that fail on what they start from")
	fs.BoolVar(&f.AllowFailedItems, "allow-failed-items", false, "exit status 0 although items have failed")
	fs.StringSliceVar(&f.failOn, "fail-on", nil, "exit status 3 if a step or an item ended as "+strings.Join(event.Kinds, ", "))
	fs.BoolVar(&f.SkipPermissions, "skip-permissions", false, skipUsage)
	fs.StringVar(&f.progress, "progress", "auto", "auto (live on a terminal, else plain), live, plain, none (warnings alone)")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "no progress and no output of steps")
	fs.BoolVar(&f.json, "json", false, "one event per line on standard output")
	fs.StringVar(&f.metricsFile, "metrics-file", "", "write metrics to this file, in Prometheus' text format")
	fs.StringVar(&f.traceItems, "trace-items", "failed", "which items get spans, where traces are sent: failed (or retried; 10,000 at most), all, none")
}

// readsArgument finds in a workflow what the words behind its file are read by.
var readsArgument = pattern.Lazy(`\b(ARG(_\d+)?|INDEX|TOTAL)\b|\$\{?[1-9]`)

// unread refuses words behind a file that reads none: the run would do something else than
// what they ask for.
func (o *runOptions) unread(file *workflow.File) error {
	if len(o.rest) == 0 {
		return nil
	}
	for _, text := range sources(file).of {
		if readsArgument().Match(text) {
			return nil
		}
	}
	word := o.rest[0]
	write := "write ${ARG} in the place that it is for, or leave it out"
	if name, _, assigned := strings.Cut(word, "="); assigned && !strings.ContainsAny(name, " /") {
		write = "write: --param " + diag.ShellWord(word)
	} else if slices.Contains(fileEndings, filepath.Ext(word)) {
		write = "one run has one file: write bide run once for each"
	}
	return usagef("%s reads no argument, so that %s would have no effect; %s", o.path, diag.ShellWord(word), write)
}

func (o *runOptions) run(ctx context.Context) error {
	if err := o.clusterFlags.check(); err != nil {
		return usageError{err}
	}
	if o.path == "-" {
		return usagef("bide run takes a file, not standard input: a resume would have nothing to compare with; bide check - judges such a text")
	}
	if dataflow.IsPipeline(o.path) {
		return o.runPipeline(ctx)
	}
	if o.pipelineFlags.present() {
		return usagef("--input, --inputs and --modules are for pipelines (.cst); a workflow takes --param")
	}
	opt, err := o.options()
	if err != nil {
		return err
	}
	opt.Args = append(opt.Args, o.rest...)
	file, problems := loadWorkflow(o.path, workflow.Options{Params: opt.Params, ParamFile: opt.ParamFile, Profile: o.Profile, Strict: o.strict, ToRun: true})
	if len(problems) > 0 {
		o.problems(problems, sources(file))
	}
	if problems.HasErrors() || file == nil {
		return o.faulty(o.path, problems, "; nothing was run")
	}
	if err := o.unread(file); err != nil {
		return err
	}
	if err := o.stepPipelines(file); err != nil {
		return err
	}
	opt.File = file
	if o.dryRun {
		return o.showPlan(file)
	}
	if o.on != "" {
		return o.runOn(ctx, opt)
	}
	return o.execute(ctx, opt, func(ctx context.Context, o engine.Options) (*engine.Summary, error) {
		return engine.Run(ctx, o)
	})
}

// stepPipelines reports what is wrong with the pipelines of a workflow's steps
// before it runs.
func (o *runOptions) stepPipelines(file *workflow.File) error {
	steps := dataflow.LoadSteps(file, o.Dir)
	n := 0
	report := func(c checked) {
		c.judge(o.strict)
		o.problems(c.Problems, c.src)
		e, _ := c.Problems.Count()
		n += e
	}
	report(checked{Problems: steps.Problems, src: sources(file)})
	for i, pl := range steps.Loaded {
		report(checked{Problems: steps.FileProblems[i], src: sourceTexts{of: pl.Sources}})
	}
	if n == 0 {
		return nil
	}
	o.tell("%s has %s in the pipelines of its steps; nothing was run", file.Path, diag.Count(n, "error"))
	return exitError(2)
}

// faulty reports how many errors a file has, and exits with the status for that.
func (s *streams) faulty(path string, problems diag.List, end string) error {
	n, _ := problems.Count()
	s.tell("%s has %s%s", path, diag.Count(n, "error"), end)
	return exitError(2)
}

// options turns the flags into settings of the run.
func (f *runFlags) options() (engine.Options, error) {
	var errs []error
	o := engine.Options{Force: f.force, Settings: f.Settings}
	o.Version = version()
	var err error
	if o.Params, o.ParamFile, err = f.parameters(); err != nil {
		return o, err
	}
	o.FailOn, err = oneOf("fail-on", f.failOn, event.Kinds)
	errs = append(errs, err)
	if f.Isolation != "" {
		errs = append(errs, chosen("run", "isolation", f.Isolation))
	}
	if f.progress != "" {
		errs = append(errs, chosen("run", "progress", f.progress))
	}
	for _, pattern := range f.files {
		before := len(o.Files)
		err := glob(f.Dir, pattern, func(file string) error { o.Files = append(o.Files, file); return nil })
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("--map %w", err))
		case len(o.Files) == before:
			errs = append(errs, fmt.Errorf("--map %s%s", pattern, cmp.Or(below(f.Dir, pattern), ": no file matches")))
		}
	}
	slices.Sort(o.Files)
	o.Files = slices.Compact(o.Files)
	if len(o.Files) > 0 && len(o.Args) > 0 {
		errs = append(errs, errors.New("--args and --map cannot be used together"))
	}
	return o, misused(errs...)
}

// withheld adds the parameters that a recorded run does not have, because they are secrets.
func (f *runFlags) withheld(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.params, "param", nil, "a parameter that the file keeps secret, NAME=VALUE: it is not recorded")
}

func (f *runFlags) parameters() (map[string]string, map[string]any, error) {
	return givenValues("param", f.params, "param-file", f.paramFile, false)
}

// execute runs or resumes, shows what happens, and returns the exit status.
func (f *runFlags) execute(ctx context.Context, opt engine.Options, do func(context.Context, engine.Options) (*engine.Summary, error)) (err error) {
	dismiss := proc.StartCompanion() // it starts while the journal is made
	defer func() { err = errors.Join(err, dismiss()) }()
	st, err := f.openStore()
	if err != nil {
		return err
	}
	show, err := f.display()
	if err != nil {
		return err
	}
	// A slow reader of the display cannot delay the run.
	watch := event.NewQueue(show, "")
	sig := watchSignals(ctx, func(os.Signal) {
		watch.Urgent(func() {
			show.say("interrupted: running steps may end within " + millis(engine.DefaultGrace.Milliseconds()) + ", a second interrupt stops them at once")
		})
	})
	defer sig.stop()
	opt.Store, opt.Soft = st, sig.soft
	if ask := show.ask(f.ask()); ask != nil {
		opt.Ask = func(question string) bool {
			watch.Flush(sig.soft) // earlier lines come above the question
			return sig.soft.Err() == nil && ask(question)
		}
	}
	opt.Commands = func(suspend func(stop func())) {
		sig.stops.begin(suspend, func() func() { return show.lend(true) })
	}
	opt.Terminal = f.lender(sig, watch, show)
	opt.Sinks, opt.Journaled = []event.Sink{watch}, f.jobs.journaled
	if f.ui {
		end, uerr := f.uiBeside(st)
		if uerr != nil {
			return uerr
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	tell, err := f.telemetry()
	if err != nil {
		return err
	}
	if tell != nil {
		opt.Sinks, opt.Tracing = append(opt.Sinks, tell), tell
	}
	sig.ready() // a process that ends while it creates a run would leave half of it behind
	sum, err := do(sig.hard, opt)
	patience, cancel := sig.patience()
	defer cancel()
	if missed := watch.Close(patience); missed > 0 && patience.Err() != nil {
		// The reader of the display is stuck, and would not read the rest either.
		return exitError(sig.status())
	} else if missed > 0 {
		f.tell("%s dropped: this reader was too slow; see bide events", diag.Count(missed, "event"))
	}
	if over := new(engine.FinishedError); errors.As(err, &over) && sum != nil {
		show.say(over.Error())
		err = nil // exit with the status of that run
	}
	show.close(sum)
	if sum != nil {
		f.jobSummary(sig.hard, sum.Run)
		f.keepShow(sig.hard, sum)
	}
	if tell != nil {
		if werr := tell.Close(sig.hard); werr != nil {
			f.tell("%v", werr)
		}
	}
	if err != nil {
		return f.explainError(err)
	}
	if sum.Pipeline && !f.json {
		if err := printJSON(f.out, sum.Outputs); err != nil {
			return err
		}
	}
	if sum.Status == event.Interrupted {
		return exitError(sig.status())
	}
	if code := sum.ExitStatus(); code != 0 {
		return exitError(code)
	}
	if f.jobs.failed() { // the display has reported it
		return exitError(1)
	}
	return nil
}

// explainError gives errors from opening a run their exit status.
func (s *streams) explainError(err error) error {
	var changed *engine.ChangedError
	switch {
	case errors.As(err, new(diag.List)):
		s.refused(err)
		return exitError(2)
	case errors.As(err, &changed), errors.As(err, new(*engine.MovedError)), errors.As(err, new(*engine.ParamsError)), errors.As(err, new(*journal.NotFoundError)), errors.As(err, new(*letters.NoStepError)):
		return usageError{err}
	}
	return err
}

// refused shows every reason why a run could not begin.
func (s *streams) refused(err error) {
	switch x := err.(type) {
	case diag.List:
		s.problems(x, sourceTexts{})
	case interface{ Unwrap() []error }:
		for _, e := range x.Unwrap() {
			s.refused(e)
		}
	default:
		s.tell("%v", err)
	}
}

// planned is a step that would run.
type planned struct {
	Step   string `json:"step"`
	Action string `json:"action"`
	Label  string `json:"label"`
}

// showPlan shows the steps that would run.
func (o *runOptions) showPlan(f *workflow.File) error {
	compares := f.Map != nil && f.Map.Unchanged != nil
	steps := []planned{}
	workflow.Walk(f, func(s *workflow.Step) {
		steps = append(steps, planned{s.Path, s.Action.Kind(), engine.Label(s)})
	})
	if o.json {
		return printJSON(o.out, struct {
			Path  string    `json:"path"`
			Kind  string    `json:"kind"`
			Steps []planned `json:"steps"`
			Skip  bool      `json:"skip_unchanged,omitempty"`
		}{f.Path, f.Kind.String(), steps, compares})
	}
	t := table{head: []string{"STEP", "ACTION", "WHAT"}, flex: 2, block: true}
	for _, s := range steps {
		t.add(s.Step, s.Action, oneLine(s.Label))
	}
	if _, err := fmt.Fprintf(o.out, "%s: %s; nothing is run\n", visible(f.Path), f.Kind); err != nil {
		return err
	}
	if compares {
		if _, err := fmt.Fprintln(o.out, "items that are unchanged since an earlier run are left out (skip_unchanged); --all runs them"); err != nil {
			return err
		}
	}
	return t.print(o.out, o.columns(o.out))
}
