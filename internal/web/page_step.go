package web

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
)

const (
	logChunk   = 96 << 10              // how much of an output is sent at once, in bytes
	logTail    = 48 << 10              // how much of its end a page has
	maxLine    = 32 << 10              // longer lines are cut into several
	maxFinds   = 200                   // matches that a search gives at once
	findBytes  = 4 << 20               // read at once by a search
	findFor    = 50 * time.Millisecond // how long a search looks before it answers
	foundBytes = 2000                  // shown of a line that was found
)

type stepBody struct {
	Run      string
	Path     string
	Label    string
	Row      *timeline.Row // of a step of the run itself
	Command  command
	Index    int
	Called   string // of the item: see calledItem
	Item     string // what a person knows it by, where that is something else
	Attempts []tried
	Shown    *tried
	Panes    []pane
	Stream   string // the one that is shown alone; "" for all
	Query    string
}

// pane is one output with its end.
type pane struct {
	output
	Address template.URL // of its lines: the query of the attempt and the stream
	Lines   lineBlock
}

// lineBlock is some lines of an output.
type lineBlock struct {
	Stream         string
	From, To, Size int64
	Lines          []logLine
	Live           bool
}

type logLine struct {
	At    int64 // its first byte
	Spans []span
}

func (p *pages) stepPage(w http.ResponseWriter, r *http.Request, run *run) error {
	b := stepBody{Run: run.id, Path: r.URL.Query().Get("path"), Index: numberOf(r, "index", 0), Stream: r.URL.Query().Get("stream"), Query: r.URL.Query().Get("q")}
	head, err := p.headOf(r, run, func() {
		if row := run.line.Row(b.Path); row != nil && b.Index == 0 {
			copied := *row
			b.Row, b.Label = &copied, row.Label
		}
	})
	if err != nil {
		return err
	}
	itemTry := numberOf(r, "try", 0)
	b.Attempts, err = run.attemptsOf(r.Context(), b.Path, b.Index, itemTry)
	if err != nil {
		return err
	}
	if b.Row == nil && len(b.Attempts) == 0 {
		return &status{http.StatusNotFound, "The run has no step " + diag.ClipBytes(b.Path, 200) + ".", "The steps that it has are on its timeline."}
	}
	if b.Index > 0 {
		it, err := run.r.Item(r.Context(), b.Index)
		if err != nil && !errors.Is(err, journal.ErrNoItem) {
			return err
		}
		if b.Called, b.Item = calledItem(it, b.Index), itemName("", it); b.Item == b.Called {
			b.Item = ""
		}
		b.Label = run.labels().Of(b.Path, b.Attempts[0].Label, func() (event.Item, error) { return it, err })
	}
	if n := len(b.Attempts); n > 0 {
		b.Shown = &b.Attempts[n-1]
		for i := range b.Attempts {
			if b.Attempts[i].N == numberOf(r, "attempt", 0) {
				b.Shown = &b.Attempts[i]
			}
		}
		if err := b.panes(run, int64(numberOf(r, "at", -1))); err != nil {
			return err
		}
		b.once()
	}
	if head.Status == event.Failed && b.Row != nil && b.Row.Status == event.Failed {
		head.Now = head.failedAfter() // the step says why
	}
	b.Command = commandsOf(run.r.Header())(b.Path)
	if b.Shown != nil {
		if err := b.Command.sent(run.r, b.Shown); err != nil {
			return err
		}
	}
	title := cmp.Or(b.Label, b.Path)
	return p.show(w, "step", frame{Title: title, Run: head, Live: "run", Body: b})
}

// once leaves out of the error of the attempt what is beside it: its exit status, and
// what the step wrote.
func (b *stepBody) once() {
	e := &b.Shown.Event
	e.Message = strings.TrimPrefix(e.Message, fmt.Sprintf("exit status %d", e.ExitCode))
	e.Message = strings.TrimPrefix(e.Message, ": ")
	for _, p := range b.Panes {
		var wrote strings.Builder
		for _, l := range p.Lines.Lines {
			for _, s := range l.Spans {
				wrote.WriteString(s.Text)
			}
		}
		if strings.Contains(wrote.String(), e.Message) {
			e.Message = ""
		}
	}
}

