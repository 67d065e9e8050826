package types

import "slices"

// Equal reports whether two types are the same, names of declarations and the
// order of fields and members aside.
func Equal(a, b *Type) bool {
	if a == b {
		return true
	}
	if a.Kind != b.Kind || a.size != b.size {
		return false
	}
	switch a.Kind {
	case ListKind, SeqKind, OptionalKind:
		return Equal(a.Elem, b.Elem)
	case MapKind:
		return Equal(a.Key, b.Key) && Equal(a.Elem, b.Elem)
	case RecordKind:
		return equalRecords(a, b)
	case UnionKind:
		return len(a.Members) == len(b.Members) && everyMember(a, func(m *Type) bool { return hasMember(b, m) })
	case FuncKind:
		return slices.EqualFunc(a.Params, b.Params, Equal) && Equal(a.Elem, b.Elem)
	case VarKind:
		return a.Name == b.Name
	}
	return true
}

func equalRecords(a, b *Type) bool {
	if len(a.Fields) != len(b.Fields) || a.Open != b.Open {
		return false
	}
	for i, f := range a.Fields {
		// Fields are mostly in the same order.
		other := b.Fields[i].Type
		if b.Fields[i].Name != f.Name {
			other = b.Field(f.Name)
		}
		if other == nil || !Equal(f.Type, other) {
			return false
		}
	}
	return true
}

func everyMember(union *Type, ok func(*Type) bool) bool {
	return !slices.ContainsFunc(union.Members, func(m *Type) bool { return !ok(m) })
}

func hasMember(union, t *Type) bool {
	return slices.ContainsFunc(union.Members, func(m *Type) bool { return Equal(m, t) })
}

// Subtype reports whether a value of type s may stand where a t is wanted.
//
//   - every type is a subtype of itself; Nothing is one of every type
//   - List, Seq, Optional and the values of a Map follow their element; the
//     keys of a Map must be equal
//   - List<T> is a subtype of Seq<T>, and T one of Optional<T>
//   - a record is one of a record with fewer or wider fields; a closed one also
//     of an open one whose fields it has; an open one never of a closed one
//   - S is one of a union that has a member it is a subtype of; a union is one
//     of what all its members are subtypes of
//   - a function may take more and give less
//
// Int is no subtype of Float.
func Subtype(s, t *Type) bool {
	if s == t || s.Kind == InvalidKind || t.Kind == InvalidKind || s.Kind == NothingKind {
		return true
	}
	if s.Kind == UnionKind {
		return everyMember(s, func(m *Type) bool { return Subtype(m, t) })
	}
	switch t.Kind {
	case UnionKind:
		return slices.ContainsFunc(t.Members, func(m *Type) bool { return Subtype(s, m) })
	case OptionalKind:
		if s.Kind == OptionalKind {
			return Subtype(s.Elem, t.Elem)
		}
		return Subtype(s, t.Elem)
	case SeqKind:
		return s.IsSequence() && Subtype(s.Elem, t.Elem)
	}
	if s.Kind != t.Kind {
		return false
	}
	switch t.Kind {
	case ListKind:
		return Subtype(s.Elem, t.Elem)
	case MapKind:
		return Equal(s.Key, t.Key) && Subtype(s.Elem, t.Elem)
	case RecordKind:
		return subRecord(s, t)
	case FuncKind:
		return subFunc(s, t)
	case VarKind:
		return s.Name == t.Name
	}
	return true
}

func subRecord(s, t *Type) bool {
	if s.Open && !t.Open {
		return false
	}
	for i, f := range t.Fields {
		// Fields are mostly in the same order.
		var have *Type
		if i < len(s.Fields) && s.Fields[i].Name == f.Name {
			have = s.Fields[i].Type
		} else {
			have = s.Field(f.Name)
		}
		if have == nil || !Subtype(have, f.Type) {
			return false
		}
	}
	return true
}

func subFunc(s, t *Type) bool {
	return slices.EqualFunc(t.Params, s.Params, Subtype) && Subtype(s.Elem, t.Elem)
}

// LUB is the least type that both are subtypes of: the wider one where they
// compare, else their union.
func LUB(a, b *Type) *Type {
	switch {
	case a.Kind == InvalidKind || b.Kind == InvalidKind:
		return Invalid
	case a.TooLarge():
		return a
	case b.TooLarge():
		return b
	case Subtype(a, b):
		return b
	case Subtype(b, a):
		return a
	}
	return UnionOf(a, b)
}

// Mergeable reports whether t may be beside + as a record: a record or a
// sequence of records.
func Mergeable(t *Type) bool {
	return t.Kind == RecordKind || t.IsSequence() && t.Elem.Kind == RecordKind
}

// Merge is the type of a + b for mergeable types: the fields of both, those of
// b replacing those of a. Beside a sequence the other side is merged with each
// element, and the result is a Seq if one side is.
func Merge(a, b *Type) *Type {
	if a.Kind == RecordKind && b.Kind == RecordKind {
		fields := make([]Field, 0, len(a.Fields)+len(b.Fields))
		return RecordOf(append(append(fields, a.Fields...), b.Fields...)...)
	}
	ea, eb, seq := a, b, false
	if a.IsSequence() {
		ea, seq = a.Elem, a.Kind == SeqKind
	}
	if b.IsSequence() {
		eb, seq = b.Elem, seq || b.Kind == SeqKind
	}
	if seq {
		return SeqOf(Merge(ea, eb))
	}
	return ListOf(Merge(ea, eb))
}
