package template

import (
	"mvdan.cc/sh/v3/syntax"
	"slices"
	"strings"
)

func languageOf(name string) int {
	bare := strings.TrimRight(name, "0123456789.")
	for i, l := range languages {
		what := name
		if l.version {
			what = bare
		}
		if what != "" && slices.Contains(strings.Fields(l.names), what) {
			return i
		}
	}
	return -1
}

// runLanguage rewrites the words of an interpreter; its code may hold numbers
// only.
func (r *rewriter) runLanguage(index int, args []*syntax.Word) codeReader {
	lang := &languages[index]
	program, _ := r.literalWord(args[0])
	foreign := func(w *syntax.Word) {
		was := r.foreign
		r.foreign = lang.name
		r.word(w, bareWord)
		r.foreign = was
	}
	defer func(known int) { // what follows Python's code is the code's
		if lang.name == "Python" {
			for i := 1; i+1 < len(args); i++ {
				if lit, ok := r.literalWord(args[i]); ok && isCodeOption(lit, lang.code, lang.valued) && strings.HasPrefix(lit, "-") {
					known = i + 2
					break
				}
			}
		}
		r.guard(args[:min(known, len(args))])
	}(len(args))
	r.word(args[0], bareWords)
	fromFile, hasCode, operand, dash := false, false, false, false
	for i := 1; i < len(args); i++ {
		w := args[i]
		lit, plain := r.literalWord(w)
		p := lit
		if !plain {
			p = r.prefix(w)
		}
		long, _, attached := strings.Cut(p, "=")
		switch {
		case operand || hasCode && !lang.program && !strings.HasPrefix(p, "-"):
			if operand && lang.name == "SQL" && program == "sqlite3" {
				foreign(w) // behind the database stands what it shall do
				continue
			}
			operand = true
			r.word(w, bareWords)
		case plain && slices.Contains(lang.two, lit):
			r.words(args[i:min(i+3, len(args))], bareWord)
			i += 2
		case lang.long != "" && slices.Contains(strings.Fields(lang.long), long):
			hasCode = true
			if attached || !plain {
				foreign(w)
			} else if i++; i < len(args) {
				foreign(args[i])
			}
		case len(p) > 1 && p[0] == '-' && p[1] != '-' && lang.code != "" && isCodeOption(p, lang.code, lang.valued):
			hasCode = true
			if !plain || strings.IndexByte(lang.code, p[len(p)-1]) < 0 {
				foreign(w)
			} else if i++; i < len(args) {
				foreign(args[i])
			}
		case len(p) > 1 && p[0] == '-':
			fromFile = fromFile || strings.HasPrefix(p, "-f") || p == "--file" || p == "--from-file"
			r.word(w, bareWord)
			if plain && len(lit) == 2 && strings.Contains(lang.valued, lit[1:]) {
				if i++; i < len(args) {
					r.word(args[i], bareWord) // a second word might be the code
				}
			}
		case plain && lang.name == "jq" && yqCommands(lit):
			r.word(w, bareWord)
		case lang.program && !fromFile && !hasCode:
			hasCode, operand = true, true
			foreign(w)
		default:
			operand, dash = true, p == "-"
			if m, ok := r.has(w); ok && lang.stdin && !lang.files && !hasCode {
				r.errorAt(m, "", "would choose the program that %s runs", lang.name)
				return codeReader{}
			}
			r.word(w, bareWords)
		}
	}
	if lang.stdin && !hasCode && (!operand || dash || lang.files) {
		return codeReader{language: lang.name}
	}
	return codeReader{}
}

// isCodeOption: -c, -ne, -e'code'; the letters of an option's own word do not
// count.
func isCodeOption(option, code, valued string) bool {
	for i := 1; i < len(option); i++ {
		if strings.IndexByte(code, option[i]) >= 0 {
			return true
		}
		if strings.IndexByte(valued, option[i]) >= 0 || !isNameByte(option[i]) {
			return false
		}
	}
	return false
}
