package check

import (
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

// match checks `match x { pattern -> value, … }`. The scrutinee is computed
// once; each case becomes an arm with a test of its type.
func (c *checker) match(e *syntax.MatchExpr, want *types.Type) Expr {
	x := c.expr(e.X, nil)
	if isBad(x.Type()) {
		for _, k := range e.Cases {
			c.unknownCase(k.Pattern, k.Value, want)
		}
		return bad(e)
	}
	m := &matching{c: c, expr: e, union: x.Type(), members: []*types.Type{x.Type()}}
	switch x.Type().Kind {
	case types.UnionKind:
		m.members = x.Type().Members
	case types.OptionalKind:
		m.optional = true
		m.members = []*types.Type{x.Type().Elem}
		if x.Type().Elem.Kind == types.UnionKind {
			m.members = x.Type().Elem.Members
		}
	}
	m.covered = make([]bool, len(m.members))
	v := &Var{Name: "match", Type: x.Type(), Value: x, Span: x.Extent()}
	m.subject = &Ref{base{x.Type(), x.Extent()}, v}
	arms, ok := m.arms(want)
	if !m.exhaustive() {
		ok = false
	}
	if !ok {
		return bad(e)
	}
	s := c.selection(e, "match", arms)
	if isBad(s.Type()) {
		return s
	}
	return &Let{base{s.Type(), e.Span}, v, s}
}

// unknownCase looks at a case of which nobody knows what it takes: what its
// pattern binds is of no known type.
func (c *checker) unknownCase(p syntax.Pattern, body syntax.Expr, want *types.Type) {
	var ids []syntax.Ident
	if r, ok := p.(*syntax.RecordPattern); ok {
		ids = r.Fields
	}
	c.unknown(ids, BindingSymbol, body, want)
}

// unknown looks at an expression in which some names are of no known type.
func (c *checker) unknown(ids []syntax.Ident, kind SymbolKind, body syntax.Expr, want *types.Type) {
	saved := c.local
	for _, id := range ids {
		v := &Var{Name: id.Name, Kind: ParamVar, Type: types.Invalid, Span: id.Span}
		c.noteLocal(v, kind, body)
		c.local = &scope{v, c.local}
	}
	c.quietly(func() { c.expr(body, want) })
	c.local = saved
}

// quietly checks something whose problems follow from one reported before.
func (c *checker) quietly(do func()) {
	c.quiet++
	do()
	c.quiet--
}

// matching is the state of checking one match.
type matching struct {
	c        *checker
	expr     *syntax.MatchExpr
	subject  *Ref
	union    *types.Type
	members  []*types.Type // what the scrutinee can be
	optional bool          // or none
	covered  []bool        // members that a case takes
	all      bool          // a case takes everything
	unknown  bool          // nobody knows what some case is to take
}

func (m *matching) arms(want *types.Type) ([]Arm, bool) {
	arms := make([]Arm, 0, len(m.expr.Cases))
	ok := true
	for _, k := range m.expr.Cases {
		if m.all {
			m.c.warnf(k.Pattern, "unreachable-case", "This case is never reached: the ones above take everything").Suggest("remove it, or move it up")
		}
		arm, good := m.arm(k, want)
		ok = ok && good
		arms = append(arms, arm)
	}
	return arms, ok
}

func (m *matching) arm(k syntax.MatchCase, want *types.Type) (Arm, bool) {
	switch p := k.Pattern.(type) {
	case *syntax.WildcardPattern:
		m.all = true
		return Arm{nil, m.c.expr(k.Value, want)}, true
	case *syntax.RecordPattern:
		return m.recordArm(p, k.Value, want)
	case *syntax.TypePattern:
		return m.typeArm(p, k.Value, want)
	}
	if _, ok := k.Pattern.(*syntax.BadPattern); !ok {
		panic(&syntax.Unhandled{Reader: "the checker", Node: k.Pattern})
	}
	m.c.expr(k.Value, want)
	m.unknown = true // reported by the parser
	return Arm{}, false
}

// recordArm takes the members that have all the fields, and binds these.
func (m *matching) recordArm(p *syntax.RecordPattern, body syntax.Expr, want *types.Type) (Arm, bool) {
	takes := make([]bool, len(m.members))
	fields := make([]*types.Type, len(p.Fields))
	for i, member := range m.members {
		if member.Kind != types.RecordKind || slices.ContainsFunc(p.Fields, func(f syntax.Ident) bool { return member.Field(f.Name) == nil }) {
			continue
		}
		takes[i] = true
		for j, f := range p.Fields {
			if fields[j] == nil {
				fields[j] = types.Nothing
			}
			fields[j] = types.LUB(fields[j], member.Field(f.Name))
		}
	}
	if !slices.Contains(takes, true) {
		m.cannotMatch(p, "{"+strings.Join(names(p.Fields), ", ")+"}")
		m.c.unknownCase(p, body, want)
		return Arm{}, false
	}
	m.cover(takes)
	saved := m.c.local
	lets := make([]*Var, len(p.Fields))
	for i, f := range p.Fields {
		get := pure(f, fields[i], "field:"+f.Name, getField(f.Name), m.subject)
		lets[i] = &Var{Name: f.Name, Type: fields[i], Value: get, Span: f.Span}
		m.c.noteLocal(lets[i], BindingSymbol, body)
		m.c.local = &scope{lets[i], m.c.local}
	}
	value := m.c.expr(body, want)
	m.c.local = saved
	for _, v := range slices.Backward(lets) {
		value = &Let{base{value.Type(), value.Extent()}, v, value}
	}
	return Arm{m.test(p, takes), value}, true
}

func names(ids []syntax.Ident) []string {
	return value.Map(ids, func(id syntax.Ident) string { return id.Name })
}

func (m *matching) cover(takes []bool) {
	for i, t := range takes {
		m.covered[i] = m.covered[i] || t
	}
	m.all = m.all || !m.optional && !slices.Contains(m.covered, false)
}

func (m *matching) test(p syntax.Node, takes []bool) Expr {
	var op strings.Builder
	op.WriteString("member:")
	for _, t := range takes {
		if t {
			op.WriteByte('1')
		} else {
			op.WriteByte('0')
		}
	}
	op.WriteString(":" + m.union.String())
	return pure(p, types.Boolean, op.String(), isMember(m.union, takes), m.subject)
}

// typeArm takes the members that are subtypes of a type, or, if the type is
// narrower than a member, those of its values that are of it. In the body, a
// scrutinee that is a variable has the narrower type.
func (m *matching) typeArm(p *syntax.TypePattern, body syntax.Expr, want *types.Type) (Arm, bool) {
	t := m.c.resolveType(&syntax.NamedType{Span: p.Type.Span, Name: p.Type.Name})
	takes := make([]bool, len(m.members))
	narrows := false
	for i, member := range m.members {
		takes[i] = types.Subtype(member, t)
		narrows = narrows || types.Subtype(t, member)
	}
	whole := slices.Contains(takes, true)
	if isBad(t) || !whole && !narrows {
		if !isBad(t) {
			m.cannotMatch(p, "is "+p.Type.Name)
		} else {
			m.unknown = true // reported by resolveType
		}
		m.c.quietly(func() { m.c.expr(body, want) })
		return Arm{}, false
	}
	test := m.test(p, takes)
	narrowed := t
	if whole {
		narrowed = m.left(takes, t)
		m.cover(takes)
	} else {
		test = pure(p, types.Boolean, "is:"+t.String(), conforms(t), m.subject)
	}
	name, isName := syntax.Unparen(m.expr.X).(*syntax.Name)
	if !isName {
		return Arm{test, m.c.expr(body, want)}, true
	}
	narrow := &Var{Name: name.Name, Type: narrowed, Value: m.subject, Span: name.Span}
	m.c.noteSame(narrow, m.c.lookup(name.Name))
	var value Expr
	m.c.inside(narrow, func() { value = m.c.expr(body, want) })
	return Arm{test, &Let{base{value.Type(), value.Extent()}, narrow, value}}, true
}

// left is what a value is known to be in a case of type t: the one member that
// the case takes and no case above does, or, if there are several, t.
func (m *matching) left(takes []bool, t *types.Type) *types.Type {
	var only *types.Type
	for i, member := range m.members {
		if takes[i] && !m.covered[i] {
			if only != nil {
				return t
			}
			only = member
		}
	}
	if only == nil {
		return t
	}
	return only
}

// cannotMatch reports a pattern that nothing fits. What it was meant to take is
// not known, so whether something is left out is not asked.
func (m *matching) cannotMatch(p syntax.Node, pattern string) {
	m.unknown = true
	all := value.Map(m.members, (*types.Type).String)
	m.c.errorf(p, "E010", "Pattern %s cannot match type %s", pattern, m.union).Suggest("it can be: %s", strings.Join(all, "; "))
}

// exhaustive reports the members that no case takes.
func (m *matching) exhaustive() bool {
	if m.all || m.unknown {
		return true
	}
	var missing []string
	for i, member := range m.members {
		if !m.covered[i] {
			missing = append(missing, member.String())
		}
	}
	if m.optional {
		missing = append(missing, "none")
	}
	m.c.errorf(m.expr, "E015", "Non-exhaustive match on type %s. Missing patterns for: %s", m.union, strings.Join(missing, ", ")).
		Suggest("add a case for them, or \"_ -> …\" as the last")
	return false
}
