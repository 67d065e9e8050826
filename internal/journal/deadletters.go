package journal

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// DeadLetter is an item that failed for good and waits for somebody to decide.
type DeadLetter struct {
	Index    int
	ID       string
	Item     json.RawMessage // the item's data; nil if no list is recorded
	Seq      int64           // of the item_dead_lettered
	Time     time.Time
	Attempts int
	Class    string
	Message  string
	Letter   json.RawMessage // the event's data
	// History is every event that tells of the item's failures, oldest first
	// and over all rounds: item_retry_scheduled, item_finished with a status
	// that is not success, and item_dead_lettered.
	History []event.Event
}

// DeadLetterFilter says which dead letters are wanted: those that fit every
// field that is set. The zero filter fits all.
type DeadLetterFilter struct {
	Indexes []int    // any of them, from 1
	IDs     []string // any of them
	Classes []string // any of them
}

func (f *DeadLetterFilter) fits(e *event.Event) bool {
	return (len(f.Indexes) == 0 || slices.Contains(f.Indexes, e.Index)) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, e.Item)) &&
		(len(f.Classes) == 0 || slices.Contains(f.Classes, e.Class))
}

// DeadLetters gives the open dead letters in the order of the list: those that
// were neither requeued nor removed. There is no limit to their number. The
// sequence needs some dozen bytes for each event of a history, and ends after
// the first error.
func (r *Reader) DeadLetters(ctx context.Context, f DeadLetterFilter) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		open, err := r.openLetters(ctx)
		if err != nil {
			yield(DeadLetter{}, err)
			return
		}
		// The letters of a page are looked at before the histories are: most
		// filters leave few.
		order := slices.Sorted(maps.Keys(open))
		for batch := range slices.Chunk(order, page) {
			letters, err := r.letters(ctx, batch, open, &f)
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			for _, l := range letters {
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}

// openLetters gives, by item, the events that its history is made of; the last
// one is the dead letter.
func (r *Reader) openLetters(ctx context.Context) (map[int][]int64, error) {
	open := map[int]int64{}
	types := []event.Type{event.ItemFinished, event.ItemDeadLettered, event.ItemRequeued, event.ItemRemoved}
	err := r.itemEvents(ctx, types, func(e event.Event) error {
		switch {
		case e.Type == event.ItemDeadLettered:
			open[e.Index] = e.Seq
		case e.Type != event.ItemFinished || finished(e.Status) != ItemDeadLettered:
			delete(open, e.Index)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	histories := make(map[int][]int64, len(open))
	if len(open) == 0 {
		return histories, nil
	}
	types = []event.Type{event.ItemRetry, event.ItemFinished, event.ItemDeadLettered}
	err = r.itemEvents(ctx, types, func(e event.Event) error {
		letter, ok := open[e.Index]
		if !ok || e.Seq > letter {
			return nil
		}
		if e.Type != event.ItemFinished || finished(e.Status) != ItemSucceeded {
			histories[e.Index] = append(histories[e.Index], e.Seq)
		}
		return nil
	})
	return histories, err
}

// letters reads the dead letters of some items that fit the filter.
func (r *Reader) letters(ctx context.Context, indexes []int, open map[int][]int64, f *DeadLetterFilter) ([]DeadLetter, error) {
	seqs := make([]int64, len(indexes))
	for i, index := range indexes {
		seqs[i] = open[index][len(open[index])-1]
	}
	events, err := r.bySeq(ctx, seqs)
	if err != nil {
		return nil, err
	}
	var out []DeadLetter
	seqs = seqs[:0]
	for _, e := range events {
		if !f.fits(&e) {
			continue
		}
		out = append(out, DeadLetter{
			Index: e.Index, ID: e.Item, Seq: e.Seq, Time: e.Time, Attempts: e.Attempts,
			Class: e.Class, Message: e.Message, Letter: e.Data,
		})
		seqs = append(seqs, open[e.Index]...)
	}
	// The histories of all in one read, and so the items.
	histories, err := r.bySeq(ctx, seqs)
	if err != nil {
		return nil, err
	}
	items, err := r.itemsAt(ctx, out)
	if err != nil {
		return nil, err
	}
	for i := range out {
		n := len(open[out[i].Index])
		out[i].History, histories = histories[:n:n], histories[n:]
		out[i].Item = items[out[i].Index]
	}
	return out, nil
}

// itemsAt gives the data of the items of some letters, by index. Letters come
// in the order of the list: to read past some items costs less than to look
// each one up.
func (r *Reader) itemsAt(ctx context.Context, letters []DeadLetter) (map[int]json.RawMessage, error) {
	out := make(map[int]json.RawMessage, len(letters))
	for len(letters) > 0 {
		first, n := letters[0].Index, 1
		for n < len(letters) && letters[n].Index-first < 8*(n+1) {
			n++
		}
		want := letters[:n]
		items, err := r.Items(ctx, first, want[n-1].Index-first+1)
		if err != nil {
			return nil, err
		}
		for _, it := range items {
			for len(want) > 0 && want[0].Index < it.Index {
				want = want[1:]
			}
			if len(want) > 0 && want[0].Index == it.Index {
				out[it.Index] = it.Data
			}
		}
		letters = letters[n:]
	}
	return out, nil
}
