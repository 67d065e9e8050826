package workflow

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pattern"
)

func looksLikeJSON(text []byte) bool {
	t := bytes.TrimLeft(text, " \t\r\n\ufeff")
	return len(t) > 0 && (t[0] == '{' || t[0] == '[') && json.Valid(bytes.TrimPrefix(text, []byte("\ufeff")))
}

var jsonEscape = pattern.Lazy(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\.`)

// jsonAsYAML changes the things of valid JSON that the YAML parser refuses:
// tabs between tokens, characters written as surrogate pairs, and slashes with
// a backslash. A JSON string holds no raw tab, so columns stay as they are.
func jsonAsYAML(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte("\t"), []byte(" "))
	return jsonEscape().ReplaceAllFunc(text, func(pair []byte) []byte {
		var s string
		switch {
		case string(pair) == `\/`:
			return []byte("/")
		case len(pair) == 2:
			return pair
		}
		if json.Unmarshal([]byte(`"`+string(pair)+`"`), &s) != nil {
			return pair
		}
		r, _ := utf8.DecodeRuneInString(s)
		return fmt.Appendf(nil, `\U%08X`, r)
	})
}

// decodeYAML gives the first document and, where there is one, the second.
func decodeYAML(text []byte) (first, second *yaml.Node, err error) {
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

// syntaxProblem reports what the YAML parser says, at the line it means.
func syntaxProblem(src *source, text []byte, err error, l *diag.List) {
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
	p := l.Errorf(diag.Pos{File: src.path, Line: line, Column: col}, "yaml-syntax", "this is not YAML: %s", message)
	switch {
	case strings.Contains(message, "mapping values are not allowed") && suggestKey(p, src, line):
	case strings.Contains(message, "mapping values are not allowed"):
		p.Suggest(diag.QuoteColon)
		p.Column = cmp.Or(diag.InnerColon(shown), col)
	case strings.Contains(message, "found a tab"):
		p.Suggest("indent with spaces, not tabs")
	case strings.Contains(shown, "\t") || strings.Contains(message, "cannot start any token"):
		p.Suggest("indent with spaces, not tabs, and put quotes around a text that begins with @, `, %% or &")
	case strings.HasPrefix(message, "did not find expected") && entryIndent(src, line) > 0:
		p.Suggest("the keys of an entry stand below each other: begin this line with %d blanks, as its first key does", entryIndent(src, line))
	case strings.HasPrefix(message, "did not find expected") && entryBefore(src, line) >= 0:
		p.Suggest("the entries of a list stand below each other: begin this line with %d blanks, as the entry before it does", entryBefore(src, line))
	case strings.Contains(message, "unexpected end of stream"):
		p.Suggest("a quote or bracket that opens in this line, or below it, is never closed")
	case strings.HasPrefix(message, "did not find expected"):
		p.Suggest("check the indentation of this line, and the brackets and quotes before it")
	case strings.Contains(message, "unknown anchor"):
		p.Suggest("define the anchor (&name) before its use, or put quotes around a text that begins with *")
	default:
		p.Suggest("check indentation and quotes")
	}
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

// entryBefore is where the entry of a list begins that is before the one in line, where
// that begins further to the right; else -1.
func entryBefore(src *source, line int) int {
	this := src.line(line)
	indent := len(this) - len(strings.TrimLeft(this, " "))
	if !strings.HasPrefix(this[indent:], "- ") {
		return -1
	}
	for line--; line > 0; line-- {
		before := src.line(line)
		if at := len(before) - len(strings.TrimLeft(before, " ")); at < indent && before[at:] != "" {
			if strings.HasPrefix(before[at:], "- ") {
				return at
			}
			return -1
		}
	}
	return -1
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
		_, _, err := decodeYAML(bytes.Join(lines[:n], nil))
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
