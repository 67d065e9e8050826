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

// docsOptions are the options of docs.
type docsOptions struct {
	*streams
	topic string // "": list all
}

func docsCmd(a *app) *cobra.Command {
	o := &docsOptions{streams: &a.streams}
	return o.withJSON(&cobra.Command{
		Use:   "docs [TOPIC...]",
		Short: "Read the documentation: guides and reference",
		Long: `Prints a page of the documentation; without a topic, the list of pages. A topic can
also be a command, words of a heading, or a word of the reference: a key, an option,
a flag, an event, a variable, or the code at the end of a message of "bide check".

On a terminal it prints plain text, and where COLUMNS says how wide that may be;
elsewhere the Markdown of the page.`,
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
	t := table{head: []string{"TOPIC", "TITLE"}, flex: 1, block: true, keep: map[int]int{1: 60}}
	for _, p := range docs.Pages() {
		t.add(p.Topic, p.Title)
	}
	return t.print(o.out, o.columns(o.out))
}

func (o *docsOptions) run() error {
	page, ok := docs.Find(o.topic)
	text := page.Alone()
	if !ok {
		text = explained(o.topic)
		page = docs.Page{Topic: o.topic, Title: o.topic}
	}
	if text == "" {
		hint := cmp.Or(diag.DidYouMean(o.topic, append(topics(), docs.Words()...)), "see bide docs")
		return usagef("there is no topic %q; %s", o.topic, hint)
	}
	switch {
	case o.json:
		return printJSON(o.out, docJSON{page.Topic, page.Title, text})
	case isTerminal(o.out) || o.columns(o.out) > 0:
		return docs.Plain(o.out, text, min(o.columns(o.out), mostHelp), docs.Style{Bold: o.palette(o.out).bold, Help: helpText})
	}
	return o.print(text)
}

// explained collects what the reference says about a word, and which guides mention it.
func explained(word string) string {
	var said []string // by the reference
	files := false    // it is a key, an option or a command, not only a word of a message
	for _, e := range docs.Explain(word) {
		files = files || e.Topic != "codes"
		var b strings.Builder
		fmt.Fprintf(&b, "## %s: %s (%s)\n\n", strings.ReplaceAll(e.Cells[0], "`", ""), e.Section, e.Topic)
		for i, head := range e.Head[1:] {
			if cell := e.Cells[i+1]; cell != "" {
				fmt.Fprintf(&b, "- %s: %s\n", head, cell)
			}
		}
		said = append(said, b.String())
	}
	if text := docs.Command(word); text != "" {
		said, files = append(said, text), true
	}
	if len(said) > 0 && !files && strings.Contains(word, "-") {
		return strings.Join(said, "\n") // the code of a message, exactly
	}
	if len(said) == 0 {
		if page, ok := docs.Near(word); ok {
			return page.Alone()
		}
		if text := docs.Sections(word); text != "" {
			return text
		}
	}
	if guides := docs.Guides(word); len(guides) > 0 {
		text := "## In the guides\n\n"
		for _, g := range guides {
			text += fmt.Sprintf("- %s: bide docs %s\n", g.Section, g.Topic)
		}
		if files {
			said = append(said, text)
		} else { // instructions come before explanations of messages
			said = append([]string{text}, said...)
		}
	}
	return strings.Join(said, "\n")
}
