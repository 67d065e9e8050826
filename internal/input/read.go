package input

import (
	"bufio"
	"bytes"
	"cmp"
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

	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/value"
)

// MaxLine is the longest line of a JSONL or text input, in bytes.
const MaxLine = 64 << 20

// raw is an item on its way: its value and its JSON text.
type raw struct {
	v    any
	text []byte
}

// give takes an item; its error ends the reading.
type give func(raw) error

// Kinds of input. Auto decides by the name of the file, else by its content.
const (
	Auto  = ""
	JSON  = "json"
	JSONL = "jsonl"
	CSV   = "csv"
	Lines = "lines"
)

// kindByName is what a file is by its name; Auto where that does not tell.
func kindByName(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		return JSON
	case ".jsonl", ".ndjson":
		return JSONL
	case ".csv", ".tsv":
		return CSV
	}
	return Auto
}

// isOneValue reports whether a text is exactly one JSON value.
func isOneValue(r io.Reader) (bool, error) {
	d := json.NewDecoder(skipBOM(r))
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
		err := s.all(func(r raw) error {
			if !yield(r, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(raw{}, err)
		}
	}
}

func (s Spec) all(give give) error {
	if s.File == "" {
		return s.expand(s.List, give)
	}
	f, err := s.name().Open(s.context())
	if err != nil {
		return err
	}
	defer f.Close()
	if err := s.kind(f, give); err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(s.Called, s.File), err)
	}
	return nil
}

// kind reads a file as what it is.
func (s Spec) kind(f *files.File, give give) error {
	var in io.Reader = f
	kind := kindByName(s.File)
	if s.Kind != Auto {
		kind = s.Kind
	}
	if kind == Auto {
		again, err := s.seekable(f)
		if err != nil {
			return err
		}
		defer again.Close()
		one, err := isOneValue(again)
		if err == nil {
			_, err = again.Seek(0, io.SeekStart)
		}
		if err != nil {
			return err
		}
		if in, kind = again, Lines; one {
			kind = JSON
		}
	}
	text := &utf8Reader{r: in}
	switch kind {
	case JSON:
		return s.document(text, give)
	case CSV:
		return s.csv(text, give)
	}
	return s.lines(text, kind == JSONL, give)
}

