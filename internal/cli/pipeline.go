package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// pipelineFlags are the flags of commands that take pipelines, too.
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

// given reports whether a flag is used that is for pipelines alone.
func (f *pipelineFlags) given() bool {
	return len(f.inputs) > 0 || f.inputFile != "" || f.manifest != ""
}

// loadPipeline reads a pipeline and shows what is wrong with it.
func (a *app) loadPipeline(path, manifest string, strict bool) (*dataflow.Pipeline, error) {
	p, problems := dataflow.Load(path, manifest, os.ReadFile)
	c := checked{Problems: problems, src: sourceTexts{of: p.Sources}}
	c.judge(strict)
	a.problems(c.Problems, c.src)
	if problems.HasErrors() || p.Plan == nil {
		return nil, a.faulty(path, problems, "; nothing was run")
	}
	return p, nil
}

// runPipeline runs a pipeline file.
func (a *app) runPipeline(ctx context.Context, f *runFlags, path string, args []string) error {
	if len(args) > 0 || len(f.Args) > 0 || len(f.files) > 0 || len(f.params) > 0 || f.paramFile != "" || f.Profile != "" || f.MaxIterations > 0 {
		return usagef("%s is a pipeline: it takes --input and --inputs, not arguments and parameters", path)
	}
	p, err := a.loadPipeline(path, f.manifest, f.strict)
	if err != nil {
		return err
	}
	opt, err := f.options()
	if err != nil {
		return err
	}
	texts, file, err := f.pipelineFlags.values()
	if err != nil {
		return err
	}
	if opt.Inputs, err = p.ReadInputs(texts, file); err != nil {
		return usageError{wrongInputs(path, err)}
	}
	if f.dryRun {
		return a.explainPipeline(p)
	}
	if p.Manifest != "" {
		if opt.Manifest, err = filepath.Abs(p.Manifest); err != nil {
			return err
		}
	}
	opt.Pipeline = p
	if f.on != "" {
		return a.runOn(ctx, f, opt)
	}
	return a.execute(ctx, f, opt, engine.Run)
}

// wrongInputs puts several problems on lines of their own.
func wrongInputs(path string, err error) error {
	var e *plan.InputError
	if !errors.As(err, &e) || len(e.Problems) < 2 {
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s cannot be run with these inputs:\n  %s", path, strings.Join(e.Problems, "\n  "))
}

// values reads what was given for the inputs.
func (f *pipelineFlags) values() (texts map[string]string, file map[string]any, err error) {
	return givenValues("input", f.inputs, "inputs", f.inputFile, true)
}

func (a *app) fmtCmd() *cobra.Command {
	var write, list bool
	cmd := &cobra.Command{
		Use:   "fmt FILE...",
		Short: "Write pipelines in the canonical form",
		Long: `Prints pipelines in their canonical form: comments are kept, the meaning stays the
same, and what is canonical already is not changed. Exit status 2 if a file has
a syntax error, 1 if --check finds a file that is not canonical.`,
		Example: `  bide fmt -w search.cst
  bide fmt --check *.cst`,
		RunE: func(_ *cobra.Command, args []string) error { return a.format(args, write, list) },
	}
	cmd.Flags().BoolVarP(&write, "write", "w", false, "write the files instead of printing")
	cmd.Flags().BoolVar(&list, "check", false, "only name the files that are not canonical")
	return cmd
}

func (a *app) format(paths []string, write, list bool) error {
	status := 0
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			return usageError{err}
		}
		f, problems := syntax.Parse(path, src)
		if problems.HasErrors() {
			a.problems(problems, sourceTexts{of: map[string][]byte{path: src}})
			status = 2
			continue
		}
		out, err := formatted(f)
		if err != nil {
			return err
		}
		same := bytes.Equal(out, src)
		switch {
		case list && !same:
			fmt.Fprintln(a.out, path)
			status = max(status, 1)
		case list, write && same:
		case write:
			err = writeOver(path, out)
		default:
			_, err = a.out.Write(out)
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

// formatted is the canonical form of a file, or the mistake of the formatter.
func formatted(f *syntax.File) (out []byte, err error) {
	defer syntax.Recover(&err)
	return syntax.Format(f), nil
}

func (a *app) graphCmd() *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw the dataflow of a pipeline",
		Long: `Draws which call needs which, as DOT, Mermaid or SVG. Dashed edges are followed
only if their value is needed.`,
		Example: `  bide graph search.cst -o search.svg
  bide graph search.cst --format dot | dot -Tpng -o search.png`,
		RunE: func(_ *cobra.Command, args []string) error { return a.graph(args[0], format, out) },
	}
	cmd.Flags().StringVar(&format, "format", "", "dot, mermaid, svg (default: by the name of the file, else mermaid)")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write to a file instead of standard output")
	return cmd
}

// graphFormats are the formats of graph by the ends of the names of files.
var graphFormats = map[string]string{".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid", ".svg": "svg"}

func (a *app) graph(path, format, out string) error {
	if end := strings.ToLower(filepath.Ext(out)); format == "" && end != "" && graphFormats[end] == "" {
		return usagef("-o %s: there is no format %s; name the file .svg, .dot or .mmd, or write --format beside it", out, end)
	} else if format == "" {
		format = cmp.Or(graphFormats[end], "mermaid")
	}
	if err := chosen("format", format, "dot", "mermaid", "svg"); err != nil {
		return usageError{err}
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return usageError{err}
	}
	if !dataflow.IsPipeline(path) {
		return usagef("%s is no pipeline (.cst): a workflow has no dataflow to draw; see `bide explain %s`", path, diag.ShellWord(path))
	}
	f, problems := syntax.Parse(path, src)
	if problems.HasErrors() {
		a.problems(problems, sourceTexts{of: map[string][]byte{path: src}})
		return exitError(2)
	}
	g := graph.Build(f)
	if format == "svg" {
		left := 0
		if g, left = g.First(graph.MaxDrawn); left > 0 {
			fmt.Fprintf(a.err, "bide: the picture has the first %d nodes and leaves %d out; --format dot has all of them\n", graph.MaxDrawn, left)
		}
	}
	text := map[string]func() string{"dot": g.DOT, "mermaid": g.Mermaid, "svg": g.SVG}[format]()
	if out != "" {
		return os.WriteFile(out, []byte(text), 0o644)
	}
	return a.print(text)
}

func (a *app) lspCmd() *cobra.Command {
	var manifest string
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Serve an editor: pipelines and workflow files",
		Long: `A language server for pipelines and workflow files on standard input and output
(LSP). Problems are those of "bide check", with quick fixes. In both it completes,
explains, goes to definitions and lists symbols; in pipelines it also finds
references, renames, shows signatures and types, colours and formats. Modules are
read from modules.yml beside the pipeline, or from --modules, as the editor has them.`,
		Example: `  bide lsp
  bide lsp --modules services/modules.yml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return lsp.Serve(cmd.Context(), a.in, a.out, lsp.Options{
				Version: version(),
				Modules: func(path string, read func(string) ([]byte, error)) (*check.Env, diag.List) {
					return dataflow.Modules(path, manifest, read)
				},
				Workflow: func(f *workflow.File) diag.List { return dataflow.LoadSteps(f, "").Problems },
			})
		},
	}
	cmd.Flags().StringVar(&manifest, "modules", "", "the manifest of modules")
	return cmd
}
