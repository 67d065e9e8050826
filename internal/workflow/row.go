package workflow

import (
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
	as string
	// inert is why the key does nothing anywhere; "" for all others.
	inert string

	// into points to where the value goes in the model of the map: the type there and
	// the form here say how it is read. read reads a value of a form of its own. A key
	// with neither is read with others on which its meaning depends.
	into func(model any) any
	read func(o *object, key string, n *node, model any)

	spellings []string // the key, and the older ones that are read as it is
}

// of says where the value of a key goes in a model.
func of[M, T any](get func(*M) *T) func(any) any {
	return func(model any) any { return get(model.(*M)) }
}

// by says how the value of a key is read.
func by[M any](read func(o *object, key string, n *node, m *M)) func(*object, string, *node, any) {
	return func(o *object, key string, n *node, model any) { read(o, key, n, model.(*M)) }
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

// read reads the keys of a map whose rows say where their values go; of some alone,
// where any are named.
func (t *table) read(o *object, model any, only ...string) {
	t.once.Do(t.fill)
	for i := range t.made {
		f := &t.made[i]
		if f.into == nil && f.read == nil || len(only) > 0 && !slices.Contains(only, f.key) {
			continue
		}
		if key, n := o.first(f.key); n != nil {
			f.put(o, key, n, model)
		}
	}
}

// put reads a value that is written under one of the spellings of a key.
func (f *field) put(o *object, key string, n *node, model any) {
	if f.read != nil {
		f.read(o, key, n, model)
		return
	}
	d := o.d
	switch to := f.into(model).(type) {
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
	if f.typ == tBound && v.Set && v.Text == nil && v.D == 0 {
		d.boundOfZero(n, key)
		return Duration{}
	}
	return v
}

// boundOfZero reports a bound that is zero.
func (d *decoder) boundOfZero(n *node, key string) {
	d.errorf(n, "out-of-range", "%s is 0; it must be more than that", key).Suggest("remove the key for no bound")
}
