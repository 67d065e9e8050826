package vars

import (
	"fmt"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// ForItem makes a scope inside s with the variables of a work item of a list of total.
// A plain line is ${item} and ${item.item} alike. attempt is the number of the attempt at
// it; 0: there is none.
func (s *Scope) ForItem(it event.Item, total, attempt int) (*Scope, error) {
	v, err := value.Parse(it.Data)
	if err != nil {
		return nil, fmt.Errorf("item %s: %w", it.ID, err)
	}
	child := s.Child()
	child.item = &item{Item: it, value: v, total: total, attempt: attempt}
	return child, nil
}

// item gives the variables of a work item: each is made when it is read, since steps read
// few of them.
type item struct {
	event.Item
	value any

	total, attempt int
}

// itemNames are the variables of a work item; item.item is one where it is no object.
var itemNames = []string{"item", "item.item", "item_json", "item_id", "item_index", "item_total", "attempt"}

// variable gives the variable of a name.
func (it *item) variable(name string) (v template.Value, ok bool) {
	if it == nil {
		return v, false
	}
	v.Origin = template.Data
	switch name {
	case "item.item":
		if _, isMap := it.value.(map[string]any); isMap {
			return template.Value{}, false
		}
		fallthrough
	case "item":
		v.V, v.Raw = it.value, string(it.Data)
	case "item_json":
		v.V = string(it.Data)
	case "item_id":
		v.V = it.ID
	case "item_index":
		v.V = int64(event.Number(it.Index))
	case "item_total":
		v.V = int64(it.total)
	case "attempt":
		if it.attempt == 0 {
			return template.Value{}, false
		}
		v.V = int64(it.attempt)
	default:
		return template.Value{}, false
	}
	return v, true
}
