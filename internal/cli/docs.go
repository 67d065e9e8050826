package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// complete sets for all commands how the shell completes their arguments and flags. It reads
// the words of the usage line, so that a new command is completed without further code.
func (a *app) complete(c *cobra.Command) {
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 {
		c.ValidArgsFunction = a.completer(c.Use)
	}
	each := func(f *pflag.Flag) {
		if _, taken := c.GetFlagCompletionFunc(f.Name); taken || f.NoOptDefVal != "" {
			return
		}
		if err := c.RegisterFlagCompletionFunc(f.Name, a.completeFlag(c, f)); err != nil {
			panic(err) // the flag belongs to the command
		}
	}
	c.Flags().VisitAll(each)
	c.PersistentFlags().VisitAll(each)
	for _, sub := range c.Commands() {
		a.complete(sub)
	}
}

// describeCompletion gives cobra's own commands examples, as the others have.
func describeCompletion(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Example = "  bide completion bash > ~/.local/share/bash-completion/completions/bide"
		for _, shell := range c.Commands() {
			shell.Example = "  " + shell.CommandPath()
		}
	}
}

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completer completes the arguments that a usage line names: FILE is a workflow or pipeline,
// RUN a recorded run, DIR a directory. It leaves further arguments, and words that it does not
// know, to the shell.
func (a *app) completer(use string) completion {
	words := strings.Fields(use)[1:]
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		word, rest := "", false
		switch {
		case len(args) < len(words):
			word = words[len(args)]
		case len(words) > 0 && strings.Contains(words[len(words)-1], "..."):
			word, rest = words[len(words)-1], true
		}
		word = strings.Trim(word, "[].")
		if f := cmd.Flags().Lookup("backtest"); f != nil && f.Changed {
			word = "RUN"
		}
		switch {
		case word == "FILE":
			return filesOf(cmd), cobra.ShellCompDirectiveFilterFileExt
		case strings.Contains(word, "|"):
			return strings.Split(word, "|"), cobra.ShellCompDirectiveNoFileComp
		case word == "DIR":
			return nil, cobra.ShellCompDirectiveFilterDirs
		case word == "ACTION":
			return controls, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		case word == "RUN":
			return a.completeRuns(cmd, args, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		case word == "ITEM":
			return a.completeItems(cmd, first(args), typed), cobra.ShellCompDirectiveNoFileComp
		case word == "" && !rest:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// filesOf are the extensions of the files that a command takes.
func filesOf(cmd *cobra.Command) []string {
	switch cmd.Name() {
	case "fmt", "graph":
		return []string{"cst"}
	case "migrate":
		return []string{"yml", "yaml", "json"}
	}
	return strings.Fields(workflowFiles)
}

// manOptions are the options of man.
type manOptions struct {
	*streams
	dir string
}

func manCmd(a *app) *cobra.Command {
	o := &manOptions{streams: &a.streams}
	return o.withJSON(&cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages",
		Long: `Writes manual pages for bide and each of its commands into DIR, which is made if it
is missing. man finds them in a directory such as ~/.local/share/man/man1.`,
		Example: `  bide man ~/.local/share/man/man1
  bide man /tmp/man && man -l /tmp/man/bide-run.1`,
		RunE: func(_ *cobra.Command, args []string) error {
			o.dir = args[0]
			return o.run()
		},
	}, "print the paths of the pages as a JSON array")
}

func (o *manOptions) run() error {
	all := app{streams: streams{in: o.in, out: o.out, err: o.err}} // separate: the flags of all commands write to the app that they belong to
	root := all.root()
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fmt.Errorf("making the directory: %w", err)
	}
	paths := []string{}
	for _, c := range documented(root) {
		path := filepath.Join(o.dir, pageName(c)+".1")
		if err := os.WriteFile(path, []byte(manPage(c)), 0o644); err != nil {
			return errors.Join(fmt.Errorf("writing the manual page of %s", c.CommandPath()), err)
		}
		paths = append(paths, path)
	}
	if o.json {
		return printJSON(o.out, paths)
	}
	fmt.Fprintf(o.out, "%d manual pages in %s\n", len(paths), o.dir)
	return nil
}

// documented lists a command and its subcommands that a person may use.
func documented(c *cobra.Command) []*cobra.Command {
	if c.Hidden || c.Name() == "help" {
		return nil
	}
	out := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		out = append(out, documented(sub)...)
	}
	return out
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }
