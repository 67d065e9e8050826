package check

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// Check gives the meaning of a parsed pipeline and everything that is wrong
// with it, in source order. The program is nil if one of the problems is an
// error, or the parser found one. Problems that the parser found are not repeated, nor is anything
// reported that may be so because of them; in a file with such problems only
// errors are looked for.
//
// Declarations take effect in source order: a name means what was last
// declared above. Declaring a name again is allowed, with a warning.
//
// After 100 errors it stops, and says so; of warnings it gives 100.
func Check(f *syntax.File, env *Env) (*Program, diag.List) {
	c := newChecker(f, env)
	c.declarations()
	c.dropRepeated()
	c.program.Types = c.types
	c.problems.Sort()
	if f.Faulty() || c.problems.HasErrors() {
		return nil, c.problems
	}
	return c.program, c.problems
}

func newChecker(f *syntax.File, env *Env) *checker {
	return &checker{
		file: f, env: env,
		vars: make(map[string]*Var, len(f.Decls)), types: map[string]*types.Type{},
		policies: map[string][]*syntax.Option{},
		limits:   map[string]limits{},
		settled:  map[string]*Plain{},
		inputs:   map[string]int{}, named: map[string]int{},
		imports: imports{alias: map[string]string{}},
		program: &Program{File: f, Assigns: make([]*Var, 0, len(f.Decls))},
	}
}

// declarations looks at every declaration. A node that it does not know is an
// error of the file, which then cannot be run.
func (c *checker) declarations() {
	var err error
	defer func() {
		if err != nil {
			c.problems.Errorf(diag.Pos{File: c.file.Name}, "E900", "%v", err)
		}
	}()
	defer syntax.Recover(&err)
	for _, d := range c.file.Decls {
		if c.errors > maxProblems {
			break
		}
		c.declare(d)
	}
}

// checker is the state of one Check.
type checker struct {
	file     *syntax.File
	env      *Env
	imports  imports
	vars     map[string]*Var // declared so far, at the top level
	local    *scope          // parameters of lambdas, bindings of patterns
	types    map[string]*types.Type
	policies map[string][]*syntax.Option
	limits   map[string]limits // by module
	settled  map[string]*Plain // by their Text; see settle
	program  *Program
	problems diag.List
	text     []byte          // of the options that are looked at
	found    int             // problems, those that are not reported too
	errors   int             // in problems
	warnings int             // in problems
	inputs   map[string]int  // the place in program.Inputs of each
	named    map[string]int  // the place in program.Outputs of each, the last one
	repeated bool            // an output was declared more than once
	compared int             // names looked at for suggestions
	quiet    int             // >0: problems of what is checked were reported before
	info     *Info           // nil: nobody asks for it
	symbols  map[any]*Symbol // by what uses refer to; see noteDefinition
	decl     syntax.Decl     // the one that is looked at
	lost     map[string]bool // words in what the parser passed over; nil: not looked at yet
}

// scope is one local name, and those around it.
type scope struct {
	v     *Var
	outer *scope
}

// maxProblems bounds the errors, and the warnings, that are reported of one
// file: finding suggestions for hundreds of thousands would take too long.
const maxProblems = 100

func (c *checker) errorf(n syntax.Node, code, format string, args ...any) *diag.Problem {
	c.found++
	if c.file.WrongIn(n.Extent()) || !c.reports(&c.errors) {
		return new(diag.Problem)
	}
	if c.errors > maxProblems {
		c.moreErrors(n)
		return new(diag.Problem)
	}
	pos, end := c.file.Span(n.Extent())
	return c.problems.Errorf(pos, code, format, args...).To(end)
}

func (c *checker) moreErrors(n syntax.Node) {
	pos, end := c.file.Span(n.Extent())
	c.problems.Errorf(pos, syntax.CodeLimit, "there are more errors, which are not shown").To(end).Suggest("repair the ones above")
}

