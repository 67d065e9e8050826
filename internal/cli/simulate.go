package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
)

// simulateOptions are the options of simulate.
type simulateOptions struct {
	runFlags
	path             string
	model, from, svg string
	set, compare     []string
	seeds            int
	first            uint64
	runInput         bool
	backtest         bool
}

func simulateCmd(a *app) *cobra.Command {
	o := &simulateOptions{runFlags: runFlags{app: a}}
	cmd := &cobra.Command{
		Use:   "simulate FILE...",
		Short: "Show how a workflow or a pipeline will behave under failures",
		Long: `Runs a workflow, a map or a pipeline many times over in virtual time, with failures that a
model makes up, and shows how often it succeeds, how long it takes, and what load
its retries make. It is the same executor as that of "bide run": only the clock,
the record and what the steps do are made up. Nothing is run and nothing written.

The model is a YAML file: for each step, or module of a pipeline, classes of errors with a probability,
latencies, outages, rate limits, cost. --from takes it from a run that has been
recorded; what one run cannot tell makes the ranges wide, and the first sentence says so.
Without either, one attempt in ten fails, and each takes a second.

With --backtest the arguments are recorded runs of one workflow: each is predicted
from the others, and the output says how many predictions were right.

What happens to an attempt depends only on the seed, the item, the step and the
number of the attempt: variants that are compared meet the same luck, and the same
--seed gives the same output. Inputs of a pipeline that are not given are made up.`,
		Example: `  bide simulate nightly.yml --model model.yml
  bide simulate nightly.yml --model model.yml --set fetch.retry.jitter=full --json
  bide simulate report.cst --model model.yml --set hits.retry=5
  bide simulate nightly.yml --from last --compare nightly-gentle.yml --svg load.svg
  bide simulate --backtest 01JD 01JE 01JF`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.backtest:
				return o.predictBack(cmd, args)
			case len(args) > 1:
				return usagef("%q is one argument too many: simulate takes one FILE, and others with --compare; runs with --backtest", args[1])
			}
			o.path = args[0]
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.model, "model", "", "a model of failures, a YAML file")
	fs.StringVar(&o.from, "from", "", "take the model from a recorded run: an id, or last")
	fs.StringArrayVar(&o.set, "set", nil, "change a value of the file, PATH=VALUE, such as fetch.retry.attempts=5, or hits.retry=5 of a pipeline")
	fs.StringSliceVar(&o.compare, "compare", nil, "other files that meet the same luck")
	fs.IntVar(&o.seeds, "seeds", 200, "how many runs are simulated")
	fs.Uint64Var(&o.first, "seed", 1, "the seed of the first run")
	fs.BoolVar(&o.runInput, "run-input", false, "run the command that gives the work items, and nothing else")
	fs.BoolVar(&o.backtest, "backtest", false, "the arguments are recorded runs: predict each from the others")
	fs.StringVar(&o.svg, "svg", "", "also write the plots to this file, as SVG")
	fs.StringArrayVar(&o.params, "param", nil, "a parameter, NAME=VALUE")
	fs.StringVar(&o.paramFile, "param-file", "", "parameters from a JSON or YAML file")
	fs.StringVar(&o.Profile, "profile", "", "use a profile of the file")
	fs.Var(&countFlag{&o.MaxParallel}, "max-parallel", "items at once, in place of the file's max_parallel")
	o.pipelineFlags.add(fs)
	return o.withJSON(cmd, "print the figures as a JSON object")
}

// runHere runs a command on this machine, without a run.
func runHere(ctx context.Context, command *workflow.Shell, c *action.Call) (action.Result, error) {
	sup, err := proc.New("", proc.Options{})
	if err != nil {
		return action.Result{}, err
	}
	defer sup.Close()
	c.Env = append(os.Environ(), c.Env...)
	return (&action.World{Proc: sup}).Run(ctx, command, c)
}

// variant is a simulated file with its results.
type variant struct {
	name   string
	file   *workflow.File
	pipe   *dataflow.Pipeline // in place of file
	inputs map[string]any
	report *simulate.Report
}

// someSeeds checks the number of runs to simulate.
func someSeeds(n int) error {
	const most = 10_000_000
	if n < 1 || n > most {
		return usagef("--seeds is %d; it must be from 1 to %d", n, most)
	}
	return nil
}

