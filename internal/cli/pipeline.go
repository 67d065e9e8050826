package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/lsp"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/graph"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/spf13/cobra"
)

// isPipeline reports whether a file is a pipeline and not a workflow.
func isPipeline(path string) bool { return filepath.Ext(path) == ".cst" }

// manifestName is the file of modules beside a pipeline.
const manifestName = "modules.yml"

// checkPipeline parses and checks a pipeline and plans it.
func checkPipeline(path, manifest string) (c checked, f *syntax.File) {
	c = checked{Path: path, Kind: "pipeline", Problems: diag.List{}, src: map[string][]byte{}}
	src, err := os.ReadFile(path)
	if err != nil {
		c.Problems.Errorf(diag.Pos{File: path}, "unreadable", "%v", err)
		return c, nil
	}
	c.src[path] = src
	f, problems := syntax.Parse(path, src)
	c.Problems = append(c.Problems, problems...)
	env := modulesOf(&c, path, manifest)
	if c.Problems.HasErrors() || env == nil {
		return c, f
	}
	program, problems := check.Check(f, env)
	c.Problems = append(c.Problems, problems...)
	if program != nil && !c.Problems.HasErrors() {
		if _, err := plan.New(program); err != nil {
			c.Problems.Errorf(diag.Pos{File: path}, "no-plan", "%v", err)
		}
	}
	return c, f
}

// modulesOf reads the manifest of a pipeline's modules. Without one there are
// the standard library and the demonstration modules.
func modulesOf(c *checked, path, manifest string) *check.Env {
	given := manifest != ""
	if !given {
		manifest = filepath.Join(filepath.Dir(path), manifestName)
	}
	modules := stdlib.Samples()
	src, err := os.ReadFile(manifest)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !given:
	case err != nil:
		c.Problems.Errorf(diag.Pos{File: manifest}, "unreadable", "%v", err)
	default:
		c.src[manifest] = src
		defs, problems := module.ParseManifest(manifest, src)
		c.Problems = append(c.Problems, problems...)
		modules = nil
		for _, d := range defs {
			modules = append(modules, module.Bind(d, notRun))
		}
	}
	env, err := check.NewEnv(modules...)
	if err != nil {
		c.Problems.Errorf(diag.Pos{File: manifest}, "bad-module", "%v", err)
		return nil
	}
	return env
}

// notRun is the runner of modules that are only looked at.
func notRun(context.Context, *module.Definition, []any) (any, error) {
	return nil, errNoPipelines
}

// errNoPipelines is what running a pipeline says.
var errNoPipelines = errors.New("this version of bide checks, formats and draws pipelines, and does not run them yet")

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
		Args: cobra.MinimumNArgs(1),
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
			a.problems(problems, map[string][]byte{path: src})
			status = 2
			continue
		}
		out := syntax.Format(f)
		same := bytes.Equal(out, src)
		switch {
		case list && !same:
			fmt.Fprintln(a.out, path)
			status = max(status, 1)
		case list, write && same:
		case write:
			err = os.WriteFile(path, out, 0o644)
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

func (a *app) graphCmd() *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw the dataflow of a pipeline",
		Long: `Draws which call needs which, as DOT, Mermaid or SVG. Dashed edges are followed
only if their value is needed.`,
		Example: `  bide graph search.cst --format svg -o search.svg
  bide graph search.cst --format dot | dot -Tpng -o search.png`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.graph(args[0], format, out) },
	}
	cmd.Flags().StringVar(&format, "format", "mermaid", "dot, mermaid, svg")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write to a file instead of standard output")
	return cmd
}

func (a *app) graph(path, format, out string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return usageError{err}
	}
	f, problems := syntax.Parse(path, src)
	if problems.HasErrors() {
		a.problems(problems, map[string][]byte{path: src})
		return exitError(2)
	}
	g := graph.Build(f)
	var text string
	switch format {
	case "dot":
		text = g.DOT()
	case "mermaid":
		text = g.Mermaid()
	case "svg":
		text = g.SVG()
	default:
		return usagef("--format is %q; write dot, mermaid or svg", format)
	}
	if out != "" {
		return os.WriteFile(out, []byte(text), 0o644)
	}
	_, err = fmt.Fprint(a.out, text)
	return err
}

func (a *app) lspCmd() *cobra.Command {
	var manifest string
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Serve an editor: problems, hover, completion and formatting of pipelines",
		Long: `A language server for pipelines on standard input and output (LSP). Problems of
types and modules are those of "bide check"; modules are read from modules.yml
beside the file, or from --modules.`,
		Example: `  bide lsp
  bide lsp --modules services/modules.yml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return lsp.Serve(cmd.Context(), a.in, a.out, lsp.Options{Version: version(), Check: func(f *syntax.File) diag.List {
				c := checked{src: map[string][]byte{}}
				if env := modulesOf(&c, f.Name, manifest); env != nil {
					_, problems := check.Check(f, env)
					return problems
				}
				return nil
			}})
		},
	}
	cmd.Flags().StringVar(&manifest, "modules", "", "the manifest of modules")
	return cmd
}
