// Package docs holds the pages of this folder, as `bide docs` shows them.
package docs

import (
	"embed"
	"path"
	"slices"
	"strings"
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

// Find gives the page of a topic.
func Find(topic string) (Page, bool) {
	all := Pages()
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