func (o *simulateOptions) run(ctx context.Context) error {
	if err := someSeeds(o.seeds); err != nil {
		return err
	}
	if o.model != "" && o.from != "" {
		return usagef("--model and --from cannot be used together: both say what happens")
	}
	var list []*variant
	for _, p := range append([]string{o.path}, o.compare...) {
		v, err := o.variantOf(p)
		if err != nil {
			return err
		}
		list = append(list, v)
	}
	model, items, err := o.failures(ctx, list[0])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	_, outage := model.End()
	for _, v := range list {
		ran := false
		progress, done := o.bar(v.name)
		options := simulate.Options{File: v.file, Pipeline: v.pipe, Settings: engine.Settings{Dir: o.Dir, Profile: o.Profile, MaxParallel: o.MaxParallel, Inputs: v.inputs},
			Model: model, Seeds: o.seeds, First: o.first, Progress: progress, Items: items}
		if len(options.Named()) > 0 {
			if options.Limits, err = machineLimits(); err != nil {
				return err
			}
		}
		if o.runInput {
			options.Items, options.Input = nil, func(ctx context.Context, command *workflow.Shell, c *action.Call) (action.Result, error) {
				ran = true
				return runHere(ctx, command, c)
			}
		}
		samples, err := simulate.Run(ctx, options)
		done()
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		if o.runInput && !ran {
			return usagef("--run-input: %s has no map whose input is a command (input: {command: …})", v.name)
		}
		v.report = simulate.Summarize(samples, outage)
		if v.file == nil {
			continue
		}
		if options.Progress = nil; len(list) == 1 {
			err := v.report.Advise(ctx, options, samples, func(set string) (*workflow.File, error) { return changed(&o.runFlags, v.file, set) })
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
		}
		v.report.Name(v.file)
	}
	if ctx.Err() != nil {
		o.tell("interrupted: these are %d of %d runs", list[0].report.Seeds, o.seeds)
	}
	if o.svg != "" {
		if err := os.WriteFile(o.svg, []byte(simulationSVG(list)), 0o644); err != nil {
			return fmt.Errorf("writing the plots: %w", err)
		}
	}
	return o.printSimulation(list)
}

// variantOf reads a file to simulate.
func (o *simulateOptions) variantOf(path string) (*variant, error) {
	v := &variant{name: filepath.Base(path)}
	change := simulate.Set
	if dataflow.IsPipeline(path) {
		change = simulate.SetCalls
	}
	read := os.ReadFile
	if len(o.set) > 0 {
		read = func(name string) ([]byte, error) {
			text, err := os.ReadFile(name)
			if err == nil && name == path {
				text, err = change(text, o.set)
			}
			if err != nil && name == path {
				err = usageError{err}
			}
			return text, err
		}
		if _, err := read(path); errors.As(err, new(usageError)) {
			return nil, err
		}
	}
	var err error
	if dataflow.IsPipeline(path) {
		v.pipe, v.inputs, err = o.simulatedPipeline(path, read)
	} else {
		v.file, err = o.simulatedFile(path, read)
	}
	return v, err
}

func (o *simulateOptions) simulatedFile(path string, read func(string) ([]byte, error)) (*workflow.File, error) {
	if o.pipelineFlags.present() {
		return nil, usagef("--input, --inputs and --modules are for pipelines (.cst); a workflow takes --param")
	}
	file, problems, err := o.load(path, read)
	if err != nil {
		return nil, err
	}
	if file != nil && !problems.HasErrors() {
		problems = append(problems, limitProblems(file, dataflow.LoadSteps(file, ""))...)
	}
	if problems.HasErrors() || file == nil {
		o.problems(problems, sources(file))
		return nil, o.faulty(path, problems, "")
	}
	return file, nil
}

// changed applies a change to a file.
func changed(f *runFlags, file *workflow.File, set string) (*workflow.File, error) {
	text, err := simulate.Set(file.Source, []string{set})
	if err != nil {
		return nil, err
	}
	read := func(name string) ([]byte, error) {
		if name == file.Path {
			return text, nil
		}
		return os.ReadFile(name)
	}
	file, problems, err := f.load(file.Path, read)
	if err == nil && problems.HasErrors() {
		err = problems
	}
	return file, err
}

// simulatedPipeline reads a pipeline and its inputs.
func (o *simulateOptions) simulatedPipeline(path string, read func(string) ([]byte, error)) (*dataflow.Pipeline, map[string]any, error) {
	if len(o.params) > 0 || o.paramFile != "" || o.Profile != "" {
		return nil, nil, usagef("%s is a pipeline: it takes --input and --inputs, not parameters", path)
	}
	p, problems := dataflow.Load(path, o.manifest, read)
	if !problems.HasErrors() && p.Plan != nil {
		f := p.AsFile()
		steps := dataflow.LoadSteps(f, "")
		steps.Add(p)
		problems = append(problems, limitProblems(f, steps)...)
	}
	if problems.HasErrors() || p.Plan == nil {
		o.problems(problems, sourceTexts{of: p.Sources})
		return nil, nil, o.faulty(path, problems, "")
	}
	texts, file, err := o.pipelineFlags.values()
	if err != nil {
		return nil, nil, err
	}
	named := map[string]any{}
	maps.Copy(named, file)
	for name := range texts {
		named[name] = nil
	}
	missing := simulate.MadeUp(p, named)
	given, err := p.ReadInputs(texts, file)
	if wrong, ok := errors.AsType[*plan.InputError](err); ok && len(wrong.Problems) == len(missing) { // these are invented
		err = nil
	}
	if err != nil {
		return nil, nil, usageError{wrongInputs(path, err)}
	}
	return p, given, nil
}

