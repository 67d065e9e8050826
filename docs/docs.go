// Package docs holds the pages of this folder, as `bide docs` shows them.
package docs

import (
	"embed"
	"path"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pattern"
)

//go:embed *.md reference/*.md
var pages embed.FS

// Page is one page of the documentation.
type Page struct {
	Topic string // the name of its file, without the extension
	Title string // its first heading
	Text  string // in Markdown
	Made  bool   // a page of the reference, made from the tables of the program
}

// Pages gives every page: the guides by name, and behind them the reference.
func Pages() []Page {
	var out []Page
	for _, dir := range []string{".", "reference"} {
		entries, err := pages.ReadDir(dir)
		if err != nil {
			panic("docs: " + err.Error()) // the folder is part of the binary
		}
		for _, e := range entries {
			if topic, ok := strings.CutSuffix(e.Name(), ".md"); ok {
				text, err := pages.ReadFile(path.Join(dir, e.Name()))
				if err != nil {
					panic("docs: " + err.Error())
				}
				out = append(out, Page{Topic: topic, Title: title(string(text)), Text: string(text), Made: dir == "reference"})
			}
		}
	}
	return out
}

// Near gives the page whose topic begins with a word, if it is the only one.
func Near(word string) (Page, bool) {
	var found []Page
	for _, p := range Pages() {
		if strings.HasPrefix(p.Topic, strings.ToLower(strings.TrimSpace(word))+"-") {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		return Page{}, false
	}
	return found[0], true
}

// repository is where the files are that a page leads to and that are not pages.
const repository = "https://github.com/bide-dev/bide/blob/main/"

var elsewhere = pattern.Lazy(`\]\((\.\./[^)#]*|pictures/[^)]*|dashboard/[^)]*)`)

// Alone is a page as it is read without its repository beside it: links to files that are
// no pages lead to where they are on the web.
func (p Page) Alone() string {
	dir := "docs"
	if p.Made {
		dir = "docs/reference"
	}
	pages := map[string]bool{}
	for _, q := range Pages() {
		pages[q.file()] = true
	}
	return elsewhere().ReplaceAllStringFunc(p.Text, func(l string) string {
		to := path.Join(dir, strings.TrimPrefix(l, "]("))
		if pages[to] {
			return l
		}
		return "](" + repository + to
	})
}

// file is where the page is in the repository.
func (p Page) file() string {
	if p.Made {
		return "docs/reference/" + p.Topic + ".md"
	}
	return "docs/" + p.Topic + ".md"
}

// Find gives the page of a topic.
func Find(topic string) (Page, bool) {
	all := Pages()
	topic = strings.NewReplacer(" ", "-", "_", "-").Replace(strings.TrimSpace(topic))
	if i := slices.IndexFunc(all, func(p Page) bool { return strings.EqualFold(p.Topic, topic) }); i >= 0 {
		return all[i], true
	}
	return Page{}, false
}

func title(text string) string {
	for line := range strings.Lines(text) {
		if t, ok := strings.CutPrefix(line, "# "); ok {
			return strings.TrimSpace(t)
		}
	}
	return ""
}
