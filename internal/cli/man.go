package cli

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"github.com/bide-dev/bide/internal/value"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manPage is the manual page of a command, in the man macros of roff. Its date is that of the
// commit, so that the same commands always give the same page.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	date, _, _ := strings.Cut(builtFrom().Time, "T")
	fmt.Fprintf(&b, ".TH %s 1 %s %s %s\n", quoted(strings.ToUpper(pageName(c))), `"`+date+`"`, quoted("bide "+version()), quoted("bide manual"))
	section := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, ".SH %s\n%s", name, text)
		}
	}
	section("NAME", roff(pageName(c))+` \- `+roff(c.Short)+"\n")
	section("SYNOPSIS", synopsis(c))
	section("DESCRIPTION", paragraphs(description(c)))
	section("OPTIONS", options(c.NonInheritedFlags()))
	section("OPTIONS OF EVERY COMMAND", options(c.InheritedFlags()))
	if c.HasAvailableSubCommands() {
		section("COMMANDS", subcommands(c))
	}
	if c.Example != "" {
		section("EXAMPLES", strings.TrimPrefix(verbatim(outdented(c.Example)), ".PP\n"))
	}
	section("EXIT STATUS", exitStatusPage())
	section("ENVIRONMENT", environmentPage)
	section("SEE ALSO", seeAlso(c))
	return b.String()
}

// exitStatus is a status with which bide can exit.
type exitStatus struct{ Status, Doc string }

// exitStatuses are all of them, for the manual pages and the reference.
var exitStatuses = []exitStatus{
	{"0", "all went well"},
	{"1", "it failed, or was stopped by policy"},
	{"2", "wrong use of bide, or a file with errors"},
	{"3", "completed with items that failed or were skipped, steps that their repair did not mend, or work that is in no merge"},
	{"130, 143", "interrupted, terminated; the run can be resumed"},
}

func exitStatusPage() string {
	var b strings.Builder
	for _, s := range exitStatuses {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", quoted(s.Status), roff(s.Doc))
	}
	return b.String()
}

const environmentPage = `.TP
.B BIDE_HOME
where the state of runs is kept, instead of $XDG_STATE_HOME/bide or ~/.local/state/bide
.TP
.B COLUMNS
how wide lines may be where the output is no terminal; a terminal is as wide as it says itself
.TP
.B NO_COLOR
no colours
`

func description(c *cobra.Command) string {
	text := cmp.Or(c.Long, c.Short+".")
	if len(c.Aliases) > 0 {
		text += "\n\nIt can also be called " + strings.Join(c.Aliases, ", ") + "."
	}
	return text
}

func synopsis(c *cobra.Command) string {
	words := strings.SplitN(c.UseLine(), " ", strings.Count(c.CommandPath(), " ")+2)
	bold := strings.Join(words[:strings.Count(c.CommandPath(), " ")+1], " ")
	text := `\fB` + roff(bold) + `\fR`
	if len(words) > strings.Count(bold, " ")+1 {
		text += " " + roff(words[len(words)-1])
	}
	if c.HasAvailableSubCommands() {
		text += "\n.br\n\\fB" + roff(bold) + `\fR COMMAND [flags] [ARG...]`
	}
	return text + "\n"
}

// options is a list of flags with their values and defaults.
func options(fs *pflag.FlagSet) string {
	var b strings.Builder
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(&b, `\fB\-%s\fR, `, roff(f.Shorthand))
		}
		fmt.Fprintf(&b, `\fB\-\-%s\fR`, roff(f.Name))
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			fmt.Fprintf(&b, ` \fI%s\fR`, roff(kind))
		}
		b.WriteString("\n" + roff(usage))
		switch f.DefValue {
		case "", "false", "0", "[]":
		default:
			b.WriteString(" (default " + roff(f.DefValue) + ")")
		}
		b.WriteByte('\n')
	})
	return b.String()
}

func subcommands(c *cobra.Command) string {
	var b strings.Builder
	for _, sub := range c.Commands() {
		if len(documented(sub)) > 0 {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(sub.Name()), roff(sub.Short))
		}
	}
	return b.String()
}

func seeAlso(c *cobra.Command) string {
	var names []string
	if c.HasParent() {
		names = append(names, pageName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if len(documented(sub)) > 0 {
			names = append(names, pageName(sub))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return strings.Join(value.Map(names, func(n string) string { return `\fB` + roff(n) + `\fR(1)` }), ", ") + "\n"
}

// paragraphs formats a text as paragraphs; indented lines stay as they are.
func paragraphs(text string) string {
	var b strings.Builder
	for i, par := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(par, " ") {
			b.WriteString(verbatim(outdented(par)))
			continue
		}
		if i > 0 {
			b.WriteString(".PP\n")
		}
		for line := range strings.SplitSeq(par, "\n") {
			b.WriteString(roff(line) + "\n")
		}
	}
	return b.String()
}

func verbatim(text string) string {
	var b strings.Builder
	b.WriteString(".PP\n.RS 4\n.nf\n")
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		b.WriteString(roff(line) + "\n")
	}
	b.WriteString(".fi\n.RE\n")
	return b.String()
}

// outdented removes the two blanks of indentation from examples.
func outdented(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "  "), "\n  ", "\n")
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// roff escapes a text, so that no character in it is a request.
func roff(text string) string {
	text = roffEscapes.Replace(strings.ReplaceAll(text, "\t", "    "))
	if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
		var b strings.Builder
		for _, r := range text {
			if r > unicode.MaxASCII {
				fmt.Fprintf(&b, `\[u%04X]`, r)
			} else {
				b.WriteRune(r)
			}
		}
		text = b.String()
	}
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

func quoted(text string) string { return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"` }
