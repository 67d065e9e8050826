package flow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/stdlib"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

// TestValues evaluates plans and compares outputs and the calls that were
// made. A call that is not listed must not have been made.
func TestValues(t *testing.T) {
	for _, c := range []valueCase{
		{name: "fallback sees the error", src: "in n: Int\nx = Fail(n) with fallback: string-length(error.message)\ny = Fail(n) with fallback: (e) => e.attempts\nout x\nout y",
			in: `{"n":7}`, out: `{"x":4,"y":1}`, calls: map[string]int{"Fail": 2}},
		{name: "records", src: "in r: {a: Int, b: String}\nx = r + {b: 2, c: r.b}\ny = x[b, c]\nz = x{a}\nout y\nout z", in: `{"r":{"a":1,"b":"t"}}`, out: `{"y":{"b":2,"c":"t"},"z":{"a":1}}`},
		{name: "lists of records", src: "in rs: List<{a: Int}>\nx = rs + {b: 1}\ny = x.a\nz = x[b]\nw = {a: 0, c: 2} + rs\nout y\nout z\nout w",
			in: `{"rs":[{"a":5},{"a":6}]}`, out: `{"w":[{"a":5,"c":2},{"a":6,"c":2}],"y":[5,6],"z":[{"b":1},{"b":1}]}`},
		{name: "merging lists of different length", src: "in a: List<{x: Int}>\nin b: List<{y: Int}>\nc = a + b\nout c", in: `{"a":[{"x":1}],"b":[]}`, err: "one has 1 elements and the other 0"},
		{name: "interpolation", src: "in o: Optional<Int>\nin l: List<String>\nx = \"a${o}b${l}c${{k: 1, j: l}}\"\nout x", in: `{"l":["p","q"]}`, out: `{"x":"ab[p, q]c{j: [p, q], k: 1}"}`},
		{name: "calls in lambdas, with closures", src: "in xs: List<Int>\nin k: Int\nj = Double(k)\nys = map(xs, (x) => Double(x + j) with retry: 2)\nout ys",
			in: `{"xs":[1,2],"k":10}`, out: `{"ys":[42,44]}`, calls: map[string]int{"Double": 3}},
		{name: "lambdas in lambdas", src: "in xs: List<Int>\nin k: Int\nys = map(xs, (x) => map(filter(xs, (y) => y > k), (z) => x * z))\nout ys", in: `{"xs":[1,2,3],"k":1}`, out: `{"ys":[[2,3],[4,6],[6,9]]}`},
		{name: "any stops", src: "in xs: List<Int>\na = any(xs, (x) => Even(x))\nb = all(xs, (x) => x > 0)\nc = find(xs, (x) => x > 1)\nout a\nout b\nout c", in: `{"xs":[1,2,3,4]}`, out: `{"a":true,"b":true,"c":2}`, calls: map[string]int{"Even": 2}},
		{name: "sortBy and groupBy", src: "in xs: List<String>\na = sortBy(xs, (x) => string-length(x))\nb = groupBy(xs, (x) => substring(x, 0, 1))\nout a\nout b",
			in: `{"xs":["abc","b","ad"]}`, out: `{"a":["b","ad","abc"],"b":{"a":["abc","ad"],"b":["b"]}}`},
		{name: "default inputs", src: "in a: Int = 3\nin b: Int = Double(a)\nc = a + b\nout c", in: `{"a":5}`, out: `{"c":15}`, calls: map[string]int{"Double": 1}},
		{name: "a default that is not needed", src: "in b: Int = Fail(1)\nout b", in: `{"b":1}`, out: `{"b":1}`, calls: map[string]int{}},
		{name: "assignments that reach no output are computed", src: "in a: Int\nb = Double(a)\nout a", in: `{"a":1}`, out: `{"a":1}`, calls: map[string]int{"Double": 1}},
		{name: "unless they are lazy", src: "in a: Int\nb = Double(a) with lazy\nc = Double(a) with lazy: false\nout a", in: `{"a":1}`, out: `{"a":1}`, calls: map[string]int{"Double": 1}},
		{name: "lazy and needed", src: "in a: Int\nb = Double(a) with lazy\nc = if (a > 0) b + b else 0\nout c", in: `{"a":1}`, out: `{"c":4}`, calls: map[string]int{"Double": 1}},
		{name: "redefinition", src: "in a: Int\na = a + 1\nb = a\na = a * 10\nout a\nout b", in: `{"a":1}`, out: `{"a":20,"b":2}`},
		{name: "sum of no floats is a Float", src: "in xs: List<Float>\ns = list-sum(xs) + 1\nt = s / 2\nout t", in: `{"xs":[]}`, out: `{"t":0.5}`},
		{name: "skip gives the zero of the declared type", src: "in a: Int\nb = Fail(a) with on_error: skip\nout b", in: `{"a":1}`, out: `{"b":0}`, calls: map[string]int{"Fail": 1}},
		{name: "an Optional of an Optional", src: "in o: Optional<Int>\nin c: Boolean\na = (o when c) ?? 5\nout a", in: `{"o":null,"c":true}`, out: `{"a":5}`},
		{name: "guard binds tighter than ??", src: "in n: Int\na = n when n > 1 ?? 0\nout a", in: `{"n":1}`, out: `{"a":0}`},
		{name: "an output without a name", src: "in n: Int\nout n\nout n * 2", in: `{"n":2}`, out: `{"n":2,"result":4}`},
		{name: "elements of the empty list", src: "none = []\na = map(none, (n) => -n * 2)\nb = any(none, (n) => n > 0 or n == \"x\")\nout {a, b}", in: `{}`, out: `{"a":[],"b":false}`},
		{name: "overflow is an error", src: "in n: Int\na = n * n\nout a", in: `{"n":9223372036854775807}`, err: "does not fit into 64 bits"},
		{name: "division by zero is an error", src: "in n: Int\na = 1 / n\nout a", in: `{"n":0}`, err: "Division by zero in stdlib.divide"},
	} {
		t.Run(c.name, c.run)
	}
}

