package input

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/value"
)

// MaxLine is the longest line of a JSONL or text input, in bytes.
const MaxLine = 64 << 20

// raw is an item on its way: its value and its JSON text.
type raw struct {
	v    any
	text []byte
}

// Kinds of input. Auto decides by the name of the file, else by its content.
const (
	Auto  = ""
	JSON  = "json"
	JSONL = "jsonl"
	CSV   = "csv"
	Lines = "lines"
)

// kindOf decides what a file is.
func kindOf(name string, f *os.File) (string, error) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		return JSON, nil
	case ".jsonl", ".ndjson":
		return JSONL, nil
	case ".csv", ".tsv":
		return CSV, nil
	}
	one, err := isOneValue(f)
	if err != nil {
		return "", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if one {
		return JSON, nil
	}
	return Lines, nil
}

// isOneValue reports whether a text is exactly one JSON value.
func isOneValue(r io.Reader) (bool, error) {
	d := json.NewDecoder(bufio.NewReaderSize(r, 64<<10))
	depth, values := 0, 0
	for {
		t, err := d.Token()
		var syntax *json.SyntaxError
		switch {
		case err == io.EOF:
			return depth == 0 && values == 1, nil
		case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
			return false, nil
		case err != nil:
			return false, err
		}
		switch t {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth == 0 {
			if values++; values > 1 {
				return false, nil
			}
		}
	}
}

// read gives the items of a file before the filter.
func (s Spec) read() iter.Seq2[raw, error] {
	return func(yield func(raw, error) bool) {
		if s.File == "" {
			s.list(yield)
			return
		}
		f, err := os.Open(s.File)
		if err != nil {
			yield(raw{}, err)
			return
		}
		defer f.Close()
		kind := s.Kind
		if kind == Auto {
			if kind, err = kindOf(s.File, f); err != nil {
				yield(raw{}, fmt.Errorf("%s: %w", s.File, err))
				return
			}
		}
		fail := func(err error) { yield(raw{}, fmt.Errorf("%s: %w", s.File, err)) }
		switch kind {
		case JSON:
			err = s.document(f, yield)
		case CSV:
			err = s.csv(f, yield)
		default:
			err = s.lines(f, kind == JSONL, yield)
		}
		if err != nil && !errors.Is(err, errStopped) {
			fail(err)
		}
	}
}

var errStopped = errors.New("the reader wants no more")

// list gives the items of a list in the workflow.
func (s Spec) list(yield func(raw, error) bool) {
	var v any = s.List
	if err := s.expand(v, func(r raw, err error) bool { return yield(r, err) }); err != nil && !errors.Is(err, errStopped) {
		yield(raw{}, err)
	}
}

// expand applies the path to a value that is held as a whole.
func (s Spec) expand(v any, yield func(raw, error) bool) error {
	found := []any{v}
	if s.JSONPath != "" {
		var err error
		if found, err = Path(s.JSONPath, v); err != nil {
			return err
		}
	}
	if len(found) == 1 {
		if list, ok := found[0].([]any); ok {
			found = list
		}
	}
	for _, e := range found {
		if !yield(raw{v: e}, nil) {
			return errStopped
		}
	}
	return nil
}

// document reads a JSON file, without holding it where the path allows.
func (s Spec) document(f io.Reader, yield func(raw, error) bool) error {
	path, ok := stream(s.JSONPath)
	if !ok {
		b, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		v, err := value.Parse(b)
		if err != nil {
			return place(b, err)
		}
		return s.expand(v, yield)
	}
	d := json.NewDecoder(bufio.NewReaderSize(f, 256<<10))
	d.UseNumber()
	if err := s.walk(d, path, yield); err != nil {
		return err
	}
	// The rest must be valid, too: a file that was cut off is no input.
	for {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("byte %d: %w", d.InputOffset(), err)
		}
	}
}

// walk goes to the place that a path names and gives what is there.
func (s Spec) walk(d *json.Decoder, path streamed, yield func(raw, error) bool) error {
	for _, name := range path.names {
		found, err := member(d, name)
		if err != nil || !found {
			return err
		}
	}
	var first json.RawMessage
	if err := peekArray(d, &first); err != nil {
		return fmt.Errorf("byte %d: %w", d.InputOffset(), err)
	}
	if first != nil { // no array
		v, err := value.Parse(first)
		if err != nil {
			return err
		}
		if path.expr != nil || strings.Contains(s.JSONPath, "*") {
			return fmt.Errorf("%s: there is a %s where the path wants an array", s.JSONPath, value.Kind(v))
		}
		if !yield(raw{v: v, text: first}, nil) {
			return errStopped
		}
		return nil
	}
	for d.More() {
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return fmt.Errorf("byte %d: %w", d.InputOffset(), err)
		}
		if err := s.element(text, path, yield); err != nil {
			return err
		}
	}
	_, err := d.Token() // ]
	return err
}

