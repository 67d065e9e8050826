package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// runArg says which run a command is for, where it is given none or "last".
type runArg struct {
	suits   func(runInfo) bool // what the shell proposes; nil: every run
	what    string             // suits in words: without RUN, it is the newest run that does; "": the newest of all
	changes bool               // without RUN, it takes no run of another directory
	told    bool               // its own output says which run it is
	all     bool               // without RUN, it is for all runs
}

// runArgs are the commands that take a run of this machine.
var runArgs = map[string]runArg{
	"bide control":         {suits: func(i runInfo) bool { return i.Status == event.Running || i.Resumable }, told: true},
	"bide dlq export":      {suits: hasLetters, what: "with dead letters"},
	"bide dlq list":        {suits: hasLetters, what: "with dead letters", told: true},
	"bide dlq purge":       {suits: hasLetters, told: true},
	"bide dlq retry":       {suits: hasLetters, what: "with dead letters", changes: true, told: true},
	"bide dlq show":        {suits: hasLetters, what: "with dead letters", told: true},
	"bide dlq stats":       {suits: hasLetters, what: "with dead letters", told: true},
	"bide events":          {},
	"bide export junit":    {},
	"bide export markdown": {told: true},
	"bide export otel":     {suits: func(i runInfo) bool { return i.Status != unreadable }},
	"bide logs":            {},
	"bide proof":           {},
	"bide replay":          {},
	"bide rerun":           {suits: func(i runInfo) bool { return i.Status != event.Running }, changes: true, told: true},
	"bide resume":          {suits: func(i runInfo) bool { return i.Resumable }, what: "that can be resumed", changes: true, told: true},
	"bide show":            {told: true},
	"bide stop":            {suits: func(i runInfo) bool { return i.Status == event.Running }, what: "that is running", changes: true, told: true},
	"bide tune":            {},
	"bide ui":              {all: true, told: true},
	"bide worktree clean":  {all: true, told: true},
	"bide worktree ls":     {all: true, told: true},
	"bide worktree merge":  {changes: true, told: true},
}

func hasLetters(i runInfo) bool { return i.Items.DeadLettered > 0 }

// nameRuns has all commands that take a run find out which one is meant, in one way: they
// are given its id.
func (a *app) nameRuns(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.nameRuns(sub)
	}
	arg, ok := runArgs[c.CommandPath()]
	if !ok {
		return
	}
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if args, err = a.withRun(cmd, arg, args); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// withRun puts the id of a run in the place of "last", or of none, in the arguments of a
// command.
func (a *app) withRun(cmd *cobra.Command, arg runArg, args []string) ([]string, error) {
	needed := 0
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if !strings.HasPrefix(word, "[") {
			needed++
		}
	}
	missing := strings.Contains(cmd.Use, "[RUN]") && len(args) == needed
	if missing && arg.all {
		return args, nil
	}
	name := ""
	if !missing {
		name = args[0]
	}
	m, err := a.meant(cmd.Context(), name, arg)
	switch {
	case err != nil || m.ID == "":
		return args, err
	case missing && arg.changes && m.other:
		run := shortRun(m.ID)
		return nil, usagef("there is no run of this directory%s; the newest of another one is %s (%s, in %s): %s %s", spaced(arg.what), run, visible(m.title()), visible(m.Dir), cmd.CommandPath(), run+givenFlags(cmd))
	}
	a.tellRun(cmd, arg, m)
	if missing {
		return append([]string{m.ID}, args...), nil
	}
	return append([]string{m.ID}, args[1:]...), nil
}

// meantRun is the run that was meant.
type meantRun struct {
	journal.Summary
	other bool // it is of another directory
	older bool // there is a newer one, which the command is not for
}

func (m meantRun) title() string { return titleOf(m.Summary) }

// meant finds the run that is meant by "", "last" or "last-N": the newest of this
// directory, for "" of those that the command is for, and for last-N the one that is N
// before it. Where this directory has none, it is that of all runs of this machine. Of
// another name, which the state directory knows, it gives none.
func (a *app) meant(ctx context.Context, name string, arg runArg) (m meantRun, err error) {
	back, ok := journal.LastBut(name)
	if !ok {
		return m, nil
	}
	st, err := a.openStore()
	if err != nil {
		return m, err
	}
	here, err := os.Stat(".")
	if err != nil {
		return m, err
	}
	suits := arg.suits
	if name != "" || arg.what == "" {
		suits = nil
	}
	m, err = newest(ctx, st, back, func(s journal.Summary) bool { return isOf(s, here) }, suits)
	if err == nil && m.ID == "" {
		m, err = newest(ctx, st, back, nil, suits)
		m.other = true
	}
	if err == nil && m.ID == "" {
		err = &journal.NotFoundError{Run: name, Dir: st.Dir}
	}
	if missing, ok := errors.AsType[*journal.NotFoundError](err); ok {
		missing.Run = name
		if !m.other {
			missing.Dir = "this directory"
		}
	}
	return m, err
}

// newest gives the newest run but some of those that are wanted and suit, or the newest
// that is wanted, where none suits: a command says best itself why it cannot take it.
// Where there are runs, but not so many, the error is a *journal.NotFoundError.
func newest(ctx context.Context, st *journal.Store, but int, want func(journal.Summary) bool, suits func(runInfo) bool) (m meantRun, err error) {
	n := 0
	for s, err := range st.RunsWhere(ctx, want) {
		if err != nil && s.ID == "" {
			return m, err
		}
		if err != nil && want != nil {
			continue // whose it is cannot be read
		}
		if n++; n == 1 {
			m.Summary = s
		}
		if n > but && (suits == nil || err == nil && suits(infoOf(s, err))) {
			return meantRun{Summary: s, older: n > but+1}, nil
		}
	}
	if n > 0 && but >= n {
		return meantRun{}, &journal.NotFoundError{Dir: st.Dir, Runs: n}
	}
	return m, nil
}

// tellRun says which run was taken, where that was not written and the output does not
// say it, or where it may surprise.
func (a *app) tellRun(cmd *cobra.Command, arg runArg, m meantRun) {
	flag := func(name string) bool {
		f := cmd.Flags().Lookup(name)
		return f != nil && f.Value.String() == "true"
	}
	run := shortRun(m.ID) + " (" + visible(m.title())
	switch {
	case flag("quiet"):
	case m.other:
		fmt.Fprintf(a.err, "bide: this directory has no run; the newest of another one is taken: %s, in %s)\n", run, visible(m.Dir))
	case m.older:
		fmt.Fprintf(a.err, "bide: the newest run of this directory %s is taken: %s)\n", arg.what, run)
	case !arg.told && !flag("json") && !flag("raw"):
		fmt.Fprintf(a.err, "bide: run %s)\n", run)
	}
}

func spaced(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

// givenFlags are the flags that a command was given, to be pasted behind it.
func givenFlags(cmd *cobra.Command) string {
	var b strings.Builder
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "bool":
			b.WriteString(" --" + f.Name)
			if f.Value.String() != "true" {
				b.WriteString("=" + f.Value.String())
			}
		case "string":
			b.WriteString(" --" + f.Name + " " + diag.ShellWord(f.Value.String()))
		default: // of a list, each value would have a flag of its own
			b.WriteString(" --" + f.Name + " …")
		}
	})
	return b.String()
}

// isOf says whether a run is of a directory: it works there, or its file stands there.
func isOf(s journal.Summary, dir os.FileInfo) bool {
	for _, of := range []string{s.Dir, filepath.Dir(s.Path)} {
		if info, err := os.Stat(of); of != "" && err == nil && os.SameFile(info, dir) {
			return true
		}
	}
	return false
}
