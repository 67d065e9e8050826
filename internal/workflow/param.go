package workflow

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/value"
)

// given are the values that a file gets from outside, by where they come from.
type given struct {
	texts    map[string]string // --param: typed by the parameter's type
	values   map[string]any    // --param-file, `with:`, `parameters:` of a caller
	later    map[string]bool   // values that only the run will know
	defaults map[string]any    // `defaults:` of a caller
	unfilled bool              // see Options
	by       *node             // what calls it: its name there; nil where no other file does
	with     []*node           // the values that files give, as they are written
}

// give adds the values of a call, over those that are there.
func (in *given) give(d *decoder, with *node) {
	in.with = append(in.with, with)
	values, later := d.literalArgs(with, "with")
	in.values = overlay(in.values, values)
	for name := range later {
		value.Put(&in.later, name, true)
		delete(in.values, name)
	}
}

// declared is a parameter with what is only needed to give it its value.
type declared struct {
	Param
	n          *node // for messages
	enum       []any
	validation *node
	fits       *regexp.Regexp // the validation where it is a regular expression
	condition  *expr.Expr
	def        any
	hasDefault bool
	given      orNull // the default, as it is written
}

var paramTypes = []string{"string", "number", "integer", "boolean", "array", "object", "any"}

// otherTypes are the names that people have for them from elsewhere.
var otherTypes = map[string]string{
	"int": "integer", "bool": "boolean", "float": "number", "list": "array", "map": "object", "str": "string", "text": "string",
}

// parameters reads the declared parameters of a file and gives them their
// values, lowest first: the parameter's default, the caller's defaults, the
// file's defaults and variables, --param-file or the caller, --param.
func (d *decoder) parameters(root *node, in given) {
	var list []declared
	var own composedOf
	fileTable.look(root, &own)
	if w := own.parameters; w.val != nil {
		list = d.declarations(w.val, w.key.text)
	}
	has := make(map[string]bool, len(list))
	for _, p := range list {
		has[p.Name] = true
	}
	fixed := map[string]any{}
	for _, w := range []written{own.variables, own.defaults} {
		for _, p := range d.valuePairs(w) {
			fixed[p.key.text] = p.val.value()
			if !has[p.key.text] {
				has[p.key.text] = true
				list = append(list, declared{Param: Param{Name: p.key.text, Type: "any", Pos: p.key.pos}, n: p.key})
			}
		}
	}
	list = d.undeclared(root, list, has, in)
	d.params = make(map[string]Param, len(list))
	for i := range list {
		d.giveValue(&list[i], fixed, in)
		p := list[i].Param
		d.file.Params = append(d.file.Params, p)
		d.params[p.Name] = p
	}
}

func (d *decoder) valuePairs(w written) []pair {
	if w.val == nil {
		return nil
	}
	return d.pairs(w.val, w.key.text, "a map of names and values", w.key.text+": {level: low}")
}

