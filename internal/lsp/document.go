package lsp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

// document is an open file.
type document struct {
	uri, path, language string
	version             *int
	text                string
	changes             int   // how often the text was set or changed
	lines               []int // the offset of the first byte of each line

	kind     language        // nil: a file that nothing is known of
	problems diag.List       // of this file
	others   map[string]bool // URIs of other files that problems were published of because of this one
	deps     *sources        // what else was read
}

// language is what is known of one kind of files. Its methods are called for a
// document that analyse was called for since it changed last.
type language interface {
	analyse(*server, *document) diag.List // gives every problem, of other files too
	hover(*document, int) (text string, span syntax.Span)
	complete(*document, int) (items []item, prefix syntax.Span)
	definition(*document, int) []location
	symbols(*document) []documentSymbol
	references(d *document, at int, definition bool) []syntax.Span // of the name there; also its definition
	renamable(d *document, at int) (syntax.Span, bool)
	rename(d *document, at int, to string) ([]textEdit, error)
}

// setText takes a new text over.
func (d *document) setText(text string) {
	d.text = strings.ToValidUTF8(text, "\ufffd")
	d.changes++
	d.lines = append(d.lines[:0], 0)
	for i := range len(d.text) {
		if d.text[i] == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
}

// line gives a line without its end, and where it begins.
func (d *document) line(n int) (text string, start int) {
	start = d.lines[n]
	end := len(d.text)
	if n+1 < len(d.lines) {
		end = d.lines[n+1] - 1
	}
	return strings.TrimSuffix(d.text[start:end], "\r"), start
}

// offset gives the byte that a position of the protocol means: a line, and
// UTF-16 units in it. A position beyond the end of its line means its end.
func (d *document) offset(p position) (int, error) {
	if p.Line < 0 || p.Line >= len(d.lines) {
		return 0, fmt.Errorf("the document has no line %d", p.Line)
	}
	text, start := d.line(p.Line)
	units := 0
	for i, r := range text {
		if units >= p.Character {
			return start + i, nil
		}
		units += utf16Units(r)
	}
	return start + len(text), nil
}

func utf16Units(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

func unitsOf(s string) int {
	units := 0
	for _, r := range s {
		units += utf16Units(r)
	}
	return units
}

// position is the inverse of offset.
func (d *document) position(offset int) position {
	offset = min(max(offset, 0), len(d.text))
	line, found := slices.BinarySearch(d.lines, offset)
	if !found {
		line--
	}
	return position{line, unitsOf(d.text[d.lines[line]:offset])}
}

func (d *document) span(s syntax.Span) textRange {
	return textRange{d.position(int(s.Start)), d.position(int(s.End))}
}

// at gives the text of a span.
func (d *document) at(s syntax.Span) string { return d.text[s.Start:s.End] }

// problemSpan gives the place of a problem, whose columns count characters. One
// that does not say where it ends takes the word, or the ${…}, that it begins with.
func (d *document) problemSpan(p diag.Problem) syntax.Span {
	line := min(max(p.Line-1, 0), len(d.lines)-1)
	text, offset := d.line(line)
	start := bytesUpTo(text, max(p.Column, 1)-1)
	end := bytesUpTo(text, p.EndColumn-1)
	if p.EndColumn <= p.Column {
		end = start
		for end < len(text) && isWord(text[end]) {
			end++
		}
		if n := strings.IndexByte(text[start:], '}'); n >= 0 && strings.HasPrefix(text[start:], "${") {
			end = start + n + 1
		}
		if _, size := utf8.DecodeRuneInString(text[start:]); end == start {
			end += size
		}
	}
	return syntax.Span{Start: int32(offset + start), End: int32(offset + end)}
}

// bytesUpTo counts the bytes of the first n characters.
func bytesUpTo(s string, n int) int {
	for i := range s {
		if n <= 0 {
			return i
		}
		n--
	}
	return len(s)
}

func isWord(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c >= utf8.RuneSelf
}

// wordAt is the word around an offset.
func (d *document) wordAt(offset int) syntax.Span {
	start, end := offset, offset
	for start > 0 && isWord(d.text[start-1]) {
		start--
	}
	for end < len(d.text) && isWord(d.text[end]) {
		end++
	}
	return syntax.Span{Start: int32(start), End: int32(end)}
}

// change replaces a range, or everything.
func (d *document) change(r *textRange, text string) error {
	if r == nil {
		d.setText(text)
		return nil
	}
	start, err := d.offset(r.Start)
	if err != nil {
		return err
	}
	end, err := d.offset(r.End)
	if err != nil {
		return err
	}
	if end < start {
		return errors.New("a change ends before it begins")
	}
	d.setText(d.text[:start] + text + d.text[end:])
	return nil
}

func (d *document) diagnostic(p diag.Problem) diagnostic {
	text := p.Message
	if p.Suggestion != "" {
		text += "\n" + p.Suggestion
	}
	severity := 1
	if p.Severity == diag.Warning {
		severity = 2
	}
	return diagnostic{Range: d.span(d.problemSpan(p)), Severity: severity, Code: p.Code, Source: "bide", Message: text}
}
