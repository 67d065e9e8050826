package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// runArg says which run a command means when the user names none or "last".
type runArg struct {
	suits   func(runInfo) bool // which runs the shell proposes; nil: every run
	what    string             // suits in words: without RUN, the command takes the newest run that suits; "": the newest of all
	changes bool               // without RUN, it takes only a run of this directory
	saysRun bool               // its own output says which run it is
	all     bool               // without RUN, it means all runs

	absent func(args []string) bool // says that the arguments do not begin with RUN; nil: it is missing where one is
}

func isRunning(i runInfo) bool { return i.Status == event.Running }

// runArgs are the commands that take a run of this machine.
var runArgs = map[string]runArg{
	"bide control":         {suits: func(i runInfo) bool { return i.Status == event.Running || i.Resumable }, what: "that is running", changes: true, saysRun: true, absent: namesNoRun},
	"bide dlq export":      {suits: hasLetters, what: "with dead letters"},
	"bide dlq list":        {suits: hasLetters, what: "with dead letters", saysRun: true},
	"bide dlq purge":       {suits: hasLetters, saysRun: true},
	"bide dlq retry":       {suits: hasLetters, what: "with dead letters", changes: true, saysRun: true},
	"bide dlq show":        {suits: hasLetters, what: "with dead letters", saysRun: true},
	"bide dlq stats":       {suits: hasLetters, what: "with dead letters", saysRun: true},
	"bide events":          {},
	"bide export junit":    {},
	"bide export markdown": {saysRun: true},
	"bide export otel":     {suits: func(i runInfo) bool { return i.Status != unreadable }},
	"bide logs":            {},
	"bide proof":           {},
	"bide replay":          {},
	"bide rerun":           {suits: func(i runInfo) bool { return i.Status != event.Running }, changes: true, saysRun: true},
	"bide resume":          {suits: func(i runInfo) bool { return i.Resumable }, what: "that can be resumed", changes: true, saysRun: true},
	"bide show":            {saysRun: true},
	"bide stop":            {suits: isRunning, what: "that is running", changes: true, saysRun: true},
	"bide tune":            {},
	"bide ui":              {all: true, saysRun: true},
	"bide worktree clean":  {all: true, saysRun: true},
	"bide worktree ls":     {all: true, saysRun: true},
	"bide worktree merge":  {changes: true, saysRun: true},
}

func hasLetters(i runInfo) bool { return i.Items.DeadLettered > 0 }

// nameRuns makes all commands that take a run find the meant one in the same way: they get its
// id.
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

// withRun replaces "last", or a missing run, in a command's arguments by the id of a run.
func (a *app) withRun(cmd *cobra.Command, arg runArg, args []string) ([]string, error) {
	needed := 0
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if !strings.HasPrefix(word, "[") {
			needed++
		}
	}
	missing := strings.Contains(cmd.Use, "[RUN]") && len(args) == needed
	if arg.absent != nil {
		if missing = arg.absent(args); missing {
			arg.suits = isRunning
		}
	}
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
	case missing && arg.changes && m.other && arg.what != "" && !arg.suits(infoOf(m.Summary, nil)):
		return nil, usagef("there is no run %s, of this directory or another", arg.what)
	case missing && arg.changes && m.other:
		run := shortRun(m.ID)
		return nil, usagef("there is no run of this directory%s; the newest of another one is %s: %s %s", spaced(arg.what), m.called(true), cmd.CommandPath(), run+givenFlags(cmd))
	}
	a.tellRun(cmd, arg, m)
	if missing {
		return append([]string{m.ID}, args...), nil
	}
	return append([]string{m.ID}, args[1:]...), nil
}

// meantRun is the run that the user meant.
type meantRun struct {
	journal.Summary
	other bool // it belongs to another directory
	older bool // there is a newer one that does not suit the command

	unread string // the newest of the newer ones whose journals cannot be read, so that nobody knows whether they are meant
}

func (m meantRun) title() string { return titleOf(m.Summary) }

// called names the run: its id, and what is known of it, with its directory if that is asked
// for. Of a run whose journal cannot be read, nothing is known.
func (m meantRun) called(where bool) string {
	about := []string{visible(m.title())}
	if where && m.Dir != "" {
		about = append(about, "in "+visible(m.Dir))
	}
	if about = slices.DeleteFunc(about, func(s string) bool { return s == "" }); len(about) == 0 {
		return shortRun(m.ID) + ", which cannot be read"
	}
	return shortRun(m.ID) + " (" + strings.Join(about, ", ") + ")"
}

// meant finds the run that the user means by "", "last" or "last-N". For "" it is the newest
// run of this directory that suits the command, for last-N the one that is N before the
// newest. If this directory has no run, meant looks at all runs of this machine. For any other
// name it returns no run: the state directory resolves that.
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

// newest skips a number of the newest wanted runs, and returns the next one that suits. If
// none suits, it returns the newest wanted run: the command itself says best why it cannot
// take it. If there are runs, but too few, the error is a *journal.NotFoundError.
func newest(ctx context.Context, st *journal.Store, but int, want func(journal.Summary) bool, suits func(runInfo) bool) (m meantRun, err error) {
	n, unread := 0, ""
	for s, err := range st.RunsWhere(ctx, want) {
		if err != nil && s.ID == "" {
			return m, err
		}
		if err != nil && want != nil {
			if !st.Dismissed(s) { // nobody can tell which directory it belongs to
				unread = cmp.Or(unread, s.ID)
			}
			continue
		}
		if n++; n == 1 {
			m.Summary, m.unread = s, unread
		}
		if n > but && (suits == nil || err == nil && suits(infoOf(s, err))) {
			return meantRun{Summary: s, older: n > but+1, unread: unread}, nil
		}
	}
	if n > 0 && but >= n {
		return meantRun{}, &journal.NotFoundError{Dir: st.Dir, Runs: n}
	}
	return m, nil
}

// tellRun reports which run the command took, if neither the user nor the output names it, or
// if it may be a surprise.
func (a *app) tellRun(cmd *cobra.Command, arg runArg, m meantRun) {
	flag := func(name string) bool {
		f := cmd.Flags().Lookup(name)
		return f != nil && f.Value.String() == "true"
	}
	if m.unread != "" && !flag("quiet") {
		a.tell("run %s is newer, and its journal cannot be read: %s is taken", shortRun(m.unread), m.called(false))
		return
	}
	switch {
	case flag("quiet"):
	case m.other:
		a.tell("this directory has no run; the newest of another one is taken: %s", m.called(true))
	case m.older:
		a.tell("the newest run of this directory %s is taken: %s", arg.what, m.called(false))
	case !arg.saysRun && !flag("json") && !flag("raw"):
		a.tell("run %s", m.called(false))
	}
}

func spaced(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

// givenFlags are the flags that the user has set, to be repeated in a command.
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
		default: // a list would need one flag for each value
			b.WriteString(" --" + f.Name + " …")
		}
	})
	return b.String()
}

// isOf reports whether a run belongs to a directory: it works there, or its file is there.
func isOf(s journal.Summary, dir os.FileInfo) bool {
	for _, of := range []string{s.Dir, filepath.Dir(s.Path)} {
		if info, err := os.Stat(of); of != "" && err == nil && os.SameFile(info, dir) {
			return true
		}
	}
	return false
}
