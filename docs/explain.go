package docs

import (
	"slices"
	"strings"
	"unicode"
)

// Explanation is a row of a table of the reference.
type Explanation struct {
	Topic, Section string // where it stands
	Head, Cells    []string
}

// Explain gives every row of the reference that is about a word: of a flag, if it is
// written as one, the flags first; else what stands in files first.
func Explain(word string) []Explanation {
	bare := strings.TrimLeft(word, "-")
	out := rows(func(names []string) bool { return slices.Contains(names, bare) })
	topics := []string{"keys", "options", "variables", "functions", "codes", "environment", "exit-status", "commands", "events"}
	if bare != word {
		topics = []string{"commands"}
	}
	rank := func(e Explanation) int {
		if i := slices.Index(topics, e.Topic); i >= 0 {
			return i
		}
		return len(topics)
	}
	slices.SortStableFunc(out, func(a, b Explanation) int { return rank(a) - rank(b) })
	return out
}

// Words are all words that the reference explains.
func Words() []string {
	var out []string
	rows(func(names []string) bool { out = append(out, names...); return false })
	slices.Sort(out)
	return slices.Compact(out)
}

// Sections gives the sections of the guides whose heading has all these words, in
// Markdown with where they stand, "" if there is none.
func Sections(words string) string {
	var texts []string
	for _, s := range sections(words) {
		texts = append(texts, "## "+s.Section+" ("+s.Topic+")\n\n"+strings.Trim(s.text, "\n")+"\n")
	}
	return strings.Join(texts, "\n")
}

// Headings gives where they stand alone.
func Headings(words string) (out []Explanation) {
	for _, s := range sections(words) {
		out = append(out, s.Explanation)
	}
	return out
}

// Command gives the help of a command, in Markdown, "" if there is none: by its name, with
// or without "bide" before it.
func Command(name string) string {
	page, _ := Find("commands")
	head := "\n## bide " + strings.TrimPrefix(strings.ToLower(strings.Join(strings.Fields(name), " ")), "bide ") + "\n"
	_, text, ok := strings.Cut(page.Text, head)
	if !ok {
		return ""
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return strings.TrimSpace(head) + " (commands)\n\n" + strings.Trim(text, "\n") + "\n"
}

// section is a part of a guide below a heading.
type section struct {
	Explanation // its place
	text        string
}

func sections(words string) (out []section) {
	want := strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return r == ' ' || r == '-' || r == '_' })
	for _, p := range Pages() {
		if p.Made || len(want) == 0 {
			continue
		}
		for _, part := range strings.Split("\n"+p.Text, "\n## ")[1:] {
			heading, _, _ := strings.Cut(part, "\n")
			has := strings.Fields(strings.ToLower(strings.Map(letters, heading)))
			if !slices.ContainsFunc(want, func(w string) bool {
				return !slices.ContainsFunc(has, func(h string) bool { return h == w || h == w+"s" || h+"s" == w })
			}) {
				out = append(out, section{Explanation{Topic: p.Topic, Section: heading}, part[len(heading):]})
			}
		}
	}
	return out
}

// letters makes a blank of what is no letter, digit or part of a name.
func letters(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' {
		return r
	}
	return ' '
}

// older is the head of a column with other words for what the first cell names.
const older = "older spellings"

// names are the words that a row is about: those in its first cell, and their older
// spellings.
func names(head, cells []string) []string {
	text := cells[0]
	if i := slices.Index(head, older); i >= 0 && i < len(cells) && cells[i] != "" {
		text += "," + cells[i]
	}
	var out []string
	for _, w := range strings.Split(strings.ReplaceAll(text, "`", ""), ",") {
		w, _, _ = strings.Cut(w, " (") // its unit
		out = append(out, strings.TrimLeft(strings.TrimSpace(w), "-"))
	}
	return out
}

// rows gives the rows of the reference whose names are wanted.
func rows(wanted func(names []string) bool) []Explanation {
	var out []Explanation
	for _, p := range Pages() {
		if !p.Made {
			continue
		}
		section, head := p.Title, []string(nil)
		for line := range strings.Lines(p.Text) {
			line = strings.TrimRight(line, "\n")
			switch cells := Cells(line); {
			case strings.HasPrefix(line, "## "):
				section = line[3:]
			case cells == nil:
				head = nil
			case head == nil:
				head = cells
			case strings.Trim(cells[0], "-") != "" && wanted(names(head, cells)):
				out = append(out, Explanation{p.Topic, section, head, cells})
			}
		}
	}
	return out
}

// Cells splits a row of a Markdown table, nil for another line.
func Cells(line string) []string {
	if !strings.HasPrefix(line, "| ") || !strings.HasSuffix(line, "|") {
		return nil
	}
	const bar = "\x00"
	cells := strings.Split(strings.ReplaceAll(line[1:len(line)-1], `\|`, bar), "|")
	for i, c := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(c, bar, "|"))
	}
	return cells
}
