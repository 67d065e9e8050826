package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/telemetry"
	"github.com/spf13/cobra"
)

// streams are what a command reads and writes, with the settings for that.
type streams struct {
	in       io.Reader
	out, err io.Writer
	color    string // auto, always, never
	json     bool
	width    int // overrides the width of the terminal; 0: use the terminal's
}

// app is what commands about runs share: the streams and the state directory.
type app struct {
	streams
	opened  *journal.Store // set once it is open
	adopted bool           // the runs of BIDE_STORE are in the list
}

// usageError is a wrong use of the command line: exit status 2.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// misused joins everything that is wrong with a command line into one error; nil if nothing
// is.
func misused(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// exitError is an exit status without a message.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Main runs the command line and returns the exit status.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	registerStores()
	stdout := &standardOutput{w: out}
	a := &app{streams: streams{in: in, out: stdout, err: errw}}
	if len(args) > 1 && (args[0] == "run" || args[0] == "exec") {
		// A process takes a moment to start; meanwhile the file is read.
		dismiss := proc.StartCompanion()
		return stdout.status(a, a.exit(errors.Join(a.commandLine(args), dismiss())))
	}
	return stdout.status(a, a.exit(a.commandLine(args)))
}

// commandLine runs the command line.
func (a *app) commandLine(args []string) error {
	root := a.root(args...)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	if err := unknownTopic(root, args); err != nil {
		return err
	}
	cmd, err := root.ExecuteContextC(context.Background())
	if gone := new(journal.NotFoundError); errors.As(err, &gone) && gone.Run != "" && hintOf(cmd, gone.Run) != "" {
		return usagef("%w; %s", err, hintOf(cmd, gone.Run))
	}
	return err
}

// exit prints an error and returns its exit status.
func (s *streams) exit(err error) int {
	var code exitError
	var list diag.List
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &list):
		s.problems(list, sourceTexts{})
		return 2
	}
	text, missing := err.Error(), errors.As(err, new(*journal.NotFoundError))
	if !missing { // else the error names it as the user did
		text = shortRuns(text)
	}
	s.tell("%s", text)
	if missing || errors.As(err, new(usageError)) { // the user named something that does not exist
		return 2
	}
	return 1
}

// root is the command line: all of it, or what these arguments need.
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
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if err := chosen("", "color", a.color); err != nil {
				return usageError{err}
			}
			return nil
		},
	}
	root.PersistentFlags().StringVar(&a.color, "color", "auto", "colours: auto, always, never")
	root.SetFlagErrorFunc(wrongFlag)
	root.AddGroup(groups...)
	root.SetHelpCommandGroupID("setup")
	root.SetCompletionCommandGroupID("setup")
	root.AddCommand(a.commands(args)...)
	if len(root.Commands()) > 1 {
		root.InitDefaultCompletionCmd(args...)
		describeCompletion(root)
	}
	a.complete(root)
	spoken(root)
	a.nameRuns(root)
	a.wideHelp(root)
	return root
}

// version is the version of the program.
func version() string { return telemetry.Version() }

// openStore opens the state directory.
func (a *app) openStore() (*journal.Store, error) {
	home, err := journal.Home()
	if err != nil {
		return nil, err
	}
	if a.opened == nil || a.opened.Dir != home {
		if a.opened, err = journal.OpenStore(home); err != nil {
			return nil, err
		}
		a.opened.Refresh = cluster.RefreshTelling(a.opened, func(run string, items int) {
			a.tell("reading run %s from its store: %s so far", shortRun(run), diag.Count(items, "item"))
		})
	}
	return a.opened, a.adoptRuns(a.opened)
}

// colours reports whether w gets colours.
func (s *streams) colours(w io.Writer) bool {
	switch s.color {
	case "always":
		return true
	case "never":
		return false
	}
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

func (s *streams) style(w io.Writer) diag.Style {
	p := s.palette(w)
	if !p {
		return diag.Style{}
	}
	sgr := func(code string) func(string) string {
		return func(s string) string { return p.sgr(code, s) }
	}
	return diag.Style{Error: sgr("1;31"), Warning: sgr("1;33"), Place: sgr("1"), Hint: sgr("36")}
}
