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

// Table gives the rows of a page of the reference.
func Table(topic string) (out []Explanation) {
	for _, e := range rows(func([]string) bool { return true }) {
		if e.Topic == topic {
			out = append(out, e)
		}
	}
	return out
}

// Names are the words that a row is about.
func (e Explanation) Names() []string { return names(e.Head, e.Cells) }

// Sections gives the sections of the guides whose heading has all these words, in
// Markdown with where they stand, "" if there is none.
func Sections(words string) string {
	var texts []string
	for _, s := range sections(words) {
		texts = append(texts, "## "+s.Section+" ("+s.Topic+")\n\n"+strings.Trim(s.text, "\n")+"\n")
	}
	return strings.Join(texts, "\n")
}

// mostGuides is how many sections are named for words. Behind fewer than fewGuides come the
// commands.
const mostGuides, fewGuides = 6, 3

// Guides gives where the guides answer: the sections whose heading has all these words, and
// behind them those whose text has them most often. Where few have them, the commands whose
// help does come last.
func Guides(words string) (out []Explanation) {
	want := parts(words)
	if len(want) == 0 {
		return nil
	}
	type found struct {
		Explanation
		often int
	}
	var list []found
	look := func(s section) {
		has := parts(withoutQuestions(s.text))
		often := len(has)
		for _, w := range want {
			n := 0
			for _, h := range has {
				if h == w {
					n++
				}
			}
			often = min(often, n)
		}
		if s.heads(want) {
			often += 1 << 20
		}
		if often > 0 {
			list = append(list, found{s.Explanation, often})
		}
	}
	for _, s := range guides() {
		look(s)
	}
	byOften := func(list []found) {
		slices.SortStableFunc(list, func(a, b found) int { return b.often - a.often })
	}
	byOften(list)
	if n := len(list); n < fewGuides {
		for _, s := range commands() {
			look(s)
		}
		byOften(list[n:])
	}
	for _, f := range list[:min(len(list), mostGuides)] {
		out = append(out, f.Explanation)
	}
	return out
}

// withoutQuestions is a text without the lines in which bide docs is asked for a word, which
// answer nothing of that word.
func withoutQuestions(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "$ bide docs ") && !strings.HasPrefix(line, "bide: there is no topic ") {
			b.WriteString(line)
		}
	}
	return b.String()
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

// sections are those of the guides whose heading has all these words.
func sections(words string) (out []section) {
	want := parts(words)
	for _, s := range guides() {
		if len(want) > 0 && s.heads(want) {
			out = append(out, s)
		}
	}
	return out
}

// commands are the commands with their help; the topic of one is its name.
func commands() (out []section) {
	page, _ := Find("commands")
	for _, part := range strings.Split("\n"+page.Text, "\n## bide ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		out = append(out, section{Explanation{Topic: name, Section: "bide " + name}, text})
	}
	return out
}

// guides are all sections of the guides, with what stands before the first, under the title
// of the page; a section inside another stands for itself too.
func guides() (out []section) {
	for _, p := range Pages() {
		if p.Made {
			continue
		}
		parts := strings.Split("\n"+p.Text, "\n## ")
		out = append(out, section{Explanation{Topic: p.Topic, Section: p.Title}, strings.Replace(parts[0], "# "+p.Title, "", 1)})
		for _, part := range parts[1:] {
			for i, inner := range strings.Split(part, "\n### ") {
				if i == 0 {
					inner = part
				}
				heading, _, _ := strings.Cut(inner, "\n")
				out = append(out, section{Explanation{Topic: p.Topic, Section: heading}, inner[len(heading):]})
			}
		}
	}
	return out
}

// heads reports whether the heading has all words, as parts gives them.
func (s *section) heads(want []string) bool {
	has := parts(s.Section)
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(has, w) })
}

// parts are the words of a text without what their forms end with: merge, merges and
// merging are one.
func parts(text string) []string {
	list := strings.FieldsFunc(strings.ToLower(strings.Map(letters, text)), func(r rune) bool { return r == ' ' })
	for i, w := range list {
		w = strings.Trim(w, ".")
		if strings.HasSuffix(w, "ies") {
			w = strings.TrimSuffix(w, "ies") + "y"
		}
		for _, end := range []string{"ing", "es", "ed", "s", "e"} {
			if short, ok := strings.CutSuffix(w, end); ok && len(short) > 2 {
				w = short
				break
			}
		}
		list[i] = w
	}
	return slices.DeleteFunc(list, func(w string) bool { return w == "" })
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
