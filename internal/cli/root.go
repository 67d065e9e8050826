package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/spf13/cobra"
)

// app is what all commands share.
type app struct {
	in       io.Reader
	out, err io.Writer
	color    string // auto, always, never
	json     bool
}

// usageError is a wrong use of the command line: exit status 2.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitError ends with a status of its own, without a message.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Main runs the command line and gives the exit status.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	a := &app{in: in, out: out, err: errw}
	if len(args) > 1 && (args[0] == "run" || args[0] == "exec") {
		// A process takes a moment to start, in which the file can be read.
		dismiss := proc.StartCompanion()
		return a.exit(errors.Join(a.commandLine(args), dismiss()))
	}
	return a.exit(a.commandLine(args))
}

// commandLine runs the command line.
func (a *app) commandLine(args []string) error {
	root := a.root(args...)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	return root.ExecuteContext(context.Background())
}

// exit prints an error and gives its exit status.
func (a *app) exit(err error) int {
	var code exitError
	var list diag.List
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &list):
		a.problems(list, nil)
		return 2
	}
	fmt.Fprintf(a.err, "bide: %s\n", err)
	if errors.As(err, new(usageError)) || isUsage(err) {
		return 2
	}
	return 1
}

// isUsage reports errors of the kind "what was named is not there".
func isUsage(err error) bool {
	return errors.As(err, new(*journal.NotFoundError))
}

// root is the command line: all of it, or what is needed for these arguments.
func (a *app) root(args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "bide",
		Short: "Take flaky work to its end: retried, in parallel, recorded, resumable",
		Long: `bide takes flaky work (shell commands, HTTP calls, AI agents) from a workflow
file or a typed pipeline and brings it to its end: retried with the right
delays, mapped in parallel over work items, isolated, recorded, resumable.`,
		Example: `  bide exec --attempts 5 --backoff exponential -- curl -fsS https://example.org
  bide run nightly.yml
  bide resume`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q; see bide --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&a.color, "color", "auto", "colours: auto, always, never")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(a.commands(args)...)
	a.complete(root)
	noun := func(c *cobra.Command) {}
	noun = func(c *cobra.Command) {
		if c.Args != nil {
			check := c.Args
			c.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil && !errors.As(err, new(usageError)) {
					return usagef("%w; see %s --help", err, cmd.CommandPath())
				} else if err != nil {
					return err
				}
				return nil
			}
		}
		for _, sub := range c.Commands() {
			noun(sub)
		}
	}
	noun(root)
	return root
}

// version is the module's version, or the commit that was built.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}

// store opens the state directory.
func (a *app) store() (*journal.Store, error) {
	home, err := journal.Home()
	if err != nil {
		return nil, err
	}
	return journal.OpenStore(home)
}

// problems prints the problems of a file, with their source lines.
func (a *app) problems(list diag.List, src map[string][]byte) {
	st := a.style(a.err)
	for _, p := range list {
		text := src[p.File]
		if text == nil && p.File != "" {
			if b, err := os.ReadFile(p.File); err == nil {
				text = b
			}
		}
		diag.Print(a.err, p, text, st)
	}
}

// colours reports whether w gets colours.
func (a *app) colours(w io.Writer) bool {
	switch a.color {
	case "always":
		return true
	case "never":
		return false
	}
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

func (a *app) style(w io.Writer) diag.Style {
	if !a.colours(w) {
		return diag.Style{}
	}
	sgr := func(code string) func(string) string {
		return func(s string) string { return "\x1b[" + code + "m" + s + "\x1b[0m" }
	}
	return diag.Style{Error: sgr("1;31"), Warning: sgr("1;33"), Place: sgr("1"), Hint: sgr("36")}
}
