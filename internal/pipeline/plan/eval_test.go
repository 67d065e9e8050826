package plan_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

// frame is a naive evaluator of plans, one node after another, by the rules of
// the package comment: what the tests compare with. It makes one attempt a
// call.
type frame struct {
	p     *plan.Plan
	f     *plan.Func
	outer *frame
	args  []any
	given []bool
	slots map[int32]result
}

type result struct {
	v   any
	err error
}

func evaluate(p *plan.Plan, in map[string]any) (map[string]any, error) {
	values, given, err := p.Decode(in)
	if err != nil {
		return nil, err
	}
	fr := &frame{p: p, f: &p.Funcs[0], args: values, given: given, slots: map[int32]result{}}
	var errs []error
	for _, i := range fr.f.Eager {
		if _, err := fr.get(i); err != nil {
			errs = append(errs, err)
		}
	}
	out := map[string]any{}
	for _, o := range p.Outputs {
		out[o.Name] = fr.slots[o.Node].v
	}
	return out, errors.Join(errs...)
}

func (fr *frame) get(i int32) (any, error) {
	r, done := fr.slots[i]
	if !done {
		r.v, r.err = fr.compute(&fr.f.Nodes[i])
		fr.slots[i] = r
	}
	return r.v, r.err
}

func (fr *frame) compute(n *plan.Node) (any, error) {
	in := make([]any, len(n.In))
	for i, node := range n.In {
		v, err := fr.get(node)
		if err != nil {
			return nil, err
		}
		in[i] = v
	}
	switch n.Op {
	case plan.Const:
		return n.Value, nil
	case plan.Input:
		if !fr.given[n.Index] {
			return fr.get(n.Default)
		}
		return fr.args[n.Index], nil
	case plan.Arg:
		return fr.args[n.Index], nil
	case plan.Outer:
		return fr.outer.get(n.Index)
	case plan.Pure:
		return n.Eval(in)
	case plan.Select:
		for _, a := range n.Arms {
			if a.Test != plan.None {
				holds, err := fr.get(a.Test)
				if err != nil {
					return nil, err
				}
				if holds != true {
					continue
				}
			}
			return fr.get(a.Value)
		}
		return nil, errors.New("no arm")
	}
	return fr.call(n, in)
}

func (fr *frame) call(n *plan.Node, in []any) (any, error) {
	var v any
	var err error
	if n.Op == plan.Call {
		v, err = n.Call.Module.Call(context.Background(), in)
	} else {
		v, err = fr.apply(n, in[0].([]any))
	}
	o := n.Call.Options
	if err == nil || o == nil {
		return v, err
	}
	if n.Call.Fallback != plan.None {
		fr.slots[n.Call.Failure] = result{v: map[string]any{"message": err.Error(), "class": "error", "module": n.Label, "attempts": int64(1)}}
		return fr.get(n.Call.Fallback)
	}
	if o.OnError == check.Skip {
		return types.Zero(n.Type), nil
	}
	return nil, err
}

func (fr *frame) apply(n *plan.Node, items []any) (any, error) {
	results := []any{}
	for _, item := range items {
		f := &fr.p.Funcs[n.Call.Fn]
		inner := &frame{p: fr.p, f: f, outer: fr, args: []any{item}, slots: map[int32]result{}}
		v, err := inner.get(f.Result)
		if err != nil {
			return nil, err
		}
		results = append(results, v)
		if n.Call.Each.Until != nil && n.Call.Each.Until(v) {
			break
		}
	}
	return n.Call.Each.Combine(items, results)
}

// counting are modules that count their calls.
type counting struct{ calls map[string]int }

func (c *counting) modules() []module.Module {
	c.calls = map[string]int{}
	note := func(name string, result *types.Type, call func(args []any) (any, error), params ...types.Param) module.Module {
		return module.Func(name, "1", types.Signature{Params: params, Result: result}, func(_ context.Context, args []any) (any, error) {
			c.calls[name]++
			return call(args)
		})
	}
	x := types.Param{Name: "x", Type: types.Int}
	union := types.UnionOf(types.RecordOf(types.Field{Name: "ok", Type: types.Int}), types.RecordOf(types.Field{Name: "failure", Type: types.String}))
	return []module.Module{
		note("Double", types.Int, func(a []any) (any, error) { return a[0].(int64) * 2, nil }, x),
		note("Fail", types.Int, func(a []any) (any, error) { return nil, fmt.Errorf("no %d", a[0]) }, x),
		note("Bad", types.Boolean, func(a []any) (any, error) { return nil, errors.New("bad") }),
		note("Even", types.Boolean, func(a []any) (any, error) { return a[0].(int64)%2 == 0, nil }, x),
		note("Try", union, func(a []any) (any, error) {
			if a[0].(int64) < 0 {
				return map[string]any{"failure": "negative"}, nil
			}
			return map[string]any{"ok": a[0]}, nil
		}, x),
	}
}

func compile(t testing.TB, env *check.Env, src string) *plan.Plan {
	t.Helper()
	p, err := compileErr(env, src)
	if err != nil {
		t.Fatalf("%s\n%v", src, err)
	}
	return p
}

func compileErr(env *check.Env, src string) (*plan.Plan, error) {
	f, problems := syntax.Parse("test.cst", []byte(src))
	if problems.HasErrors() {
		return nil, problems
	}
	program, problems := check.Check(f, env)
	if problems.HasErrors() {
		return nil, problems
	}
	return plan.New(program)
}

func environment(t testing.TB, extra ...module.Module) *check.Env {
	t.Helper()
	env, err := check.NewEnv(append(stdlib.Samples(), extra...)...)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// valueCase is a source, its inputs and outputs as JSON, and the calls that
// are made; none is checked if both lists are empty.
type valueCase struct {
	name, src, in, out string
	calls              map[string]int
	err                string
}

func (c valueCase) run(t *testing.T) {
	var counts counting
	p := compile(t, environment(t, counts.modules()...), c.src)
	in, err := value.Parse([]byte(c.in))
	if err != nil {
		t.Fatal(err)
	}
	out, err := evaluate(p, in.(map[string]any))
	if c.err != "" {
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Fatalf("error %v, want %q", err, c.err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := value.JSON(out); got != c.out {
		t.Errorf("got  %s\nwant %s", got, c.out)
	}
	if len(c.calls)+len(counts.calls) > 0 && !maps.Equal(c.calls, counts.calls) {
		t.Errorf("calls %v, want %v", counts.calls, c.calls)
	}
}
