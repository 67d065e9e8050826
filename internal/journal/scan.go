package journal

import (
	"context"
	"database/sql/driver"
	"strconv"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// Fact is an event as a fold meets it in [Reader.Scan]: its numbers and the
// words of the vocabulary cost nothing, the rest is read when it is asked for.
// It is valid until the function returns that was given it.
type Fact struct {
	r     *Reader
	known map[int64]string
	seq   int64
	rec   *record
}

// Seq is the event's number, from 1.
func (f *Fact) Seq() int64 { return f.seq }

// Type is the event's type; "" for one that the format's vocabulary lacks and
// whose word the dictionary does not know.
func (f *Fact) Type() event.Type { return event.Type(f.rec.kind.meaning(f.known)) }

// Status is the event's status, as far as it is a known word.
func (f *Fact) Status() string { return f.rec.status.meaning(f.known) }

// Time is when it happened.
func (f *Fact) Time() time.Time { return instant(f.rec.time) }

// Nanos is Time in nanoseconds since 1970.
func (f *Fact) Nanos() int64 { return f.rec.time }

// Index is the work item's place in the list, from 1; 0 for none.
func (f *Fact) Index() int { return int(f.rec.index) }

// Attempt is the number of the attempt, from 1; 0 for none.
func (f *Fact) Attempt() int { return int(max(f.rec.attempt, f.rec.attempts)) }

// Again says that an attempt begins that a step of a work item makes after its first:
// one that the attempts at the item do not count. Whoever says how often something
// was tried for an item adds them.
func (f *Fact) Again() bool {
	return f.rec.index > 0 && f.rec.attempt > 1 && event.Type(f.rec.kind.vocabulary()) == event.AttemptStarted
}

// Delay is the event's delay in milliseconds.
func (f *Fact) Delay() int64 { return f.rec.delay }

// Duration is the event's duration in milliseconds.
func (f *Fact) Duration() int64 { return f.rec.duration }

// Event is the whole event, which keeps nothing of the journal's memory.
func (f *Fact) Event() (event.Event, error) { return f.r.event(f.known, f.seq, f.rec) }

// Scan gives each every committed event from number from on, in order, and the
// number of the last one that each has taken: from-1 if there was none. Unlike
// [Reader.Events] it decodes nothing beforehand, and a read transaction stays
// open while each works, so each has to be quick and must not use the Reader.
func (r *Reader) Scan(ctx context.Context, from int64, each func(*Fact) error) (last int64, err error) {
	from = max(from, 1)
	if err := r.ready(ctx); err != nil {
		return from - 1, err
	}
	return r.scan(ctx, from, each)
}

// scan is Scan of what is in the database.
func (r *Reader) scan(ctx context.Context, from int64, each func(*Fact) error) (last int64, err error) {
	last = from - 1
	// What each has taken before a new word is met is not given again.
	err = r.fresh(ctx, func() error {
		f := Fact{r: r, known: r.dictionary()}
		return r.records(ctx, last+1, noEnd, func(seq int64, rec *record) error {
			f.seq, f.rec = seq, rec
			if rec.status.stranger(f.known) {
				return r.unreadable(seq, errWord)
			}
			if err := each(&f); err != nil {
				return err
			}
			last = seq
			return nil
		})
	})
	return last, err
}

// At reads the events of these numbers, in their order.
func (r *Reader) At(ctx context.Context, seqs []int64) ([]event.Event, error) {
	return r.bySeq(ctx, seqs)
}

// Data is the event's data as it is written; "" for none. It may be part of the
// row: who keeps it clones it.
func (f *Fact) Data() string { return f.rec.whole() }

// Class is the event's error class; "" for none.
func (f *Fact) Class() string {
	w, err := f.rec.class.word(f.known)
	if err != nil {
		return ""
	}
	return w
}

// Step is the path of the event's step; "" for none.
func (f *Fact) Step() string {
	w, err := f.rec.step.word(f.known)
	if err != nil {
		return ""
	}
	return w
}

// Message is the event's message; "" for none.
func (f *Fact) Message() string {
	s, err := unquoted(f.rec.message)
	if err != nil {
		return ""
	}
	return s
}

// Total is the event's total; 0 for none.
func (f *Fact) Total() int { return int(f.rec.total) }

// StatusOf is the status of an item that an item_finished of a status leaves.
func StatusOf(status string) ItemStatus { return finished(status) }

// IndexOf is the place of the item with an id, from 1; 0 for none. An item
// without an id has its place in the list, from 0, as one.
func (r *Reader) IndexOf(ctx context.Context, id string) (index int, err error) {
	err = r.query(ctx, func(row []driver.Value) error {
		index = int(integer(row[0]))
		return nil
	}, "SELECT idx FROM items WHERE id = ? LIMIT 1", id)
	if err != nil || index > 0 {
		return index, err
	}
	n, nerr := strconv.Atoi(id)
	if nerr != nil || n < 0 {
		return 0, nil
	}
	items, err := r.Items(ctx, n+1, 1)
	if err == nil && len(items) == 1 && items[0].Index == n+1 && items[0].ID == "" {
		index = n + 1
	}
	return index, err
}
