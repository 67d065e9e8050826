package items

import (
	"fmt"
	"iter"
	"slices"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// This file tells of the fields that filter, sort_by and distinct name and that no
// item has. A field that only some items lack is theirs to lack.

// namedIn are the fields that the items are chosen and ordered by.
func namedIn(m *workflow.Map, spec input.Spec) (list []expr.Path) {
	if m.Filter != nil {
		list = m.Filter.Needs()
	}
	if m.SortBy != nil {
		list = append(list, m.SortBy.Refs()...)
	}
	if spec.Distinct != nil {
		list = append(list, spec.Distinct)
	}
	return list
}

// judged gives the items, and at their end tells of the names that none of those
// read has. It ends with an error where such a name has left out what there is: in
// distinct, which then keeps but one item, and in a filter that lets nothing through
// and misspells a field of the items, or asks for fields of items that have none.
func (l *List) judged(items iter.Seq2[event.Item, error], spec input.Spec) iter.Seq2[event.Item, error] {
	return func(yield func(event.Item, error) bool) {
		n := 0
		for it, err := range items {
			if !yield(it, err) || err != nil {
				return
			}
			n++
		}
		if err := l.tellLacking(spec, n); err != nil {
			yield(event.Item{}, err)
		}
	}
}

// tellLacking tells of each name once; left is how many items are left.
func (l *List) tellLacking(spec input.Spec, left int) error {
	m, seen := l.Executor.File.Map, spec.Seen
	if seen.Items == 0 {
		return nil
	}
	for i, p := range seen.Lacking {
		if slices.ContainsFunc(seen.Lacking[:i], func(q expr.Path) bool { return q.String() == p.String() }) {
			continue
		}
		text, misspelt := lackingText(seen, p)
		key, pos, decides := "filter", m.FilterPos, left == 0 && misspelt
		switch {
		case spec.Distinct != nil && p.String() == spec.Distinct.String():
			key, pos, decides = "distinct", m.DistinctPos, seen.Items > 1
		case m.Filter == nil || !slices.ContainsFunc(m.Filter.Needs(), func(q expr.Path) bool { return q.String() == p.String() }):
			key, pos, decides = "sort_by", m.SortPos, false
		}
		text = fmt.Sprintf("%s: map.%s reads %s, %s", pos, key, p, text)
		if decides {
			return &step.UnsetError{Text: text}
		}
		l.Executor.Note("%s", text)
	}
	return nil
}

// lackingText says that no item has a field, and what they have; misspelt: it may
// well be a field of theirs, or they have none at all.
func lackingText(seen *input.Seen, p expr.Path) (text string, misspelt bool) {
	text = fmt.Sprintf("which none of the %s has", diag.Count(seen.Items, "item"))
	if seen.Items == 1 {
		text = "which the only item does not have"
	}
	fields := seen.Fields()
	if len(fields) == 0 {
		return text + ": the items are no objects and have no fields; ${item} is all of one", true
	}
	bare := p
	if p[0].Name == "item" && len(p) > 1 {
		bare = p[1:]
	}
	name := bare[0].Name
	if slices.Contains(fields, name) { // a member of it is missing
		return text, false
	}
	return text + ": an item " + step.FieldsText(fields, name, "write ${"+p.String()+":-} where it may be missing"), diag.Nearest(name, fields) != ""
}
