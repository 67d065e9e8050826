package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/lsp"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/graph"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pipelineFlags are the flags of commands that also take pipelines.
type pipelineFlags struct {
	inputs    []string
	inputFile string
	manifest  string
}

func (f *pipelineFlags) add(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.inputs, "input", nil, "an input of a pipeline, NAME=VALUE: a text, or JSON where the type is not String")
	fs.StringVar(&f.inputFile, "inputs", "", "inputs of a pipeline from a JSON or YAML file")
	f.addManifest(fs)
}

func (f *pipelineFlags) addManifest(fs *pflag.FlagSet) {
	fs.StringVar(&f.manifest, "modules", "", "the manifest of a pipeline's modules (default: modules.yml beside the pipeline)")
}

// present reports whether the user set a flag that is only for pipelines.
func (f *pipelineFlags) present() bool {
	return len(f.inputs) > 0 || f.inputFile != "" || f.manifest != ""
}

// loadPipeline reads a pipeline and reports what is wrong with it.
func (s *streams) loadPipeline(path, manifest string, strict bool) (*dataflow.Pipeline, error) {
	p, problems := dataflow.Load(path, manifest, os.ReadFile)
	c := checked{Problems: problems, src: sourceTexts{of: p.Sources}}
	c.judge(strict)
	s.problems(c.Problems, c.src)
	if problems.HasErrors() || p.Plan == nil {
		return nil, s.faulty(path, problems, "; nothing was run")
	}
	return p, nil
}

// runPipeline runs a pipeline file.
func (o *runOptions) runPipeline(ctx context.Context) error {
	for _, text := range slices.Concat(o.params, o.rest, o.Args) {
		if strings.Contains(text, "=") {
			return usagef("%s is a pipeline, whose inputs are given as --input %s", o.path, diag.ShellWord(text))
		}
	}
	if len(o.rest) > 0 || len(o.Args) > 0 || len(o.files) > 0 || len(o.params) > 0 || o.paramFile != "" || o.Profile != "" || o.MaxIterations > 0 {
		return usagef("%s is a pipeline: it takes --input and --inputs, not arguments and parameters", o.path)
	}
	p, err := o.loadPipeline(o.path, o.manifest, o.strict)
	if err != nil {
		return err
	}
	opt, err := o.options()
	if err != nil {
		return err
	}
	texts, file, err := o.pipelineFlags.values()
	if err != nil {
		return err
	}
	if opt.Inputs, err = p.ReadInputs(texts, file); err != nil {
		return usageError{wrongInputs(o.path, err)}
	}
	if o.dryRun {
		return o.explainPipeline(p)
	}
	if p.Manifest != "" {
		if opt.Manifest, err = filepath.Abs(p.Manifest); err != nil {
			return err
		}
	}
	opt.Pipeline = p
	if o.on != "" {
		return o.runOn(ctx, opt)
	}
	return o.execute(ctx, opt, engine.Run)
}

// wrongInputs puts each of several problems on its own line.
func wrongInputs(path string, err error) error {
	var e *plan.InputError
	if !errors.As(err, &e) || len(e.Problems) < 2 {
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s cannot be run with these inputs:\n  %s", path, strings.Join(e.Problems, "\n  "))
}

// values reads the inputs that the user set.
func (f *pipelineFlags) values() (texts map[string]string, file map[string]any, err error) {
	return givenValues("input", f.inputs, "inputs", f.inputFile, true)
}

// fmtOptions are the options of fmt.
type fmtOptions struct {
	*streams
	paths       []string
	write, list bool
}

func fmtCmd(a *app) *cobra.Command {
	o := &fmtOptions{streams: &a.streams}
	cmd := &cobra.Command{
		Use:   "fmt FILE...",
		Short: "Write pipelines in the canonical form",
		Long: `Prints pipelines in their canonical form. Comments and meaning stay the same, and a
file that is canonical does not change. Exit status 2 if a file has
a syntax error, 1 if --check finds a file that is not canonical.`,
		Example: `  bide fmt -w search.cst
  bide fmt --check *.cst`,
		RunE: func(_ *cobra.Command, args []string) error {
			o.paths = args
			return o.run()
		},
	}
	cmd.Flags().BoolVarP(&o.write, "write", "w", false, "write the files instead of printing")
	cmd.Flags().BoolVar(&o.list, "check", false, "only name the files that are not canonical")
	return cmd
}

func (o *fmtOptions) run() error {
	status := 0
	for _, path := range o.paths {
		src, err := os.ReadFile(path)
		if err != nil {
			return usageError{err}
		}
		if !dataflow.IsPipeline(path) {
			return usagef("%s is no pipeline (.cst): bide fmt writes pipelines alone", path)
		}
		f, problems := syntax.Parse(path, src)
		if problems.HasErrors() {
			o.problems(problems, sourceTexts{of: map[string][]byte{path: src}})
			status = 2
			continue
		}
		out, err := formatted(f)
		if err != nil {
			return err
		}
		same := bytes.Equal(out, src)
		switch {
		case o.list && !same:
			fmt.Fprintln(o.out, path)
			status = max(status, 1)
		case o.list, o.write && same:
		case o.write:
			err = writeOver(path, out)
		default:
			_, err = o.out.Write(out)
		}
		if err != nil {
			return err
		}
	}
	if status > 0 {
		return exitError(status)
	}
	return nil
}

// formatted is the canonical form of a file, or an error of the formatter itself.
func formatted(f *syntax.File) (out []byte, err error) {
	defer syntax.Recover(&err)
	return syntax.Format(f), nil
}

// graphOptions are the options of graph.
type graphOptions struct {
	*streams
	path, format, file string
}

func graphCmd(a *app) *cobra.Command {
	o := &graphOptions{streams: &a.streams}
	cmd := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw the dataflow of a pipeline",
		Long: `Draws which call needs which, as DOT, Mermaid or SVG. Dashed edges are followed
only if their value is needed.`,
		Example: `  bide graph search.cst -o search.svg
  bide graph search.cst --format dot | dot -Tpng -o search.png`,
		RunE: func(_ *cobra.Command, args []string) error {
			o.path = args[0]
			return o.run()
		},
	}
	cmd.Flags().StringVar(&o.format, "format", "", "dot, mermaid, svg (default: by the name of the file, else mermaid)")
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "write to a file instead of standard output")
	return cmd
}

