package agents

import (
	"sync"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
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
	Causes   Causes
}

// Causes gathers failures by their causes, as the state of the journal does, of which it
// takes over what earlier lives of the run have failed of.
type Causes struct {
	mu sync.Mutex
	of journal.Causes
}

// apply takes a fact that the map records.
func (c *Causes) apply(m *mask.Masker, e event.Event) {
	e.Message, e.Item, e.Label = m.String(e.Message), m.String(e.Item), m.String(e.Label)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of.Apply(e)
}

func (c *Causes) restore(of *journal.Causes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of = of.Clone()
}

// List gives them, the most frequent first.
func (c *Causes) List(m *mask.Masker) []journal.Cause {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.of.List()
	for i := range list {
		list[i].Step = m.String(list[i].Step)
		list[i].Example = m.Text(list[i].Example).Ends(step.Brief)
	}
	return list
}
