package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/docs"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/value"
	"github.com/spf13/cobra"
)

// docsOptions are what docs was asked to do.
type docsOptions struct {
	*streams
	topic string // "": the list of all
}

func docsCmd(a *app) *cobra.Command {
	o := &docsOptions{streams: &a.streams}
	return o.withJSON(&cobra.Command{
		Use:   "docs [TOPIC...]",
		Short: "Read the documentation: guides and reference",
		Long: `Prints a page of the documentation, or without a topic the list of them. A topic is
also a word that the reference explains: a key, an option, a flag, an event, an
environment variable, a variable of a workflow, or the code behind a message of
"bide check"; a command; and words of the heading of a section.

On a terminal it is set as plain text, elsewhere it is the page's Markdown.`,
		Example: `  bide docs
  bide docs cookbook
  bide docs retry_on
  bide docs "dead letters"
  bide docs dlq retry
  bide docs no-action`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return topics(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if o.topic = strings.Join(args, " "); o.topic == "" {
				return o.list()
			}
			return o.run()
		},
	}, "print the list as a JSON array, a page as an object")
}

func topics() []string {
	return value.Map(docs.Pages(), func(p docs.Page) string { return p.Topic })
}

// docJSON is the machine-readable form of a page.
type docJSON struct {
	Topic string `json:"topic"`
	Title string `json:"title"`
	Text  string `json:"text,omitempty"`
}

func (o *docsOptions) list() error {
	if o.json {
		return printJSON(o.out, value.Map(docs.Pages(), func(p docs.Page) docJSON { return docJSON{p.Topic, p.Title, ""} }))
	}
	t := table{head: []string{"TOPIC", "TITLE"}, flex: 1}
	for _, p := range docs.Pages() {
		t.add(p.Topic, p.Title)
	}
	return t.print(o.out, o.columns(o.out))
}

func (o *docsOptions) run() error {
	page, ok := docs.Find(o.topic)
	if !ok {
		page = docs.Page{Topic: o.topic, Title: o.topic, Text: explained(o.topic)}
	}
	if page.Text == "" {
		hint := cmp.Or(diag.DidYouMean(o.topic, append(topics(), docs.Words()...)), "see bide docs")
		return usagef("there is no topic %q; %s", o.topic, hint)
	}
	switch {
	case o.json:
		return printJSON(o.out, docJSON{page.Topic, page.Title, page.Text})
	case isTerminal(o.out):
		return docs.Plain(o.out, page.Text, min(o.columns(o.out), 100), o.palette(o.out).bold)
	}
	return o.print(page.Text)
}

// explained gathers what the reference says of a word.
func explained(word string) string {
	var b strings.Builder
	for _, e := range docs.Explain(word) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "## %s (%s)\n\n", e.Section, e.Topic)
		for i, head := range e.Head[1:] {
			if cell := e.Cells[i+1]; cell != "" {
				fmt.Fprintf(&b, "- %s: %s\n", head, cell)
			}
		}
	}
	if text := docs.Command(word); text != "" {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	if b.Len() == 0 {
		return docs.Sections(word)
	}
	if guides := docs.Headings(word); len(guides) > 0 {
		b.WriteString("\n## In the guides\n\n")
		for _, g := range guides {
			fmt.Fprintf(&b, "- %s: bide docs %s\n", g.Section, g.Topic)
		}
	}
	return b.String()
}
