// Package stdlib is the standard library of the pipeline language: functions
// over values, without effects. The functions, names and namespaces are those
// of constellation-engine; where it has a function for Int alone, this one is
// for Float, or for any type, as well. What is ours in addition says so in its
// [Func.Ours]: such a function never makes a name ambiguous.
//
// The one function with an effect, stdlib.debug.log, is a module; see [Log].
// [Samples] are modules that fail, hang and count, for examples and tests.
package stdlib

import (
	"context"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// Func is one function. Exactly one of Eval and Each is set.
type Func struct {
	Namespace string // "stdlib.math"
	Name      string // "add"
	Doc       string // one sentence
	Sig       types.Signature
	Ours      bool // not in the original

	// Eval computes the result. args has a value of its type for each
	// parameter. It neither changes nor keeps args, and is safe for
	// concurrent use.
	Eval func(args []any) (any, error)
	// Each is set instead where the last parameter is a function that is to
	// be applied to each element of the first.
	Each *Each
}

// Each is how the results of a function applied to each element of a list make
// up the result of the whole. Who evaluates may apply it to many elements at
// once, unless Until is set: then in order, up to the first result for which
// Until is true.
type Each struct {
	Until   func(result any) bool
	Combine func(items, results []any) (any, error) // len(results) ≤ len(items)
}

// Qualified is the full name, "stdlib.math.add".
func (f *Func) Qualified() string { return f.Namespace + "." + f.Name }

// Module gives a function with Eval as a module, so that a call of it may
// have options.
func (f *Func) Module(sig types.Signature) module.Module {
	return module.Func(f.Qualified(), "std", sig, func(_ context.Context, args []any) (any, error) {
		return f.Eval(args)
	})
}

var index = sync.OnceValue(func() (x struct {
	all  []*Func
	full map[string]*Func
	name map[string][]*Func
}) {
	x.full, x.name = map[string]*Func{}, map[string][]*Func{}
	for _, group := range []func() []*Func{mathFuncs, stringFuncs, listFuncs, boolFuncs, compareFuncs, collectionFuncs, convertFuncs, mapFuncs, otherFuncs} {
		x.all = append(x.all, group()...)
	}
	for _, f := range x.all {
		x.full[f.Qualified()] = f
		x.name[f.Name] = append(x.name[f.Name], f)
	}
	return x
})

// All lists every function. The result must not be changed.
func All() []*Func { return index().all }

// Lookup finds a function by its full name, nil if there is none.
func Lookup(qualified string) *Func { return index().full[qualified] }

// Named lists the functions with a simple name. The result must not be changed.
func Named(name string) []*Func { return index().name[name] }

// Log is stdlib.debug.log: it hands its message to write and gives it back.
func Log(write func(message string)) module.Module {
	sig := types.Signature{Params: params("message", types.String), Result: types.String}
	return module.Func("stdlib.debug.log", "std", sig, func(_ context.Context, args []any) (any, error) {
		write(args[0].(string))
		return args[0], nil
	})
}

// The variables of generic signatures.
var (
	anyT    = types.VarOf("T")
	anyU    = types.VarOf("U")
	anyK    = types.VarOf("K")
	number  = types.VarOf("N", types.Int, types.Float)
	ordered = types.VarOf("O", types.Int, types.Float, types.String)
	scalar  = types.VarOf("S", types.Int, types.Float, types.String, types.Boolean)

	strList = types.ListOf(types.String)
	anySeq  = types.SeqOf(anyT)
	anyList = types.ListOf(anyT)
)

// params makes parameters of alternating names and types.
func params(pairs ...any) []types.Param {
	ps := make([]types.Param, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		ps = append(ps, types.Param{Name: pairs[i].(string), Type: pairs[i+1].(*types.Type)})
	}
	return ps
}

// group makes functions of one namespace.
type group string

func (g group) fn(name, doc string, ps []types.Param, result *types.Type, eval func([]any) (any, error)) *Func {
	return &Func{Namespace: string(g), Name: name, Doc: doc, Sig: types.Signature{Params: ps, Result: result}, Eval: eval}
}

// ours marks functions that the original does not have.
func ours(fs ...*Func) []*Func {
	for _, f := range fs {
		f.Ours = true
	}
	return fs
}

// like marks a function whose result is a Seq where its first argument is.
func like(f *Func) *Func {
	f.Sig.Like = true
	return f
}

// Error is a failure of a function: what, in which function.
type Error struct {
	Func string // full name
	Text string
}

func (e *Error) Error() string { return strings.TrimSuffix(e.Text, ".") + " in " + e.Func }

func fail(fn, text string) (any, error) { return nil, &Error{fn, text} }