func (c *checker) warnf(n syntax.Node, code, format string, args ...any) *diag.Problem {
	c.found++
	if c.file.Faulty() || !c.reports(&c.warnings) {
		return new(diag.Problem)
	}
	pos, end := c.file.Span(n.Extent())
	if c.warnings > maxProblems {
		c.problems.Warnf(pos, "more-warnings", "there are more warnings, which are not shown").To(end).Suggest("look at the ones above")
		return new(diag.Problem)
	}
	return c.problems.Warnf(pos, code, format, args...).To(end)
}

// reports counts a problem and tells whether it is to be reported: problems of
// what was reported before and those far beyond the bound are not.
func (c *checker) reports(count *int) bool {
	if c.quiet > 0 || *count > maxProblems {
		return false
	}
	*count++
	return true
}

// maxCompared bounds how many names are looked at to find similar ones: to
// compare a hundred wrong names with a hundred thousand takes too long.
const maxCompared = 200_000

// affordable reports whether n more candidates for a suggestion may be looked
// at.
func (c *checker) affordable(n int) bool {
	c.compared += n
	return c.compared <= maxCompared
}

func (c *checker) didYouMean(name string, n int, candidates func() []string) string {
	if len(name) < 2 || !c.affordable(n) {
		return "" // every other name of one letter is near
	}
	return diag.DidYouMean(name, candidates())
}

// inside checks something with a local variable in scope.
func (c *checker) inside(v *Var, do func()) {
	saved := c.local
	c.local = &scope{v, saved}
	do()
	c.local = saved
}

// lostName reports whether a name may have been declared in what the parser
// passed over.
func (c *checker) lostName(name string) bool {
	if c.lost == nil {
		c.lost = map[string]bool{}
		for _, s := range c.file.Lost() {
			for _, word := range strings.FieldsFunc(c.file.Text(s), func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
				c.lost[word] = true
			}
		}
	}
	return c.lost[name]
}

func (c *checker) lookup(name string) *Var {
	for s := c.local; s != nil; s = s.outer {
		if s.v.Name == name {
			return s.v
		}
	}
	return c.vars[name]
}

func (c *checker) names() []string {
	names := slices.Collect(maps.Keys(c.vars))
	for s := c.local; s != nil; s = s.outer {
		names = append(names, s.v.Name)
	}
	return names
}

func (c *checker) declare(d syntax.Decl) {
	c.decl = d
	switch d := d.(type) {
	case *syntax.TypeDecl:
		if c.types[d.Name.Name] != nil {
			c.warnf(d.Name, "redefined", "The type %s is declared again", d.Name.Name).Suggest("give one of the two another name")
		}
		t := c.resolveType(d.Type).Named(d.Name.Name)
		c.types[d.Name.Name] = t
		c.noteDeclared(named{TypeSymbol, d.Name.Name}, TypeSymbol, d.Name, t)
	case *syntax.InDecl:
		c.input(d)
	case *syntax.AssignDecl:
		v := &Var{Name: d.Name.Name, Value: c.expr(d.Value, nil), Span: d.Name.Span}
		v.Type, v.Lazy = v.Value.Type(), isLazy(v.Value)
		c.noteDeclared(v, ValueSymbol, d.Name, v.Type)
		if c.define(v) {
			c.program.Assigns = append(c.program.Assigns, v)
		}
	case *syntax.OutDecl:
		c.annotations(d.Annotations, nil)
		c.outputs(d)
	case *syntax.UseDecl:
		c.use(d)
	case *syntax.PolicyDecl:
		c.policy(d)
	case *syntax.BadDecl: // reported by the parser
	default:
		panic(&syntax.Unhandled{Reader: "the checker", Node: d})
	}
}

// define makes a top-level variable known. It returns false for a name that
// the parser had to make up.
func (c *checker) define(v *Var) bool {
	if v.Name == "" {
		return false
	}
	if old := c.vars[v.Name]; old != nil {
		c.warnf(v.Span, "redefined", "%s is declared again; what stands above refers to the one of line %d", v.Name, c.file.Pos(old.Span.Start).Line).
			Suggest("give one of the two another name")
	}
	c.vars[v.Name] = v
	return true
}

