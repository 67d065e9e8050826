// Package types is the type system of the pipeline language: what types there
// are, when a value of one may stand where another is wanted, what two have in
// common, and how values of a type are read from and written as JSON.
//
// Types are structural. `type Point = {x: Int, y: Int}` gives a name to a
// record type but makes no new type: any record with those fields is a Point.
// A *[Type] is immutable once made, so it may be shared between goroutines.
//
// At run time a value is one of the JSON-shaped values of package value:
//
//	String    string            List, Seq  []any
//	Int       int64             Map        map[string]any, keys as text
//	Float     float64           record     map[string]any
//	Boolean   bool              Optional   the value itself, nil for none
//	                            union      the value itself, without a tag
//
// An Optional of an Optional has no more values than the Optional, so
// [OptionalOf] gives the same type for both.
package types

import (
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/value"
)

// Kind tells the types apart.
type Kind uint8

// The kinds. Invalid stands for the type of something that was already
// reported as wrong: it fits everywhere, so that one mistake is one error.
const (
	InvalidKind Kind = iota
	NothingKind
	StringKind
	IntKind
	FloatKind
	BooleanKind
	RecordKind
	ListKind
	SeqKind
	MapKind
	OptionalKind
	UnionKind
	FuncKind
	VarKind
)

// Type is one type. Make it with the constructors; compare with [Equal], not
// with ==.
type Type struct {
	Kind    Kind
	Name    string  // the name a declaration gave it, or that of a variable
	Key     *Type   // of a Map
	Elem    *Type   // of a List, Seq, Optional; the values of a Map; the result of a Func
	Fields  []Field // of a record, in declared order
	Open    bool    // of a record: any further fields may follow
	Members []*Type // of a union, in declared order; the types a variable may take
	Params  []*Type // of a Func
	size    int
	vars    bool
}

// Field is one field of a record type.
type Field struct {
	Name string
	Type *Type
}

// MaxSize bounds the number of parts of one type, so that a few lines which
// double a type again and again cannot make one that nobody can compare.
const MaxSize = 10000

// The types without parts.
var (
	Invalid = &Type{Kind: InvalidKind, size: 1}
	Nothing = &Type{Kind: NothingKind, size: 1}
	String  = &Type{Kind: StringKind, size: 1}
	Int     = &Type{Kind: IntKind, size: 1}
	Float   = &Type{Kind: FloatKind, size: 1}
	Boolean = &Type{Kind: BooleanKind, size: 1}
)

// Error is the type of `error` in a fallback and of the error of a [ResultOf].
var Error = RecordOf(
	Field{"message", String}, Field{"class", String},
	Field{"module", String}, Field{"attempts", Int},
)

func (t *Type) sized(parts ...*Type) *Type {
	t.size = 1
	for _, p := range parts {
		t.size = min(t.size+p.size, MaxSize+1)
		t.vars = t.vars || p.vars
	}
	return t
}

// ListOf is List<elem>.
func ListOf(elem *Type) *Type { return (&Type{Kind: ListKind, Elem: elem}).sized(elem) }

// SeqOf is Seq<elem>: like a List, and every List is one. Candidates<elem> is
// another name of it.
func SeqOf(elem *Type) *Type { return (&Type{Kind: SeqKind, Elem: elem}).sized(elem) }

// MapOf is Map<key, elem>.
func MapOf(key, elem *Type) *Type {
	return (&Type{Kind: MapKind, Key: key, Elem: elem}).sized(key, elem)
}

// OptionalOf is Optional<elem>; of an Optional it is that Optional.
func OptionalOf(elem *Type) *Type {
	if elem.Kind == OptionalKind {
		return elem
	}
	return (&Type{Kind: OptionalKind, Elem: elem}).sized(elem)
}

// RecordOf is a record with the fields in the order given. Of two fields with
// one name the last counts.
func RecordOf(fields ...Field) *Type {
	t := &Type{Kind: RecordKind, Fields: make([]Field, 0, len(fields)), size: 1}
	at := t.index
	var places map[string]int
	if len(fields) > 16 {
		places = make(map[string]int, len(fields))
		at = func(name string) int {
			if i, ok := places[name]; ok {
				return i
			}
			return -1
		}
	}
	for _, f := range fields {
		if i := at(f.Name); i >= 0 {
			t.Fields[i].Type = f.Type
			continue
		}
		if places != nil {
			places[f.Name] = len(t.Fields)
		}
		t.Fields = append(t.Fields, f)
	}
	for _, f := range t.Fields {
		t.size = min(t.size+f.Type.size, MaxSize+1)
		t.vars = t.vars || f.Type.vars
	}
	return t
}

// OpenRecordOf is a record with at least the fields given. Only a module's
// parameters have such types.
func OpenRecordOf(fields ...Field) *Type {
	t := RecordOf(fields...)
	t.Open = true
	return t
}

