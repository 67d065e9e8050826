package template

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// Script is what a shell would do with a text, as far as the text alone says it.
type Script struct {
	// Commands are the simple commands that it may run, each as its words. A word
	// that is not known before the text runs is "".
	Commands [][]string
	// Writes are the files that it redirects output into from their beginning,
	// by the names that are there; those that are put together are left out.
	Writes []string
	// Moves says that it changes its directory.
	Moves bool
}

// Script reads the text as a shell text. It is empty where that is none.
func (t *Text) Script() Script {
	var s Script
	s.read(t.readable(), 0)
	return s
}

// Placeholders lists the words of a shell text that look as if parallel, xargs -I or
// bide batch were to put an argument there, {} {.} {/} {//} {/.} {#}, by their
// placeholders. Words of programs that have them for something else are left out.
func (t *Text) Placeholders() (list []string) {
	if !strings.Contains(t.src, "{") || !placeholder().MatchString(t.src) {
		return nil
	}
	file := t.shellFile()
	if file == nil {
		return nil
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		c, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		var found []string
		for _, w := range c.Args {
			word, known := literal(w)
			switch {
			case bracing(path.Base(word)):
				return true
			case word == "{}" && w.Lit() == "", !known: // in quotes it may be JSON
			case wholePlaceholder().MatchString(word):
				found = append(found, placeholder().FindString(word))
			}
		}
		if first := c.Args; len(first) > 0 && strings.ContainsAny(t.src, ">|") && (first[0].Lit() == "echo" || first[0].Lit() == "printf") {
			return true // an empty object is written
		}
		list = append(list, found...)
		return true
	})
	return list
}

// bracing are programs whose arguments have braces of their own.
var bracing = wordSet("find fd fdfind xargs parallel rush fzf sed grep egrep rg awk gawk mawk perl tr jq yq git curl http wget kubectl gh aws")

var (
	placeholder      = pattern.Lazy(`\{(|\.|/|//|/\.|#)\}`)
	wholePlaceholder = pattern.Lazy(`^[\w./-]*\{(|\.|/|//|/\.|#)\}[\w./-]*$`)
)

// ItemInBraces finds the item of a map or a foreach in one pair of braces in a shell text,
// {item} or {item.path}, which is text to a shell. What is in single quotes, in a
// here-document, or for a program that has braces of its own is left out.
func (t *Text) ItemInBraces() (list []Braced) {
	if !t.HasItemInBraces() {
		return nil
	}
	file := t.shellFile()
	if file == nil {
		return nil
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.SglQuoted:
			return false
		case *syntax.Redirect:
			return n.Hdoc == nil
		case *syntax.CallExpr:
			return len(n.Args) == 0 || !bracing(path.Base(n.Args[0].Lit())) && !codeFor(path.Base(n.Args[0].Lit()))
		case *syntax.Lit:
			start, end := span(n)
			list = append(list, itemsInBraces(t.src, start, end)...)
		}
		return true
	})
	return list
}

// HasItemInBraces reports whether the text may have such an item, also as ${item}.
func (t *Text) HasItemInBraces() bool { return strings.Contains(t.src, "{item") }

// ItemInProse is ItemInBraces for a text that no shell reads. One that also names the item as
// bide does means its braces.
func (t *Text) ItemInProse() []Braced {
	if strings.Contains(t.src, "${item") {
		return nil
	}
	return itemsInBraces(t.src, 0, len(t.src))
}

func itemsInBraces(src string, start, end int) (list []Braced) {
	for _, m := range itemInBraces().FindAllStringSubmatchIndex(src[start:end], -1) {
		from, to := start+m[0], start+m[1]
		if from > 0 && strings.IndexByte(`$\{`, src[from-1]) >= 0 || to < len(src) && src[to] == '}' {
			continue
		}
		list = append(list, Braced{src[from:to], src[start+m[2] : start+m[3]], from})
	}
	return list
}

var (
	itemInBraces = pattern.Lazy(`\{(item(?:\.\w+)*)\}`)
	// codeFor are programs whose arguments may be code in a language with braces.
	codeFor = wordSet("python python3 python2 node deno bun ruby php uv ansible ansible-playbook jinja2 just task psql")
)

// deepest is how many scripts inside one another are read: sh -c 'sh -c …'.
const deepestScript = 3

func (s *Script) read(src string, depth int) {
	file, err := parseShell(src)
	if err != nil || depth > deepestScript {
		return
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			s.call(n, depth)
		case *syntax.Stmt:
			if c, ok := n.Cmd.(*syntax.CallExpr); ok && len(c.Args) == 1 && shells(path.Base(c.Args[0].Lit())) {
				for _, r := range n.Redirs {
					s.read(known(r.Hdoc), depth+1)
				}
			}
		case *syntax.Redirect:
			switch n.Op {
			case syntax.RdrOut, syntax.RdrClob, syntax.RdrAll:
				if name, ok := literal(n.Word); ok {
					s.Writes = append(s.Writes, name)
				}
			}
		}
		return true
	})
}

func (s *Script) call(c *syntax.CallExpr, depth int) {
	words := make([]string, len(c.Args))
	for i, w := range c.Args {
		words[i], _ = literal(w)
	}
	if len(words) == 0 {
		return
	}
	s.Commands = append(s.Commands, words)
	switch words[0] {
	case "cd", "pushd", "popd":
		s.Moves = true
	case "eval":
		var text []string
		for _, w := range c.Args[1:] {
			text = append(text, known(w))
		}
		s.read(strings.Join(text, " "), depth+1)
	}
	i := slices.IndexFunc(words, func(w string) bool { return shells(path.Base(w)) })
	if i < 0 || i > 0 && !Runs(words[0]) {
		return
	}
	for i++; i < len(words)-1; i++ {
		if w := words[i]; strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.HasSuffix(w, "c") {
			s.read(known(c.Args[i+1]), depth+1)
			return
		}
	}
}

// Runs says whether a program runs a command that is among its arguments.
func Runs(program string) bool {
	program = path.Base(program)
	_, wraps := wrappers[program]
	return wraps || program == "find"
}

// known is a word as literal gives it, with an expansion in the place of each part
// that is not known.
func known(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range w.Parts {
		if text, ok := literal(&syntax.Word{Parts: []syntax.WordPart{p}}); ok {
			b.WriteString(text)
			continue
		}
		quoted, ok := p.(*syntax.DblQuoted)
		if !ok {
			b.WriteString("${x}")
			continue
		}
		for _, q := range quoted.Parts {
			if lit, ok := q.(*syntax.Lit); ok {
				b.WriteString(unescapeDouble(lit.Value))
			} else {
				b.WriteString("${x}")
			}
		}
	}
	return b.String()
}

// literal is a word whose text is known: plain or quoted, without expansions.
func literal(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(unescapeBare(p.Value))
		case *syntax.SglQuoted:
			text, ok := p.Value, true
			if p.Dollar {
				text, ok = unescapeANSI(text)
			}
			if !ok {
				return "", false
			}
			b.WriteString(text)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok {
					return "", false
				}
				b.WriteString(unescapeDouble(lit.Value))
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// unescapeANSI is what a shell with $'…' reads in it, where Go has the same escapes.
func unescapeANSI(s string) (string, bool) {
	var b strings.Builder
	for s != "" {
		c, multibyte, rest, err := strconv.UnquoteChar(s, '\'')
		switch {
		case err != nil:
			return "", false
		case c == 0: // ends the text
			return b.String(), true
		case multibyte || c < utf8.RuneSelf:
			b.WriteRune(c)
		default:
			b.WriteByte(byte(c))
		}
		s = rest
	}
	return b.String(), true
}
