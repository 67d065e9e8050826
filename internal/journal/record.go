package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/retry/driver"
)

// A record is an event as it is in a row of the table events: an object of
// JSON without blanks, whose members have names of one letter. Members that
// are zero or empty are left out. FORMAT.md tells the letters.
//
// Numbers are read at once; texts stay as they are written, quotes included,
// until somebody wants them: a fold wants few. With encoding/json the four records of an
// item take sixteen times as long to read (1.0 µs and 16 µs) and seven times as long to
// write (1.2 µs and 8.8 µs, the least of four).
type record struct {
	time, index, attempt, attempts, delay, duration, exit, total int64

	kind, phase, step, status, class token

	item, label, message, from, to, data, retry string

	// borrowed is a part of the row that belongs into data, at this place of it:
	// older journals have an output once for the end of its step and of its item.
	borrowed string
	at       int
}

// token is a word: its number in the vocabulary, or a text. In older journals the
// dictionary has further numbers.
type token struct {
	number int64
	text   string // as it is written; "" for none
}

// appendRecord adds an event to the text of a row.
func appendRecord(b []byte, e *event.Event) []byte {
	b = append(b, `{"t":`...)
	b = strconv.AppendInt(b, e.Time.UnixNano(), 10)
	b = appendWord(b, 'k', string(e.Type))
	b = appendWord(b, 'p', e.Phase)
	b = appendText(b, 's', e.Step)
	b = appendText(b, 'i', e.Item)
	b = appendNumber(b, 'x', int64(e.Index))
	b = appendNumber(b, 'a', int64(e.Attempt))
	b = appendNumber(b, 'b', int64(e.Attempts))
	b = appendWord(b, 'u', e.Status)
	b = appendText(b, 'c', e.Class)
	b = appendNumber(b, 'w', e.DelayMS)
	b = appendNumber(b, 'y', e.DurationMS)
	b = appendText(b, 'l', e.Label)
	b = appendText(b, 'm', e.Message)
	b = appendNumber(b, 'e', int64(e.ExitCode))
	b = appendNumber(b, 'n', int64(e.Total))
	b = appendText(b, 'f', e.From)
	b = appendText(b, 'o', e.To)
	if e.Retry != nil {
		b = appendRetry(appendName(b, 'r'), e.Retry)
	}
	if len(e.Data) > 0 {
		b = append(appendName(b, 'd'), e.Data...)
	}
	return append(b, '}')
}

// appendRetry adds the state of retries, as its own JSON.
func appendRetry(b []byte, s *driver.State) []byte {
	text, err := json.Marshal(s)
	if err != nil { // a time beyond the year 9999
		text = []byte("{}")
	}
	return append(b, text...)
}

// retryState reads what appendRetry writes; nil for "".
func (rec *record) retryState() (*driver.State, error) {
	if rec.retry == "" {
		return nil, nil
	}
	s := &driver.State{}
	if err := json.Unmarshal([]byte(rec.retry), s); err != nil {
		return nil, fmt.Errorf("%w: %w", errRetry, err)
	}
	return s, nil
}

func appendName(b []byte, name byte) []byte { return append(b, ',', '"', name, '"', ':') }

func appendNumber(b []byte, name byte, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(appendName(b, name), n, 10)
}

func appendText(b []byte, name byte, s string) []byte {
	if s == "" {
		return b
	}
	return appendQuoted(appendName(b, name), s)
}

// appendWord adds a word: its number, or its text where it has none.
func appendWord(b []byte, name byte, s string) []byte {
	if n, ok := numbers[s]; ok {
		return strconv.AppendInt(appendName(b, name), n, 10)
	}
	return appendText(b, name, s)
}

// appendQuoted adds a text as JSON. Bytes that are no UTF-8 stay as they are:
// what is read is what was written.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		}
	}
	return append(append(b, s[from:]...), '"')
}

// errRecord says that a row is not what appendRecord writes.
var errRecord = errors.New("a row of its events cannot be read")

// errRetry says that the state of retries is not what appendRetry writes.
var errRetry = errors.New("the state of its retries cannot be read")

