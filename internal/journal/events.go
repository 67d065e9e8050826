package journal

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"slices"
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
	// Items are the items by index, each with the number from which on its
	// events are wanted; nil: any.
	Items map[int]int64
}

// fits says whether a record is wanted.
func (f *EventFilter) fits(known map[int64]string, seq int64, rec *record) (bool, error) {
	if f.Own && rec.index != 0 || f.Index != 0 && rec.index != int64(f.Index) {
		return false, nil
	}
	if f.Items != nil {
		if from, ok := f.Items[int(rec.index)]; !ok || seq < from {
			return false, nil
		}
	}
	if len(f.Types) > 0 {
		kind, err := rec.kind.word(known)
		if err != nil || !slices.Contains(f.Types, event.Type(kind)) {
			return false, err
		}
	}
	if f.Step != "" {
		if step, err := rec.step.word(known); err != nil || step != f.Step {
			return false, err
		}
	}
	if f.Item != "" {
		if item, err := unquoted(rec.item); err != nil || item != f.Item {
			return false, err
		}
	}
	return true, nil
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
	err = r.records(ctx, next, noEnd, func(seq int64, rec *record) error {
		wanted, err := f.fits(known, seq, rec)
		if err != nil {
			return r.unreadable(seq, err)
		}
		if wanted {
			e, err := r.event(known, seq, rec)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		to = seq
		if len(events) >= page {
			return errEnough
		}
		return nil
	})
	return events, max(to, next-1), err
}

// noEnd is the number of no event: later than all.
const noEnd = 1<<63 - 1

// errEnough ends a reading of records that has what it wants.
var errEnough = errors.New("enough")

// records gives the records of the events from number from to number to, in
// order. rec is each's until it returns. each must not use the Reader, and ends
// the reading without an error by errEnough.
func (r *Reader) records(ctx context.Context, from, to int64, each func(seq int64, rec *record) error) error {
	last := int64(0) // of the row before
	err := r.query(ctx, func(row []driver.Value) error {
		seq, end := integer(row[0]), integer(row[1])
		if last != 0 && seq != last+1 {
			return damaged(r.path, fmt.Sprintf("event %d follows %d", seq, last), nil)
		}
		last = end
		err := eachRecord(text(row[2]), func(rec *record) error {
			seq++
			if seq-1 < from || seq-1 > to {
				return nil
			}
			return each(seq-1, rec)
		})
		if err == nil && seq != end+1 {
			err = errRecord
		}
		if errors.Is(err, errRecord) {
			return r.unreadable(seq, err)
		}
		return err
	}, `SELECT first, last, records FROM events
		WHERE first >= coalesce((SELECT max(first) FROM events WHERE first <= ?), 0) AND first <= ? ORDER BY first`, from, to)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// event is the whole event of a record.
func (r *Reader) event(known map[int64]string, seq int64, rec *record) (event.Event, error) {
	e, err := rec.event(known, r.run, seq)
	if err != nil {
		return e, r.unreadable(seq, err)
	}
	return e, nil
}

func (r *Reader) unreadable(seq int64, err error) error {
	return damaged(r.path, fmt.Sprintf("event %d: %v", seq, err), err)
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
	last, err := r.lastSeq(ctx)
	if err != nil {
		return false, err
	}
	// The vocabulary is in every dictionary from the start.
	ended := false
	err = r.records(ctx, last, last, func(_ int64, rec *record) error {
		ended = rec.kind.vocabulary() == string(event.RunFinished)
		return nil
	})
	if err != nil || ended {
		return ended, err
	}
	if !ask {
		return false, nil
	}
	held, err := locked(r.dir)
	return !held, err
}
