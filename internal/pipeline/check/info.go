package check

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// Info is what the checker resolved in a file: what every name means, and the
// type of every expression. It is there for files with errors as well, as far
// as they could be understood. It is not changed after [Resolve] returns.
type Info struct {
	Symbols []*Symbol                   // in the order in which they take effect
	Uses    map[syntax.Span]*Symbol     // by the place of the name, that of the definition included
	Types   map[syntax.Expr]*types.Type // of every expression that was checked; types.Invalid where it is not known
	Calls   map[syntax.Span]*Callee     // by the place of the function's name
	Fields  map[syntax.Span]*types.Type // the type of a field, by the place of its name after a dot
}

// SymbolKind says what a name in a file stands for.
type SymbolKind uint8

// The kinds of symbols.
const (
	InputSymbol   SymbolKind = iota
	ValueSymbol              // name = expr
	OutputSymbol             // out name = expr
	TypeSymbol               // type Name = …
	PolicySymbol             // policy name = …
	AliasSymbol              // use ns as name
	ParamSymbol              // of a lambda
	BindingSymbol            // of a pattern
	FailureSymbol            // error, in a fallback
)

// Symbol is a name that a file gives to something.
type Symbol struct {
	Name  string
	Kind  SymbolKind
	Type  *types.Type // nil for policies and aliases
	Span  syntax.Span // of the name where it is given; of the whole value for FailureSymbol
	Decl  syntax.Decl // the declaration that it is in
	Scope syntax.Span // where the name means this, if nothing inside means another
}

// Callee is what a call calls.
type Callee struct {
	Full string // its full name
	Doc  string // one sentence, "" if there is none
	Sig  types.Signature
	Pos  diag.Pos // where a manifest declares it; not valid for others
}

// Resolve checks a file as [Check] does and gives what it found out with the
// problems.
func Resolve(f *syntax.File, env *Env) (*Info, diag.List) {
	c := newChecker(f, env)
	c.info = &Info{
		Uses: map[syntax.Span]*Symbol{}, Types: map[syntax.Expr]*types.Type{},
		Calls: map[syntax.Span]*Callee{}, Fields: map[syntax.Span]*types.Type{},
	}
	c.symbols = map[any]*Symbol{}
	c.declarations()
	c.problems.Sort()
	slices.SortStableFunc(c.info.Symbols, func(a, b *Symbol) int { return cmp.Compare(a.Scope.Start, b.Scope.Start) })
	return c.info, c.problems
}

// At gives the symbol whose name is at an offset, and the place of the name;
// nil if there is none.
func (i *Info) At(offset int32) (*Symbol, syntax.Span) {
	for span, s := range i.Uses {
		if span.Start <= offset && offset <= span.End {
			return s, span
		}
	}
	return nil, syntax.Span{}
}

// Places lists where the name of a symbol stands, in order.
func (i *Info) Places(s *Symbol) []syntax.Span {
	var all []syntax.Span
	for span, other := range i.Uses {
		if other == s {
			all = append(all, span)
		}
	}
	slices.SortFunc(all, func(a, b syntax.Span) int { return cmp.Compare(a.Start, b.Start) })
	return all
}

// Visible lists what names mean at an offset: for each name the symbol that is
// meant there, inner ones first.
func (i *Info) Visible(offset int32) []*Symbol {
	var list []*Symbol
	seen := map[string]bool{}
	for _, s := range slices.Backward(i.Symbols) {
		space := s.Name
		switch s.Kind {
		case OutputSymbol:
			continue
		case TypeSymbol, PolicySymbol, AliasSymbol: // names of their own
			space += string(rune(s.Kind))
		}
		if s.Scope.Start <= offset && offset <= s.Scope.End && !seen[space] {
			seen[space] = true
			list = append(list, s)
		}
	}
	return list
}

// noteDefinition records a symbol under a key by which its uses are found: a *Var, or
// the name of what is no variable.
func (c *checker) noteDefinition(key any, s Symbol) {
	if c.info == nil || s.Name == "" || strings.Contains(s.Name, " ") { // made up, see functionAsLambda
		return
	}
	s.Decl = c.decl
	c.symbols[key] = &s
	c.info.Symbols = append(c.info.Symbols, &s)
	if c.file.Text(s.Span) == s.Name { // nobody writes the "error" of a fallback
		c.info.Uses[s.Span] = &s
	}
}

// named is the key of a symbol that is no variable.
type named struct {
	kind SymbolKind
	name string
}

// noteUse records that a name stands for the symbol of a key.
func (c *checker) noteUse(span syntax.Span, key any) {
	if c.info == nil {
		return
	}
	if s := c.symbols[key]; s != nil {
		c.info.Uses[span] = s
	}
}

// noteDeclared is noteDefinition for a name that a declaration gives to the rest
// of the file.
func (c *checker) noteDeclared(key any, kind SymbolKind, name syntax.Ident, t *types.Type) {
	if c.info == nil {
		return
	}
	c.noteDefinition(key, Symbol{Name: name.Name, Kind: kind, Type: t, Span: name.Span, Scope: syntax.Span{Start: c.decl.Extent().End, End: int32(len(c.file.Src))}})
}

// noteLocal is noteDefinition for a variable that is known in a part of an
// expression.
func (c *checker) noteLocal(v *Var, kind SymbolKind, scope syntax.Node) {
	if c.info == nil {
		return
	}
	c.noteDefinition(v, Symbol{Name: v.Name, Kind: kind, Type: v.Type, Span: v.Span, Scope: scope.Extent()})
}

// noteSame makes one variable stand for the symbol of another.
func (c *checker) noteSame(v, as *Var) {
	if c.info != nil && c.symbols[as] != nil {
		c.symbols[v] = c.symbols[as]
	}
}

func (c *checker) noteCall(e *syntax.CallExpr, target *callable) {
	if c.info == nil {
		return
	}
	c.info.Calls[e.Func.Span] = target.callee()
	if first := e.Func.Parts[0]; len(e.Func.Parts) > 1 {
		c.noteUse(first.Span, named{AliasSymbol, first.Name})
	}
}

func (t *callable) callee() *Callee {
	callee := &Callee{Full: t.full, Sig: t.sig}
	if t.fn != nil {
		callee.Doc = t.fn.Doc
	} else if d, ok := module.Describe(t.mod); ok {
		callee.Doc, callee.Pos = d.Doc, d.Pos
	}
	return callee
}
