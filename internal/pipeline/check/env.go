package check

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

// Env is what pipelines can call: the standard library and the modules given.
// Make it once with [NewEnv] and use it for any number of pipelines; it is not
// changed by Check.
type Env struct {
	// Compat checks as constellation-engine does, for comparing verdicts.
	// What can be checked but not run here (streaming options, unknown cache
	// backends, differing limits for one module) is then a warning instead of
	// an error, and what we allow beyond the original (+ for Strings,
	// comparing Floats and Booleans, standard functions for more types and
	// more of them) is an error.
	Compat bool
	// NoManifest is the path of the manifest that was looked for and is not
	// there; "" if there is one. Messages about unknown functions name it.
	NoManifest string
	// NoMachine: there are no named limits of a machine, and NoDisk: no directory for a
	// cache on disk, as in a Go program.
	NoMachine, NoDisk bool
	// Wrong are modules that are declared, with problems that are told there. A call of
	// one has no further problem.
	Wrong []string

	byName     map[string][]*callable
	byFull     map[string]*callable
	namespaces map[string]bool // every namespace and every prefix of one
}

// callable is a function or a module.
type callable struct {
	full, namespace, name string
	sig                   types.Signature
	fn                    *stdlib.Func  // nil for a module
	mod                   module.Module // nil for a function
}

// NewEnv makes an Env of the standard library and modules. A module named
// stdlib.debug.log replaces the library's own, which writes to the default
// logger. The error names every module with a bad name or signature, and
// every name given twice.
func NewEnv(modules ...module.Module) (*Env, error) {
	size := len(library()) + len(modules) + 1
	e := &Env{byName: make(map[string][]*callable, size), byFull: make(map[string]*callable, size), namespaces: map[string]bool{}}
	var problems []error
	for _, m := range modules {
		if err := module.Validate(m); err != nil {
			problems = append(problems, err)
			continue
		}
		if e.byFull[m.Name()] != nil {
			problems = append(problems, fmt.Errorf("there are two modules named %s", m.Name()))
			continue
		}
		if stdlib.Lookup(m.Name()) != nil {
			problems = append(problems, fmt.Errorf("the module %s has the name of a standard function; give it another", m.Name()))
			continue
		}
		e.addModule(m)
	}
	if e.byFull["stdlib.debug.log"] == nil {
		e.addModule(stdlib.Log(func(message string) { slog.Info(message) }))
	}
	for _, c := range library() {
		e.add(c)
	}
	return e, errors.Join(problems...)
}

// library is the functions of the standard library.
var library = sync.OnceValue(func() []*callable {
	return value.Map(stdlib.All(), func(f *stdlib.Func) *callable {
		return &callable{full: f.Qualified(), namespace: f.Namespace, name: f.Name, sig: f.Sig, fn: f}
	})
})

func (e *Env) addModule(m module.Module) {
	c := &callable{full: m.Name(), name: m.Name(), mod: m, sig: types.Signature{Params: m.Params(), Result: m.Result()}}
	if i := strings.LastIndexByte(c.full, '.'); i >= 0 {
		c.namespace, c.name = c.full[:i], c.full[i+1:]
	}
	e.add(c)
}

func (e *Env) add(c *callable) {
	e.byFull[c.full] = c
	e.byName[c.name] = append(e.byName[c.name], c)
	for ns := c.namespace; ns != "" && !e.namespaces[ns]; {
		e.namespaces[ns] = true
		i := strings.LastIndexByte(ns, '.')
		ns = ns[:max(i, 0)]
	}
}

// Functions lists the full names of everything that can be called, sorted.
func (e *Env) Functions() []string { return slices.Sorted(maps.Keys(e.byFull)) }

// Callee describes a function or module by its full name, nil if there is none.
func (e *Env) Callee(full string) *Callee {
	if c := e.byFull[full]; c != nil {
		return c.callee()
	}
	return nil
}

// Find gives what a call of a name means at an offset in a file, nil if
// nothing: the `use` declarations before it count.
func (e *Env) Find(f *syntax.File, name string, at int32) *Callee {
	im := imports{alias: map[string]string{}}
	for _, d := range f.Decls {
		if u, isUse := d.(*syntax.UseDecl); isUse && u.Start < at {
			im.add(u)
		}
	}
	c, problem := e.resolve(name, &im, func() bool { return false })
	if problem != nil {
		return nil
	}
	return c.callee()
}

// imports are the `use` declarations so far.
type imports struct {
	wildcard []string
	alias    map[string]string
	any      bool
}

func (im *imports) add(d *syntax.UseDecl) {
	ns := d.Path.String()
	im.any = true
	if d.Alias != nil {
		im.alias[d.Alias.Name] = ns
	} else if !slices.Contains(im.wildcard, ns) {
		im.wildcard = append(im.wildcard, ns)
	}
}

func (im *imports) reaches(c *callable) bool {
	return c.namespace == "" || !im.any || slices.Contains(im.wildcard, c.namespace)
}

