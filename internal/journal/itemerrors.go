package journal

import (
	"cmp"
	"slices"

	"github.com/bide-dev/bide/internal/event"
)

// ErrorClass is how many items failed for good by errors of a class, and are
// not to be run again.
type ErrorClass struct {
	Class   string `json:"class"`
	Count   int    `json:"count"`
	Example string `json:"example"`         // the message of one of them
	Item    string `json:"item,omitempty"`  // its id
	Label   string `json:"label,omitempty"` // what a person knows it by; "" for its id
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
	if c.Count == 0 {
		c.Item, c.Label, c.Example = e.Item, e.Label, e.Message
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
	x.classes[x.of[index-1]-1].Count--
	x.of[index-1] = 0
}
