package engine

import (
	"slices"
	"sync"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/step"
)

// tally is how the items of a run have ended.
type tally struct {
	items   ItemCounts
	failed  bool // some items failed for good
	classes classes
}

// classes gathers failures by class, with an example of each.
type classes struct {
	mu sync.Mutex
	m  map[string]*ErrorClass
}

func (c *classes) add(class string, example mask.Text, item string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]*ErrorClass{}
	}
	e := c.m[class]
	if e == nil {
		e = &ErrorClass{Class: class, Example: example.Ends(step.Brief), Item: item}
		c.m[class] = e
	}
	e.Count++
}

// restore counts the failures of items in earlier lives of the run.
func (c *classes) restore(list []journal.ErrorClass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range list {
		if c.m == nil {
			c.m = map[string]*ErrorClass{}
		}
		c.m[e.Class] = &ErrorClass{Class: e.Class, Count: e.Count, Example: e.Message, Item: e.Item}
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

func (c *classes) list() []ErrorClass {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []ErrorClass
	for _, e := range c.m {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b ErrorClass) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		if a.Class < b.Class {
			return -1
		}
		return 1
	})
	return out
}