// FuncOf is (params…) => result. Only parameters of functions of the standard
// library have such types.
func FuncOf(params []*Type, result *Type) *Type {
	t := (&Type{Kind: FuncKind, Params: params, Elem: result}).sized(params...)
	t.size = min(t.size+result.size, MaxSize+1)
	t.vars = t.vars || result.vars
	return t
}

// VarOf is a variable of a generic signature. It takes any type, or one of
// those given.
func VarOf(name string, oneOf ...*Type) *Type {
	return &Type{Kind: VarKind, Name: name, Members: oneOf, size: 1, vars: true}
}

// UnionOf is the union of the members: unions among them are flattened,
// repetitions and Nothing left out, the order kept. A union of one is that
// one, a union of none is Nothing.
func UnionOf(members ...*Type) *Type {
	var flat []*Type
	size := 1
	for _, m := range members {
		parts := []*Type{m}
		if m.Kind == UnionKind {
			parts = m.Members
			if len(flat) == 0 {
				// They differ from one another already.
				flat, size = slices.Clone(parts), m.size
				continue
			}
		}
		for _, part := range parts {
			switch {
			case part.Kind == InvalidKind:
				return Invalid
			case part.Kind == NothingKind || slices.ContainsFunc(flat, func(o *Type) bool { return Equal(o, part) }):
				continue
			case size+part.size > MaxSize:
				return &Type{Kind: UnionKind, Members: flat, size: MaxSize + 1}
			}
			flat, size = append(flat, part), size+part.size
		}
	}
	switch len(flat) {
	case 0:
		return Nothing
	case 1:
		return flat[0]
	}
	return (&Type{Kind: UnionKind, Members: flat}).sized(flat...)
}

// ResultOf is what a call with `on_error: wrap` gives instead of elem: a record
// whose ok tells whether value or error is there.
func ResultOf(elem *Type) *Type {
	return RecordOf(
		Field{"ok", Boolean}, Field{"value", OptionalOf(elem)}, Field{"error", OptionalOf(Error)},
	).Named("Result")
}

// Named gives the same type under a name, which a tagged union value may use.
func (t *Type) Named(name string) *Type {
	c := *t
	c.Name = name
	return &c
}

// TooLarge reports whether the type has more than MaxSize parts. Such a type
// must not be compared or printed.
func (t *Type) TooLarge() bool { return t.size > MaxSize }

// Field gives the type of a record's field, nil if there is none.
func (t *Type) Field(name string) *Type {
	if i := t.index(name); i >= 0 {
		return t.Fields[i].Type
	}
	return nil
}

func (t *Type) index(name string) int {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// FieldNames lists a record's fields in declared order.
func (t *Type) FieldNames() []string {
	return value.Map(t.Fields, func(f Field) string { return f.Name })
}

// IsNumber reports whether t is Int or Float.
func (t *Type) IsNumber() bool { return t.Kind == IntKind || t.Kind == FloatKind }

// IsSequence reports whether t is a List or a Seq.
func (t *Type) IsSequence() bool { return t.Kind == ListKind || t.Kind == SeqKind }

// String writes the type as the language does; variables by their name, an
// open record with "...".
func (t *Type) String() string {
	if t.TooLarge() {
		return "a type with more than 10000 parts"
	}
	var b strings.Builder
	t.write(&b)
	return b.String()
}

func (t *Type) write(b *strings.Builder) {
	generic := func(name string, parts ...*Type) {
		b.WriteString(name)
		b.WriteByte('<')
		writeList(b, parts)
		b.WriteByte('>')
	}
	switch t.Kind {
	case InvalidKind:
		b.WriteString("?")
	case NothingKind:
		b.WriteString("Nothing")
	case StringKind:
		b.WriteString("String")
	case IntKind:
		b.WriteString("Int")
	case FloatKind:
		b.WriteString("Float")
	case BooleanKind:
		b.WriteString("Boolean")
	case VarKind:
		b.WriteString(t.Name)
	case ListKind:
		generic("List", t.Elem)
	case SeqKind:
		generic("Seq", t.Elem)
	case MapKind:
		generic("Map", t.Key, t.Elem)
	case OptionalKind:
		generic("Optional", t.Elem)
	case RecordKind:
		t.writeRecord(b)
	case UnionKind:
		for i, m := range t.Members {
			if i > 0 {
				b.WriteString(" | ")
			}
			m.write(b)
		}
	case FuncKind:
		b.WriteByte('(')
		writeList(b, t.Params)
		b.WriteString(") => ")
		t.Elem.write(b)
	}
}

func (t *Type) writeRecord(b *strings.Builder) {
	b.WriteByte('{')
	for i, f := range t.Fields {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.Name)
		b.WriteString(": ")
		f.Type.write(b)
	}
	if t.Open {
		if len(t.Fields) > 0 {
			b.WriteString(", ")
		}
		b.WriteString("...")
	}
	b.WriteByte('}')
}

func writeList(b *strings.Builder, ts []*Type) {
	for i, t := range ts {
		if i > 0 {
			b.WriteString(", ")
		}
		t.write(b)
	}
}