// failures reads the model, or derives it from a run.
func (o *simulateOptions) failures(ctx context.Context, v *variant) (*simulate.Model, []event.Item, error) {
	switch {
	case o.from != "":
		rec, err := o.recording(ctx, o.from)
		if err != nil {
			return nil, nil, err
		}
		m := rec.FitChecked(ctx)
		for _, w := range rec.Warnings() {
			o.tell("%s", w)
		}
		return m, rec.Items, nil
	case o.model != "":
		m, problems := simulate.Load(o.model, v.known())
		o.problems(problems, sourceTexts{})
		if problems.HasErrors() {
			return nil, nil, o.faulty(o.model, problems, "")
		}
		return m, nil, nil
	}
	return simulate.Default(), nil, nil
}

// known are the names of the steps, or of the calls and their modules.
func (v *variant) known() []string {
	if v.pipe != nil {
		return simulate.KnownCalls(v.pipe)
	}
	return simulate.Known(v.file)
}

// bar shows a progress bar on a terminal, and nothing otherwise.
func (o *simulateOptions) bar(name string) (tell func(int), done func()) {
	if !isTerminal(o.err) {
		return nil, func() {}
	}
	var mu sync.Mutex
	var last time.Time
	tell = func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) > 100*time.Millisecond {
			last = now
			fmt.Fprint(o.err, "\r"+barText(name, n, o.seeds, o.columns(o.err)))
		}
	}
	return tell, func() { fmt.Fprint(o.err, "\r\x1b[K") }
}

// barText is a progress bar on one line of a terminal. If the line is too short, it cuts the
// name first; the last column stays free.
func barText(name string, n, all, columns int) string {
	count := fmt.Sprintf(" %d of %d", n, all)
	width := 40
	if columns > 0 {
		width = max(0, min(width, columns/2-len(count)))
		name = cut(name, max(0, columns-1-len(" ")-width-len(count)))
	}
	full := n * width / max(all, 1)
	return name + " " + strings.Repeat("█", full) + strings.Repeat("░", width-full) + count
}

func (o *simulateOptions) printSimulation(list []*variant) error {
	if o.json {
		if len(list) == 1 {
			return printJSON(o.out, list[0].report)
		}
		all := map[string]*simulate.Report{}
		for _, v := range list {
			all[v.name] = v.report
		}
		return printJSON(o.out, map[string]any{"files": all})
	}
	p, width := o.palette(o.out), o.columns(o.out)
	var b strings.Builder
	for _, v := range list {
		text := v.report.Sentence()
		if len(list) > 1 {
			text = v.name + ": " + text
		}
		b.WriteString(fold(text, width, "  ") + "\n")
	}
	for _, v := range list[1:] {
		b.WriteString(fold(simulate.Difference(list[0].report, v.report, v.name), width, "  ") + "\n")
	}
	b.WriteByte('\n')
	if _, err := io.WriteString(o.out, b.String()); err != nil {
		return err
	}
	if err := figures(list, p).print(o.out, width); err != nil {
		return err
	}
	width = cmp.Or(width, 80)
	return o.print(loadPlot(list, width, p) + tookPlot(list, width, p))
}

