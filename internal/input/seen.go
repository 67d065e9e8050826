package input

import (
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/expr"
)

// Seen is what is known of the items that were read.
type Seen struct {
	Items int
	// Lacking are the paths that are looked for in the items; one that an item has
	// is taken out.
	Lacking []expr.Path

	fields map[string]bool // of the first items, while something is lacking
	looked int
}

// The items whose fields are kept, and how many fields these are at most.
const (
	lookedAt   = 100
	mostFields = 200
)

func (s *Seen) item(v any) {
	s.Items++
	if len(s.Lacking) == 0 {
		return
	}
	s.Lacking = slices.DeleteFunc(s.Lacking, func(p expr.Path) bool { return expr.Has(expr.Item(v), p) })
	if s.looked++; s.looked > lookedAt {
		return
	}
	if s.fields == nil {
		s.fields = map[string]bool{}
	}
	m, _ := v.(map[string]any)
	for name := range m {
		if len(s.fields) == mostFields {
			return
		}
		s.fields[name] = true
	}
}

// Fields are the fields of the first items, sorted; there are none where these are
// no objects, or nothing was looked for.
func (s *Seen) Fields() []string { return slices.Sorted(maps.Keys(s.fields)) }
