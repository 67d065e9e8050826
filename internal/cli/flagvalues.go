package cli

import (
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry/driver"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagRow says what value a flag takes. The options of a policy have their own table.
type flagRow struct {
	flags   string // one or more, in the commands whose paths end with this:
	command string // "": all
	words   []string
	files   string // their extensions; "*" is any file, "/" a directory
	list    lister
}

// lister returns the values that continue what the user has typed, for a command and its
// arguments.
type lister = func(a *app, cmd *cobra.Command, args []string, typed string) []string

// flagRows are the flags whose values the shell can propose. The first matching row counts.
var flagRows = []flagRow{
	{flags: "color", words: []string{"auto", "always", "never"}},
	{flags: "isolation", words: []string{"auto", "worktree", "none"}},
	{flags: "progress", words: []string{"auto", "live", "plain", "none"}},
	{flags: "trace-items", words: []string{"failed", "all", "none"}},
	{flags: "status", words: runStatuses},
	{flags: "type", words: eventTypes},
	{flags: "fail-on", words: event.Kinds},
	{flags: "on", words: []string{"temporal"}},
	{flags: "for", command: "tune", words: simulate.Goals},
	{flags: "format", command: "proof", words: []string{"text", "json", "in-toto"}},
	{flags: "format", command: "graph", words: []string{"dot", "mermaid", "svg"}},
	{flags: "format", command: "dlq export", words: exportFormats},

	{flags: "path", files: "/"},
	{flags: "model modules param-file inputs", files: "yml yaml json"},
	{flags: "compare", files: workflowFiles},
	{flags: "data", files: "json"},
	{flags: "svg", files: "svg"},
	{flags: "output", command: "graph", files: "svg dot gv mmd mermaid"},
	{flags: "output arg-file joblog metrics-file metrics-token-file map", files: "*"},

	{flags: "item", list: ofRun((*app).completeItems)},
	{flags: "step", list: ofRun((*app).completeSteps)},
	{flags: "from", command: "rerun", list: ofRun((*app).completeSteps)},
	{flags: "filter", list: ofRun((*app).completeClasses)},
	{flags: "from", command: "simulate", list: func(a *app, cmd *cobra.Command, _ []string, typed string) []string {
		return append(a.completeRuns(cmd, nil, typed), "last")
	}},
	{flags: "run", command: "clean", list: func(a *app, cmd *cobra.Command, _ []string, typed string) []string {
		return a.completeRuns(cmd, nil, typed)
	}},
	{flags: "dismiss", list: func(a *app, cmd *cobra.Command, _ []string, typed string) []string {
		return append(a.completeRuns(cmd, nil, typed), "all")
	}},
	{flags: "limit", command: "exec batch", list: func(*app, *cobra.Command, []string, string) []string { return limitNames() }},
	{flags: "profile", list: ofFile(func(f *workflow.File) (names []string) {
		for name := range f.Profiles {
			names = append(names, name)
		}
		return names
	})},
	{flags: "param", list: ofFile(func(f *workflow.File) (names []string) {
		for _, p := range f.Params {
			names = append(names, p.Name+"=")
		}
		return names
	})},
}

// workflowFiles are the extensions of workflows and pipelines.
const workflowFiles = "yml yaml json cst"

// has reports whether the row is about this flag of this command.
func (r *flagRow) has(command, flag string) bool {
	if !slices.Contains(strings.Fields(r.flags), flag) {
		return false
	}
	return r.command == "" || r.command == command || slices.Contains(strings.Fields(r.command), command)
}

// rowOf is the row for a flag of a command, such as "dlq export"; nil if there is none.
func rowOf(command, flag string) *flagRow {
	i := slices.IndexFunc(flagRows, func(r flagRow) bool { return r.has(command, flag) })
	if i < 0 {
		return nil
	}
	return &flagRows[i]
}

// flagWords are the values that a flag can have, nil if they are not a fixed set.
func flagWords(command, name string) []string {
	for _, r := range option.For(option.Command) {
		switch {
		case r.FlagName() != name && r.OldFlag != name || r.Kind == option.Exhausted:
		case r.Kind == option.Matchers:
			return driver.MatcherNames()
		case len(r.Words) > 0:
			return r.Words
		}
	}
	if r := rowOf(command, name); r != nil {
		return r.words
	}
	return nil
}

// completeFlag returns what completes a flag of a command: a fixed set of words, files with an
// extension, or what is recorded. If nothing is known about the value, it proposes nothing;
// names of files would be wrong.
func (a *app) completeFlag(c *cobra.Command, f *pflag.Flag) completion {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		command := strings.TrimPrefix(c.CommandPath(), "bide ")
		r := rowOf(command, f.Name)
		if words := flagWords(command, f.Name); words != nil {
			r = &flagRow{words: words}
		}
		switch {
		case r == nil:
			return nil, cobra.ShellCompDirectiveNoFileComp
		case r.files == "/":
			return nil, cobra.ShellCompDirectiveFilterDirs
		case r.files == "*":
			return nil, cobra.ShellCompDirectiveDefault
		case r.files != "":
			return strings.Fields(r.files), cobra.ShellCompDirectiveFilterFileExt
		}
		before := ""
		if kind := f.Value.Type(); kind == "stringSlice" || kind == "errors" { // separated by commas
			before = typed[:strings.LastIndexByte(typed, ',')+1]
		}
		list := r.words
		if r.list != nil {
			list = r.list(a, cmd, args, typed[len(before):])
		}
		var out []string
		directive := cobra.ShellCompDirectiveNoFileComp
		for _, word := range list {
			if word = before + word; strings.HasPrefix(word, typed) {
				out = append(out, word)
			}
			if strings.HasSuffix(word, "=") {
				directive |= cobra.ShellCompDirectiveNoSpace
			}
		}
		return out, directive
	}
}

// ofRun makes a lister for what is recorded of the run that the command line names or means.
func ofRun(list func(a *app, cmd *cobra.Command, run, typed string) []string) lister {
	return func(a *app, cmd *cobra.Command, args []string, typed string) []string {
		if !strings.Contains(cmd.Use, "RUN") {
			return nil
		}
		return list(a, cmd, first(args), typed)
	}
}

// ofFile makes a lister for what the workflow file of the command line has.
func ofFile(names func(*workflow.File) []string) lister {
	return func(_ *app, cmd *cobra.Command, args []string, _ string) []string {
		if len(args) == 0 || !strings.Contains(cmd.Use, "FILE") {
			return nil
		}
		f, _ := workflow.Load(args[0], workflow.Options{})
		if f == nil {
			return nil
		}
		return slices.Sorted(slices.Values(names(f)))
	}
}

// limitNames are the names of the limits of this machine.
func limitNames() []string {
	home, err := journal.Home()
	if err != nil {
		return nil
	}
	c, err := limits.Read(home)
	if err != nil {
		return nil
	}
	return c.Names()
}
