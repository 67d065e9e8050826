package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
)

// jsonDisplay writes one event per line.
type jsonDisplay struct {
	mu   sync.Mutex
	w    io.Writer
	err  io.Writer
	jobs *jobs // of a batch: writes its log; the outputs are in the events
}

func (d *jsonDisplay) Emit(e event.Event) {
	if e.Type == event.Output {
		return
	}
	b := eventJSON(e)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.troubled(d.jobs.take(e, unseen))
	if _, err := d.w.Write(append(b, '\n')); err != nil {
		d.w = io.Discard // nobody reads any more; the run continues
	}
}

// eventJSON is an event as one JSON object. The members of its data are beside the other
// fields.
func eventJSON(e event.Event) []byte {
	extra, place := e.Data, e.Index
	e.Data, e.Index = nil, 0
	b, err := json.Marshal(e)
	if err != nil {
		return []byte(`{"event":"note","message":"an event could not be written"}`)
	}
	if place > 0 { // counted as item_index is
		b = fmt.Appendf(b[:len(b)-1], `,"index":%d}`, place-1)
	}
	if e.Type == event.ItemRetry || e.Type == event.ItemHandlerDue || e.Type == event.ItemFinished && e.Status == event.DeadLettered {
		extra = without(extra, b)
	}
	extra = bytes.TrimSpace(extra)
	if len(extra) < 3 || extra[0] != '{' {
		return b
	}
	return append(append(b[:len(b)-1], ','), extra[1:]...)
}

// without removes the members of an object that another one has too: a failed attempt has its
// class and message in both.
func without(object, other []byte) []byte {
	var m, has map[string]json.RawMessage
	if json.Unmarshal(object, &m) != nil || json.Unmarshal(other, &has) != nil {
		return object
	}
	for name := range has {
		delete(m, name)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return object
	}
	return b
}

func (d *jsonDisplay) say(line string) { fmt.Fprintf(d.err, "bide: %s\n", line) }

func (d *jsonDisplay) ask(f func(string) bool) func(string) bool { return f }

func (d *jsonDisplay) lend(bool) func() { return func() {} }

func (d *jsonDisplay) close(s *engine.Summary) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.jobs.rest(unseen, endOf(s))
	d.troubled(err)
}

func (d *jsonDisplay) troubled(err error) {
	for _, what := range d.jobs.trouble(err) {
		fmt.Fprintf(d.err, "bide: %s\n", what)
	}
}

// unseen discards output.
func unseen(event.Event) bool { return false }