// graphFormats maps extensions of file names to formats of graph.
var graphFormats = map[string]string{".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid", ".svg": "svg"}

func (o *graphOptions) run() error {
	if end := strings.ToLower(filepath.Ext(o.file)); o.format == "" && end != "" && graphFormats[end] == "" {
		return usagef("-o %s: there is no format %s; name the file .svg, .dot or .mmd, or write --format beside it", o.file, end)
	} else if o.format == "" {
		o.format = cmp.Or(graphFormats[end], "mermaid")
	}
	if err := chosen("graph", "format", o.format); err != nil {
		return usageError{err}
	}
	src, err := os.ReadFile(o.path)
	if err != nil {
		return usageError{err}
	}
	if !dataflow.IsPipeline(o.path) {
		return usagef("%s is no pipeline (.cst): a workflow has no dataflow to draw; see `bide explain %s`", o.path, diag.ShellWord(o.path))
	}
	f, problems := syntax.Parse(o.path, src)
	if problems.HasErrors() {
		o.problems(problems, sourceTexts{of: map[string][]byte{o.path: src}})
		return exitError(2)
	}
	g := graph.Build(f)
	if o.format == "svg" {
		left := 0
		if g, left = g.First(graph.MaxDrawn); left > 0 {
			o.tell("the picture has the first %d nodes and leaves %d out; --format dot has all of them", graph.MaxDrawn, left)
		}
	}
	text := map[string]func() string{"dot": g.DOT, "mermaid": g.Mermaid, "svg": g.SVG}[o.format]()
	if o.file != "" {
		return os.WriteFile(o.file, []byte(text), 0o644)
	}
	return o.print(text)
}

// lspOptions are the options of lsp.
type lspOptions struct {
	*streams
	manifest string
	stdio    bool
}

func lspCmd(a *app) *cobra.Command {
	o := &lspOptions{streams: &a.streams}
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Serve an editor: pipelines and workflow files",
		Long: `A language server for pipelines and workflow files on standard input and output
(LSP). Problems are those of "bide check", with quick fixes. It has completion, hover
texts, definitions, references, renaming and symbols; for pipelines also signatures,
types, colours and formatting. Modules come from modules.yml beside the pipeline, or
from --modules, as the editor has the file.`,
		Example: `  bide lsp
  bide lsp --modules services/modules.yml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !o.stdio {
				return usagef("--stdio=false is not supported: the editor is on standard input and output; leave it out")
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.manifest, "modules", "", "the manifest of modules")
	cmd.Flags().BoolVar(&o.stdio, "stdio", true, "the editor is on standard input and output, as always")
	return cmd
}

func (o *lspOptions) run(ctx context.Context) error {
	return lsp.Serve(ctx, o.in, o.out, lsp.Options{
		Version: version(),
		Modules: func(path string, read func(string) ([]byte, error)) (*check.Env, diag.List) {
			return dataflow.Modules(path, o.manifest, read)
		},
		Workflow: func(f *workflow.File) diag.List { return dataflow.LoadSteps(f, "").Problems },
		First: []lsp.FirstFile{
			{Label: "workflow (bide init)", Detail: "a first workflow, ready to run", Text: string(firstWorkflow)},
			{Label: "map (bide init --mapreduce)", Detail: "a first workflow over work items, ready to run", Text: string(firstMapReduce)},
		},
	})
}
