package lsp

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

const quickFix = "quickfix"

var (
	meant    = pattern.Lazy(`did you mean "([^"]+)"(?: instead of "([^"]+)")?`)
	imported = pattern.Lazy(`write "use ([A-Za-z0-9_.-]+)"`)
	// named finds the words that a message is about: quoted, or at its end.
	named = pattern.Lazy(`"([^"]+)"|'([^']+)'|: ([^\s;,"]+)|([^\s]+)$`)
	// written finds the key and the value that take the place of a key of another tool, where
	// nothing of them is left to fill in.
	written = pattern.Lazy(`^write ([a-z_]+: (?:\{[a-z_]+: [^{},]+\}|[^\s,;:{}]+))(?:, which counts the first run too)?$`)
	// oneValue finds a value that stands alone in what is left of a line.
	oneValue = pattern.Lazy(`^:[ \t]+[^\s,\[\]{}|>&*!#'"][^,\[\]{}#'"\n]*`)
	toFillIn = pattern.Lazy(`\b[A-Z]{2,}\b|…`)
)

// codeActions offers what the suggestions of problems say: the word that was
// meant, the `use` that is missing, the key with its value in place of one of another tool.
func (s *server) codeActions(d *document, p documentParams, _ int) (any, error) {
	from, err := d.offset(p.Range.Start)
	if err != nil {
		return nil, err
	}
	to, err := d.offset(p.Range.End)
	if err != nil {
		return nil, err
	}
	list := []codeAction{}
	for _, problem := range d.problems {
		span := d.problemSpan(problem)
		if int(span.End) < from || to < int(span.Start) {
			continue
		}
		if title, edit, ok := d.fix(problem, span); ok {
			list = append(list, codeAction{Title: title, Kind: quickFix, Diagnostics: []diagnostic{d.diagnostic(problem)}, IsPreferred: true,
				Edit: workspaceEdit{map[string][]textEdit{d.uri: {edit}}}})
		}
	}
	return list, nil
}

// fix gives the edit that the suggestion of a problem means, if it means one.
func (d *document) fix(p diag.Problem, span syntax.Span) (title string, edit textEdit, ok bool) {
	if m := imported().FindStringSubmatch(p.Suggestion); m != nil {
		at := 0
		if f, isPipeline := d.kind.(*pipelineFile); isPipeline && len(f.file.Decls) > 0 {
			at = int(f.file.Decls[0].Extent().Start)
		}
		return "Write use " + m[1], textEdit{textRange{d.position(at), d.position(at)}, "use " + m[1] + "\n"}, true
	}
	if m := written().FindStringSubmatch(p.Suggestion); m != nil && p.Code == "unknown-key" && !toFillIn().MatchString(m[1]) {
		rest, _, _ := strings.Cut(d.text[span.End:], "\n")
		if old := strings.TrimRight(oneValue().FindString(rest), " \t\r"); old != "" {
			span.End += int32(len(old))
			return "Write " + m[1], textEdit{d.span(span), m[1]}, true
		}
	}
	m := meant().FindStringSubmatch(p.Suggestion + "\n" + p.Message)
	if m == nil {
		return "", textEdit{}, false
	}
	text := d.at(span)
	wrong := cmp.Or(m[2], wrongWord(p.Message, text))
	i := wordIndex(text, wrong)
	if wrong == "" || i < 0 {
		return "", textEdit{}, false
	}
	span = syntax.Span{Start: span.Start + int32(i), End: span.Start + int32(i+len(wrong))}
	return fmt.Sprintf("Write %s instead of %s", m[1], wrong), textEdit{d.span(span), m[1]}, true
}

// wrongWord finds the word that a message is about in the text that the problem
// marks; of a text that is one word, that word.
func wrongWord(message, text string) string {
	for _, m := range named().FindAllStringSubmatch(message, -1) {
		for _, word := range m[1:] {
			if word != "" && wordIndex(text, word) >= 0 {
				return word
			}
		}
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return r < 0x80 && !isWord(byte(r)) && r != '.' }) < 0 {
		return text
	}
	return ""
}

// wordIndex finds a word in a text, not as a part of another.
func wordIndex(text, word string) int {
	if word == "" {
		return -1
	}
	at := regexp.MustCompile(`(?:^|[^\w-])(` + regexp.QuoteMeta(word) + `)(?:$|[^\w-])`).FindStringSubmatchIndex(text)
	if at == nil {
		return -1
	}
	return at[2]
}
