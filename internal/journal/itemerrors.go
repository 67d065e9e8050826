package journal

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/value"
)

// ErrorClass is how many items failed for good by errors of a class, and are
// not to be run again.
type ErrorClass struct {
	Class   string `json:"class"`
	Count   int    `json:"count"`
	Example string `json:"example"`         // the message of one of them
	Item    string `json:"item,omitempty"`  // its id
	Label   string `json:"label,omitempty"` // what a person knows it by; "" for its id
	Index   int    `json:"-"`               // its place in the list; 0 where there is no example
}

// exemplify makes the item that a fact is of the example.
func (c *ErrorClass) exemplify(e event.Event) {
	c.Index, c.Item, c.Label, c.Example = e.Index, e.Item, e.Label, e.Message
}

// Without takes the example away if it is of an item, which is no failure of the class
// any more.
func (c *ErrorClass) Without(index int) {
	if c.Index == index {
		c.exemplify(event.Event{})
	}
}

// itemErrors counts the classes of the errors of items: two bytes for each
// item, once one has failed.
type itemErrors struct {
	classes []ErrorClass // Count may be 0
	of      []uint16     // the class of an item, by index-1: its place plus one, 0 for none
}

// Errors gives the classes of the errors by which items failed for good, the
// most frequent first.
func (t *Items) Errors() []ErrorClass {
	list := slices.DeleteFunc(slices.Clone(t.errors.classes), func(c ErrorClass) bool { return c.Count == 0 })
	slices.SortStableFunc(list, func(a, b ErrorClass) int { return cmp.Compare(b.Count, a.Count) })
	return list
}

// ended takes an item_finished: one with a class is of an item that failed.
func (x *itemErrors) ended(e event.Event) {
	x.forget(e.Index)
	if e.Class == "" || !finished(e.Status).Done() {
		return
	}
	place := slices.IndexFunc(x.classes, func(c ErrorClass) bool { return c.Class == e.Class })
	if place < 0 {
		if place = len(x.classes); place >= 1<<16-1 {
			return // nothing has so many kinds of error
		}
		x.classes = append(x.classes, ErrorClass{Class: e.Class})
	}
	c := &x.classes[place]
	if c.Index == 0 {
		c.exemplify(e)
	}
	c.Count++
	if more := e.Index - len(x.of); more > 0 {
		x.of = slices.Grow(x.of, more)[:e.Index]
	}
	x.of[e.Index-1] = uint16(place + 1)
}

// forget takes an item's error back: the item is run again, or has ended anew.
func (x *itemErrors) forget(index int) {
	if index > len(x.of) || x.of[index-1] == 0 {
		return
	}
	c := &x.classes[x.of[index-1]-1]
	c.Count--
	c.Without(index)
	x.of[index-1] = 0
}

// lacking are the first items of the classes that lost their example; nil for none.
func (x *itemErrors) lacking() map[int]int64 {
	var want map[int]int64
	for n, c := range x.classes {
		if c.Count > 0 && c.Index == 0 {
			value.Put(&want, slices.Index(x.of, uint16(n+1))+1, 0)
		}
	}
	return want
}

// exemplify takes the last end of an item that a class lacks.
func (x *itemErrors) exemplify(e event.Event) { x.classes[x.of[e.Index-1]-1].exemplify(e) }

// examples finds an example for each class whose own has been mended, in the events up to
// a number.
func (r *Reader) examples(ctx context.Context, x *itemErrors, last int64) error {
	want := x.lacking()
	if want == nil {
		return nil
	}
	_, err := r.scan(ctx, 1, func(f *Fact) error {
		if _, ok := want[f.Index()]; ok && f.Type() == event.ItemFinished && f.Seq() <= last {
			want[f.Index()] = f.Seq()
		}
		return nil
	})
	if err != nil {
		return err
	}
	events, err := r.bySeq(ctx, slices.Sorted(maps.Values(want)))
	for _, e := range events {
		x.exemplify(e)
	}
	return err
}
