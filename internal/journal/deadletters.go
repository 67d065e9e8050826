package journal

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/value"
)

// DeadLetter is an item that failed for good and waits for somebody to decide.
type DeadLetter struct {
	Index    int
	ID       string
	Item     json.RawMessage // the item's data, as edited last; nil if no list is recorded
	Original json.RawMessage // its data in the list, of an item that was edited; else nil
	Seq      int64           // of the item_finished that made it a dead letter
	Time     time.Time
	Attempts int // at the item
	Tries    int // attempts at the item, and those that its steps made after their first
	Class    string
	Message  string
	Letter   json.RawMessage // the event's data
	// History is every event that tells of the item's failures, oldest first
	// and over all rounds: item_retry_scheduled, and item_finished with a status
	// that is not success. The last one is the letter.
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
		o, err := r.openLetters(ctx)
		if err != nil {
			yield(DeadLetter{}, err)
			return
		}
		// The letters of a page are looked at before the histories are: most
		// filters leave few.
		order := slices.Sorted(maps.Keys(o.Histories))
		for batch := range slices.Chunk(order, page) {
			letters, err := r.letters(ctx, batch, o.Histories, o.Edits, &f)
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			for _, l := range letters {
				l.Tries = l.Attempts + o.Again[l.Index]
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}

// openLetters are the open dead letters of a run, by item.
type openLetters struct {
	Histories map[int][]int64 // the numbers of the events of the history; the last is the letter
	Edits     map[int]int64   // that of the last item_requeued that edited the item
	Again     map[int]int     // attempts that the steps of the item made after their first
}

func (r *Reader) openLetters(ctx context.Context) (openLetters, error) {
	return keptAs(ctx, r, keptLetters, func() (openLetters, error) {
		var letters letterFold
		again := map[int]int{}
		_, err := r.Scan(ctx, 1, func(f *Fact) error {
			if f.Again() {
				again[f.Index()]++
			}
			letters.apply(f)
			return nil
		})
		return letters.open(again), err
	})
}

// letterFold finds the dead letters.
type letterFold struct {
	last     map[int]int64 // of the items that are dead letters, the number of the event
	edits    map[int]int64
	failures []failed
}

// failed is an event that tells of an item's failures.
type failed struct {
	index int
	seq   int64
}

func (l *letterFold) apply(f *Fact) {
	index := f.Index()
	if index == 0 {
		return
	}
	switch kind := event.Type(f.rec.kind.vocabulary()); kind {
	case event.ItemRetry:
		l.failures = append(l.failures, failed{index, f.seq})
	case event.ItemFinished:
		status := finished(f.Status())
		if status != ItemSucceeded {
			l.failures = append(l.failures, failed{index, f.seq})
		}
		if status == ItemDeadLettered {
			value.Put(&l.last, index, f.seq)
		} else {
			delete(l.last, index)
		}
	case event.ItemRequeued, event.ItemRemoved:
		delete(l.last, index)
		if kind == event.ItemRequeued && f.rec.data != "" {
			value.Put(&l.edits, index, f.seq)
		}
	}
}

// open gives what is open at the end.
func (l *letterFold) open(again map[int]int) openLetters {
	o := openLetters{Histories: make(map[int][]int64, len(l.last)), Edits: map[int]int64{}, Again: map[int]int{}}
	for _, t := range l.failures {
		if letter, ok := l.last[t.index]; ok && t.seq <= letter {
			o.Histories[t.index] = append(o.Histories[t.index], t.seq)
		}
	}
	for index := range l.last {
		if n := again[index]; n > 0 {
			o.Again[index] = n
		}
		if seq := l.edits[index]; seq > 0 {
			o.Edits[index] = seq
		}
	}
	return o
}

// letters reads the dead letters of some items that fit the filter.
func (r *Reader) letters(ctx context.Context, indexes []int, open map[int][]int64, edits map[int]int64, f *DeadLetterFilter) ([]DeadLetter, error) {
	seqs := value.Map(indexes, func(index int) int64 { return open[index][len(open[index])-1] })
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
		if err := r.edit(ctx, &out[i], edits[out[i].Index]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// edit puts the data of an item_requeued, 0 for none, in the place of the list's.
func (r *Reader) edit(ctx context.Context, l *DeadLetter, seq int64) error {
	if seq == 0 {
		return nil
	}
	e, err := r.Event(ctx, seq)
	if err != nil {
		return err
	}
	var d struct{ Item json.RawMessage }
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return r.unreadable(seq, err)
	}
	if len(d.Item) > 0 {
		l.Original, l.Item = l.Item, d.Item
	}
	return nil
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
