package vars

import (
	"fmt"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// SetItem sets the variables of a work item of a list of total. A plain line is ${item}
// and ${item.item} alike.
func (s *Scope) SetItem(it event.Item, total int) error {
	v, err := value.Parse(it.Data)
	if err != nil {
		return fmt.Errorf("item %s: %w", it.ID, err)
	}
	whole := template.Value{V: v, Origin: template.Data, Raw: string(it.Data)}
	s.SetValue("item", whole)
	if _, isMap := v.(map[string]any); !isMap {
		s.SetValue("item.item", whole)
	}
	s.Set("item_json", string(it.Data))
	s.Set("item_id", it.ID)
	s.Set("item_index", int64(event.Number(it.Index)))
	s.Set("item_total", int64(total))
	return nil
}