// panes reads the ends of the outputs, or from a byte on.
func (b *stepBody) panes(run *run, at int64) error {
	if err := b.Shown.find(run.r); err != nil {
		return err
	}
	for _, o := range b.Shown.Streams {
		if b.Stream != "" && o.Name != b.Stream {
			continue
		}
		v := url.Values{"path": {b.Path}, "attempt": {strconv.Itoa(b.Shown.N)}, "stream": {o.Name}}
		if b.Index > 0 {
			v.Set("index", strconv.Itoa(b.Index))
			v.Set("try", strconv.Itoa(b.Shown.ItemTry))
		}
		block, err := readBlock(run, o, at, -1, logTail)
		if err != nil {
			return err
		}
		b.Panes = append(b.Panes, pane{o, template.URL(v.Encode()), block})
	}
	return nil
}

// wanted finds the output that a request names.
func (p *pages) wanted(r *http.Request, run *run) (output, error) {
	q := r.URL.Query()
	list, err := run.attemptsOf(r.Context(), q.Get("path"), numberOf(r, "index", 0), numberOf(r, "try", 0))
	if err != nil {
		return output{}, err
	}
	n := numberOf(r, "attempt", 0)
	for i := len(list) - 1; i >= 0; i-- {
		t := &list[i]
		if n != 0 && t.N != n {
			continue
		}
		if err := t.find(run.r); err != nil {
			return output{}, err
		}
		if o, ok := t.stream(q.Get("stream")); ok {
			return o, nil
		}
	}
	return output{}, &status{http.StatusNotFound, "There is no such output.", "The step's page shows those that there are."}
}

// lines gives lines of an output: those after the byte "after", those before
// the byte "before", or those at its end.
func (p *pages) lines(w http.ResponseWriter, r *http.Request, run *run) error {
	o, err := p.wanted(r, run)
	if err != nil {
		return err
	}
	block, err := readBlock(run, o, int64(numberOf(r, "after", -1)), int64(numberOf(r, "before", -1)), logChunk)
	if err != nil {
		return err
	}
	return p.write(w, http.StatusOK, "lines", "lines", block)
}

// log gives an output as it is, by ranges.
func (p *pages) log(w http.ResponseWriter, r *http.Request, run *run) error {
	o, err := p.wanted(r, run)
	if err != nil {
		return err
	}
	f, _, _, err := o.open(run.r)
	if err != nil {
		return err
	}
	defer f.Close() // it was read only: there is nothing to lose
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy+"; sandbox")
	http.ServeContent(w, r, "", run.r.Header().Started, f)
	return nil
}

// readBlock reads whole lines: at most n bytes from the byte after on, or up to
// the byte before, or at the end of the output where both are negative.
func readBlock(run *run, o output, after, before int64, n int64) (b lineBlock, err error) {
	f, at, size, err := o.open(run.r)
	if err != nil {
		return b, err
	}
	defer f.Close() // it was read only: there is nothing to lose
	from, to := min(after, size), min(after+n, size)
	if after < 0 {
		if to = size; before >= 0 {
			to = min(before, size)
		}
		from = max(0, to-n)
	}
	text := make([]byte, max(0, to-from))
	got, err := at.ReadAt(text, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return b, err
	}
	text = text[:got]
	if after < 0 && from > 0 {
		if i := bytes.IndexByte(text, '\n'); i >= 0 && i+1 < len(text) {
			text, from = text[i+1:], from+int64(i)+1
		}
	}
	if to = from + int64(len(text)); to < size && after >= 0 {
		if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
			text, to = text[:i+1], from+int64(i)+1
		}
	}
	b = lineBlock{Stream: o.Name, From: from, To: to, Size: size, Live: o.Live}
	var l look
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 || end > maxLine {
			end = min(len(text), maxLine)
		}
		b.Lines = append(b.Lines, logLine{from, l.spans(string(text[:end]))})
		text, from = text[end:], from+int64(end)
	}
	return b, nil
}

// foundLines is an answer to a search: lines, and where the search continues.
type foundLines struct {
	Stream string
	Lines  []logLine
	More   bool
	Next   int64 // the byte from which on nothing was looked at
	Size   int64
}

