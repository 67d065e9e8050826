// Package pipeline runs pipelines (.cst files), typed dataflow programs whose
// calls have retries, timeouts, fallbacks, caches and limits, and makes Go
// functions callable from them:
//
//	type Query struct {
//		Text  string
//		Limit int
//	}
//
//	type Hit struct {
//		ID    int
//		Title string
//	}
//
//	err := pipeline.Register("Search", func(ctx context.Context, q Query) ([]Hit, error) {
//		…
//	})
//
// In a pipeline that is Search(text: String, limit: Int) giving
// List<{id: Int, title: String}>, and like any call it may have options:
//
//	hits = Search(query, 10) with retry: 5, delay: 500ms, backoff: exponential
//
// [Compile] checks such a source, and [Pipeline.Run] takes it to its outputs in
// this process, without a journal; `bide run` runs a file with one, and resumes
// it.
//
// A function makes one attempt. It returns an error to fail it; package retry
// says which errors are retried and how a function can mark one that must not
// be ([retry.Permanent]). It must return soon after its context is done, which
// is how a timeout and an interrupt reach it. It is called by many goroutines
// at once.
//
// # Types
//
//	string                 String
//	int… and uint… kinds   Int (a value that does not fit is an error)
//	float32, float64       Float
//	bool                   Boolean
//	[]T                    List<T>
//	map[string]T           Map<String, T>
//	*T                     Optional<T>
//	struct                 record of its exported fields
//
// A field is named by its json tag, or else as in Go with its first word in
// small letters: UserID is userID, ID is id. A field with the tag "-" is left
// out. Anything else (interfaces, channels, functions, types that contain
// themselves) is refused when the function is registered.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

// Registry is a set of modules made of Go functions. Its zero value is empty
// and ready to use; it is safe for concurrent use.
type Registry struct {
	mu      sync.RWMutex
	modules []module.Module
	names   map[string]bool
}

// Default is the registry that [Register] adds to.
var Default = &Registry{}

// Option says more about a module than its function does.
type Option func(*goModule)

// Version is part of the identity under which `cache:` keeps results: results
// of another version are not used. Without it the version is "".
func Version(v string) Option { return func(m *goModule) { m.version = v } }

// Register makes fn the module of that name in [Default]. See [Add].
func Register[In, Out any](name string, fn func(context.Context, In) (Out, error), options ...Option) error {
	return Add(Default, name, fn, options...)
}

// Add makes fn the module of that name in r. The fields of In, a struct, are
// its parameters, in their order; if In is no struct, it is the one parameter,
// named value. The error says everything that keeps fn from being a module:
// its name, a name used before, types that no pipeline has.
func Add[In, Out any](r *Registry, name string, fn func(context.Context, In) (Out, error), options ...Option) error {
	var problems []error
	if r == nil {
		problems = append(problems, errNilRegistry)
	}
	if err := module.CheckName(name); err != nil {
		problems = append(problems, err)
	}
	if fn == nil {
		problems = append(problems, errors.New("the function is nil"))
	}
	in, inErr := newParams(reflect.TypeFor[In]())
	out, outErr := newCodec(reflect.TypeFor[Out]())
	problems = append(problems, inErr, outErr)
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("pipeline: module %q: %w", name, err)
	}
	m := &goModule{name: name, params: in.params, result: out.typ}
	for _, o := range options {
		o(m)
	}
	m.call = caller(in, out, fn)
	return r.add(m)
}

func (r *Registry) add(m *goModule) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[m.name] {
		return fmt.Errorf("pipeline: there is already a module %q", m.name)
	}
	value.Put(&r.names, m.name, true)
	r.modules = append(r.modules, m)
	return nil
}

// Modules lists the modules, in the order in which they were added.
func (r *Registry) Modules() []module.Module {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return append([]module.Module(nil), r.modules...)
}

// goModule is a Go function as a module.
type goModule struct {
	name, version string
	params        []types.Param
	result        *types.Type
	call          func(ctx context.Context, args []any) (any, error)
}

func (m *goModule) Name() string          { return m.name }
func (m *goModule) Version() string       { return m.version }
func (m *goModule) Params() []types.Param { return m.params }
func (m *goModule) Result() *types.Type   { return m.result }

func (m *goModule) Call(ctx context.Context, args []any) (any, error) { return m.call(ctx, args) }

// caller chooses how values get into In and out of Out. Strings, int64,
// float64 and bool are run-time values as they are.
func caller[In, Out any](in *inputs, out *codec, fn func(context.Context, In) (Out, error)) func(context.Context, []any) (any, error) {
	decode := func(args []any) (into In, err error) {
		err = in.decode(args, reflect.ValueOf(&into).Elem())
		return into, err
	}
	if in.direct {
		decode = func(args []any) (In, error) {
			v, ok := args[0].(In)
			if !ok {
				return v, fmt.Errorf("the argument is a %T, not a %T", args[0], v)
			}
			return v, nil
		}
	}
	encode := func(v Out) (any, error) { return out.encode(reflect.ValueOf(&v).Elem()) }
	if out.direct {
		encode = func(v Out) (any, error) { return v, nil }
	}
	return func(ctx context.Context, args []any) (any, error) {
		arg, err := decode(args)
		if err != nil {
			return nil, err
		}
		result, err := fn(ctx, arg)
		if err != nil {
			return nil, err
		}
		return encode(result)
	}
}
