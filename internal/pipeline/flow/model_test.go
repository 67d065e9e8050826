package flow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
	"pgregory.net/rapid"
)

// naive is an evaluator of plans, one node after another, by the rules of
// the package comment: what the tests compare with. It makes one attempt a
// call.
type naive struct {
	p     *plan.Plan
	f     *plan.Func
	outer *naive
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
	fr := &naive{p: p, f: &p.Funcs[0], args: values, given: given, slots: map[int32]result{}}
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

func (fr *naive) get(i int32) (any, error) {
	r, done := fr.slots[i]
	if !done {
		r.v, r.err = fr.compute(&fr.f.Nodes[i])
		fr.slots[i] = r
	}
	return r.v, r.err
}

func (fr *naive) compute(n *plan.Node) (any, error) {
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

func (fr *naive) call(n *plan.Node, in []any) (any, error) {
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

func (fr *naive) apply(n *plan.Node, items []any) (any, error) {
	results := []any{}
	for _, item := range items {
		f := &fr.p.Funcs[n.Call.Fn]
		inner := &naive{p: fr.p, f: f, outer: fr, args: []any{item}, slots: map[int32]result{}}
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

// program draws a pipeline over Ints and lists of them in which anything may
// refer to anything above it.
type program struct {
	t    *rapid.T
	ints []string
	list []string
	b    strings.Builder
	out  []string
}

func (p *program) pick(what string, list []string) string {
	return rapid.SampledFrom(list).Draw(p.t, what)
}

func (p *program) expr(depth int, scope []string) string {
	if depth == 0 {
		return p.pick("atom", append(scope, "1", "2", "7"))
	}
	sub := func() string { return p.expr(depth-1, scope) }
	switch rapid.IntRange(0, 13).Draw(p.t, "kind") {
	case 0:
		return "(" + sub() + " + " + sub() + ")"
	case 1:
		return "(" + sub() + " / " + sub() + ")"
	case 2:
		return "Double(" + sub() + ")"
	case 3:
		return "(Fail(" + sub() + ") with fallback: " + sub() + ")"
	case 4:
		return "(if (Even(" + sub() + ")) " + sub() + " else " + sub() + ")"
	case 5:
		return "((" + sub() + " when " + sub() + " > 3) ?? " + sub() + ")"
	case 6:
		return "branch { Bad() and " + sub() + " > 9 -> " + sub() + ", otherwise -> " + sub() + " }"
	case 7:
		return "(match Try(" + sub() + ") { {ok} -> ok + " + sub() + ", {failure} -> " + sub() + " })"
	case 8:
		return "list-sum(map(" + p.pick("list", p.list) + ", (v) => " + p.expr(depth-1, append(scope[:len(scope):len(scope)], "v")) + "))"
	case 9:
		return "list-length(filter(" + p.pick("list", p.list) + ", (v) => Even(" + p.expr(depth-1, append(scope[:len(scope):len(scope)], "v")) + ")))"
	case 10:
		return "(Fail(" + sub() + ") with on_error: skip)"
	case 11:
		return "(Double(" + sub() + ") with retry: 2, cache: 1h)"
	case 12:
		return "(if (Even(" + sub() + ") or Bad()) " + sub() + " else " + sub() + ")"
	}
	return "Fail(" + sub() + ")"
}

func (p *program) source() string {
	p.b.WriteString("in a: Int\nin b: Int = Double(a)\nxs = [a, 4, 5]\n")
	p.ints, p.list = []string{"a", "b"}, []string{"xs", "[]", "[a, b]"}
	for i := range rapid.IntRange(1, 6).Draw(p.t, "assignments") {
		name := fmt.Sprintf("v%d", i)
		fmt.Fprintf(&p.b, "%s = %s\n", name, p.expr(rapid.IntRange(0, 3).Draw(p.t, "depth"), p.ints))
		p.ints = append(p.ints, name)
		if rapid.Bool().Draw(p.t, "out") {
			p.out = append(p.out, name)
		}
	}
	for _, o := range append(p.out, "xs") {
		p.b.WriteString("out " + o + "\n")
	}
	return p.b.String()
}

// TestAgainstModel compares random pipelines with the naive evaluator: the same
// outputs, a failure exactly where it has one, and the run ends.
func TestAgainstModel(t *testing.T) {
	var counts counting
	env := environment(t, counts.modules()...)
	rapid.Check(t, func(rt *rapid.T) {
		src := (&program{t: rt}).source()
		p, err := compileErr(env, src)
		if err != nil {
			rt.Fatalf("%s\n%v", src, err)
		}
		in := map[string]any{"a": int64(rapid.IntRange(-2, 9).Draw(rt, "a"))}
		if rapid.Bool().Draw(rt, "b given") {
			in["b"] = int64(4)
		}
		want, wantErr := evaluate(p, in)
		values, given, err := p.Decode(in)
		if err != nil {
			rt.Fatal(err)
		}
		f, err := flow.New(p, flow.NewShared(flow.SharedOptions{}))
		if err != nil {
			rt.Fatal(err)
		}
		opt := flow.Options{}
		if rapid.Bool().Draw(rt, "watched") {
			opt.Watcher = &diary{}
		}
		got, gotErr := f.Run(context.Background(), values, given, opt)
		if (gotErr == nil) != (wantErr == nil) {
			rt.Fatalf("%s\ngot error  %v\nwant error %v", src, gotErr, wantErr)
		}
		for name, v := range want {
			if v == nil {
				delete(want, name) // it failed
			}
		}
		if value.JSON(got) != value.JSON(want) {
			rt.Fatalf("%s\ngot  %s\nwant %s", src, value.JSON(got), value.JSON(want))
		}
	})
}
