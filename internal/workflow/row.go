package workflow

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// field is one key that the parser knows: what the reference says of it, and where
// its value goes.
type field struct {
	key    string
	typ    *form  // what its value may be
	sample string // a value in flow style that is accepted here
	doc    string
	def    string // what holds where the key is missing; "" where nothing does
	// was says where the predecessor took the key without doing anything:
	// letters of phases (c commands, s setup, m map, r reduce, g merge), or "*".
	was string
	// as is the key whose older spelling this one is: it says the same.
	as     string
	native bool // only bide has it: a file with it was written for bide
	// inert is why the key does nothing anywhere; "" for all others.
	inert string

	// into points to where the value goes in a model: the type there and the form here
	// say how it is read. read reads a value of a form of its own. Either is for models
	// of some types, and nothing for others: [table.read] reads the keys that go into
	// the model it is given, so that keys which mean something only beside others have
	// a model of their own.
	into     func(model any) any
	read     reader
	composed composing // in a file that is made of several
	// act reads the action of a step whose key this is.
	act func(d *decoder, o *object, s *Step, key string, n *node) Action
	// alone is an action only where the step has no other.
	alone bool
	// takes says which values the key has; others are left to the tables after this one.
	takes func(n *node) bool
	// fresh says for which values the key is new: was holds for the others.
	fresh func(n *node) bool

	spellings []string // the key, and the older ones that are read as it is
}

// of says where the value of a key goes in the models of a type.
func of[M, T any](get func(*M) *T) func(any) any {
	return func(model any) any {
		if m, ok := model.(*M); ok {
			return get(m)
		}
		return nil
	}
}

// either is for a key that goes into models of several types.
func either(places ...func(any) any) func(any) any {
	return func(model any) any {
		for _, of := range places {
			if to := of(model); to != nil {
				return to
			}
		}
		return nil
	}
}

// reader reads the value of a key into a model.
type reader interface {
	reads(model any) bool
	read(o *object, key string, n *node, model any)
}

// by says how the value of a key is read into the models of a type.
func by[M any](read func(o *object, key string, n *node, m *M)) reader { return readerOf[M](read) }

type readerOf[M any] func(o *object, key string, n *node, m *M)

func (readerOf[M]) reads(model any) bool { _, ok := model.(*M); return ok }

func (f readerOf[M]) read(o *object, key string, n *node, model any) { f(o, key, n, model.(*M)) }

// written is a key as it is in a map, with its value, which is nil where the key
// has none. The zero one is not written. Two keys that go to the same place say the same.
type written struct{ key, val *node }

// orNull is written for a key of which null is a value.
type orNull written

// there reports whether the key is written, with or without a value.
func (w written) there() bool { return w.key != nil }

// in reports whether the key of a field goes into a model.
func (f *field) in(model any) bool {
	return f.into != nil && f.into(model) != nil || f.read != nil && f.read.reads(model)
}

// table is the keys of one kind of map. They are made when a map of this kind
// is met: most files have few kinds, and every start of bide would pay for all.
type table struct {
	name  string // of its definition in the schema
	what  string // in messages: "a step"
	list  func() []field
	once  sync.Once
	made  []field
	index map[string]*field
}

func newTable(name, what string) *table { return &table{name: name, what: what} }

// of gives the table its keys.
func (t *table) of(list func() []field) *table {
	t.list = list
	return t
}

// fields is the keys in their order.
func (t *table) fields() []field {
	t.once.Do(t.fill)
	return t.made
}

func (t *table) fill() {
	t.made = t.list()
	t.index = make(map[string]*field, len(t.made))
	for i := range t.made {
		f := &t.made[i]
		f.spellings = []string{f.key}
		if f.typ == tBool && f.def == "" && f.as == "" && f.inert == "" {
			f.def = "false"
		}
		t.index[f.key] = f
	}
	for i := range t.made {
		f := &t.made[i]
		if f.as == "" {
			continue
		}
		f.doc = "the same as " + f.as
		if present := t.index[f.as]; present != nil && f.read == nil {
			present.spellings = append(present.spellings, f.key)
		}
	}
}

func (t *table) keys() []string {
	return value.Map(t.fields(), func(f field) string { return f.key })
}

func (t *table) field(key string) (*field, bool) {
	t.once.Do(t.fill)
	f, ok := t.index[key]
	return f, ok
}

// row is the present row of a key in any spelling; an empty one for a key of no table.
func (t *table) row(key string) *field {
	if t != nil {
		if f, ok := t.field(key); ok {
			if present, ok := t.field(f.as); ok {
				return present
			}
			return f
		}
	}
	return &field{key: key, typ: tAny}
}

// written is where a map has a key, in this spelling or in another; -1 if it has none.
func (t *table) written(n *node, key string) int {
	is := func(other string) func(pair) bool { return func(p pair) bool { return p.key.text == other } }
	if at := slices.IndexFunc(n.pairs, is(key)); at >= 0 {
		return at
	}
	present := t.row(key).key
	return slices.IndexFunc(n.pairs, func(p pair) bool { return t.row(p.key.text).key == present })
}

// read reads the keys of a map that go into a model.
func (t *table) read(o *object, model any) {
	t.once.Do(t.fill)
	for i := range t.made {
		if f := &t.made[i]; f.in(model) {
			f.from(o, model)
		}
	}
}

