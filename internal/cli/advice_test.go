package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestAdviceIsOurs: every command and flag that an answer to a word of another tool names is
// there, and the flag belongs to that command.
func TestAdviceIsOurs(t *testing.T) {
	a := &app{}
	root := a.root()
	ours := regexp.MustCompile("(?:^|[^A-Za-z./-])(bide(?: [a-z][a-z-]*)*)([^;,|>]*)")
	flags := regexp.MustCompile(`(?:^|[ (])(--?[a-z][a-z-]*)`)
	has := func(cmd *cobra.Command, flag string) bool {
		if name, long := strings.CutPrefix(flag, "--"); long {
			return cmd.Flags().Lookup(name) != nil || cmd.InheritedFlags().Lookup(name) != nil
		}
		return cmd.Flags().ShorthandLookup(flag[1:]) != nil
	}
	look := func(said, text string) {
		for _, m := range ours.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1])[1:]
			cmd, rest, err := root.Find(words)
			if cmd == root && len(words) > 0 && !slices.Contains([]string{"has", "is", "does", "keeps", "makes", "runs", "asks", "itself", "can", "was", "and", "reads", "sets"}, words[0]) {
				t.Errorf("%s: %q has no command %v (%v)", said, text, words, err)
				continue
			}
			if cmd == root || len(rest) > 0 && cmd.HasSubCommands() {
				continue
			}
			args, _, _ := strings.Cut(m[2], " -- ")
			args, _, _ = strings.Cut(args, ": ")
			args, _, _ = strings.Cut(args, " for each ")
			for _, f := range flags.FindAllStringSubmatch(args, -1) {
				if f[1] != "--help" && !has(cmd, f[1]) {
					t.Errorf("%s: %q: %s has no flag %s", said, text, cmd.CommandPath(), f[1])
				}
			}
		}
	}
	for said, text := range formerly {
		look(said, text)
	}
	var all []*cobra.Command
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	for _, row := range alikes {
		look(row.theirs, row.write)
		text, isWrite := strings.CutPrefix(row.write, "write: --")
		if !isWrite {
			continue
		}
		flag, _, _ := strings.Cut(text, " ")
		flag = strings.Trim(flag, ",;")
		for _, c := range all {
			if f := c.Flags().Lookup(row.flag); f != nil && (row.typ == "" || f.Value.Type() == row.typ) && !has(c, "--"+flag) {
				t.Errorf("%s: %s has --%s and no --%s", row.theirs, c.CommandPath(), row.flag, flag)
			}
		}
	}
}