// errText says that a text in a record is not what appendQuoted writes.
var errText = errors.New("a text of it cannot be read")

// eachRecord gives the records of a row's text in order. rec is used again for
// the next one; the texts in it are parts of text.
func eachRecord(text string, each func(rec *record) error) error {
	c := cursor{s: text}
	if !c.take('[') {
		return errRecord
	}
	var rec record
	for {
		rec = record{}
		if !c.record(&rec) || rec.at > len(rec.data) {
			return errRecord
		}
		if err := each(&rec); err != nil {
			return err
		}
		if !c.take(',') {
			break
		}
	}
	if !c.take(']') || c.i != len(c.s) {
		return errRecord
	}
	return nil
}

// cursor reads a row's text. Its methods are false where the text is not what
// it has to be.
type cursor struct {
	s string
	i int
}

func (c *cursor) take(want byte) bool {
	if c.i >= len(c.s) || c.s[c.i] != want {
		return false
	}
	c.i++
	return true
}

func (c *cursor) record(rec *record) bool {
	if !c.take('{') {
		return false
	}
	for {
		if c.i+4 > len(c.s) || c.s[c.i] != '"' || c.s[c.i+2] != '"' || c.s[c.i+3] != ':' {
			return false
		}
		name := c.s[c.i+1]
		c.i += 4
		if !c.member(rec, name) {
			return false
		}
		if !c.take(',') {
			return c.take('}')
		}
	}
}

// member reads the value of a member. One that is not known, of a later
// version, is passed over.
func (c *cursor) member(rec *record, name byte) bool {
	switch name {
	case 't':
		return c.number(&rec.time)
	case 'k':
		return c.token(&rec.kind)
	case 'p':
		return c.token(&rec.phase)
	case 's':
		return c.token(&rec.step)
	case 'i':
		return c.text(&rec.item)
	case 'x':
		return c.number(&rec.index)
	case 'a':
		return c.number(&rec.attempt)
	case 'b':
		return c.number(&rec.attempts)
	case 'u':
		return c.token(&rec.status)
	case 'c':
		return c.token(&rec.class)
	case 'w':
		return c.number(&rec.delay)
	case 'y':
		return c.number(&rec.duration)
	case 'l':
		return c.text(&rec.label)
	case 'm':
		return c.text(&rec.message)
	case 'e':
		return c.number(&rec.exit)
	case 'n':
		return c.number(&rec.total)
	case 'f':
		return c.text(&rec.from)
	case 'o':
		return c.text(&rec.to)
	case 'g':
		return c.loan(rec)
	}
	from := c.i
	if !c.skip() {
		return false
	}
	switch name {
	case 'd':
		rec.data = c.s[from:c.i]
	case 'r':
		rec.retry = c.s[from:c.i]
	}
	return true
}

func (c *cursor) number(to *int64) bool {
	i, neg := c.i, false
	if i < len(c.s) && c.s[i] == '-' {
		i, neg = i+1, true
	}
	from, n := i, uint64(0)
	for ; i < len(c.s) && c.s[i]-'0' <= 9; i++ {
		n = n*10 + uint64(c.s[i]-'0')
	}
	if i == from || i-from > 19 || n > 1<<63-1 && !(neg && n == 1<<63) {
		return false
	}
	if *to = int64(n); neg {
		*to = -*to
	}
	c.i = i
	return true
}

func (c *cursor) token(to *token) bool {
	if c.i < len(c.s) && c.s[c.i] == '"' {
		return c.text(&to.text)
	}
	return c.number(&to.number)
}

// loan reads what the record's data borrows of the text before it.
func (c *cursor) loan(rec *record) bool {
	before := int64(c.i)
	var from, size, at int64
	if !c.take('[') || !c.number(&from) || !c.take(',') || !c.number(&size) || !c.take(',') || !c.number(&at) || !c.take(']') ||
		from < 0 || size < 0 || at < 0 || from > before || size > before-from || at > int64(len(c.s)) {
		return false
	}
	rec.borrowed, rec.at = c.s[from:from+size], int(at)
	return true
}

