package journal

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"github.com/bide-dev/bide/internal/event"
)

// Result is what became of a work item: its last item_finished.
type Result struct {
	Seq        int64 // the number of that event
	Index      int
	ID         string
	Label      string // what a person knows the item by; "" for its id
	Status     string // as in the event
	Attempts   int
	DurationMS int64
	Class      string
	Message    string
	Data       json.RawMessage
}

// Results gives the finished items in the order of the list. An item that was
// requeued and is not finished again is not among them. The sequence needs
// eight bytes for each item. It ends after the first error.
func (r *Reader) Results(ctx context.Context) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		last, err := r.lastFinished(ctx)
		if err != nil {
			yield(Result{}, err)
			return
		}
		for batch := range slices.Chunk(last, page) {
			events, err := r.bySeq(ctx, batch)
			if err != nil {
				yield(Result{}, err)
				return
			}
			for _, e := range events {
				if !yield(ResultOf(e), nil) {
					return
				}
			}
		}
	}
}

// ResultOf is the result that an item_finished tells.
func ResultOf(e event.Event) Result {
	return Result{
		Seq: e.Seq, Index: e.Index, ID: e.Item, Label: e.Label, Status: e.Status, Attempts: e.Attempts, DurationMS: e.DurationMS,
		Class: e.Class, Message: e.Message, Data: e.Data,
	}
}

// lastFinished gives the number of the last item_finished of each finished
// item, in the order of items.
func (r *Reader) lastFinished(ctx context.Context) ([]int64, error) {
	limit, err := r.maxIndex(ctx)
	if err != nil {
		return nil, err
	}
	var last []int64
	err = r.itemEvents(ctx, []event.Type{event.ItemFinished, event.ItemRequeued}, func(e event.Event) error {
		if e.Index < 1 || e.Index > limit {
			return damaged(r.path, "an event is of an item that is not in the list", nil)
		}
		if more := e.Index - len(last); more > 0 {
			last = slices.Grow(last, more)[:e.Index]
		}
		last[e.Index-1] = 0
		if e.Type == event.ItemFinished && finished(e.Status).Done() {
			last[e.Index-1] = e.Seq
		}
		return nil
	})
	return slices.DeleteFunc(last, func(seq int64) bool { return seq == 0 }), err
}

// maxIndex is the highest index of an item that is believed.
func (r *Reader) maxIndex(ctx context.Context) (int, error) {
	n, _, loaded, err := r.ItemList(ctx)
	if err != nil || !loaded {
		return maxUnlisted, err
	}
	return r.countItems(ctx, n)
}

// itemEvents gives the events of items of some types of the vocabulary, in
// order: number, type, index and status of each, and the data of item_requeued.
// each must not use the Reader.
func (r *Reader) itemEvents(ctx context.Context, types []event.Type, each func(event.Event) error) error {
	_, err := r.Scan(ctx, 1, func(f *Fact) error {
		kind := event.Type(f.rec.kind.vocabulary())
		if f.rec.index == 0 || !slices.Contains(types, kind) {
			return nil
		}
		e := event.Event{Seq: f.seq, Type: kind, Index: f.Index(), Status: f.Status()}
		if kind == event.ItemRequeued {
			e.Data = json.RawMessage(f.Data())
		}
		return each(e)
	})
	return err
}

// Event gives the event of a number.
func (r *Reader) Event(ctx context.Context, seq int64) (event.Event, error) {
	if err := r.ready(ctx); err != nil {
		return event.Event{}, err
	}
	list, err := r.bySeq(ctx, []int64{seq})
	if err != nil {
		return event.Event{}, err
	}
	return list[0], nil
}

// bySeq reads the events of these numbers, in their order.
func (r *Reader) bySeq(ctx context.Context, seqs []int64) ([]event.Event, error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	var out []event.Event
	err := r.fresh(ctx, func() (err error) {
		out, err = r.readSeqs(ctx, seqs)
		return err
	})
	return out, err
}

func (r *Reader) readSeqs(ctx context.Context, seqs []int64) ([]event.Event, error) {
	known := r.dictionary()
	place := make(map[int64]int, len(seqs))
	for i, seq := range seqs {
		place[seq] = i
	}
	out := make([]event.Event, len(seqs))
	found := 0
	// To read past some rows costs less than to look each one up, and items end
	// in about the order of the list.
	sorted := slices.Sorted(slices.Values(seqs))
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n]-sorted[n-1] < together {
			n++
		}
		err := r.records(ctx, sorted[0], sorted[n-1], func(seq int64, rec *record) (err error) {
			if i, ok := place[seq]; ok {
				out[i], err = r.event(known, seq, rec)
				found++
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		sorted = sorted[n:]
	}
	if found != len(place) {
		return nil, damaged(r.path, "an event has gone", nil)
	}
	return out, nil
}

// together is how far apart two events are that are read in one go.
const together = 512
