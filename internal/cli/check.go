package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
)

// checked is what check reports on one file.
type checked struct {
	Path     string    `json:"path"`
	Kind     string    `json:"kind"`
	Problems diag.List `json:"problems"`
	// Formerly are safeguards in the file that other tools ignored.
	Formerly diag.List `json:"formerly_ignored,omitempty"`
	src      sourceTexts
	file     *workflow.File
}

// checkOptions are the options of check.
type checkOptions struct {
	*streams
	pipelineFlags
	clusterFlags
	paths          []string
	strict, compat bool
}

func checkCmd(a *app) *cobra.Command {
	o := &checkOptions{streams: &a.streams}
	cmd := &cobra.Command{
		Use:     "check FILE...",
		Aliases: []string{"validate"},
		Short:   "Report all problems of workflows, pipelines and manifests",
		Long: `Checks files as "bide run" does, and reports every problem with its place and what
to do about it. FILE - is a workflow on standard input. Nothing is run. The exit
status is 2 if there is an error.`,
		Example: `  bide check nightly.yml
  bide check --strict --json workflows/*.yml`,
		RunE: func(_ *cobra.Command, args []string) error {
			o.paths = args
			return o.run()
		},
	}
	o.addManifest(cmd.Flags())
	cmd.Flags().StringVar(&o.on, "on", "", "temporal: report also what many machines cannot keep to yet")
	cmd.Flags().StringVar(&o.store, "store", "", "with --on temporal: where all machines find the run, as for bide run; BIDE_STORE")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "treat warnings as errors")
	cmd.Flags().BoolVar(&o.compat, "explain-compat", false, "also say what bide carries out and Prodigy ignored")
	return o.withJSON(cmd, "print one JSON object")
}

// checkStore is the store that a run on many machines would have, if one is named. It refuses
// a store that no run could have.
func checkStore(on, store string) (s cluster.Store, err error) {
	if on == "" && store != "" {
		return s, usagef("--store is for runs on many machines: add --on temporal")
	}
	if on == "" {
		return s, nil
	}
	what := "--store"
	if store == "" {
		what, store = "BIDE_STORE", os.Getenv("BIDE_STORE")
	}
	if store == "" {
		return s, nil
	}
	if s, err = cluster.OpenStore(store); err != nil {
		return s, usagef("%s: %w", what, err)
	}
	return s, nil
}

func (o *checkOptions) run() error {
	if o.on != "" {
		if err := chosen("check", "on", o.on); err != nil {
			return usageError{err}
		}
	}
	store, err := checkStore(o.on, o.store)
	if err != nil {
		return err
	}
	out := struct {
		Files    []checked `json:"files"`
		Errors   int       `json:"errors"`
		Warnings int       `json:"warnings"`
	}{Files: []checked{}}
	for _, path := range o.paths {
		for _, c := range checkFile(path, o.manifest, o.strict, o.read(path)) {
			c.Problems = append(diag.List{}, c.Problems...)
			c.judge(o.strict)
			if !o.compat {
				c.Formerly = nil
			}
			refusedOn(&c, o.on, store)
			e, w := c.Problems.Count()
			out.Errors, out.Warnings = out.Errors+e, out.Warnings+w
			out.Files = append(out.Files, c)
		}
	}
	if o.json {
		if err := printJSON(o.out, out); err != nil {
			return err
		}
	} else {
		o.printChecked(out.Files)
		fmt.Fprintf(o.err, "%s: %s, %s\n", diag.Count(len(o.paths), "file"), diag.Count(out.Errors, "error"), diag.Count(out.Warnings, "warning"))
	}
	if out.Errors > 0 {
		return exitError(2)
	}
	return nil
}

// read returns the function that reads the files of a path; - is standard input.
func (o *checkOptions) read(path string) func(string) ([]byte, error) {
	if path != "-" {
		return os.ReadFile
	}
	text := sync.OnceValues(func() ([]byte, error) { return io.ReadAll(o.in) })
	return func(name string) ([]byte, error) {
		if name == path {
			return text()
		}
		return os.ReadFile(name)
	}
}

// checkFile checks a file and the pipelines that its steps run. Of the pipelines, it reports
// only those with problems.
func checkFile(path, manifest string, strict bool, read func(string) ([]byte, error)) []checked {
	if dataflow.IsPipeline(path) {
		p, problems := dataflow.Load(path, manifest, read)
		f := p.AsFile()
		steps := dataflow.LoadSteps(f, "")
		steps.Add(p)
		problems = append(append(problems, steps.UnknownAgents(f)...), limitProblems(f, steps)...)
		problems.Sort()
		return []checked{{Path: path, Kind: "pipeline", Problems: problems, src: sourceTexts{of: p.Sources}}}
	}
	if isManifest(path, read) {
		_, problems := dataflow.Modules(path, path, read)
		return []checked{{Path: path, Kind: "modules", Problems: problems}}
	}
	opt := workflow.Options{Strict: strict, Unfilled: true, ToRun: true}
	if path == "-" {
		opt.ReadFile = read
	}
	f, problems := loadWorkflow(path, opt)
	c := checked{Path: path, Kind: workflow.Standard.String(), Problems: problems, src: sources(f)}
	if f != nil {
		c.file = f
		c.Kind = f.Kind.String()
		c.Formerly = workflow.Formerly(f)
	}
	if f == nil {
		return []checked{c}
	}
	steps := dataflow.LoadSteps(f, "")
	c.Problems = append(append(c.Problems, steps.Problems...), steps.UnknownAgents(f)...)
	c.Problems = append(c.Problems, limitProblems(f, steps)...)
	c.Problems.Sort()
	all := []checked{c}
	for i, pl := range steps.Loaded {
		if len(steps.FileProblems[i]) > 0 {
			all = append(all, checked{Path: pl.Path, Kind: "pipeline", Problems: steps.FileProblems[i], src: sourceTexts{of: pl.Sources}})
		}
	}
	return all
}

// limitProblems reports what is wrong with the limits of this machine that a file and its
// pipelines name.
func limitProblems(f *workflow.File, steps *dataflow.Steps) (problems diag.List) {
	if len(steps.Limits(f)) == 0 {
		return nil
	}
	c, err := machineLimits()
	switch e := err.(type) {
	case nil:
		return steps.LimitProblems(f, c)
	case diag.List:
		return e
	}
	problems.Errorf(f.Pos, "limits", "%s", err)
	return problems
}

// machineLimits reads the limits of this machine.
func machineLimits() (*limits.Config, error) {
	home, err := journal.Home()
	if err != nil {
		return nil, err
	}
	return limits.Read(home)
}

// isManifest reports whether a file is a manifest of modules: its first line that is no
// comment begins with modules:.
func isManifest(path string, read func(string) ([]byte, error)) bool {
	b, err := read(path)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line != "---" {
			return strings.HasPrefix(line, "modules:")
		}
	}
	return false
}

// judge turns warnings into errors if strict.
func (c *checked) judge(strict bool) {
	for i := range c.Problems {
		if strict {
			c.Problems[i].Severity = diag.Error
		}
	}
}

func (o *checkOptions) printChecked(files []checked) {
	for _, c := range files {
		o.problems(c.Problems, c.src)
		if len(c.Formerly) == 0 || c.Problems.HasErrors() {
			continue
		}
		fmt.Fprintf(o.err, "%s: bide carries out these protections; Prodigy ignored them:\n", c.Path)
		for _, p := range c.Formerly {
			fmt.Fprintf(o.err, "  line %d: %s\n", p.Line, p.Message)
		}
	}
}