// figures is a table of the results.
func figures(list []*variant, p palette) *table {
	t := &table{head: []string{""}, right: map[int]bool{}, block: true}
	if len(list) == 1 {
		t.keep = map[int]int{0: 40}
	}
	for i, v := range list {
		t.head = append(t.head, v.name)
		t.right[i+1] = true
	}
	t.paint = painted(0, p.dim)
	row := func(name string, cell func(*simulate.Report) string) {
		cells := []string{name}
		for _, v := range list {
			cells = append(cells, cell(v.report))
		}
		t.add(cells...)
	}
	row("succeed", func(r *simulate.Report) string { return r.Runs.Succeeded.Of(r.Seeds) })
	if list[0].report.Runs.Recovered != nil {
		row("continue after the outage", func(r *simulate.Report) string { return r.Runs.Recovered.Of(r.Seeds) })
	}
	row("makespan, median", func(r *simulate.Report) string { return simulate.Span(r.Makespan.P50) })
	if list[0].report.Median != nil {
		row("… is known to be", func(r *simulate.Report) string {
			if r.Median == nil {
				return ""
			}
			return simulate.Span(r.Median.Low) + " – " + simulate.Span(r.Median.High)
		})
	}
	row("… of 90 in 100", func(r *simulate.Report) string {
		return simulate.Span(r.Makespan.P5) + " – " + simulate.Span(r.Makespan.P95)
	})
	row("… of the worst in 100", func(r *simulate.Report) string { return simulate.Span(r.Makespan.P99) })
	row("attempts, mean", func(r *simulate.Report) string { return simulate.Figure(r.Attempts.Mean) })
	row("… of 90 in 100", func(r *simulate.Report) string { return fmt.Sprintf("%d – %d", r.Attempts.P5, r.Attempts.P95) })
	row("retries, mean", func(r *simulate.Report) string { return simulate.Figure(r.Retries.Mean) })
	row("waits, mean", func(r *simulate.Report) string { return simulate.Span(int64(r.Waits.Mean)) })
	row("dead letters, mean", func(r *simulate.Report) string { return simulate.Figure(r.Letters.Mean) })
	row("peak in 100ms, median", func(r *simulate.Report) string { return fmt.Sprint(r.Load.PeakP50) })
	row("cost, mean", func(r *simulate.Report) string { return "$" + simulate.Figure(r.Cost.USD.Mean) })
	return t
}

// loadPlot draws the mean number of attempts that begin, over time. It cuts and marks values
// far above the rest.
func loadPlot(list []*variant, width int, p palette) string {
	var b strings.Builder
	var all []float64
	for _, v := range list {
		all = append(all, bars(v.report, width)...)
	}
	top, cut := simulate.Scale(all)
	if top == 0 {
		return ""
	}
	for i, v := range list {
		load := v.report.Load
		most := slices.Max(append(bars(v.report, width), 0))
		what := "attempts a second, at most " + simulate.Figure(most)
		if cut {
			what = "attempts a second, drawn up to " + simulate.Figure(top)
			if most > top {
				what += "; ▲ is above, at most " + simulate.Figure(most)
			}
		}
		end := simulate.Span(int64(len(load.Mean)) * load.BucketNS)
		sparkline(&b, list, i, p, what, bars(v.report, width), top, "0s", end, min(width, len(load.Mean)), width)
	}
	return b.String()
}

// tookPlot draws how many runs took how long.
func tookPlot(list []*variant, width int, p palette) string {
	from, to := spread(list)
	if to == 0 {
		return ""
	}
	var b strings.Builder
	for i, v := range list {
		counts := make([]float64, width)
		for _, t := range v.report.Makespans {
			counts[max(0, min(int(float64(t-from)/float64(to-from)*float64(width)), width-1))]++
		}
		most := max(slices.Max(counts), 1)
		sparkline(&b, list, i, p, "runs by how long they took, at most "+diag.Count(int(most), "run"), counts, most, simulate.Span(int64(from)), simulate.Span(int64(to)), width, width)
	}
	return b.String()
}

// sparkline draws the bars of variant i as one line above an axis between two times. It cuts a
// bar that is higher than most. width is the width of the axis, page that of the text above.
func sparkline(b *strings.Builder, list []*variant, i int, p palette, what string, bars []float64, most float64, from, to string, width, page int) {
	name := ""
	if len(list) > 1 {
		name = list[i].name + ": "
	}
	fmt.Fprintf(b, "\n%s\n", fold(name+what, page, "  "))
	var cells strings.Builder
	for _, f := range bars {
		if f > most {
			cells.WriteString("▲")
			continue
		}
		cells.WriteString(eighths[int(math.Ceil(f/most*8))])
	}
	b.WriteString(p.sgr(seriesColor(i), strings.TrimRight(cells.String(), " ")) + "\n")
	fmt.Fprintf(b, "%s%*s\n", from, max(width-len(from), len(to)+1), to)
}

// bars are the mean loads, in attempts a second, in at most width columns.
func bars(r *simulate.Report, width int) []float64 {
	list := r.Load.Mean
	each := (len(list) + width - 1) / max(width, 1)
	if each == 0 {
		return nil
	}
	var out []float64
	for part := range slices.Chunk(list, each) {
		sum := 0.0
		for _, f := range part {
			sum += f
		}
		out = append(out, sum/float64(len(part))/time.Duration(r.Load.BucketNS).Seconds())
	}
	return out
}