// undeclared takes in values for names that no parameter has.
func (d *decoder) undeclared(root *node, list []declared, has map[string]bool, in given) []declared {
	declaredNames := value.Map(list, func(p declared) string { return p.Name })
	names := slices.Concat(slices.Collect(maps.Keys(in.texts)), slices.Collect(maps.Keys(in.values)), slices.Collect(maps.Keys(in.later)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if has[name] {
			continue
		}
		_, typed := in.texts[name]
		at, written := in.valueAt(name, root)
		unused, near := (typed || written) && !composed(root) && !hasWord(root, name, in.with), diag.DidYouMean(name, declaredNames)
		told := ""
		switch {
		case near != "":
			told = fmt.Sprintf("the workflow has no parameter %q", name)
		case unused:
			told, near = fmt.Sprintf("nothing in the workflow uses the parameter %q", name), fmt.Sprintf("write ${%s} in the place that it is for", name)
		}
		switch {
		case told == "":
		case typed && unused && d.toRun: // the run would do something else than what was asked for
			d.errorf(at, "unknown-parameter", "%s", told).Suggest("%s", near)
		default:
			d.warnf(at, "unknown-parameter", "%s", told).Suggest("%s", near)
		}
		list = append(list, declared{Param: Param{Name: name, Type: "any", Pos: root.pos}, n: root})
	}
	return list
}

// composed reports whether a workflow has others beside it, which may use what it is given.
// What it extends and its template are a part of its own tree.
func composed(root *node) bool {
	var own composedOf
	var f File
	fileTable.look(root, &own)
	fileTable.look(root, &f)
	return own.imports.there() || f.subs.there()
}

// hasWord reports whether a text or a key below a node, and outside of others, has a name
// in it.
func hasWord(n *node, name string, outside []*node) bool {
	if slices.Contains(outside, n) {
		return false
	}
	if n.scalar() {
		word := func(r rune) bool {
			return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(name, r)
		}
		return slices.Contains(strings.FieldsFunc(n.text, func(r rune) bool { return !word(r) }), name)
	}
	return slices.ContainsFunc(n.items, func(n *node) bool { return hasWord(n, name, outside) }) ||
		slices.ContainsFunc(n.pairs, func(p pair) bool { return hasWord(p.key, name, outside) || hasWord(p.val, name, outside) })
}

// valueAt is where a file gives a value, else the node that is told of otherwise.
func (in given) valueAt(name string, otherwise *node) (at *node, written bool) {
	for _, with := range slices.Backward(in.with) {
		for _, p := range with.entries() {
			if p.key.text == name {
				return p.key, true
			}
		}
	}
	return otherwise, false
}

// declarations reads both documented shapes, and a plain list.
func (d *decoder) declarations(n *node, key string) []declared {
	var list []declared
	lines := map[string]int{}
	add := func(p declared, ok bool) {
		if !ok {
			return
		}
		if line, twice := lines[p.Name]; twice {
			d.errorf(p.n, "duplicate-parameter", "the parameter %q is there already, on line %d", p.Name, line).Suggest("keep one of the two")
			return
		}
		lines[p.Name] = p.Pos.Line
		list = append(list, p)
	}
	var lists paramLists
	paramListTable.look(n, &lists)
	switch {
	case n.kind == listNode:
		for _, it := range n.items {
			add(d.declaration(it, "", nil))
		}
	case n.kind != mapNode:
		d.wrong(n, key, "a map or a list").Suggest("for example: parameters: {required: [level]}")
	case lists.required.there() || lists.optional.there() || lists.definitions.there():
		o, _ := d.object(n, paramListTable) // it is a map
		lists = paramLists{}
		paramListTable.read(o, &lists)
		for _, list := range []struct {
			written
			required bool
		}{{lists.required, true}, {lists.optional, false}} {
			switch v := list.val; {
			case v == nil:
			case v.kind != listNode:
				o.hint(d.wrong(v, list.key.text, "a list of parameters"), list.key.text)
			default:
				for _, it := range v.items {
					add(d.declaration(it, "", &list.required))
				}
			}
		}
		for _, p := range d.valuePairs(lists.definitions) {
			add(d.declaration(p.val, p.key.text, nil))
		}
		o.close()
	default:
		for _, p := range n.pairs {
			q, ok := d.declaration(p.val, p.key.text, nil)
			if q.n == nil || p.val.kind == nullNode {
				q.n = p.key
			}
			q.Pos = p.key.pos
			add(q, ok)
		}
	}
	return list
}

// Keys of parameters that are read before the others, and after them.
type (
	paramLists struct{ required, optional, definitions written }
	paramName  struct{ written }
	mustHave   struct{ required bool }
)

// declaration reads one parameter. name is its key, if it has one; required is
// what the list says that it is in.
func (d *decoder) declaration(n *node, name string, required *bool) (declared, bool) {
	p := declared{Param: Param{Name: name, Type: "any", Pos: n.pos}, n: n}
	switch {
	case n.kind == mapNode:
		o, _ := d.object(n, paramTable) // it is a map
		defer o.close()
		var own paramName
		paramTable.read(o, &own)
		if v := own.val; name == "" && v != nil {
			p.Name = o.strAt(v, own.key.text)
		} else if v != nil && v.text != name {
			d.warnf(v, "contradiction", "the parameter %q is called %q inside; its key counts", name, short(v.text)).Suggest("remove name")
		}
		paramTable.read(o, &p)
		if v := p.given.val; v != nil {
			p.def, p.hasDefault = v.value(), true
		}
		must := mustHave{required: !p.hasDefault && name != ""}
		paramTable.read(o, &must)
		p.Required = must.required
	case name == "" && n.scalar() && n.kind != nullNode:
		p.Name = n.text
		p.Required = true
	case name != "":
		// NAME: DEFAULT, or NAME: alone for a required one
		p.def, p.hasDefault = n.value(), n.kind != nullNode
		p.Required = !p.hasDefault
	}
	if required != nil {
		p.Required = *required
	}
	if p.Name == "" || !identifierText().MatchString(p.Name) {
		d.errorf(n, "bad-name", "a parameter needs a name of letters, digits, - and _").Suggest("for example: {name: level, type: string}")
		return p, false
	}
	return p, true
}

// paramValidation reads what the value of a parameter must fit.
func (d *decoder) paramValidation(key string, n *node, p *declared) {
	p.validation = n
	if n.scalar() && strings.HasPrefix(n.text, "^") {
		p.fits = d.regexp(n, key)
	} else {
		p.condition = d.paramCondition(key, n)
	}
}

func (d *decoder) paramType(n *node) string {
	t := strings.ToLower(n.text)
	if name, other := otherTypes[t]; other {
		return name
	}
	if slices.Contains(paramTypes, t) {
		return t
	}
	p := d.errorf(n, "bad-value", "a parameter's type cannot be %q", short(n.text))
	p.Near(t, paramTypes).Or("write one of %s", strings.Join(paramTypes, ", "))
	return "any"
}

// giveValue finds a parameter's value and checks it.
func (d *decoder) giveValue(p *declared, fixed map[string]any, in given) {
	if text, ok := in.texts[p.Name]; ok {
		v, ok := fromText(text, p.Type)
		if !ok {
			d.errorf(p.n, "bad-parameter", "--param %s=%s is no %s", p.Name, short(text), p.Type).Suggest("%s", exampleOf(p.Type, p.Name))
			return
		}
		d.setValue(p, v, "--param")
		return
	}
	given, isGiven := in.values[p.Name]
	own, isFixed := fixed[p.Name]
	callers, isCallers := in.defaults[p.Name]
	switch {
	case isGiven:
		d.setValue(p, given, "the value given")
	case in.later[p.Name]: // the run gives it
	case isFixed:
		d.setValue(p, own, "the file's defaults")
	case isCallers:
		d.setValue(p, callers, "the caller's defaults")
	case p.hasDefault:
		d.setValue(p, p.def, "its default")
	case !p.Required:
	case in.unfilled:
		d.unfilled = append(d.unfilled, p.Name)
	case in.by != nil:
		d.errorf(in.by, "missing-parameter", "the workflow called here needs a value for its parameter %q", p.Name).
			Suggest("give it one under with: of the step that calls it, or a default here")
	default:
		d.errorf(p.n, "missing-parameter", "the parameter %q has no value", p.Name).
			Suggest("give it one with --param %s=VALUE, or a default", p.Name)
	}
}

func exampleOf(typ, name string) string {
	example := map[string]string{
		"number": "--param %s=1.5", "integer": "--param %s=3", "boolean": "--param %s=true",
		"array": `--param '%s=["a", "b"]'`, "object": `--param '%s={"a": 1}'`,
	}[typ]
	return "for example: " + strings.ReplaceAll(example, "%s", name)
}

// fromText reads the text of a --param as a value of a type.
func fromText(text, typ string) (any, bool) {
	switch typ {
	case "string":
		return text, true
	case "any":
		if k := plainKind(text); k == boolNode || k == intNode || k == floatNode {
			return (&node{kind: k, text: text}).value(), true
		}
		if t := strings.TrimSpace(text); strings.HasPrefix(t, "[") || strings.HasPrefix(t, "{") {
			if v, err := value.Parse([]byte(t)); err == nil {
				return v, true
			}
		}
		return text, true
	case "number", "integer", "boolean":
		v := plainNode(strings.TrimSpace(text)).value()
		return v, hasType(v, typ)
	}
	v, err := value.Parse([]byte(text))
	return v, err == nil && hasType(v, typ)
}

// hasType reports whether a value is of a parameter's type.
func hasType(v any, typ string) bool {
	switch typ {
	case "any":
		return true
	case "integer":
		r, ok := value.Number(v)
		return ok && value.Kind(v) == "number" && r.IsInt()
	}
	return value.Kind(v) == typ
}

// setValue gives a parameter a value, after checking type, enum and validation.
func (d *decoder) setValue(p *declared, v any, from string) {
	if !hasType(v, p.Type) {
		d.errorf(p.n, "bad-parameter", "the parameter %q is of type %s, but %s is %s %s", p.Name, p.Type, from, article(value.Kind(v)), short(value.JSON(v))).
			Suggest("change the value or the type")
		return
	}
	if p.enum != nil && !slices.ContainsFunc(p.enum, func(e any) bool { return value.Equal(e, v) }) {
		d.errorf(p.n, "bad-parameter", "the parameter %q cannot be %s", p.Name, short(value.JSON(v))).Suggest("it is one of %s", value.JSON(p.enum))
		return
	}
	p.Value, p.HasValue = v, true
	if !p.fulfils(v) {
		d.errorf(p.n, "bad-parameter", "the parameter %q is %s, which its validation refuses: %s", p.Name, short(value.JSON(v)), short(p.validation.text)).
			Suggest("give it a value that fits, with --param %s=VALUE", p.Name)
	}
}

func article(kind string) string {
	if kind == "array" || kind == "object" {
		return "an " + kind
	}
	if kind == "null" {
		return "nothing:"
	}
	return "a " + kind
}

// The conditions of parameters may leave out the value they are about.
var (
	shortCall = pattern.Lazy(`\b(matches|contains|starts_with|ends_with)\(\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\s*\)`)
	shortIn   = pattern.Lazy(`^\s*in\s*\(\s*(\[.*\])\s*\)\s*$`)
)

// paramCondition reads the condition that a parameter's value must fulfil.
func (d *decoder) paramCondition(key string, n *node) *expr.Expr {
	if !n.scalar() {
		d.wrong(n, key, "a condition").Suggest("for example: validation: value >= 1")
		return nil
	}
	src := shortIn().ReplaceAllString(n.text, "value in $1")
	src = shortCall().ReplaceAllString(src, "$1(value, $2)")
	e, err := expr.Parse(src)
	if err != nil {
		d.syntax(n, "bad-expression", "in validation: ", err)
		return nil
	}
	return e
}

// fulfils reports whether a value is as the validation of the parameter wants it.
func (p *declared) fulfils(v any) bool {
	switch {
	case p.fits != nil:
		return p.fits.MatchString(value.Text(v))
	case p.condition == nil:
		return true
	}
	ok, err := p.condition.EvalBool(expr.ResolverFunc(func(path expr.Path) (any, bool) {
		if len(path) > 0 && (path[0].Name == "value" || path[0].Name == p.Name) {
			return expr.Walk(v, path[1:])
		}
		return nil, false
	}))
	return ok && err == nil
}
