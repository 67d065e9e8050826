package template

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// needShell are first words that are the shell's own, or that behave otherwise
// as programs than as builtins.
var needShell = wordSet(`. : [ alias bg bind break builtin caller cd chdir command compgen complete compopt continue declare dirs disown
	enable eval exec exit export fc fg getopts hash help hist history jobs kill let local logout mapfile newgrp popd print printf pushd pwd read
	readarray readonly return set shift shopt source stop suspend test time times trap type typeset ulimit umask unalias unset wait whence
	function select coproc until`)

// plainWord is a word of a command that needs no shell: literal text and data.
type plainWord []plainPart

type plainPart struct {
	lit   string
	slot  int  // data, where > 0
	split bool // not in quotes: blanks part it
}

// plainWords gives the words of a script that is one simple command of plain
// words, and nil for anything else.
func plainWords(src string, marks []mark, oneWord []int, f *syntax.File) []plainWord {
	if len(f.Stmts) != 1 || len(f.Last) > 0 {
		return nil
	}
	s := f.Stmts[0]
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(s.Comments) > 0 || s.Negated || s.Background || s.Coprocess || s.Disown || len(s.Redirs) > 0 || len(c.Assigns) > 0 {
		return nil
	}
	words := make([]plainWord, 0, len(c.Args))
	for _, w := range c.Args {
		p, ok := plainOf(src, marks, oneWord, w)
		if !ok {
			return nil
		}
		words = append(words, p)
	}
	if len(words[0]) != 1 || words[0][0].slot > 0 {
		return nil
	}
	name := words[0][0].lit
	if name == "" || needShell(name) || strings.ContainsAny(name, "=") || (name == "true" || name == "false") && len(words) > 1 {
		return nil
	}
	return words
}

func plainOf(src string, marks []mark, oneWord []int, w *syntax.Word) (plainWord, bool) {
	var out plainWord
	lit := func(s string) {
		if n := len(out); n > 0 && out[n-1].slot == 0 {
			out[n-1].lit += s
			return
		}
		out = append(out, plainPart{lit: s})
	}
	data := func(p *syntax.ParamExp, split bool) bool {
		start, end := span(p)
		for _, m := range marks {
			if m.start == start && m.end == end {
				out = append(out, plainPart{slot: m.slot, split: split && !slices.Contains(oneWord, start)})
				return true
			}
		}
		return false
	}
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			raw := src[span1(p):int(p.End().Offset())]
			if strings.ContainsAny(raw, "*?[{}\\~$`!\n\x00") || i == 0 && strings.HasPrefix(raw, "#") {
				return nil, false
			}
			lit(raw)
		case *syntax.SglQuoted:
			if p.Dollar || hasMark(marks, p) {
				return nil, false
			}
			lit(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return nil, false
			}
			if len(p.Parts) == 0 {
				lit("")
			}
			for _, q := range p.Parts {
				switch q := q.(type) {
				case *syntax.Lit:
					lit(unescapeDouble(src[span1(q):int(q.End().Offset())]))
				case *syntax.ParamExp:
					if !data(q, false) {
						return nil, false
					}
				default:
					return nil, false
				}
			}
		case *syntax.ParamExp:
			if !data(p, true) {
				return nil, false
			}
		default:
			return nil, false
		}
	}
	return out, true
}

func hasMark(marks []mark, n syntax.Node) bool {
	start, end := span(n)
	for _, m := range marks {
		if m.start >= start && m.end <= end {
			return true
		}
	}
	return false
}

// argv fills the plain words in. It is false where only the shell's own echo
// would say the same.
func (p *plan) argv(uses []use) ([]string, bool) {
	argv := make([]string, 0, len(p.words))
	for _, w := range p.words {
		if len(w) == 1 && w[0].slot == 0 {
			argv = append(argv, w[0].lit)
			continue
		}
		if len(w) == 1 && !w[0].split {
			argv = append(argv, uses[p.slots[w[0].slot-1].use].text)
			continue
		}
		argv = p.fields(argv, w, uses)
	}
	if argv[0] != "echo" {
		return argv, true
	}
	for _, a := range argv[1:] {
		if strings.HasPrefix(a, "-") || strings.Contains(a, `\`) {
			return nil, false // echo differs from shell to shell in these
		}
	}
	return argv, true
}

// fields appends the words that one word with bare values comes to.
func (p *plan) fields(argv []string, w plainWord, uses []use) []string {
	word, open := "", false
	for _, part := range w {
		if part.slot == 0 {
			word, open = word+part.lit, true
			continue
		}
		sl := &p.slots[part.slot-1]
		u := &uses[sl.use]
		switch {
		case !part.split:
			word, open = word+u.text, true
			continue
		case sl.sh:
			word, open = word+u.word, true
			continue
		}
		words, lead, trail := u.words()
		for i, next := range words {
			if (i > 0 || lead) && open {
				argv, word = append(argv, word), ""
			}
			word, open = word+next, true
		}
		if (trail || lead && len(words) == 0) && open {
			argv, word, open = append(argv, word), "", false
		}
	}
	if open {
		argv = append(argv, word)
	}
	return argv
}
