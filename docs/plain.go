package docs

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/pattern"
)

var (
	picture = pattern.Lazy(`!\[([^\]]*)\]\([^)]*\) ?`)
	link    = pattern.Lazy(`\[([^\]]*)\]\(([^)]*)\)`)
	markup  = strings.NewReplacer("**", "", "`", "")
)

// Style is how parts of a page are set for a terminal.
type Style struct {
	Bold func(text string) string            // a heading
	Help func(text string, width int) string // the help of a command
}

// Plain sets a page as text for a terminal of a width: headings bold, code indented, a table
// as one paragraph for each row. Only the help of commands is folded of what is code: the rest
// is there to be copied.
func Plain(w io.Writer, page string, width int, style Style) error {
	p := &plain{width: max(width, 40), Style: style}
	for line := range strings.Lines(page) {
		p.line(strings.TrimRight(line, "\n"))
	}
	p.flush()
	_, err := io.WriteString(w, p.out.String())
	return err
}

type plain struct {
	out   strings.Builder
	width int
	Style
	words  []string // of the paragraph that is being read
	lead   string   // before its first line
	code   bool
	helped []string // lines of the help that is being read; nil outside
	head   []string // of the table that is being read
}

func (p *plain) line(line string) {
	cells := Cells(line)
	switch {
	case strings.HasPrefix(line, "```"):
		p.flush()
		if p.code = !p.code; line == "```help" {
			p.helped = []string{}
		}
		if !p.code {
			p.help()
		}
	case p.helped != nil:
		p.helped = append(p.helped, line)
	case p.code:
		p.out.WriteString("    " + line + "\n")
	case strings.HasPrefix(line, "<!--"):
	case cells != nil:
		p.row(cells)
	case strings.HasPrefix(line, "#"):
		p.flush()
		p.title("", strings.TrimLeft(line, "# "))
	case strings.TrimSpace(line) == "":
		p.flush()
		p.head = nil
		p.out.WriteByte('\n')
	default:
		if item, ok := strings.CutPrefix(line, "- "); ok {
			p.flush()
			p.lead, line = "- ", item
		}
		p.words = append(p.words, strings.Fields(inline(line))...)
	}
}

// help sets the help of a command that was read.
func (p *plain) help() {
	if len(p.helped) > 0 {
		const indent = "    "
		for line := range strings.Lines(p.Help(strings.Join(p.helped, "\n"), p.width-len(indent))) {
			p.out.WriteString(strings.TrimRight(indent+line, " \n") + "\n")
		}
	}
	p.helped = nil
}

// row sets a row of a table: its first cell, and the others behind their heads.
func (p *plain) row(cells []string) {
	p.flush()
	if p.head == nil {
		p.head = cells
		return
	}
	if strings.Trim(cells[0], "-:") == "" && strings.Contains(cells[0], "-") {
		return
	}
	p.title("  ", cells[0])
	for i, c := range cells[1:] {
		if c == "" {
			continue
		}
		p.lead = "      "
		if len(cells) > 2 && i+1 < len(p.head) && p.head[i+1] != "" {
			p.words = append(p.words, inline(p.head[i+1])+":")
		}
		p.words = append(p.words, strings.Fields(inline(c))...)
		p.flush()
	}
}

// title writes a heading, or the first cell of a row.
func (p *plain) title(lead, text string) {
	p.lead, p.words = lead, strings.Fields(inline(text))
	p.wrap(p.Bold)
}

// flush ends a paragraph and wraps it.
func (p *plain) flush() { p.wrap(func(line string) string { return line }) }

// wrap writes the words that were read, and styles each line.
func (p *plain) wrap(style func(string) string) {
	if len(p.words) == 0 {
		return
	}
	indent := strings.Repeat(" ", len(p.lead))
	line := p.lead + p.words[0]
	for _, w := range p.words[1:] {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > p.width {
			p.out.WriteString(style(line) + "\n")
			line = indent + w
			continue
		}
		line += " " + w
	}
	p.out.WriteString(style(line) + "\n")
	p.words, p.lead = nil, ""
}

// inline takes the marks out of a line; a link that leads elsewhere keeps its
// address.
func inline(s string) string {
	s = picture().ReplaceAllString(s, "")
	s = link().ReplaceAllStringFunc(s, func(l string) string {
		m := link().FindStringSubmatch(l)
		if m[1] == m[2] || !strings.Contains(m[2], "://") {
			return m[1]
		}
		return m[1] + " (" + m[2] + ")"
	})
	return markup.Replace(s)
}
