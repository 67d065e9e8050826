// Package notyaml says where and why a text is no YAML, and what to do about it.
package notyaml

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
)

// Decode gives the first document and, where there is one, the second.
func Decode(text []byte) (first, second *yaml.Node, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	next := func() (*yaml.Node, error) {
		n := new(yaml.Node)
		err := dec.Decode(n)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return n, err
	}
	if first, err = next(); first == nil || err != nil {
		return nil, nil, err
	}
	if second, err = next(); err != nil {
		return nil, nil, err
	}
	return first, second, nil
}

var yamlError = pattern.Lazy(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// Problem reports what the YAML parser says of the text of a file, at the line it means.
func Problem(l *diag.List, path string, text []byte, err error) *diag.Problem {
	src := &source{lines: strings.Split(string(text), "\n")}
	message, line := err.Error(), 0
	if m := yamlError().FindStringSubmatch(message); m != nil {
		message = m[2]
		line, _ = strconv.Atoi(m[1]) // digits by the expression; none means 0
	}
	if strings.HasPrefix(message, "did not find expected") {
		line = firstBadLine(text, message, line+1)
	}
	if strings.Contains(message, "found a tab") {
		line = firstTab(text, line)
	}
	line = max(line, 1)
	shown := src.line(line)
	col := len(shown) - len(strings.TrimLeft(shown, " \t")) + 1
	if tab := strings.IndexByte(shown[:col-1], '\t'); tab >= 0 && strings.Contains(message, "found a tab") {
		col = tab + 1
	}
	p := l.Errorf(diag.Pos{File: path, Line: line, Column: col}, "yaml-syntax", "this is not YAML: %s", message)
	switch {
	case strings.Contains(message, IsColon) && strings.Contains(shown, "<{"):
		p.Suggest(`put a type with ": " in it into quotes, as in "List<{id: Int}>"`)
		p.Column = cmp.Or(diag.InnerColon(shown), col)
	case strings.Contains(message, IsColon):
		p.Suggest(diag.QuoteColon)
		p.Column = cmp.Or(diag.InnerColon(shown), col)
	case strings.Contains(message, "found a tab"):
		p.Suggest("indent with spaces, not tabs")
	case strings.Contains(shown, "\t") || strings.Contains(message, "cannot start any token"):
		p.Suggest("indent with spaces, not tabs, and put quotes around a text that begins with @, `, %% or &")
	case strings.HasPrefix(message, "did not find expected ','") && (strings.Contains(shown, "${") || strings.Contains(shown, "{{")):
		p.Suggest(`put quotes around a text in brackets that has { or } in it, as in [{shell: "echo ${item}"}]`)
	case strings.HasPrefix(message, "did not find expected") && entryIndent(src, line) > 0:
		p.Suggest("the keys of an entry stand below each other: begin this line with %d blanks, as its first key does", entryIndent(src, line))
	case strings.HasPrefix(message, "did not find expected") && entryBefore(src, line) >= 0:
		p.Suggest("the entries of a list stand below each other: begin this line with %d blanks, as the entry before it does", entryBefore(src, line))
	case strings.Contains(message, "unexpected end of stream"):
		p.Suggest("a quote or bracket that opens in this line, or below it, is never closed")
	case strings.HasPrefix(message, "did not find expected '-'"):
		p.Suggest("the lines before it are entries of a list, and this one is none: indent it below an entry, or begin it with \"- \"")
	case strings.HasPrefix(message, "did not find expected key") && strings.HasPrefix(strings.TrimLeft(shown, " "), "- "):
		p.Suggest("the lines before it are keys, and this one is an entry of a list: indent it below the key that the list belongs to")
	case strings.HasPrefix(message, "did not find expected"):
		p.Suggest("check the indentation of this line, and the brackets and quotes before it")
	case strings.Contains(message, "unknown anchor"):
		p.Suggest("define the anchor (&name) before its use, or put quotes around a text that begins with *")
	case strings.Contains(message, "alias") || strings.Contains(message, "contains itself"):
		p.Suggest("write out what the alias (*name) stands for")
	default:
		p.Suggest("check indentation and quotes")
	}
	return p
}

// IsColon is in the message of a colon that YAML takes for that of a key inside a value.
const IsColon = "mapping values are not allowed"

// source are the lines of a text.
type source struct{ lines []string }

// line is a line by its number, from 1; "" if there is none.
func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return strings.TrimSuffix(s.lines[n-1], "\r")
}

// entryIndent is where the keys of the list entry stand that begins in the line
// before, if line is a key that is elsewhere; else 0.
func entryIndent(src *source, line int) int {
	if line < 2 {
		return 0
	}
	before, this := src.line(line-1), src.line(line)
	rest := strings.TrimLeft(before, " ")
	if !strings.HasPrefix(rest, "- ") || strings.ContainsAny(rest, "[{\"'") || !strings.Contains(this, ":") {
		return 0
	}
	indent := len(before) - len(strings.TrimLeft(rest[1:], " "))
	if indent == len(this)-len(strings.TrimLeft(this, " ")) {
		return 0
	}
	return indent
}

// entryBefore is where the entries of a list begin that are before the one in line, where
// that is elsewhere; else -1.
func entryBefore(src *source, line int) int {
	this := src.line(line)
	indent := len(this) - len(strings.TrimLeft(this, " "))
	if !strings.HasPrefix(this[indent:], "- ") {
		return -1
	}
	deeper := -1 // the entry before it that is the least to the right of it
	for line--; line > 0; line-- {
		before := src.line(line)
		at := len(before) - len(strings.TrimLeft(before, " "))
		switch entry := strings.HasPrefix(before[at:], "- "); {
		case before[at:] == "":
		case at > indent && entry && (deeper < 0 || at < deeper):
			deeper = at
		case at <= indent && (deeper >= 0 || at == indent && !entry):
			return deeper
		case at < indent && entry:
			return at
		case at < indent:
			return -1
		}
	}
	return deeper
}

// firstTab is the first line, from one on, that is indented with a tab: the parser may name
// the one before it. Where there is none, it is that line.
func firstTab(text []byte, line int) int {
	for i, l := range bytes.Split(text, []byte("\n")) {
		indent := l[:len(l)-len(bytes.TrimLeft(l, " \t"))]
		if i+1 >= line && bytes.ContainsRune(indent, '\t') {
			return i + 1
		}
	}
	return line
}

// firstBadLine finds the line that makes the text fail in the way that the
// message tells: the parser itself only names the start of the block.
func firstBadLine(text []byte, message string, from int) int {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines) > 20000 {
		return from
	}
	fails := func(n int) bool {
		_, _, err := Decode(bytes.Join(lines[:n], nil))
		return err != nil && strings.HasSuffix(err.Error(), message)
	}
	lo, hi := 0, len(lines)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; fails(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	if !fails(hi) {
		return from
	}
	return hi
}
