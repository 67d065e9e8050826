package types

import (
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/value"
)

// Sample gives a value of a type where nobody knows a real one, for simulations:
// lists of n elements that differ as far as the type allows, and otherwise what
// is not empty.
func Sample(t *Type, n int) any { return sample(t, n, 1) }

// sample gives the ith of several values.
func sample(t *Type, n, i int) any {
	switch t.Kind {
	case StringKind:
		return "item " + strconv.Itoa(i)
	case IntKind:
		return int64(i)
	case FloatKind:
		return float64(i)
	case BooleanKind:
		return true
	case ListKind, SeqKind:
		list := make([]any, n)
		for k := range list {
			list[k] = sample(t.Elem, min(n, 1), k+1)
		}
		return list
	case MapKind:
		return map[string]any{}
	case RecordKind:
		m := make(map[string]any, len(t.Fields))
		for _, f := range t.Fields {
			m[f.Name] = sample(f.Type, n, i)
		}
		return m
	case OptionalKind:
		return sample(t.Elem, n, i)
	case UnionKind:
		return sample(t.Members[0], n, i)
	}
	return nil
}

// Example is how a person writes a value of a type on a command line: a String as it is,
// others as JSON in quotes for the shell.
func Example(t *Type) string {
	if t.Kind == StringKind || t.Kind == OptionalKind && t.Elem.Kind == StringKind {
		return "TEXT"
	}
	text := value.JSON(Encode(Sample(t, 1)))
	if strings.ContainsAny(text, ` "[]{}`) {
		return "'" + text + "'"
	}
	return text
}
