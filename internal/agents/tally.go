package agents

import (
	"cmp"
	"slices"
	"sync"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
)

// Tally is how the items of a map have ended.
type Tally struct {
	Items    event.ItemCounts
	Letters  int      // of those that failed, the ones that are dead letters
	Failed   bool     // some items failed for good
	Unmended []string // names of the first items of which a repair did not mend a step
	Unmerged int      // items that succeeded, and left files that are in no merge
	Nowhere  int      // of those, the ones whose files are in no branch either
	Repeated *policy.Repeated
	Classes  Classes
}

// Classes gathers failures by class, with an example of each.
type Classes struct {
	mu sync.Mutex
	m  map[string]*classOf
}

// classOf is the failures of a class. more are further examples, for when that of the class
// is mended: the last ones.
type classOf struct {
	journal.ErrorClass
	more []journal.ErrorClass
}

// maxExamples bounds the further examples.
const maxExamples = 8

// next makes the first of the further examples that of the class.
func (c *classOf) next() {
	if len(c.more) > 0 {
		c.Index, c.Item, c.Label, c.Example = c.more[0].Index, c.more[0].Item, c.more[0].Label, c.more[0].Example
		c.more = c.more[1:]
	}
}

func (c *Classes) add(class string, example mask.Text, index int, item, label string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]*classOf{}
	}
	e := c.m[class]
	if e == nil {
		e = &classOf{ErrorClass: journal.ErrorClass{Class: class}}
		c.m[class] = e
	}
	one := journal.ErrorClass{Example: example.Ends(step.Brief), Index: index, Item: item, Label: label}
	e.Count++
	if e.more = append(e.more, one); e.Index == 0 {
		e.next()
	} else if len(e.more) > maxExamples {
		e.more = e.more[1:]
	}
}

// restore counts the failures of items in earlier lives of the run.
func (c *Classes) restore(list []journal.ErrorClass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range list {
		value.Put(&c.m, e.Class, &classOf{ErrorClass: e})
	}
}

// forget takes back one failure: its item is run again.
func (c *Classes) forget(class string, index int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.m[class]; e != nil {
		if e.Count--; e.Count == 0 {
			delete(c.m, class)
		}
		e.more = slices.DeleteFunc(e.more, func(one journal.ErrorClass) bool { return one.Index == index })
		if e.Without(index); e.Index == 0 {
			e.next()
		}
	}
}

// List gives them, the most frequent first.
func (c *Classes) List() []journal.ErrorClass {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []journal.ErrorClass
	for _, e := range c.m {
		out = append(out, e.ErrorClass)
	}
	slices.SortFunc(out, func(a, b journal.ErrorClass) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class))
	})
	return out
}
