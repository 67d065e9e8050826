package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// The width of help, in columns: that of the terminal between these bounds, the
// least of them where there is none.
const (
	leastHelp = 80
	mostHelp  = 100
)

// helpWidth is how wide help is on our standard output.
func (s *streams) helpWidth() int { return min(max(s.columns(s.out), leastHelp), mostHelp) }

// wideHelp has all help fit the terminal.
func (s *streams) wideHelp(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		width := s.helpWidth()
		flags := fmt.Sprintf("Flags.FlagUsagesWrapped %d", width)
		root.SetUsageTemplate(strings.NewReplacer("LocalFlags.FlagUsages", "Local"+flags, "InheritedFlags.FlagUsages", "Inherited"+flags).Replace(root.UsageTemplate()))
		text := cmp.Or(cmd.Long, cmd.Short)
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", reflow(text, width), cmd.UsageString())
	})
}

// reflow breaks the lines of the paragraphs of a text anew. Lines that begin with
// a blank stand as they are.
func reflow(text string, width int) string {
	var out []string
	var words []string
	end := func() {
		if len(words) > 0 {
			out = append(out, wrap(strings.Join(words, " "), width)...)
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
