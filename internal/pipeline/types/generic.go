package types

import (
	"slices"

	"github.com/bide-dev/bide/internal/value"
)

// Param is one parameter of a function or module.
type Param struct {
	Name string
	Type *Type
}

// Signature is what a function takes and gives. Where Like is set and the
// first argument is a Seq, the result is a Seq instead of a List.
type Signature struct {
	Params []Param
	Result *Type
	Like   bool
}

// String writes the signature as "(name: Type, …) -> Type".
func (s Signature) String() string {
	text := "("
	for i, p := range s.Params {
		if i > 0 {
			text += ", "
		}
		text += p.Name + ": " + p.Type.String()
	}
	return text + ") -> " + s.Result.String()
}

// Bindings holds what the variables of a signature stand for in one call. The
// zero Bindings is empty.
type Bindings struct {
	names []string
	types []*Type
}

func (b *Bindings) get(name string) (int, *Type) {
	for i, n := range b.names {
		if n == name {
			return i, b.types[i]
		}
	}
	return -1, nil
}

// Match reports whether an argument of type arg fits a parameter, binding the
// variables in it. A variable keeps the widest of the types it meets, if one
// of them is wider than the others; of Int and Float where it is restricted,
// Float.
func (b *Bindings) Match(param, arg *Type) bool {
	if param.Kind == VarKind {
		return b.matchVar(param, arg)
	}
	if !param.vars || arg.Kind == InvalidKind {
		return Subtype(arg, param)
	}
	if arg.Kind == NothingKind {
		return true
	}
	switch param.Kind {
	case OptionalKind:
		if arg.Kind == OptionalKind {
			return b.Match(param.Elem, arg.Elem)
		}
		return b.Match(param.Elem, arg)
	case ListKind:
		return arg.Kind == ListKind && b.Match(param.Elem, arg.Elem)
	case SeqKind:
		return arg.IsSequence() && b.Match(param.Elem, arg.Elem)
	case MapKind:
		return arg.Kind == MapKind && b.Match(param.Key, arg.Key) && b.Match(param.Elem, arg.Elem)
	case FuncKind:
		return arg.Kind == FuncKind && b.matchFunc(param, arg)
	case RecordKind:
		return arg.Kind == RecordKind && !slices.ContainsFunc(param.Fields, func(f Field) bool {
			have := arg.Field(f.Name)
			return have == nil || !b.Match(f.Type, have)
		})
	}
	return Subtype(arg, b.Apply(param))
}

func (b *Bindings) matchFunc(param, arg *Type) bool {
	takes := func(want, have *Type) bool { return Subtype(b.Apply(want), have) }
	return slices.EqualFunc(param.Params, arg.Params, takes) && b.Match(param.Elem, arg.Elem)
}

func (b *Bindings) matchVar(v, arg *Type) bool {
	if len(v.Members) > 0 && arg.Kind != NothingKind && arg.Kind != InvalidKind && !hasMember(v, arg) {
		return false
	}
	i, have := b.get(v.Name)
	switch {
	case i < 0:
		b.names = append(b.names, v.Name)
		b.types = append(b.types, arg)
		return true
	case Subtype(arg, have):
		return true
	case Subtype(have, arg):
		b.types[i] = arg
		return true
	case len(v.Members) > 0 && have.IsNumber() && arg.IsNumber():
		b.types[i] = Float
		return true
	}
	return false
}

// Apply puts what the variables stand for in their place. A variable that
// nothing was bound to becomes Nothing.
func (b *Bindings) Apply(t *Type) *Type { return b.apply(t, false) }

// apply is Apply, or with keep set leaves variables that nothing was bound to.
func (b *Bindings) apply(t *Type, keep bool) *Type {
	if !t.vars {
		return t
	}
	switch t.Kind {
	case VarKind:
		if i, have := b.get(t.Name); i >= 0 {
			return have
		}
		if keep {
			return t
		}
		return Nothing
	case ListKind:
		return ListOf(b.apply(t.Elem, keep))
	case SeqKind:
		return SeqOf(b.apply(t.Elem, keep))
	case OptionalKind:
		return OptionalOf(b.apply(t.Elem, keep))
	case MapKind:
		return MapOf(b.apply(t.Key, keep), b.apply(t.Elem, keep))
	case FuncKind:
		return FuncOf(value.Map(t.Params, func(p *Type) *Type { return b.apply(p, keep) }), b.apply(t.Elem, keep))
	case RecordKind:
		fields := value.Map(t.Fields, func(f Field) Field { return Field{f.Name, b.apply(f.Type, keep)} })
		r := RecordOf(fields...)
		r.Open = t.Open
		return r
	case UnionKind:
		return UnionOf(value.Map(t.Members, func(m *Type) *Type { return b.apply(m, keep) })...)
	}
	return t
}

// Generic reports whether the type has variables in it.
func (t *Type) Generic() bool { return t.vars }

// Bound lists what the variables stand for so far.
func (b *Bindings) Bound() []*Type { return b.types }

// Knows reports whether it is known what every variable of a type stands for.
func (b *Bindings) Knows(t *Type) bool { return !b.apply(t, true).Generic() }

// Show is a parameter's type for a message: with what its variables stand for
// where that is known.
func (b *Bindings) Show(param *Type) string {
	if param.Kind == VarKind && len(param.Members) > 0 {
		if i, _ := b.get(param.Name); i < 0 || b.types[i].IsNumber() {
			return UnionOf(param.Members...).String()
		}
	}
	return b.apply(param, true).String()
}
