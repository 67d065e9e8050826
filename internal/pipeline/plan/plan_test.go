package plan_test

import (
	"fmt"
	"github.com/bide-dev/bide/internal/worst"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/pipeline/plan"
)

// TestShape checks what an engine relies on: every node is after those it
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
	base := compile(t, env, src).Hash()
	same := map[string]string{
		"layout and comments":   "# x\nin a : Int b = add( a,1 )\n\nc = SumList([a, b]) with retry: 3,delay:1s out c",
		"names of variables":    strings.ReplaceAll(src, "b", "total"),
		"compiled again":        src,
		"the order of options":  strings.ReplaceAll(src, "retry: 3, delay: 1s", "delay: 1s, retry: 3"),
		"an unused declaration": "type T = {a: Int}\n" + src,
	}
	same["names of variables"] = "in a: Int\ntotal = add(a, 1)\nc = SumList([a, total]) with retry: 3, delay: 1s\nout c"
	for what, s := range same {
		if h := compile(t, env, s).Hash(); h != base {
			t.Errorf("%s changes the hash", what)
		}
	}
	for _, s := range []string{
		strings.Replace(src, "1)", "2)", 1), strings.Replace(src, "retry: 3", "retry: 4", 1), strings.Replace(src, "delay: 1s", "delay: 2s", 1),
		strings.Replace(src, "[a, b]", "[b, a]", 1), strings.Replace(src, "add", "subtract", 1), strings.Replace(src, "in a: Int", "in a: Int = 2", 1),
		strings.Replace(src, "[a, b]", "[a, b, 1]", 1), strings.Replace(src, "out c", "out c\nout b", 1), src + "\nd = Max([c])",
		strings.Replace(src, "delay: 1s", "delay: 1s, fallback: 0", 1), strings.Replace(src, "delay: 1s", "delay: 1s, fallback: 1", 1),
	} {
		if compile(t, env, s).Hash() == base {
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
		"input name is missing; give a String, as in --input name=TEXT",
		`input count: not a value of type Int: it must be Int, but is the string "three"`,
		"input tags: not a value of type Optional<List<String>>: [0]: it must be String, but is the number 1",
		`there is no input named nme; did you mean "name"?`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

func TestWorstCase(t *testing.T) {
	p := compile(t, environment(t), `
in s: String
a = SlowQuery(s) with timeout: 5s, retry: 3, delay: 1s, backoff: exponential
b = QuickCheck(s) with timeout: 10s
c = DeepAnalysis(a) with timeout: 2s, fallback: ExpensiveCompute(b) with timeout: 1min
d = if (s == "x") FlakyService(b) with timeout: 1s else AlwaysFailsService(b) with timeout: 3s, retry: 1
e = "${c}${d}"
out e
`)
	e := worst.Calls(p)
	if e.Worst.Time.Open || e.Worst.Time.D != 89*time.Second {
		t.Errorf("the worst case is %v", e.Worst.Time)
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
	if e := worst.Calls(compile(t, environment(t), "in s: String\na = SlowQuery(s)\nb = map([s], (x) => Trim(x) with timeout: 1s)\nout b")); !e.Worst.Time.Open || !e.Calls[1].PerElement {
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
