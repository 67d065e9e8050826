// Package module says what the modules of a pipeline are: named functions with
// typed parameters and a typed result, given by a manifest (a shell command,
// an HTTP request, an agent, a workflow), by Go code, or by the standard
// library.
//
// This package has no effects. A [Definition] from a manifest only describes
// what is to be done; it becomes a [Module] with the [Runner] that does it,
// which the engine supplies.
package module

import (
	"context"
	"fmt"

	"github.com/bide-dev/bide/internal/pipeline/types"
)

// Module is what a call in a pipeline calls. Its methods may be called by many
// goroutines at once.
type Module interface {
	// Name is how a pipeline calls it: "Fetch", or with a namespace
	// "shop.orders.Fetch".
	Name() string
	// Version is part of the identity that cached results are kept under.
	Version() string
	Params() []types.Param
	Result() *types.Type
	// Call makes one attempt. args has one value for each parameter, of its
	// type; the result must be of the result's type. Call must return soon
	// after ctx is done. It must neither change args nor keep the slice.
	Call(ctx context.Context, args []any) (any, error)
}

// Runner makes one attempt of a module that a manifest describes.
type Runner func(ctx context.Context, d *Definition, args []any) (any, error)

// Bind makes a module of a definition and what runs it.
func Bind(d *Definition, run Runner) Module { return &bound{d, run} }

type bound struct {
	def *Definition
	run Runner
}

func (b *bound) Name() string          { return b.def.Name }
func (b *bound) Version() string       { return b.def.Version }
func (b *bound) Params() []types.Param { return b.def.Params }
func (b *bound) Result() *types.Type   { return b.def.Result }

func (b *bound) Call(ctx context.Context, args []any) (any, error) {
	return b.run(ctx, b.def, args)
}

// Describe gives the manifest's description of a module made by Bind.
func Describe(m Module) (*Definition, bool) {
	b, ok := m.(*bound)
	if !ok {
		return nil, false
	}
	return b.def, true
}

// Func makes a module of a Go function over run-time values.
func Func(name, version string, sig types.Signature, call func(ctx context.Context, args []any) (any, error)) Module {
	return &function{name, version, sig, call}
}

type function struct {
	name, version string
	sig           types.Signature
	call          func(ctx context.Context, args []any) (any, error)
}

func (f *function) Name() string          { return f.name }
func (f *function) Version() string       { return f.version }
func (f *function) Params() []types.Param { return f.sig.Params }
func (f *function) Result() *types.Type   { return f.sig.Result }

func (f *function) Call(ctx context.Context, args []any) (any, error) { return f.call(ctx, args) }

// Validate says what is wrong with a module's name and signature, nil if
// nothing is.
func Validate(m Module) error {
	if err := CheckName(m.Name()); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, p := range m.Params() {
		switch {
		case p.Type == nil:
			return fmt.Errorf("module %s: the parameter %q has no type", m.Name(), p.Name)
		case seen[p.Name]:
			return fmt.Errorf("module %s: there are two parameters %q", m.Name(), p.Name)
		case p.Type.Generic():
			return fmt.Errorf("module %s: the parameter %q has the type %s with a variable in it; only the standard library may have those", m.Name(), p.Name, p.Type)
		}
		seen[p.Name] = true
	}
	if m.Result() == nil {
		return fmt.Errorf("module %s has no result type", m.Name())
	}
	if m.Result().Open {
		return fmt.Errorf("module %s: the result %s is an open record; name all its fields", m.Name(), m.Result())
	}
	return nil
}
