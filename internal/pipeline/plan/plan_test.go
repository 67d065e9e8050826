package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/plan"
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

// TestShape checks what an engine relies on: every node stands after those it
// refers to, Users is the inverse of In, and lazy nodes are not eager.
func TestShape(t *testing.T) {
	p := compile(t, environment(t), `
in xs: List<Int>
in c: Boolean
a = if (c) SumList(xs) else Max(xs)
b = map(xs, (x) => if (c) x + a else FormatNumber(x) | string-length()) with fallback: [a]
d = filter(xs, (x) => x > 3)
e = filter(xs, (x) => x > a)
f = filter(xs, (x) => if (c) x > a else true)
out b
`)
	for fi := range p.Funcs {
		f := &p.Funcs[fi]
		eager := map[int32]bool{}
		for _, i := range f.Eager {
			eager[i] = true
		}
		users := 0
		for i := range f.Nodes {
			n := &f.Nodes[i]
			refs := append([]int32{}, n.In...)
			for _, a := range n.Arms {
				refs = append(refs, a.Test, a.Value)
			}
			if n.Call != nil {
				refs = append(refs, n.Call.Fallback, n.Call.Failure)
			}
			for _, r := range append(refs, n.Default) {
				if r != plan.None && r >= int32(i) {
					t.Errorf("node %d of %d refers to %d", i, fi, r)
				}
			}
			if eager[int32(i)] {
				users += len(n.In)
				for _, in := range n.In {
					if !eager[in] {
						t.Errorf("node %d is eager, its input %d is not", i, in)
					}
				}
			}
		}
		for _, us := range f.Users {
			users -= len(us)
		}
		if users != 0 {
			t.Errorf("Users of %d is not the inverse of In", fi)
		}
	}
	wantPure := []bool{false, false, true, true, false}
	for i := 1; i < len(p.Funcs); i++ {
		if p.Funcs[i].Pure != wantPure[i] {
			t.Errorf("function %d: Pure is %v", i, p.Funcs[i].Pure)
		}
	}
	for i := range p.Funcs[0].Nodes {
		n := &p.Funcs[0].Nodes[i]
		if n.Op == plan.Call && (n.Label == "SumList" || n.Label == "Max") {
			for _, e := range p.Funcs[0].Eager {
				if e == int32(i) {
					t.Errorf("%s stands in an arm but is eager", n.Label)
				}
			}
		}
	}
}

func TestHash(t *testing.T) {
	const src = "in a: Int\nb = add(a, 1)\nc = SumList([a, b]) with retry: 3, delay: 1s\nout c"
	env := environment(t)
	base := compile(t, env, src).Hash
	same := map[string]string{
		"layout and comments":   "# x\nin a : Int b = add( a,1 )\n\nc = SumList([a, b]) with retry: 3,delay:1s out c",
		"names of variables":    strings.ReplaceAll(src, "b", "total"),
		"compiled again":        src,
		"the order of options":  strings.ReplaceAll(src, "retry: 3, delay: 1s", "delay: 1s, retry: 3"),
		"an unused declaration": "type T = {a: Int}\n" + src,
	}
	same["names of variables"] = "in a: Int\ntotal = add(a, 1)\nc = SumList([a, total]) with retry: 3, delay: 1s\nout c"
	for what, s := range same {
		if h := compile(t, env, s).Hash; h != base {
			t.Errorf("%s changes the hash", what)
		}
	}
	for _, s := range []string{
		strings.Replace(src, "1)", "2)", 1), strings.Replace(src, "retry: 3", "retry: 4", 1), strings.Replace(src, "delay: 1s", "delay: 2s", 1),
		strings.Replace(src, "[a, b]", "[b, a]", 1), strings.Replace(src, "add", "subtract", 1), strings.Replace(src, "in a: Int", "in a: Int = 2", 1),
		strings.Replace(src, "[a, b]", "[a, b, 1]", 1), strings.Replace(src, "out c", "out c\nout b", 1), src + "\nd = Max([c])",
		strings.Replace(src, "delay: 1s", "delay: 1s, fallback: 0", 1), strings.Replace(src, "delay: 1s", "delay: 1s, fallback: 1", 1),
	} {
		if compile(t, env, s).Hash == base {
			t.Errorf("the hash does not see the change to:\n%s", s)
		}
	}
}