func (c *checker) resolveType(e syntax.TypeExpr) *types.Type {
	var found diag.List
	r := types.Resolver{File: c.file, Problems: &found,
		Lookup:   func(name string) *types.Type { return c.types[name] },
		Declared: c.typeNames,
	}
	if c.info != nil {
		r.Used = func(e *syntax.NamedType) { c.noteUse(e.Span, named{TypeSymbol, e.Name}) }
	}
	t := r.Resolve(e)
	for _, p := range found {
		if c.file.WrongIn(e.Extent()) || c.lostName(strings.TrimPrefix(p.Message, undefinedType)) {
			continue
		}
		if line := c.typeBelow(p.Message); line > 0 {
			p.Suggest("it is declared below, at line %d; move that declaration up", line)
		}
		switch {
		case !c.reports(&c.errors):
		case c.errors > maxProblems:
			c.moreErrors(e)
		default:
			c.problems = append(c.problems, p)
		}
	}
	return t
}

// typeNames lists the declared types, for suggestions.
func (c *checker) typeNames() []string {
	if !c.affordable(len(c.types)) {
		return nil
	}
	return slices.Collect(maps.Keys(c.types))
}

const undefinedType = "Undefined type: "

// typeBelow gives the line of a type's declaration if the message says that it
// is undefined. Declarations above would have been found.
func (c *checker) typeBelow(message string) int {
	for _, d := range c.file.Decls {
		if t, ok := d.(*syntax.TypeDecl); ok && undefinedType+t.Name.Name == message {
			return c.file.Pos(t.Name.Start).Line
		}
	}
	return 0
}

func (c *checker) input(d *syntax.InDecl) {
	v := &Var{Name: d.Name.Name, Kind: InputVar, Type: c.resolveType(d.Type), Span: d.Name.Span}
	c.annotations(d.Annotations, v)
	if d.Default != nil {
		v.Value = c.exprOf(d.Default, v.Type)
	}
	c.noteDeclared(v, InputSymbol, d.Name, v.Type)
	if !c.define(v) {
		return
	}
	if i, again := c.inputs[v.Name]; again {
		// One value comes in under one name: the last declaration says what
		// it must be.
		c.program.Inputs[i] = v
		return
	}
	c.inputs[v.Name] = len(c.program.Inputs)
	c.program.Inputs = append(c.program.Inputs, v)
}

// annotations checks @example against the type of the input, and refuses @source
// and @sink: there are no connectors here.
func (c *checker) annotations(as []*syntax.Annotation, in *Var) {
	for _, a := range as {
		switch a.Kind {
		case syntax.Example:
			if in == nil || a.Value == nil {
				continue // reported by the parser
			}
			if k, ok := c.exprOf(a.Value, in.Type).(*Const); ok {
				in.Examples = append(in.Examples, k.Value)
			}
		case syntax.Source:
			c.unsupported(a, "unsupported-annotation", "remove it; the value comes with --input, --inputs or a module that fetches it",
				"@source connects the input to a stream, which is not supported here")
		case syntax.Sink:
			c.unsupported(a, "unsupported-annotation", "remove it; to send the value somewhere, call a module with it",
				"@sink connects the output to a stream, which is not supported here")
		case syntax.BadAnnotation: // reported by the parser
		default:
			panic(&syntax.Unhandled{Reader: "the checker", Node: a.Kind})
		}
	}
}

