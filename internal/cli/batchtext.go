package cli

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// batchItem is an argument of a batch, in all forms that a command can ask for. Its members
// are fields of the work item.
type batchItem struct {
	ID     string `json:"id"`
	Arg    string `json:"arg"`    // {}
	NoExt  string `json:"noext"`  // {.}
	Name   string `json:"name"`   // {/}
	Dir    string `json:"dir"`    // {//}
	Stem   string `json:"stem"`   // {/.}
	Number int    `json:"number"` // {#}, from 1
}

func newBatchItem(arg string, number int) batchItem {
	noExt := func(s string) string { return strings.TrimSuffix(s, path.Ext(strings.TrimLeft(path.Base(s), "."))) }
	name := path.Base(arg)
	return batchItem{ID: arg, Arg: arg, NoExt: noExt(arg), Name: name, Dir: path.Dir(arg), Stem: noExt(name), Number: number}
}

// placeholders maps each placeholder of a command to a field of the item.
var placeholders = map[string]string{"{}": "arg", "{.}": "noext", "{/}": "name", "{//}": "dir", "{/.}": "stem", "{#}": "number"}

var placeholder = pattern.Lazy(`\{(?:\.|//?|/\.|#|%)?\}`)

func (i batchItem) field(name string) string {
	switch name {
	case "arg":
		return i.Arg
	case "noext":
		return i.NoExt
	case "name":
		return i.Name
	case "dir":
		return i.Dir
	case "stem":
		return i.Stem
	}
	return strconv.Itoa(i.Number)
}

// fill replaces the placeholders of a text by the item's parts, for people to read.
func (i batchItem) fill(text string, quote func(string) string) string {
	return placeholder().ReplaceAllStringFunc(text, func(p string) string { return quote(i.field(placeholders[p])) })
}

// shellOfWords is the shell text of a command that was passed as words. The words are data,
// whatever they look like; so are the item's parts.
func shellOfWords(words []string) string {
	return strings.Join(value.Map(words, shellOfWord), " ")
}

func shellOfWord(word string) string {
	if word == "" {
		return "''"
	}
	var b strings.Builder
	literal := func(s string) {
		if s != "" {
			// Closing the quotes after a $ keeps it from being a reference.
			b.WriteString(strings.ReplaceAll(diag.ShellWord(s), "$", "$''"))
		}
	}
	end := 0
	for _, at := range placeholder().FindAllStringIndex(word, -1) {
		literal(word[end:at[0]])
		b.WriteString(`"${item.` + placeholders[word[at[0]:at[1]]] + `}"`)
		end = at[1]
	}
	literal(word[end:])
	return b.String()
}

// shellOfText replaces the placeholders of a shell text by the item's parts, each as one word
// or a part of one, in quotes or not. It does so also in a text that no shell can parse: the
// shell that runs it reports what is wrong.
func shellOfText(text string) string {
	places := placeholder().FindAllStringIndex(text, -1)
	offsets := make([]int, len(places))
	readable := []byte(text) // the text with a name in place of each placeholder, so that it can be parsed
	for i, at := range places {
		offsets[i] = at[0]
		for k := at[0]; k < at[1]; k++ {
			readable[k] = 'x'
		}
	}
	quotings, ok := template.Quotings(string(readable), offsets)
	var b strings.Builder
	end := 0
	for i, at := range places {
		ref := "${item." + placeholders[text[at[0]:at[1]]] + "}"
		switch {
		case ok && quotings[i] == template.Bare:
			ref = `"` + ref + `"`
		case ok && quotings[i] == template.Single:
			ref = `'"` + ref + `"'`
		}
		b.WriteString(text[end:at[0]] + ref)
		end = at[1]
	}
	return b.String() + text[end:]
}

// namesAnItem reports whether one of some words names the item, as {} or as ${item}.
func namesAnItem(words ...string) bool {
	return hasPlaceholder(words...) || slices.ContainsFunc(words, namesItem)
}

// hasPlaceholder reports whether a command names the item as {}.
func hasPlaceholder(words ...string) bool {
	return slices.ContainsFunc(words, placeholder().MatchString)
}