// findLines gives the lines of an output that contain a text, from a byte on: as
// many as are found in a moment, maxFinds at most. A text without capitals matches
// them too.
func (p *pages) findLines(w http.ResponseWriter, r *http.Request, run *run) error {
	q := r.URL.Query().Get("q")
	if q == "" {
		return &status{http.StatusBadRequest, "There is nothing to look for.", "Type a text into the field."}
	}
	o, err := p.wanted(r, run)
	if err != nil {
		return err
	}
	f, at, size, err := o.open(run.r)
	if err != nil {
		return err
	}
	defer f.Close() // it was read only: there is nothing to lose
	out := foundLines{Stream: o.Name, Next: int64(numberOf(r, "from", 0)), Size: size}
	buf := make([]byte, findBytes)
	for began := time.Now(); out.Next < size && len(out.Lines) < maxFinds && time.Since(began) < findFor; {
		n, err := at.ReadAt(buf, out.Next)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			break // it is shorter by now
		}
		out.look(buf[:n], q)
	}
	out.More = out.Next < size
	return p.write(w, http.StatusOK, "lines", "found", out)
}

// look takes the matches of a part of the output that begins at Next, and moves
// Next behind what was looked at: whole lines, but for one that is longer than the
// part, of which what may be the beginning of a match is read again.
func (f *foundLines) look(part []byte, q string) {
	seen := len(part)
	if f.Next+int64(seen) < f.Size {
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			seen = i + 1
		} else {
			seen -= min(seen, len(q)) - 1
		}
	}
	list := matches(part, q, q == strings.ToLower(q), maxFinds-len(f.Lines)+1)
	for _, i := range list {
		if i >= seen {
			break
		}
		begin := bytes.LastIndexByte(part[:i], '\n') + 1
		if len(f.Lines) == maxFinds {
			f.Next += int64(begin)
			return
		}
		end := len(part)
		if n := bytes.IndexByte(part[i:], '\n'); n >= 0 {
			end = i + n
		}
		if i-begin > foundBytes/2 {
			begin = i - foundBytes/8 // of a long line, where it matches
		}
		var l look
		f.Lines = append(f.Lines, logLine{f.Next + int64(begin), l.spans(string(part[begin:min(end, begin+foundBytes)]))})
	}
	f.Next += int64(seen)
}

// matches gives the places of a text, one a line, at most n.
func matches(text []byte, q string, fold bool, n int) (out []int) {
	hay := text
	if fold {
		hay = asciiLower(text)
	}
	for at := 0; at < len(hay) && len(out) < n; {
		i := bytes.Index(hay[at:], []byte(q))
		if i < 0 {
			break
		}
		out = append(out, at+i)
		end := bytes.IndexByte(hay[at+i:], '\n')
		if end < 0 {
			break
		}
		at += i + end + 1
	}
	return out
}

// asciiLower keeps the length, which bytes.ToLower does not.
func asciiLower(b []byte) []byte {
	out := slices.Clone(b)
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}

// address is one member of an address's query.
func address(name, value string) string { return url.Values{name: {value}}.Encode() }

// State is the status of an attempt in words.
func (t *tried) State() string {
	if t.Running {
		return event.Running
	}
	return t.Status
}

// With is the query of this page with one value changed; "" takes it away.
func (b stepBody) With(name, value string) template.URL {
	v := url.Values{"path": {b.Path}}
	if b.Index > 0 {
		v.Set("index", strconv.Itoa(b.Index))
	}
	if b.Shown != nil {
		v.Set("attempt", strconv.Itoa(b.Shown.N))
		if b.Index > 0 {
			v.Set("try", strconv.Itoa(b.Shown.ItemTry))
		}
	}
	if b.Stream != "" {
		v.Set("stream", b.Stream)
	}
	if v.Set(name, value); value == "" {
		v.Del(name)
	}
	return template.URL(v.Encode()) // encoded: nothing of it is more than a value
}

// To is the query of the page of an attempt.
func (b stepBody) To(t tried) template.URL {
	b.Shown = &t
	return b.With("", "")
}

// Is says whether an attempt is the one that is shown.
func (b stepBody) Is(t tried) bool {
	return b.Shown != nil && b.Shown.N == t.N && b.Shown.ItemTry == t.ItemTry && b.Shown.Event.Seq == t.Event.Seq
}