// TestDefectsOfValues has the defects of the original that show in values; the
// numbers are those of ../DEFECTS.md.
func TestDefectsOfValues(t *testing.T) {
	for _, c := range []valueCase{
		{name: "R4 the same argument twice", src: "in x: Int\ny = add(x, x)\nz = y * y\nout z", in: `{"x":3}`, out: `{"z":36}`},
		{name: "R5 only the taken arm of if", src: "in c: Boolean\nx = if (c) Double(1) else Fail(2)\nout x", in: `{"c":true}`, out: `{"x":2}`, calls: map[string]int{"Double": 1}},
		{name: "R5 only the taken arm of branch", src: "in n: Int\nx = branch { n > 5 -> Fail(1), Even(n) -> Double(n), Bad() -> Fail(2), otherwise -> Fail(3) }\nout x",
			in: `{"n":4}`, out: `{"x":8}`, calls: map[string]int{"Even": 1, "Double": 1}},
		{name: "R5 the guarded side", src: "in c: Boolean\nx = Fail(1) when c\ny = x ?? Double(2)\nout y", in: `{"c":false}`, out: `{"y":4}`, calls: map[string]int{"Double": 1}},
		{name: "R5 the needed side of ??", src: "in c: Boolean\nx = Double(1) when c\ny = x ?? Fail(2)\nout y", in: `{"c":true}`, out: `{"y":2}`, calls: map[string]int{"Double": 1}},
		{name: "R5 and", src: "in c: Boolean\nx = c and Bad()\nout x", in: `{"c":false}`, out: `{"x":false}`, calls: map[string]int{}},
		{name: "R5 or", src: "in c: Boolean\nx = c or Bad()\nout x", in: `{"c":true}`, out: `{"x":true}`, calls: map[string]int{}},
		{name: "R5 fallback only after a failure", src: "in n: Int\nx = Double(n) with fallback: Fail(1)\nout x", in: `{"n":2}`, out: `{"x":4}`, calls: map[string]int{"Double": 1}},
		{name: "R6 unions at run time", src: "in n: Int\na = if (n > 0) 1 else \"x\"\nb = [1, \"a\", 2.5]\nc = match a { is Int -> a + 1, is String -> 0 }\nout a\nout b\nout c",
			in: `{"n":1}`, out: `{"a":1,"b":[1,"a",2.5],"c":2}`},
		{name: "R7 a call in a match body", src: "in n: Int\nr = match Try(n) { {ok} -> Double(ok + n), {failure} -> Fail(0) }\nout r", in: `{"n":3}`, out: `{"r":12}`, calls: map[string]int{"Try": 1, "Double": 1}},
		{name: "R7 the other case", src: "in n: Int\nr = match Try(n) { {ok} -> \"${ok}\", {failure} -> \"${failure} ${n}\" }\nout r", in: `{"n":-3}`, out: `{"r":"negative -3"}`, calls: map[string]int{"Try": 1}},
		{name: "R8 is NamedType", src: "type A = {a: Int}\ntype B = {a: Int, b: Int}\nin u: A | B\nx = match u { is B -> u.b, is A -> u.a }\nout x", in: `{"u":{"a":1,"b":2}}`, out: `{"x":2}`},
		{name: "R8 the smaller one", src: "type A = {a: Int}\ntype B = {a: Int, b: Int}\nin u: A | B\nx = match u { is B -> u.b, is A -> u.a }\nout x", in: `{"u":{"tag":"A","value":{"a":1,"b":2}}}`, out: `{"x":1}`},
		{name: "R9 floats", src: "in f: Float\na = 1.5 + 2.0\nb = f * 2\nc = 7 / 2\nd = 7 / 2.0\ne = 1 < 1.5\nout a\nout b\nout c\nout d\nout e",
			in: `{"f":1}`, out: `{"a":3.5,"b":2,"c":3,"d":3.5,"e":true}`},
		{name: "R34 absent optional field and input", src: "in r: {a: Int, b: Optional<Int>}\nin o: Optional<String>\nx = r.b ?? r.a\ny = o ?? \"none\"\nout x\nout y", in: `{"r":{"a":1}}`, out: `{"x":1,"y":"none"}`},
		{name: "R4 the same variable in many places of one call", src: "in x: Int\nin c: Boolean\na = branch { c -> x, x > 1 -> x, otherwise -> x }\nb = [x, x, x]\nc = if (c) max(x, x) else min(x, x)\nd = {p: x, q: x} + {q: x}\nout a\nout b\nout c\nout d",
			in: `{"x":3,"c":true}`, out: `{"a":3,"b":[3,3,3],"c":3,"d":{"p":3,"q":3}}`},
		{name: "R5 only the taken case of match", src: "in n: Int\nr = match Try(n) { {ok} -> Double(ok), {failure} -> Fail(1) }\nout r", in: `{"n":1}`, out: `{"r":2}`, calls: map[string]int{"Try": 1, "Double": 1}},
		{name: "R5 what stands before an arm", src: "in c: Boolean\nx = if (c) 1 else Double(Double(Double(1)))\nout x", in: `{"c":true}`, out: `{"x":1}`, calls: map[string]int{}},
		{name: "R6 a union as an argument and in a list", src: "in u: Int | String\nin l: List<Int | String>\na = match u { is Int -> u * 2, is String -> string-length(u) }\nb = map(l, (e) => match e { is Int -> \"i${e}\", is String -> \"s${e}\" })\nout a\nout b",
			in: `{"u":"four","l":[1,"x"]}`, out: `{"a":4,"b":["i1","sx"]}`},
		{name: "R7 arithmetic and outer variables in a match body", src: "in r: {a: Int, b: Int}\nin k: Int\nx = match r { {a, b} -> (a + k) * b - Double(k) }\nout x", in: `{"r":{"a":2,"b":5},"k":1}`, out: `{"x":13}`, calls: map[string]int{"Double": 1}},
		{name: "R8 is, with a scalar and a record", src: "type P = {name: String}\nin u: P | Int\nx = match u { is Int -> u + 1, is P -> string-length(u.name) }\nout x", in: `{"u":{"name":"abc"}}`, out: `{"x":3}`},
		{name: "R9 the functions of the library", src: "a = add(0.5, 1)\nb = max(1.5, 2.5)\nc = abs(negate(2.5))\nd = list-sum([0.5, 0.25])\ne = map([1.5], (x) => x / 2)\nout a\nout b\nout c\nout d\nout e",
			in: `{}`, out: `{"a":1.5,"b":2.5,"c":2.5,"d":0.75,"e":[0.75]}`},
		{name: "R9 division in a lambda is division", src: "in xs: List<Int>\ny = map(xs, (x) => 10 / x)\nout y", in: `{"xs":[5,0]}`, err: "Division by zero"},
		{name: "R26 lazy is not computed unless needed", src: "in c: Boolean\na = Fail(1) with lazy\nb = if (c) a else 0\nout b", in: `{"c":false}`, out: `{"b":0}`, calls: map[string]int{}},
		{name: "R26 lazy is computed once", src: "a = Double(1) with lazy\nb = a + a\nc = [a, b]\nout c", in: `{}`, out: `{"c":[2,4]}`, calls: map[string]int{"Double": 1}},
		{name: "R34 absent, null and given", src: "in rs: List<{a: Optional<Int>}>\nx = map(rs, (r) => r.a ?? -1)\nout x", in: `{"rs":[{},{"a":null},{"a":4}]}`, out: `{"x":[-1,-1,4]}`},
	} {
		t.Run(c.name, c.run)
	}
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
	out, err := run(t, p, in.(map[string]any))
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

// counting are modules that count their calls.
type counting struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *counting) modules() []module.Module {
	c.calls = map[string]int{}
	note := func(name string, result *types.Type, call func(args []any) (any, error), params ...types.Param) module.Module {
		return module.Func(name, "1", types.Signature{Params: params, Result: result}, func(_ context.Context, args []any) (any, error) {
			c.mu.Lock()
			c.calls[name]++
			c.mu.Unlock()
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

// run takes a plan to its outputs.
func run(t testing.TB, p *plan.Plan, in map[string]any) (map[string]any, error) {
	t.Helper()
	f, err := flow.New(p, flow.NewShared(flow.SharedOptions{CacheDir: t.TempDir()}))
	if err != nil {
		t.Fatal(err)
	}
	values, given, err := p.Decode(in)
	if err != nil {
		t.Fatal(err)
	}
	return f.Run(t.Context(), values, given, flow.Options{})
}

// noop is a module that gives back its argument.
func noop() module.Module {
	return module.Func("Noop", "1", types.Signature{Params: []types.Param{{Name: "x", Type: types.Int}}, Result: types.Int},
		func(_ context.Context, args []any) (any, error) { return args[0], nil })
}