// simple finds what a name without dots can mean: what has no namespace, and
// what is imported; everything of that name as long as nothing is imported. A
// function that only we have counts only if nothing else does.
func (e *Env) simple(name string, im *imports) []*callable {
	all := e.byName[name]
	if len(all) == 1 && im.reaches(all[0]) && !e.Compat {
		return all
	}
	var found, ours []*callable
	for _, c := range all {
		if !im.reaches(c) {
			continue
		}
		if c.fn != nil && c.fn.Ours {
			if !e.Compat {
				ours = append(ours, c)
			}
		} else {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return ours
	}
	return found
}

// resolve finds what a call calls, or says why it cannot. suggest is asked
// whether similar names are to be looked for.
func (e *Env) resolve(name string, im *imports, suggest func() bool) (*callable, *diag.Problem) {
	first, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return e.resolveSimple(name, im, suggest)
	}
	full := name
	if ns := im.alias[first]; ns != "" {
		full = ns + "." + rest
	}
	if c := e.byFull[full]; c != nil {
		return c, nil
	}
	ns := full[:strings.LastIndexByte(full, '.')]
	if !e.namespaces[ns] {
		p := &diag.Problem{Code: "E004", Message: "Undefined namespace: " + ns}
		if suggest() {
			p.Suggestion = diag.DidYouMean(ns, e.namespaceNames(im))
		}
		for _, w := range im.wildcard {
			if strings.HasSuffix(w, "."+ns) {
				p.Suggest("what %q imports is called without a prefix: %s(…)", "use "+w, rest)
			}
		}
		return nil, p
	}
	p := &diag.Problem{Code: "E002", Message: "Undefined function: " + name}
	if suggest() {
		p.Suggestion = diag.DidYouMean(full, slices.Collect(maps.Keys(e.byFull)))
	}
	return nil, e.declare(name, p)
}

func (e *Env) namespaceNames(im *imports) []string {
	names := slices.Collect(maps.Keys(e.namespaces))
	if len(im.alias) < 1000 { // else it is not worth the time
		names = append(names, slices.Collect(maps.Keys(im.alias))...)
	}
	return names
}

func (e *Env) resolveSimple(name string, im *imports, suggest func() bool) (*callable, *diag.Problem) {
	found := e.simple(name, im)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		names := value.Map(found, func(c *callable) string { return c.full })
		slices.Sort(names)
		p := &diag.Problem{Code: "E005", Message: fmt.Sprintf("Ambiguous function '%s'. Candidates: %s", name, strings.Join(names, ", "))}
		return nil, p.Suggest("write the full name of the one that is meant")
	}
	p := &diag.Problem{Code: "E002", Message: "Undefined function: " + name}
	if elsewhere := e.byName[name]; len(elsewhere) > 0 {
		return nil, p.Suggest("did you mean to import %s? write \"use %s\"", elsewhere[0].full, elsewhere[0].namespace)
	}
	if !suggest() {
		return nil, e.declare(name, p)
	}
	var reachable []string
	for n := range e.byName {
		if len(e.simple(n, im)) > 0 {
			reachable = append(reachable, n)
		}
	}
	slices.Sort(reachable)
	if text := functionElsewhere(name); text != "" {
		return nil, p.Suggest("%s", text)
	}
	if longer := value.Filter(reachable, func(n string) bool { return strings.HasSuffix(n, "-"+name) }); len(longer) > 0 {
		p.Suggest(`did you mean "%s"?`, strings.Join(longer, `" or "`)) // as length of list-length
	} else {
		p.Suggestion = diag.DidYouMean(name, reachable)
	}
	return nil, e.declare(name, p)
}

// functionElsewhere says what is written for a function of other languages; "" where nothing
// is known.
func functionElsewhere(name string) string {
	switch name {
	case "len", "count", "size":
		return `did you mean "list-length"? of a text it is "string-length"`
	case "reduce", "fold", "foldl":
		return "there is no function that joins the elements of a list one by one: list-sum, list-max, list-min, list-average and join do it for them"
	case "try", "attempt":
		return `write "f(x) with fallback: …"`
	case "parallel", "gather", "all":
		return "calls run at once as soon as their inputs are there: give each a name"
	}
	if k := syntax.OptionByName(name); k != syntax.BadOption {
		return fmt.Sprintf("it is an option of a call: write \"f(x) with %s\"", syntax.OptionExample(k))
	}
	return ""
}

// declare says where a function that nobody knows could be declared: also where
// another has a similar name, if this one is written as modules are.
func (e *Env) declare(name string, p *diag.Problem) *diag.Problem {
	first, _ := utf8.DecodeRuneInString(name)
	switch {
	case e.NoManifest == "", p.Suggestion != "" && !unicode.IsUpper(first):
	case p.Suggestion != "":
		p.Suggestion += fmt.Sprintf(" modules are declared in %s, which is not there", e.NoManifest)
	default:
		p.Suggest("modules are declared in %s, which is not there; write it, or name another with --modules", e.NoManifest)
	}
	return p
}

// namespaceExists reports whether `use ns` can be meant.
func (e *Env) namespaceExists(ns string) bool { return e.namespaces[ns] }