func TestUnsupported(t *testing.T) {
	env := environment(t)
	env.Compat = true
	_, err := compileErr(env, "in a: String\nb = Trim(a) with batch: 10\nout b")
	if err == nil || !strings.Contains(err.Error(), "'batch' is for streams, which are not supported here") {
		t.Errorf("got %v", err)
	}
}

func TestDecode(t *testing.T) {
	p := compile(t, environment(t), "in name: String\nin count: Int\nin rate: Float = 0.5\nin tags: Optional<List<String>>\nout name\nout count\nout rate\nout tags")
	values, given, err := p.Decode(map[string]any{"name": "n", "count": int64(3)})
	if err != nil || values[0] != "n" || values[1] != int64(3) || given[2] || !given[3] || values[3] != nil {
		t.Errorf("%v %v %v", values, given, err)
	}
	_, _, err = p.Decode(map[string]any{"nme": "n", "count": "three", "tags": []any{int64(1)}})
	for _, want := range []string{
		"input name is missing; give a String, as in --input name=…",
		`input count: not a value of type Int: it must be Int, but is the string "three"`,
		"input tags: not a value of type Optional<List<String>>: [0]: it must be String, but is the number 1",
		`there is no input named nme; did you mean "name"?`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

func TestEstimate(t *testing.T) {
	p := compile(t, environment(t), `
in s: String
a = SlowQuery(s) with timeout: 5s, retry: 3, delay: 1s, backoff: exponential
b = QuickCheck(s) with timeout: 10s
c = DeepAnalysis(a) with timeout: 2s, fallback: ExpensiveCompute(b) with timeout: 1min
d = if (s == "x") FlakyService(b) with timeout: 1s else AlwaysFailsService(b) with timeout: 3s, retry: 1
e = "${c}${d}"
out e
`)
	e := p.Estimate()
	if !e.Known || e.Total != 89*time.Second {
		t.Errorf("total %v known %v", e.Total, e.Known)
	}
	var names []string
	for _, i := range e.Critical {
		names = append(names, e.Calls[i].String())
	}
	want := "a = SlowQuery: 4 × 5s + 7s of delays = 27s | c = DeepAnalysis: 1 × 2s = 2s | ExpensiveCompute: 1 × 1m = 1m"
	if got := strings.Join(names, " | "); got != want {
		t.Errorf("critical path\n%s\nwant\n%s", got, want)
	}
	for _, c := range e.Calls {
		conditional := c.Callee == "ExpensiveCompute" || c.Callee == "FlakyService" || c.Callee == "AlwaysFailsService"
		if c.Conditional != conditional {
			t.Errorf("%s: conditional %v", c.Callee, c.Conditional)
		}
	}
	if e := compile(t, environment(t), "in s: String\na = SlowQuery(s)\nb = map([s], (x) => Trim(x) with timeout: 1s)\nout b").Estimate(); e.Known || !e.Calls[1].PerElement {
		t.Errorf("%+v", e)
	}
}

// chainSource is a pipeline of n calls, one after another, with what real
// sources have between them.
func chainSource(n int) string {
	var b strings.Builder
	b.WriteString("in text: String\nin limit: Int\nv0 = Trim(text)\n")
	for i := 1; i <= n; i++ {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&b, "v%d = if (limit > %d) v%d else Uppercase(v%d) with retry: 3, delay: 1s, backoff: exponential, timeout: 5s\n", i, i, i-1, i-1)
		case 1:
			fmt.Fprintf(&b, "v%d = Replace(v%d, \"a\", \"b\") with retry: 2, fallback: \"none\"\n", i, i-1)
		case 2:
			fmt.Fprintf(&b, "v%d = \"${v%d} and ${limit + %d}\"\n", i, i-1, i)
		default:
			fmt.Fprintf(&b, "v%d = Uppercase(v%d)\n", i, i-1)
		}
	}
	fmt.Fprintf(&b, "out v%d\n", n)
	return b.String()
}

func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{10, 40, 1000} {
		src := chainSource(n)
		env := environment(b)
		b.Run(fmt.Sprintf("%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				compile(b, env, src)
			}
		})
	}
}
