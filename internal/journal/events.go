package journal

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// EventFilter says which events are wanted: those that fit every field that
// is set. The zero filter fits all.
type EventFilter struct {
	Types []event.Type // any of them
	Index int          // of the item, from 1
	Item  string       // the item's id
	Step  string       // the step's path
	Own   bool         // only those of the run itself, not of its work items
}

// columns of an event, in the order that scan reads them.
const columns = "seq, time, type, phase, step, item, idx, attempt, attempts, status, class, delay_ms, duration_ms, rest, data"

// rest is the members of an event that few events have: one column of JSON.
type rest struct {
	Label    string `json:"label,omitempty"`
	Message  string `json:"message,omitempty"`
	ExitCode int    `json:"exit_code,omitempty"`
	Total    int    `json:"total,omitempty"`
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`
}

func restOf(e *event.Event) (driver.Value, error) {
	x := rest{Label: e.Label, Message: e.Message, ExitCode: e.ExitCode, Total: e.Total, From: e.From, To: e.To}
	if x == (rest{}) {
		return nil, nil
	}
	data, err := json.Marshal(x)
	return string(data), err
}

// scan makes an event of a row of columns.
func scan(known map[int64]string, run string, row []driver.Value) (e event.Event, err error) {
	e = event.Event{
		Seq: integer(row[0]), Time: instant(integer(row[1])), Run: run, Item: text(row[5]), Index: int(integer(row[6])),
		Attempt: int(integer(row[7])), Attempts: int(integer(row[8])),
		DelayMS: integer(row[11]), DurationMS: integer(row[12]), Data: blob(row[14]),
	}
	var kind string
	for _, w := range []struct {
		to   *string
		from driver.Value
	}{{&kind, row[2]}, {&e.Phase, row[3]}, {&e.Step, row[4]}, {&e.Status, row[9]}, {&e.Class, row[10]}} {
		if *w.to, err = word(known, w.from); err != nil {
			return e, fmt.Errorf("event %d: %w", e.Seq, err)
		}
	}
	e.Type = event.Type(kind)
	if b := blob(row[13]); b != nil {
		var x rest
		if err := json.Unmarshal(b, &x); err != nil {
			return e, fmt.Errorf("event %d: %w", e.Seq, err)
		}
		e.Label, e.Message, e.ExitCode, e.Total, e.From, e.To = x.Label, x.Message, x.ExitCode, x.Total, x.From, x.To
	}
	return e, nil
}

// where turns the filter into a condition. A word may stand in a column as its
// number or as text.
func (f *EventFilter) where(known map[int64]string) (cond string, args []driver.Value) {
	var b strings.Builder
	word := func(column string, words ...string) {
		fmt.Fprintf(&b, " AND %s IN (", column)
		for i, w := range words {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString("?")
			args = append(args, w)
			for id, k := range known {
				if k == w {
					b.WriteString(", ?")
					args = append(args, id)
				}
			}
		}
		b.WriteString(")")
	}
	if len(f.Types) > 0 {
		types := make([]string, len(f.Types))
		for i, t := range f.Types {
			types[i] = string(t)
		}
		word("type", types...)
	}
	if f.Step != "" {
		word("step", f.Step)
	}
	if f.Own {
		b.WriteString(" AND idx IS NULL")
	}
	if f.Index != 0 {
		b.WriteString(" AND idx = ?")
		args = append(args, int64(f.Index))
	}
	if f.Item != "" {
		b.WriteString(" AND item = ?")
		args = append(args, f.Item)
	}
	return b.String(), args
}

// page is how many events are read at once.
const page = 512

// Events gives the events from number from on (1 or less: all), in order, up
// to the one that is the last when the sequence gets there. It ends after the
// first error: of the context, or a *DamagedError.
func (r *Reader) Events(ctx context.Context, from int64, f EventFilter) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if err := r.ready(ctx); err != nil {
			yield(event.Event{}, err)
			return
		}
		next := max(from, 1)
		for {
			events, to, err := r.page(ctx, next, f)
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			if to < next {
				return
			}
			next = to + 1
		}
	}
}

// page reads events from next on, and says up to which number it looked: less
// than next if there is nothing more.
func (r *Reader) page(ctx context.Context, next int64, f EventFilter) (events []event.Event, to int64, err error) {
	err = r.fresh(ctx, func() error {
		events, to, err = r.readPage(ctx, next, f)
		return err
	})
	return events, to, err
}

func (r *Reader) readPage(ctx context.Context, next int64, f EventFilter) (events []event.Event, to int64, err error) {
	known := r.dictionary()
	cond, args := f.where(known)
	whole := cond == ""
	to = next - 1
	read := func(row []driver.Value) error {
		e, err := scan(known, r.run, row)
		if err != nil {
			return damaged(r.path, err.Error(), err)
		}
		if whole && e.Seq != to+1 {
			return damaged(r.path, fmt.Sprintf("event %d follows %d", e.Seq, to), nil)
		}
		to = e.Seq
		events = append(events, e)
		return nil
	}
	err = r.query(ctx, read, fmt.Sprintf("SELECT %s FROM events WHERE seq >= ?%s ORDER BY seq LIMIT %d", columns, cond, page),
		append([]driver.Value{next}, args...)...)
	return events, to, err
}

// pollEvery is how often Follow looks for news, idleEvery how often, with no
// news, whether the process that makes them is still there.
const (
	pollEvery = 50 * time.Millisecond
	idleEvery = time.Second
)

// Follow gives the events from number from on and waits for more. It ends
// after a run_finished that is the last event, when no process has the run, or
// with the context, whose end is no error here.
func (r *Reader) Follow(ctx context.Context, from int64, f EventFilter) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		next := max(from, 1)
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		quiet := time.Now()
		for {
			// Asked before reading: what a process that is gone by now has
			// written is then all read.
			ask := time.Since(quiet) >= idleEvery
			if ask {
				quiet = time.Now()
			}
			over, err := r.over(ctx, ask)
			for err == nil {
				var events []event.Event
				var to int64
				events, to, err = r.page(ctx, next, f)
				for _, e := range events {
					quiet = time.Now()
					if !yield(e, nil) {
						return
					}
				}
				if to < next {
					break
				}
				next = to + 1
			}
			switch {
			case ctx.Err() != nil || err == nil && over:
				return
			case err != nil:
				yield(event.Event{}, err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
}

// over says whether no more events are to be expected: the last one ends the
// run, or, where that is asked, no process has it.
func (r *Reader) over(ctx context.Context, ask bool) (bool, error) {
	if err := r.ready(ctx); err != nil {
		return false, err
	}
	var last driver.Value
	err := r.query(ctx, func(row []driver.Value) error {
		last = row[0]
		return nil
	}, "SELECT type FROM events ORDER BY seq DESC LIMIT 1")
	if err != nil {
		return false, err
	}
	// The vocabulary is in every dictionary from the start.
	if kind, err := word(r.dictionary(), last); err == nil && event.Type(kind) == event.RunFinished {
		return true, nil
	}
	if !ask {
		return false, nil
	}
	held, err := locked(r.dir)
	return !held, err
}
