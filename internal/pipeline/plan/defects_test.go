package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// The tests of this file hold one case or more for each defect of the original
// that compiled pipelines could have; the numbers are those of ../DEFECTS.md.

// TestDefectsOfValues evaluates plans.
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

// R1: what a with clause says reaches whoever runs the call, in each of its
// places: in a lambda, in an arm, in a fallback, on a function of the library.
func TestR1OptionsReachEveryCall(t *testing.T) {
	p := compile(t, environment(t), `
in s: String
in xs: List<String>
a = Trim(s) with retry: 1
b = map(xs, (x) => Trim(x) with retry: 2) with timeout: 3s
c = if (s == "x") Trim(s) with retry: 3 else "${Trim(s) with retry: 4}"
d = Trim(s) with retry: 5, fallback: Trim(s) with retry: 6
e = trim(s) with cache: 7s
out e
`)
	var got []string
	for i := range p.Funcs {
		for j := range p.Funcs[i].Nodes {
			if n := &p.Funcs[i].Nodes[j]; n.Call != nil {
				if n.Call.Options == nil {
					t.Errorf("%s has no options", p.Source(n))
					continue
				}
				got = append(got, n.Call.Options.Text)
			}
		}
	}
	slices.Sort(got)
	want := "cache:7000000000 ; retry:1 ; retry:2 ; retry:3 ; retry:4 ; retry:5 ; retry:6 ; timeout:3000000000 ;"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// R3: no clock ticks that nobody has set.
func TestR3NoHiddenClocks(t *testing.T) {
	if o := optionsOf(t, ""); o != nil {
		t.Errorf("a call without options has %+v", o)
	}
	o := optionsOf(t, "retry: 1")
	if o.Retry.Timeout != 0 || o.Deadline != 0 || o.Retry.Budget != 0 || o.Breaker.Count != 0 || o.Limit != 0 || o.Throttle.Count != 0 || o.Cache != 0 || o.Lazy || o.Priority != check.NormalPriority || o.OnError != check.Propagate {
		t.Errorf("%+v", o)
	}
}

// R18: 40 doublings of a second end at the cap, not in an overflow.
func TestR18NoOverflow(t *testing.T) {
	o := optionsOf(t, "retry: 2000000000, delay: 300d, backoff: exponential, max_delay: 36500d, timeout: 36500d")
	if d := o.Retry.Backoff.Base(2_000_000_000); d != 36500*24*time.Hour {
		t.Error(d)
	}
	if total, known := o.Worst().Total(); !known || total != 1<<63-1 {
		t.Errorf("the worst case is %v %v", total, known)
	}
}

// R28: what a run waits for are the inputs of the pipeline, and never the
// parameters of the modules that it calls.
func TestR28OnlyDeclaredInputsAreMissing(t *testing.T) {
	p := compile(t, environment(t), "in name: String\nx = Uppercase(name)\ny = Contains(x, name)\nout y")
	if _, _, err := p.Decode(map[string]any{"name": "n"}); err != nil {
		t.Error(err)
	}
	_, _, err := p.Decode(map[string]any{})
	if err == nil || strings.Count(err.Error(), "is missing") != 1 || !strings.Contains(err.Error(), "input name is missing") {
		t.Error(err)
	}
}

// R29: one source and one set of modules have one hash, however often they are
// compiled; literals, options and versions of modules are in it.
func TestR29HashIsStable(t *testing.T) {
	versioned := func(version string) *check.Env {
		return environment(t, module.Func("Work", version, types.Signature{Params: []types.Param{{Name: "x", Type: types.Int}}, Result: types.Int}, nil))
	}
	hash := func(env *check.Env, src string) string { return compile(t, env, src).Hash }
	const src = "in a: Int\nb = Work(a + 1) with retry: 2\nc = \"${b}: ${if (a > 2) 1.5 else 2.5}\"\nout c"
	base := hash(versioned("1"), src)
	for range 20 {
		if h := hash(versioned("1"), src); h != base {
			t.Fatal("the hash changes from one compilation to the next")
		}
	}
	if hash(versioned("2"), src) == base {
		t.Error("the version of a module is not in the hash")
	}
	for _, change := range [][2]string{{"+ 1", "+ 2"}, {"2.5", "2.25"}, {"retry: 2", "retry: 3"}, {": ${", ":${"}, {"a > 2", "a >= 2"}} {
		if hash(versioned("1"), strings.Replace(src, change[0], change[1], 1)) == base {
			t.Errorf("%q instead of %q is not in the hash", change[1], change[0])
		}
	}
}

// R31: options of streams are refused before a run, with their place, not
// ignored in it.
func TestR31StreamOptionsAreRefused(t *testing.T) {
	for _, option := range []string{"batch: 10", "batch: 2, batch_timeout: 1s", "window: tumbling(5s)", "window: sliding(10s, 2s)", "window: count(3)", "checkpoint: 1s", "join: zip", "join: buffer(1s)"} {
		_, err := compileErr(environment(t), "in a: String\nb = Trim(a) with "+option+"\nout b")
		if err == nil || !strings.Contains(err.Error(), "2:18") || !strings.Contains(err.Error(), "not supported here") {
			t.Errorf("%s: %v", option, err)
		}
	}
}

// R36: two calls that look alike are two calls, with options of their own.
func TestR36CallsAreNotMerged(t *testing.T) {
	p := compile(t, environment(t), "in s: String\na = Trim(s) with retry: 1\nb = Trim(s) with retry: 2\nc = Trim(s)\nd = Trim(s)\nout a")
	attempts := ""
	for i := range p.Funcs[0].Nodes {
		if n := &p.Funcs[0].Nodes[i]; n.Op == plan.Call {
			if n.Call.Options == nil {
				attempts += "- "
			} else {
				attempts += fmt.Sprint(n.Call.Options.Retry.Attempts, " ")
			}
		}
	}
	if attempts != "2 3 - - " {
		t.Error(attempts)
	}
}
