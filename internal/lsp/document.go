package lsp

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

// document is an open file.
type document struct {
	uri     string
	version *int
	text    string
	file    *syntax.File
	parsed  diag.List
}

func (d *document) parse() {
	d.file, d.parsed = syntax.Parse(fileName(d.uri), []byte(d.text))
}

// fileName is the path of a document's file, beside which its modules are
// looked for; of one that is no file, the last part of its name.
func fileName(uri string) string {
	if u, err := url.Parse(uri); err == nil && u.Path != "" {
		if u.Scheme == "file" {
			return u.Path
		}
		return path.Base(u.Path)
	}
	return uri
}

// offset gives the byte that a position of the protocol means: a line, and
// UTF-16 units in it. A position beyond the end of its line means its end.
func (d *document) offset(p position) (int, error) {
	rest, start := d.text, 0
	for range p.Line {
		n := strings.IndexByte(rest, '\n')
		if n < 0 {
			return 0, fmt.Errorf("the document has no line %d", p.Line)
		}
		rest, start = rest[n+1:], start+n+1
	}
	if n := strings.IndexByte(rest, '\n'); n >= 0 {
		rest = strings.TrimSuffix(rest[:n], "\r")
	}
	units := 0
	for i, r := range rest {
		if units >= p.Character {
			return start + i, nil
		}
		units += utf16Units(r)
	}
	return start + len(rest), nil
}

func utf16Units(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

// position is the inverse of offset.
func (d *document) position(offset int) position {
	before := d.text[:offset]
	line := strings.Count(before, "\n")
	units := 0
	for _, r := range before[strings.LastIndexByte(before, '\n')+1:] {
		units += utf16Units(r)
	}
	return position{line, units}
}

func (d *document) span(s syntax.Span) *textRange {
	return &textRange{d.position(int(s.Start)), d.position(int(s.End))}
}

// problemRange gives the range of a problem, whose columns count characters.
func (d *document) problemRange(p diag.Problem) textRange {
	line := max(p.Line-1, 0)
	text := d.text
	for range line {
		if n := strings.IndexByte(text, '\n'); n >= 0 {
			text = text[n+1:]
		}
	}
	if n := strings.IndexByte(text, '\n'); n >= 0 {
		text = strings.TrimSuffix(text[:n], "\r")
	}
	start := max(p.Column, 1)
	end := p.EndColumn
	if end <= start {
		end = start + 1
	}
	return textRange{position{line, unitsUpTo(text, start-1)}, position{line, unitsUpTo(text, end-1)}}
}

// unitsUpTo counts the UTF-16 units of the first n characters.
func unitsUpTo(s string, n int) int {
	units := 0
	for _, r := range s {
		if n == 0 {
			break
		}
		units += utf16Units(r)
		n--
	}
	return units
}

// change replaces a range, or everything.
func (d *document) change(r *textRange, text string) error {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\ufffd")
	}
	if r == nil {
		d.text = text
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
		return fmt.Errorf("a change ends before it begins")
	}
	d.text = d.text[:start] + text + d.text[end:]
	return nil
}