// look finds the keys of a map that go into a model as they are written. It reads nothing:
// for a map whose form says what it is, and which is read afterwards.
func (t *table) look(n *node, model any) {
	for _, p := range n.entries() {
		if w, ok := t.row(p.key.text).place(model).(*written); ok {
			*w = written{key: p.key}
			if p.val.kind != nullNode {
				w.val = p.val
			}
		}
	}
}

// skip marks the keys that go into some models as read.
func (t *table) skip(o *object, models ...any) {
	for i := range t.fields() {
		if f := &t.made[i]; slices.ContainsFunc(models, f.in) {
			o.skip(f.spellings...)
		}
	}
}

// from reads the key of a map into a model that it goes into.
func (f *field) from(o *object, model any) {
	if f.takes != nil && !slices.ContainsFunc(f.spellings, func(key string) bool { n := o.peek(key); return n != nil && f.takes(n) }) {
		return
	}
	if w, ok := f.place(model).(*orNull); ok {
		if at := slices.IndexFunc(o.n.pairs, func(p pair) bool { return slices.Contains(f.spellings, p.key.text) }); at >= 0 && !o.used[at] {
			o.used[at] = true
			*w = orNull(o.n.pairs[at])
		}
		return
	}
	key, n := o.spelled(f.spellings)
	switch w, _ := f.place(model).(*written); {
	case n != nil:
		f.put(o, key, n, model)
	case w != nil && w.key == nil:
		w.key = o.keyOf(model, w)
	}
}

// place is where the value of a key goes in a model; nil where a function reads it.
func (f *field) place(model any) any {
	if f.into == nil {
		return nil
	}
	return f.into(model)
}

// keyOf is the key in a map whose value goes to a place in a model, with or without a
// value; nil where it is not written.
func (o *object) keyOf(model, place any) *node {
	for _, t := range o.tables {
		for i := range t.fields() {
			f := &t.made[i]
			if f.place(model) != place {
				continue
			}
			for _, key := range f.spellings {
				if at := o.find(key); at >= 0 {
					return o.n.pairs[at].key
				}
			}
		}
	}
	return nil
}

// any reports whether a key is written that goes into a model.
func (o *object) any(model any) bool {
	return slices.ContainsFunc(o.n.pairs, func(p pair) bool {
		f, ok := o.field(p.key.text)
		return ok && f.in(model)
	})
}

// at is keyOf, or the map where the key is not written.
func (o *object) at(model, place any) *node { return cmp.Or(o.keyOf(model, place), o.n) }

// keyFor is the key whose value goes to a place in a model.
func (t *table) keyFor(model, place any) string {
	for i := range t.fields() {
		if f := &t.made[i]; f.place(model) == place {
			return f.key
		}
	}
	panic(fmt.Sprintf("workflow: no key of %s goes to this place of a %T", t.what, model))
}

// put reads a value that is written under one of the spellings of a key.
func (f *field) put(o *object, key string, n *node, model any) {
	place := f.place(model)
	if place == nil {
		f.read.read(o, key, n, model)
		return
	}
	d := o.d
	switch to := place.(type) {
	case *written:
		if to.val != nil {
			o.saysTheSame(key, to.key.text, to.val)
			return
		}
		*to = written{o.keyNode(key), n}
	case *bool:
		setTo(to)(d.flag(o, d.resolved(n), key))
	case *int:
		setTo(to)(o.integerAt(f, key, n))
	case *int64:
		i, ok := o.integerAt(f, key, n)
		setTo(to)(int64(i), ok)
	case *float64:
		setTo(to)(o.numberAt(f, key, n))
	case *string:
		switch {
		case len(f.typ.words()) > 0:
			*to = o.choiceAt(*to, key, n)
		case f.typ == tPath:
			*to = d.jsonPath(n, key)
		default:
			*to = o.strAt(n, key)
		}
	case **node: // as it is written
		*to = n
	case *[]*node:
		*to = o.stringsAt(n, key)
	case *[]string:
		*to = texts(o.stringsAt(n, key))
	case **template.Text:
		*to = d.text(n, key)
	case **expr.Expr:
		*to = d.expr(n, key)
	case **regexp.Regexp:
		*to = o.patternAt(n, key)
	case *Duration:
		if v := d.spanOf(f, n, key); v.Set {
			*to = v
		}
	case *Int:
		if v := o.intAt(f, n, key); v.Set {
			*to = v
		}
	default:
		panic("workflow: no value of a file goes where " + f.key + " says")
	}
}

// setTo sets what to points to, where a value is one.
func setTo[T any](to *T) func(v T, ok bool) {
	return func(v T, ok bool) {
		if ok {
			*to = v
		}
	}
}

// spanOf reads a duration, or a variable that the engine resolves; of a bound, zero
// is an error.
func (d *decoder) spanOf(f *field, n *node, key string) Duration {
	v := d.duration(n, key, option.Unit(key))
	v.Bound = f.typ == tBound && v.Text != nil
	if f.typ == tBound && v.Set && v.Text == nil && v.D == 0 {
		d.boundOfZero(n, key, f.def)
		return Duration{}
	}
	return v
}

// boundOfZero reports a bound that is zero. Without its key it is what def says.
func (d *decoder) boundOfZero(n *node, key, def string) {
	p := d.errorf(n, "out-of-range", "%s is 0; it must be more than that", key)
	if def == "" || def == "none" || def == "no bound" {
		p.Suggest("remove the key for no bound")
		return
	}
	p.Suggest("without the key it is %s", def)
}