// element gives one element of an array, or what the rest of the path finds in
// it.
func (s Spec) element(text json.RawMessage, path streamed, yield func(raw, error) bool) error {
	v, err := value.Parse(text)
	if err != nil {
		return err
	}
	return s.parsed(raw{v: v, text: text}, path, yield)
}

// parsed is element for what is parsed already.
func (s Spec) parsed(r raw, path streamed, yield func(raw, error) bool) error {
	if path.expr == nil {
		if !yield(r, nil) {
			return errStopped
		}
		return nil
	}
	v := r.v
	if path.each {
		v = []any{v}
	}
	found, err := evaluate(path.expr, path.rest, v)
	if err != nil {
		return err
	}
	for _, e := range found {
		if !yield(raw{v: e}, nil) {
			return errStopped
		}
	}
	return nil
}

// member moves to the value of an object's member.
func member(d *json.Decoder, name string) (bool, error) {
	t, err := d.Token()
	if err != nil {
		return false, fmt.Errorf("byte %d: %w", d.InputOffset(), err)
	}
	if t != json.Delim('{') {
		return false, nil
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return false, err
		}
		if key == name {
			return true, nil
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return false, fmt.Errorf("byte %d: %w", d.InputOffset(), err)
		}
	}
	return false, nil
}

// peekArray opens an array, or gives the whole value where it is none.
func peekArray(d *json.Decoder, whole *json.RawMessage) error {
	// The decoder has no look-ahead of values, but its buffer begins with
	// the separator and the blanks before the next one.
	buf := d.Buffered()
	if b, ok := buf.(*bytes.Reader); ok {
		for {
			c, err := b.ReadByte()
			if err != nil {
				break
			}
			if c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ':' || c == ',' {
				continue
			}
			if c == '[' {
				_, err := d.Token()
				return err
			}
			return d.Decode(whole)
		}
	}
	if !d.More() {
		return io.ErrUnexpectedEOF
	}
	return peekArray(d, whole)
}

// lines reads JSON lines, or plain lines: a line that is no JSON is a text.
func (s Spec) lines(f io.Reader, strict bool, yield func(raw, error) bool) error {
	path, all := stream(s.JSONPath)
	all = all && len(path.names) == 0 // $[*] and $[?…] are about the lines
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 64<<10), MaxLine)
	for n := 1; sc.Scan(); n++ {
		line := bytes.TrimSpace(sc.Bytes())
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) == 0 {
			continue
		}
		v, err := value.Parse(line)
		text := slices.Clone(line)
		if err != nil {
			if strict {
				return fmt.Errorf("line %d: %w", n, err)
			}
			v, text = strings.ToValidUTF8(string(line), "\uFFFD"), nil
		}
		switch {
		case s.JSONPath == "":
			err = nil
			if !yield(raw{v: v, text: text}, nil) {
				err = errStopped
			}
		case all:
			err = s.parsed(raw{v: v, text: text}, path, yield)
		default:
			err = s.expand(v, yield)
		}
		if err != nil {
			return err
		}
	}
	if errors.Is(sc.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes", MaxLine)
	}
	return sc.Err()
}

// csv reads rows as objects; the first row names their members.
func (s Spec) csv(f io.Reader, yield func(raw, error) bool) error {
	r := csv.NewReader(bufio.NewReaderSize(f, 256<<10))
	if strings.EqualFold(filepath.Ext(s.File), ".tsv") {
		r.Comma = '\t'
	}
	r.ReuseRecord = true
	header, err := r.Read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	names := make([]string, len(header))
	seen := map[string]bool{}
	for i, h := range header {
		h = strings.TrimSpace(strings.TrimPrefix(h, "\uFEFF"))
		if h == "" {
			h = fmt.Sprintf("column_%d", i+1)
		}
		if seen[h] {
			return fmt.Errorf("line 1: the column %q stands there twice", h)
		}
		names[i], seen[h] = h, true
	}
	for {
		row, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		m := make(map[string]any, len(names))
		for i, n := range names {
			m[n] = row[i]
		}
		if s.JSONPath != "" {
			if path, ok := stream(s.JSONPath); ok && len(path.names) == 0 {
				if err := s.element(json.RawMessage(value.JSON(m)), path, yield); err != nil {
					return err
				}
				continue
			}
			if err := s.expand(m, yield); err != nil {
				return err
			}
			continue
		}
		if !yield(raw{v: m}, nil) {
			return errStopped
		}
	}
}

// place names the line of a syntax error.
func place(b []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at := min(int(syntax.Offset), len(b))
		return fmt.Errorf("line %d: %w", 1+bytes.Count(b[:at], []byte("\n")), err)
	}
	return err
}
