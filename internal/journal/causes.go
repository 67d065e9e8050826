package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/value"
)

// Cause is how many items failed for good of one cause, and are not to be run again.
type Cause struct {
	Class   string `json:"class"`
	Group   string `json:"group,omitempty"` // the ID of its [failure.Signature], as dead letters have it; "" for the other causes of the class
	Step    string `json:"step,omitempty"`  // what a person knows the step by that failed
	Count   int    `json:"count"`
	Example string `json:"example"`         // the message of one of the items
	Item    string `json:"item,omitempty"`  // its id
	Label   string `json:"label,omitempty"` // what a person knows it by; "" for its id
	Index   int    `json:"-"`               // its place in the list; 0 where there is no example
}

// exemplify makes the item that a fact is of the example.
func (c *Cause) exemplify(e event.Event) {
	c.Index, c.Item, c.Label, c.Example = e.Index, e.Item, e.Label, e.Message
}

// maxCauses is how many causes are told apart. Those that come later are counted by their
// class.
const maxCauses = 50

// Causes counts the items that failed for good by their causes: two bytes for each item,
// once one has failed. The zero value has none.
type Causes struct {
	list   []Cause   // Count may be 0
	more   [][]Cause // by place: further examples, for when that of the cause is mended: the last ones
	places map[failure.Signature]int
	of     []uint16 // the cause of an item, by index-1: its place plus one, 0 for none
}

// maxExamples bounds the further examples of a cause.
const maxExamples = 8

// Clone gives a copy.
func (x *Causes) Clone() Causes {
	return Causes{slices.Clone(x.list), value.Map(x.more, slices.Clone), maps.Clone(x.places), slices.Clone(x.of)}
}

// List gives the causes, the most frequent first, and then by their classes.
func (x *Causes) List() []Cause {
	list := slices.DeleteFunc(slices.Clone(x.list), func(c Cause) bool { return c.Count == 0 })
	slices.SortStableFunc(list, func(a, b Cause) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class)) })
	return list
}

// Apply takes the facts of items one after the other. The others have no part in it.
func (x *Causes) Apply(e event.Event) {
	switch e.Type {
	case event.ItemFinished:
		x.forget(e.Index)
		if e.Class != "" && finished(e.Status).Done() {
			x.failed(e)
		}
	case event.ItemRequeued:
		x.forget(e.Index)
	}
}

func (x *Causes) failed(e event.Event) {
	sign := failure.Sign(e.Class, FailedStep(e.Data), e.Message)
	place, known := x.places[sign]
	if !known && len(x.places) >= maxCauses {
		sign = failure.Signature{Class: e.Class}
		place, known = x.places[sign]
	}
	if !known {
		if place = len(x.list); place >= 1<<16-1 {
			return // nothing has so many classes
		}
		c := Cause{Class: e.Class}
		if sign != (failure.Signature{Class: e.Class}) {
			c.Group, c.Step = sign.ID(), FailedLabel(e.Data)
		}
		x.list, x.more = append(x.list, c), append(x.more, nil)
		value.Put(&x.places, sign, place)
	}
	c := &x.list[place]
	if c.Index == 0 {
		c.exemplify(e)
	} else {
		var one Cause
		one.exemplify(e)
		more := append(x.more[place], one)
		x.more[place] = more[max(0, len(more)-maxExamples):]
	}
	c.Count++
	if more := e.Index - len(x.of); more > 0 {
		x.of = slices.Grow(x.of, more)[:e.Index]
	}
	x.of[e.Index-1] = uint16(place + 1)
}

// forget takes an item's failure back: the item is run again, or has ended anew.
func (x *Causes) forget(index int) {
	if index > len(x.of) || x.of[index-1] == 0 {
		return
	}
	place := int(x.of[index-1]) - 1
	c, more := &x.list[place], &x.more[place]
	c.Count--
	*more = slices.DeleteFunc(*more, func(one Cause) bool { return one.Index == index })
	if c.Index == index {
		var next Cause
		if len(*more) > 0 {
			next, *more = (*more)[0], (*more)[1:]
		}
		c.Index, c.Item, c.Label, c.Example = next.Index, next.Item, next.Label, next.Example
	}
	x.of[index-1] = 0
}

// FailedStep is the path of the step that failed, in the data of a failed attempt or of an
// item that failed for good; "" where no step did, or the data do not say so.
func FailedStep[T ~[]byte | ~string](data T) string {
	_, path, _ := strings.Cut(ownPart(string(data)), `"step":"`)
	path, _, _ = strings.Cut(path, `"`)
	return path
}

// maxLabel bounds the label of a step that failed, in bytes.
const maxLabel = 160

// FailedLabel is what a person knows that step by: the beginning of its label, or else its path.
func FailedLabel[T ~[]byte | ~string](data T) string {
	var own struct {
		Step  string
		Label string `json:"step_label"`
	}
	_ = json.Unmarshal([]byte("{"+ownPart(string(data))), &own) // no step is named then
	return diag.ClipBytes(cmp.Or(own.Label, own.Step), maxLabel)
}

// ownPart is what a failed attempt's data say of the attempt itself. Before it stand the
// members of the result, whose steps are others.
func ownPart(data string) string {
	if _, letter, ok := strings.Cut(data, `"correlation_id":`); ok {
		return `"correlation_id":` + letter
	}
	at := max(0, strings.LastIndex(data, `"step":"`))
	if strings.Contains(data[at:], `"size":`) { // a step of the result: earlier versions did not say which one failed
		return ""
	}
	return data[at:]
}

// lacking are the first items of the causes that lost their example; nil for none.
func (x *Causes) lacking() map[int]int64 {
	var want map[int]int64
	for n, c := range x.list {
		if c.Count > 0 && c.Index == 0 {
			value.Put(&want, slices.Index(x.of, uint16(n+1))+1, 0)
		}
	}
	return want
}

// exemplify takes the last end of an item that a cause lacks.
func (x *Causes) exemplify(e event.Event) { x.list[x.of[e.Index-1]-1].exemplify(e) }

// examples finds an example for each cause whose own has been mended, in the events up to
// a number.
func (r *Reader) examples(ctx context.Context, x *Causes, last int64) error {
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