// seekable is a file that can be read twice: a copy of one that cannot, such as
// a pipe.
func (s Spec) seekable(f *files.File) (io.ReadSeekCloser, error) {
	if _, err := f.Seek(0, io.SeekCurrent); err == nil {
		return f, nil
	}
	c, err := os.CreateTemp(s.TempDir, "items-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(c.Name())
	if err == nil {
		_, err = io.Copy(c, f)
	}
	if err == nil {
		_, err = c.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

var errStopped = errors.New("the reader wants no more")

// expand applies the path to a value that is held as a whole.
func (s Spec) expand(v any, give give) error {
	each := func(e any) error { return give(raw{v: e}) }
	if s.JSONPath == "" {
		return elements(v, each)
	}
	x, err := parsePath(s.JSONPath)
	if err != nil {
		return err
	}
	if selects(x) {
		return evaluate(s.context(), x, s.JSONPath, v, each)
	}
	// One array that is found is the list; of several each is an item.
	var first any
	n := 0
	err = evaluate(s.context(), x, s.JSONPath, v, func(e any) error {
		if n++; n == 1 {
			first = e
			return nil
		}
		if n == 2 {
			if err := each(first); err != nil {
				return err
			}
		}
		return each(e)
	})
	if err == nil && n == 1 {
		err = elements(first, each)
	}
	return err
}

// elements gives those of an array, or a value that is none.
func elements(v any, each func(any) error) error {
	list, ok := v.([]any)
	if !ok {
		return each(v)
	}
	for _, e := range list {
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// document reads a JSON file, without holding it where the path allows.
func (s Spec) document(f io.Reader, give give) error {
	in := skipBOM(f)
	path, ok := stream(s.JSONPath)
	if !ok {
		b, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		v, err := value.Parse(b)
		if err != nil {
			return place(b, err)
		}
		return s.expand(v, give)
	}
	d := &tokens{d: json.NewDecoder(in)}
	d.d.UseNumber()
	err := s.walk(d, path, give)
	if err == nil {
		// The rest must be valid, too: a file that was cut off is no input.
		err = d.end()
	}
	if err != nil && !errors.Is(err, errStopped) {
		return fmt.Errorf("byte %d: %w", d.d.InputOffset(), err)
	}
	return err
}

// skipBOM reads past the mark with which some editors begin a file.
func skipBOM(f io.Reader) *bufio.Reader {
	r := bufio.NewReaderSize(f, 256<<10)
	if b, _ := r.Peek(len(bom)); string(b) == bom {
		_, _ = r.Discard(len(bom)) // what was peeked is there
	}
	return r
}

const bom = "\xef\xbb\xbf"

// tokens reads a document piece by piece and knows how deep it is in it.
type tokens struct {
	d    *json.Decoder
	open int // arrays and objects that have begun and not ended
}

// next is the next token; the end of the file is io.ErrUnexpectedEOF.
func (t *tokens) next() (json.Token, error) {
	tok, err := t.d.Token()
	switch {
	case err == io.EOF:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	switch tok {
	case json.Delim('['), json.Delim('{'):
		t.open++
	case json.Delim(']'), json.Delim('}'):
		t.open--
	}
	return tok, nil
}

// decode takes a whole value.
func (t *tokens) decode() (text json.RawMessage, err error) {
	if err = t.d.Decode(&text); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return text, err
}

// end reads the rest of the document, after which there is nothing.
func (t *tokens) end() error {
	for t.open > 0 {
		if _, err := t.next(); err != nil {
			return err
		}
	}
	if tok, err := t.d.Token(); err == nil {
		return fmt.Errorf("there is %v after the end of the document", tok)
	} else if err != io.EOF {
		return err
	}
	return nil
}

// walk goes to the place that a path names and gives what is there.
func (s Spec) walk(d *tokens, path streamed, give give) error {
	for _, name := range path.names {
		found, err := d.member(name)
		if err != nil || !found {
			return err
		}
	}
	whole, err := d.valueOrArray()
	if err != nil {
		return err
	}
	if whole != nil {
		v, err := value.Parse(whole)
		if err != nil {
			return err
		}
		if path.expr != nil || strings.Contains(s.JSONPath, "*") {
			return fmt.Errorf("%s: there is a %s where the path wants an array", s.JSONPath, value.Kind(v))
		}
		return give(raw{v: v, text: whole})
	}
	for d.d.More() {
		text, err := d.decode()
		if err != nil {
			return err
		}
		v, err := value.Parse(text)
		if err != nil {
			return err
		}
		if err := s.element(raw{v: v, text: text}, path, give); err != nil {
			return err
		}
	}
	_, err = d.next() // ]
	return err
}

// element gives one element of an array, or what the rest of the path finds in
// it.
func (s Spec) element(r raw, path streamed, give give) error {
	if path.expr == nil {
		return give(r)
	}
	v := r.v
	if path.each {
		v = []any{v}
	}
	return evaluate(s.context(), path.expr, path.rest, v, func(e any) error { return give(raw{v: e}) })
}

// byLine takes the lines of a file, or its rows: $[*] and $[?…] are about those,
// any other path about what is in each.
func (s Spec) byLine(one give) give {
	path, all := stream(s.JSONPath)
	switch {
	case s.JSONPath == "":
		return one
	case all && len(path.names) == 0:
		return func(r raw) error { return s.element(r, path, one) }
	}
	return func(r raw) error { return s.expand(r.v, one) }
}

// member moves to the value of an object's member.
func (t *tokens) member(name string) (bool, error) {
	tok, err := t.next()
	if err != nil || tok != json.Delim('{') {
		return false, err
	}
	for t.d.More() {
		key, err := t.next()
		if err != nil {
			return false, err
		}
		if key == name {
			return true, nil
		}
		if _, err := t.decode(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// valueOrArray opens an array, or gives the whole of another value.
func (t *tokens) valueOrArray() (json.RawMessage, error) {
	tok, err := t.next()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('['):
		return nil, nil
	case json.Delim('{'):
		return t.object()
	}
	return json.RawMessage(value.JSON(tok)), nil
}

// object takes the rest of an object that has begun.
func (t *tokens) object() (json.RawMessage, error) {
	text := []byte("{")
	for t.d.More() {
		key, err := t.next()
		if err != nil {
			return nil, err
		}
		member, err := t.decode()
		if err != nil {
			return nil, err
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(append(append(text, value.JSON(key)...), ':'), member...)
	}
	_, err := t.next() // }
	return append(text, '}'), err
}

// lines reads JSON lines, or plain lines: a line that is no JSON is a text.
func (s Spec) lines(f *utf8Reader, strict bool, give give) error {
	give = s.byLine(give)
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 64<<10), MaxLine)
	sc.Split(func(data []byte, end bool) (int, []byte, error) {
		if end && f.err != io.EOF {
			return 0, nil, f.err // and the line before it is not whole
		}
		return bufio.ScanLines(data, end)
	})
	for n := 1; sc.Scan(); n++ {
		line := bytes.TrimSpace(sc.Bytes())
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte(bom))
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
			v, text = string(line), nil
		}
		if err := give(raw{v: v, text: text}); err != nil {
			return err
		}
	}
	if errors.Is(sc.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes", MaxLine)
	}
	return sc.Err()
}

// csv reads rows as objects; the first row names their members.
func (s Spec) csv(f io.Reader, give give) error {
	give = s.byLine(give)
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
		h = cmp.Or(h, fmt.Sprintf("column_%d", i+1))
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
		if err := give(raw{v: m}); err != nil {
			return err
		}
	}
}

// place names the line of a syntax error.
func place(b []byte, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at := min(int(syntax.Offset), len(b))
		return fmt.Errorf("line %d: %w", 1+bytes.Count(b[:at], []byte("\n")), err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("line %d: %w", 1+bytes.Count(b, []byte("\n")), err)
	}
	return err
}
