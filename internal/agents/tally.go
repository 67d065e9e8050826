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
	Failed   bool     // some items failed for good
	Unmended []string // names of the first items of which a repair did not mend a step
	Unmerged int      // items that succeeded, and left files that are in no merge
	Repeated *policy.Repeated
	Classes  Classes
}

// Classes gathers failures by class, with an example of each.
type Classes struct {
	mu sync.Mutex
	m  map[string]*journal.ErrorClass
}

func (c *Classes) add(class string, example mask.Text, item, label string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]*journal.ErrorClass{}
	}
	e := c.m[class]
	if e == nil {
		e = &journal.ErrorClass{Class: class, Example: example.Ends(step.Brief), Item: item, Label: label}
		c.m[class] = e
	}
	e.Count++
}

// restore counts the failures of items in earlier lives of the run.
func (c *Classes) restore(list []journal.ErrorClass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range list {
		value.Put(&c.m, e.Class, &e)
	}
}

// forget takes back one failure: its item is run again.
func (c *Classes) forget(class string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.m[class]; e != nil {
		if e.Count--; e.Count == 0 {
			delete(c.m, class)
		}
	}
}

// List gives them, the most frequent first.
func (c *Classes) List() []journal.ErrorClass {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []journal.ErrorClass
	for _, e := range c.m {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b journal.ErrorClass) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class))
	})
	return out
}