// text takes a string as it is written.
func (c *cursor) text(to *string) bool {
	from := c.i
	if from >= len(c.s) || c.s[from] != '"' || !c.skipString() {
		return false
	}
	*to = c.s[from:c.i]
	return true
}

// skipString passes over a string, which begins here.
func (c *cursor) skipString() bool {
	for i := c.i + 1; i < len(c.s); i++ {
		switch c.s[i] {
		case '"':
			c.i = i + 1
			return true
		case '\\':
			i++
		}
	}
	return false
}

// skip passes over a value of any kind.
func (c *cursor) skip() bool {
	from, depth := c.i, 0
	for c.i < len(c.s) {
		switch c.s[c.i] {
		case '"':
			if !c.skipString() {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return c.i > from
			}
			depth--
		case ',':
			if depth == 0 {
				return c.i > from
			}
		}
		c.i++
	}
	return false
}

// unquoted is the text of a string as it is written. It does not keep the row.
func unquoted(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	s = s[1 : len(s)-1]
	if strings.IndexByte(s, '\\') < 0 {
		return strings.Clone(s), nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", errText
		}
		switch s[i] {
		case '"', '\\':
			b = append(b, s[i])
		case 'n':
			b = append(b, '\n')
		case 't':
			b = append(b, '\t')
		case 'u':
			if i+4 >= len(s) {
				return "", errText
			}
			n, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", errText
			}
			b = utf8.AppendRune(b, rune(n))
			i += 4
		default:
			return "", errText
		}
	}
	return string(b), nil
}

// word is the string that a token means.
func (t token) word(known map[int64]string) (string, error) {
	if t.number == 0 {
		return unquoted(t.text)
	}
	s, ok := known[t.number]
	if !ok {
		return "", fmt.Errorf("%w (number %d)", errWord, t.number)
	}
	return s, nil
}

// vocabulary is the word of the vocabulary that the token is the number of, or
// "".
func (t token) vocabulary() string {
	if t.number >= 1 && t.number <= int64(len(vocabulary)) {
		return vocabulary[t.number-1]
	}
	return ""
}

// meaning is the word of a token; "" where that cannot be read, or the dictionary
// does not know it.
func (t token) meaning(known map[int64]string) string {
	if w := t.vocabulary(); w != "" {
		return w
	}
	w, err := t.word(known)
	if err != nil {
		return ""
	}
	return w
}

// stranger reports whether a token is a number that the dictionary does not know
// yet: it is to be read again.
func (t token) stranger(known map[int64]string) bool {
	return t.number > int64(len(vocabulary)) && known[t.number] == ""
}

// whole is the record's data with what it borrows.
func (rec *record) whole() string {
	if rec.borrowed == "" {
		return rec.data
	}
	return rec.data[:rec.at] + rec.borrowed + rec.data[rec.at:]
}

// event is the event with all that belongs to it. Nothing of it keeps the row.
func (rec *record) event(known map[int64]string, run string, seq int64) (e event.Event, err error) {
	e = event.Event{
		Seq: seq, Time: instant(rec.time), Run: run, Index: int(rec.index), Attempt: int(rec.attempt), Attempts: int(rec.attempts),
		DelayMS: rec.delay, DurationMS: rec.duration, ExitCode: int(rec.exit), Total: int(rec.total),
	}
	if data := rec.whole(); data != "" {
		e.Data = json.RawMessage(data)
	}
	if e.Retry, err = rec.retryState(); err != nil {
		return e, err
	}
	var kind string
	for _, w := range [...]struct {
		to   *string
		from token
	}{{&kind, rec.kind}, {&e.Phase, rec.phase}, {&e.Step, rec.step}, {&e.Status, rec.status}, {&e.Class, rec.class}} {
		if *w.to, err = w.from.word(known); err != nil {
			return e, err
		}
	}
	e.Type = event.Type(kind)
	for _, t := range [...]struct {
		to   *string
		from string
	}{{&e.Item, rec.item}, {&e.Label, rec.label}, {&e.Message, rec.message}, {&e.From, rec.from}, {&e.To, rec.to}} {
		if *t.to, err = unquoted(t.from); err != nil {
			return e, err
		}
	}
	return e, nil
}
