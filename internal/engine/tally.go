package engine

import (
	"cmp"
	"slices"
	"sync"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
)

// tally is how the items of a run have ended.
type tally struct {
	items    ItemCounts
	failed   bool     // some items failed for good
	unmended []string // see mapRun
	unmerged int      // items that succeeded, and left files that are in no merge
	repeated *policy.Repeated
	classes  classes
}

// classes gathers failures by class, with an example of each.
type classes struct {
	mu sync.Mutex
	m  map[string]*journal.ErrorClass
}

func (c *classes) add(class string, example mask.Text, item, label string) {
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
func (c *classes) restore(list []journal.ErrorClass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range list {
		value.Put(&c.m, e.Class, &e)
	}
}

// forget takes back one failure: its item is run again.
func (c *classes) forget(class string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.m[class]; e != nil {
		if e.Count--; e.Count == 0 {
			delete(c.m, class)
		}
	}
}

func (c *classes) list() []journal.ErrorClass {
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
