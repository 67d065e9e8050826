package plan_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

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
