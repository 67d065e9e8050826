package agents

import (
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/value"
)

// Again are dead letters as the map takes them. Edited items are recorded with
// their secrets masked, as the list is: seal keeps what was masked, and is called
// before they are recorded.
func (x *Map) Again(list []journal.DeadLetter, req *journal.RetryRequest) (out []mapper.Again, seal func() error) {
	for _, l := range list {
		out = append(out, mapper.Again{Index: l.Index, ID: l.ID, Attempts: l.Attempts, Item: req.Edited[l.Index]})
	}
	return out, func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		for i := range out {
			l := &out[i]
			if l.Item == nil {
				continue
			}
			sealed, marks, err := x.Seals.Seal(l.Item)
			if err != nil {
				return err
			}
			if err := x.Seals.Keep(l.Index, marks); err != nil {
				return err
			}
			l.Item = sealed
			value.Put(&x.edited, l.Index, sealed)
		}
		return nil
	}
}
