package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
	"github.com/spf13/cobra"
)

// Help is as wide as the terminal, in columns, but not below leastHelp or above mostHelp.
// Without a terminal it is usualHelp wide.
const (
	leastHelp = 40
	usualHelp = 80
	mostHelp  = 100
)

// helpWidth is the width of help on our standard output.
func (s *streams) helpWidth() int {
	return min(max(cmp.Or(s.columns(s.out), usualHelp), leastHelp), mostHelp)
}

// wideHelp makes all help fit the terminal.
func (s *streams) wideHelp(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		width := s.helpWidth()
		flags := fmt.Sprintf("Flags.FlagUsagesWrapped %d", width)
		root.SetUsageTemplate(strings.NewReplacer("LocalFlags.FlagUsages", "Local"+flags, "InheritedFlags.FlagUsages", "Inherited"+flags).Replace(root.UsageTemplate()))
		text := cmp.Or(cmd.Long, cmd.Short)
		fmt.Fprint(cmd.OutOrStdout(), narrowed(reflow(text, width)+"\n\n"+cmd.UsageString(), width))
	})
}

// helpText is the help of a command that was written for a terminal of the usual width, on one
// of another.
func helpText(text string, width int) string { return narrowed(reflow(text, width), width) }

// column matches what precedes the second column of a line of help, or a comment.
var column = pattern.Lazy(`^\s*\S+(?: \S+)*\s{2,}`)

// narrowed folds lines of help that were written for a wider terminal: below the second column
// if there is one.
func narrowed(text string, width int) string {
	if width >= usualHelp {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		by := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))+4)
		if lead := column().FindString(line); lead != "" && len(lead) <= width/2 {
			by = strings.Repeat(" ", len(lead))
		}
		b.WriteString(fold(line, width, by) + "\n")
	}
	return b.String()
}

// reflow breaks the lines of a text's paragraphs anew. Lines that begin with a blank stay as
// they are.
func reflow(text string, width int) string {
	var out []string
	var words []string
	end := func() {
		if len(words) > 0 {
			out = append(out, fold(strings.Join(words, " "), width, ""))
		}
		words = nil
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if line == "" || line[0] == ' ' || line[0] == '\t' || line[0] == '#' {
			end()
			out = append(out, line)
			continue
		}
		words = append(words, strings.Fields(line)...)
	}
	end()
	return strings.Join(out, "\n")
}