func (c *checker) outputs(d *syntax.OutDecl) {
	if d.Unnamed {
		c.warnf(d.Value, "unnamed-output", "This output has no name; it is called %s", syntax.UnnamedOutput).Suggest("write \"out %s = …\"", syntax.UnnamedOutput)
	}
	for _, o := range d.Outputs {
		if _, again := c.named[o.Name.Name]; again {
			c.warnf(o.Name, "redefined", "The output %s is declared again; the last declaration counts", o.Name.Name).Suggest("remove one of the two")
			c.repeated = true
		}
		c.named[o.Name.Name] = len(c.program.Outputs)
		value := c.expr(o.Value, nil)
		c.program.Outputs = append(c.program.Outputs, Output{Name: o.Name.Name, Value: value, Span: o.Name.Span})
		if d.Name != nil {
			c.noteDeclared(named{OutputSymbol, o.Name.Name}, OutputSymbol, o.Name, value.Type())
		}
	}
}

// dropRepeated leaves of outputs declared more than once the last.
func (c *checker) dropRepeated() {
	if !c.repeated {
		return
	}
	kept := c.program.Outputs[:0]
	for i, o := range c.program.Outputs {
		if c.named[o.Name] == i {
			kept = append(kept, o)
		}
	}
	c.program.Outputs = kept
}

func (c *checker) use(d *syntax.UseDecl) {
	ns := d.Path.String()
	// Known even if wrong, so that its uses are not reported as well.
	c.imports.add(d)
	if d.Alias != nil {
		c.noteDeclared(named{AliasSymbol, d.Alias.Name}, AliasSymbol, *d.Alias, nil)
	}
	if c.env.namespaceExists(ns) {
		return
	}
	p := c.errorf(d.Path, "E004", "Undefined namespace: %s", ns)
	p.Suggestion = diag.DidYouMean(ns, slices.Collect(maps.Keys(c.env.namespaces)))
}

// undefined reports a name that stands for nothing, or for something declared
// below.
// neededBy gives the line of the declaration that a name is in, where a later declaration
// takes its value from that, by way of others perhaps; 0 where it does not.
func (c *checker) neededBy(later syntax.Decl, n *syntax.Name) int {
	of := map[string]syntax.Decl{}
	var here *syntax.AssignDecl
	for _, d := range c.file.Decls {
		if d, ok := d.(*syntax.AssignDecl); ok {
			of[d.Name.Name] = d
			if d.Start <= n.Start && n.End <= d.End {
				here = d
			}
		}
	}
	if here == nil {
		return 0
	}
	seen, found := map[syntax.Decl]bool{}, false
	var look func(d syntax.Decl)
	look = func(d syntax.Decl) {
		if d == nil || seen[d] || found {
			return
		}
		seen[d] = true
		found = d == syntax.Decl(here)
		syntax.Inspect(d, func(at syntax.Node) bool {
			if name, ok := at.(*syntax.Name); ok {
				look(of[name.Name])
			}
			return !found
		})
	}
	look(later)
	if !found {
		return 0
	}
	return c.file.Pos(here.Name.Start).Line
}

func (c *checker) undefined(n *syntax.Name) {
	if c.quiet > 0 || c.lostName(n.Name) {
		return // a suggestion that nobody sees costs as much
	}
	p := c.errorf(n, "E001", "Undefined variable: %s", n.Name)
	for _, d := range c.file.Decls {
		var name syntax.Ident
		switch d := d.(type) {
		case *syntax.AssignDecl:
			name = d.Name
		case *syntax.InDecl:
			name = d.Name
		}
		if name.Name == n.Name && name.Start >= n.End {
			if line := c.neededBy(d, n); line > 0 {
				p.Suggest("it is declared at line %d from what is declared here, at line %d: a cycle has no value; take one of the two from an input", c.file.Pos(name.Start).Line, line)
				return
			}
			p.Suggest("it is declared below, at line %d; move that declaration up", c.file.Pos(name.Start).Line)
			return
		}
	}
	switch n.Name {
	case "None", "none", "null", "nil", "undefined", "Null":
		p.Suggest(`there is no such value: give an Optional a default, as in "x ?? 0", or take it apart with match`)
		return
	}
	if len(c.env.byName[n.Name]) > 0 {
		p.Suggest("%s is a function; write %s(…)", n.Name, n.Name)
		return
	}
	p.Suggestion = c.didYouMean(n.Name, len(c.vars), c.names)
}
