package syntax

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
)

// shape writes an expression as nested lists, so that a test shows what
// binds to what.
func shape(e Expr) string {
	join := func(list []Expr) string {
		s := ""
		for _, x := range list {
			s += " " + shape(x)
		}
		return s
	}
	switch e := e.(type) {
	case *Name:
		return e.Name
	case *IntLit:
		return fmt.Sprint(e.Value)
	case *FloatLit:
		return fmt.Sprintf("%gf", e.Value)
	case *BoolLit:
		return fmt.Sprint(e.Value)
	case *StringLit:
		return fmt.Sprintf("%q", e.Value)
	case *Interpolation:
		s := "(text"
		for _, p := range e.Parts {
			if p.X != nil {
				s += " " + shape(p.X)
			} else {
				s += fmt.Sprintf(" %q", p.Text)
			}
		}
		return s + ")"
	case *ListLit:
		return "[" + strings.TrimPrefix(join(e.Elems), " ") + "]"
	case *RecordLit:
		s := "{"
		for i, f := range e.Fields {
			if i > 0 {
				s += " "
			}
			s += f.Name.Name + ":" + shape(f.Value)
		}
		return s + "}"
	case *ParenExpr:
		return "<" + shape(e.X) + ">"
	case *FieldExpr:
		return "(. " + shape(e.X) + " " + e.Field.Name + ")"
	case *ProjectExpr:
		s := "(project " + shape(e.X)
		for _, f := range e.Fields {
			s += " " + f.Name
		}
		return s + ")"
	case *UnaryExpr:
		return "(" + e.Op.String() + " " + shape(e.X) + ")"
	case *BinaryExpr:
		return "(" + e.Op.String() + " " + shape(e.X) + " " + shape(e.Y) + ")"
	case *WhenExpr:
		return "(when " + shape(e.X) + " " + shape(e.Cond) + ")"
	case *IfExpr:
		return "(if " + shape(e.Cond) + " " + shape(e.Then) + " " + shape(e.Else) + ")"
	case *BranchExpr:
		s := "(branch"
		for _, c := range e.Cases {
			s += " " + shape(c.Cond) + "->" + shape(c.Value)
		}
		return s + " " + shape(e.Otherwise) + ")"
	case *MatchExpr:
		s := "(match " + shape(e.X)
		for _, c := range e.Cases {
			s += " " + strings.TrimPrefix(fmt.Sprintf("%T", c.Pattern), "*syntax.") + "->" + shape(c.Value)
		}
		return s + ")"
	case *LambdaExpr:
		s := "(lambda ("
		for i, p := range e.Params {
			if i > 0 {
				s += " "
			}
			s += p.Name.Name
		}
		return s + ") " + shape(e.Body) + ")"
	case *CallExpr:
		s := "(" + e.Func.String() + join(e.Args)
		if e.With != nil {
			for _, o := range e.With.Options {
				s += " " + optionShape(o)
			}
		}
		return s + ")"
	}
	return "BAD"
}

func optionShape(o *Option) string {
	s := o.Kind.String() + "="
	switch v := o.Value.(type) {
	case *IntValue:
		return s + fmt.Sprint(v.Value)
	case *DurationValue:
		return s + v.Value.String()
	case *RateValue:
		return s + fmt.Sprintf("%d/%v", v.Count, v.Per.Value)
	case *WordValue:
		return s + v.Word
	case *BoolValue:
		return s + fmt.Sprint(v.Value)
	case *StringValue:
		return s + fmt.Sprintf("%q", v.Value)
	case *MatchersValue:
		for i, m := range v.Matchers {
			if i > 0 {
				s += "+"
			}
			s += m.Name.Name
			if m.Codes != nil {
				s += fmt.Sprint(m.Codes)
			}
			if m.Pattern != "" {
				s += fmt.Sprintf("(%s)", m.Pattern)
			}
		}
		return s
	case *WindowValue:
		return s + fmt.Sprintf("%s(%v,%v,%d)", v.Shape, v.Size.Value, v.Slide.Value, v.Count)
	case *JoinValue:
		return s + fmt.Sprintf("%s(%v)", v.Shape, v.Size.Value)
	case *ExprValue:
		return s + shape(v.X)
	}
	return s + "BAD"
}

// parseOne parses "v = src" and gives v's expression.
func parseOne(t *testing.T, src string) Expr {
	t.Helper()
	f, list := Parse("x.cst", []byte("v = "+src+"\nout v"))
	if list.HasErrors() {
		t.Fatalf("%s: %v", src, list)
	}
	if len(f.Decls) != 2 {
		t.Fatalf("%s: %d declarations instead of 2", src, len(f.Decls))
	}
	return f.Decls[0].(*AssignDecl).Value
}

func TestExpressions(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		// Words.
		{"x-1", "x-1"},
		{"x - 1", "(- x 1)"},
		{"x -1", "(- x 1)"},
		{"5-3", "(- 5 3)"},
		{"5 -3", "(- 5 3)"},
		{"5 - -3", "(- 5 -3)"},
		{"-1", "-1"},
		{"-1.5", "-1.5f"},
		{"1e3", "1000f"},
		{"2.5E-1", "0.25f"},
		{"-9223372036854775808", "-9223372036854775808"},
		{"- x", "(- x)"},
		{"-x.f", "(- (. x f))"},
		{"-(3)", "(- <3>)"},
		{`"a\n\t\r\\\"\$"`, `"a\n\t\r\\\"$"`},
		{`"costs $5 and $"`, `"costs $5 and $"`},
		{"\"two\nlines\"", `"two\nlines"`},
		{`"a${x}b"`, `(text "a" x "b")`},
		{`"${ x }"`, `(text x)`},
		{`"${x}${"in ${y} in"}"`, `(text x (text "in " y " in"))`},
		{`"${ {a: 1}.a }"`, `(text (. {a:1} a))`},
		{`"\${x}"`, `"${x}"`},
		{"true", "true"},
		// Reserved words end where names continue.
		{"orders", "orders"},
		{"whenever", "whenever"},
		{"not-here", "not-here"},
		{"not notes", "(not notes)"},
		// Binding.
		{"a or b and not c == d + e * f.g", "(or a (and b (not (== c (+ d (* e (. f g)))))))"},
		{"a + b - c", "(- (+ a b) c)"},
		{"a - (b - c)", "(- a <(- b c)>)"},
		{"a * b / c", "(/ (* a b) c)"},
		{"a ?? b ?? c", "(?? a (?? b c))"},
		{"a when c ?? d", "(?? (when a c) d)"},
		{"a ?? b when c", "(?? a (when b c))"},
		{"a when b or c", "(when a (or b c))"},
		{"a or b when c", "(when (or a b) c)"},
		{"not not a", "(not (not a))"},
		{"not a and b", "(and (not a) b)"},
		{"a <= b", "(<= a b)"},
		{"a >= b", "(>= a b)"},
		{"a != b and c < d", "(and (!= a b) (< c d))"},
		{"-a * b", "(* (- a) b)"},
		{"xs | map(f) | g()", "(g (map xs f))"},
		{"a ?? b | f(c)", "(f (?? a b) c)"},
		// Fields, projections, calls.
		{"r.a.b", "(. (. r a) b)"},
		{"r.type", "(. r type)"},
		{"r[a, b]", "(project r a b)"},
		{"r{a, b}", "(project r a b)"},
		{"r[a,].b{c}", "(project (. (project r a) b) c)"},
		{"f(x)[a]", "(project (f x) a)"},
		{"f()", "(f)"},
		{"f(x, y,)", "(f x y)"},
		{"ns.sub.f(x)", "(ns.sub.f x)"},
		{"stdlib.bool.not(x)", "(stdlib.bool.not x)"},
		{"f(x).g(y)", "(g (f x) y)"},
		{"f(x).a.g(y)", "(g (. (f x) a) y)"},
		{"[1, 2,]", "[1 2]"},
		{"[]", "[]"},
		{"{}", "{}"},
		{"{a: 1, type: 2,}", "{a:1 type:2}"},
		{"{a, b}", "{a:a b:b}"},
		// Lambdas.
		{"(x) => x + 1", "(lambda (x) (+ x 1))"},
		{"x => y => x ?? y", "(lambda (x) (lambda (y) (?? x y)))"},
		{"() => 1", "(lambda () 1)"},
		{"(a: Int, b: List<Int>) => a", "(lambda (a b) a)"},
		{"((x)) ", "<<x>>"},
		{"f(x => x, (y) => y)", "(f (lambda (x) x) (lambda (y) y))"},
		// Control.
		{"if (c) a else b", "(if c a b)"},
		{"if (c) a else b + 1", "(if c a (+ b 1))"},
		{"if (c) -1 else [1]", "(if c -1 [1])"},
		{"if (c) (a) else (b)", "(if c <a> <b>)"},
		{"if (c) {a: 1} else {a: 2}", "(if c {a:1} {a:2})"},
		{"if c then a else b", "(if c a b)"},
		{"if (c) then a else b", "(if c a b)"},
		{"if (c) and d then a else b", "(if (and <c> d) a b)"},
		{"if (c).x == 1 then a else b", "(if (== (. <c> x) 1) a b)"},
		{"if f(x) then a else if g then b else c", "(if (f x) a (if g b c))"},
		{"if (c) then else b", "(if c then b)"},
		{"when c then a else b", "(if c a b)"},
		{"when c then a", "(when a c)"},
		{"when c then a ?? b", "(when <(?? a b)> c)"},
		{"branch { a > 1 -> x, otherwise -> y }", "(branch (> a 1)->x y)"},
		{"branch { otherwise -> y, }", "(branch y)"},
		{"match r { {a, b} -> a, is Foo -> 1, _ -> 2, }", "(match r RecordPattern->a TypePattern->1 WildcardPattern->2)"},
		{"match r.f { _ -> 1 }", "(match (. r f) WildcardPattern->1)"},
		{"match (r.f) { _ -> 1 }", "(match <(. r f)> WildcardPattern->1)"},
		{"match f(x) with retry: 2 { {a} -> a }", "(match (f x retry=2) RecordPattern->a)"},
		{"f(x) with retry(3, 1s) with timeout(5s) with fallback({ a: 0 })", "(f x retry=3 delay=1s timeout=5s fallback={a:0})"},
		{"f(x) with fallback: g(x) with retry: 3 with timeout: 5s", "(f x fallback=(g x retry=3 timeout=5s))"},
		{"map(xs, (x) => f(x) with { retry: 3 } with lazy, concurrency: 8)", "(map xs (lambda (x) (f x retry=3 lazy=true concurrency=8)))"},
		{"{a: f(x) with retry: 3 with timeout: 5s, delay: 5}", "{a:(f x retry=3 timeout=5s) delay:5}"},
		{"and(a, b)", "<(and a b)>"},
		{"1 + or(f(a), b or c) == d", "(== (+ 1 <(or (f a) <(or b c)>)>) d)"},
		{"not and(or(a ?? b, x => y), c) and or(d, e)", "(and (not <(and <(or <(?? a b)> <(lambda (x) y)>)> c)>) <(or d e)>)"},
		{"branch { a => x, otherwise => y }", "(branch a->x y)"},
		{"branch {\n a.b == 1 => x\n b -> (c) => c\n otherwise => y\n}", "(branch (== (. a b) 1)->x b->(lambda (c) c) y)"},
		{"branch {\n a -> f(x) with retry: 2\n not b -> r{c, d}\n e == \"(\" and d -> if e then 1\n else 2\n otherwise -> 3 }",
			"(branch a->(f x retry=2) (not b)->(project r c d) (and (== e \"(\") d)->(if e 1 2) 3)"},
		{"match r {\n {a} -> f(a)\n {b, c} => \"v\"\n {d} -> g(d) with fallback: h\n {e} -> r\n {e}\n is Int -> 1\n _ => 2 }",
			"(match r RecordPattern->(f a) RecordPattern->\"v\" RecordPattern->(g d fallback=h) RecordPattern->(project r e) TypePattern->1 WildcardPattern->2)"},
	} {
		if got := shape(parseOne(t, c.src)); got != c.want {
			t.Errorf("%s\n got  %s\n want %s", c.src, got, c.want)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"f(x) with retry: 5, delay: 500ms, backoff: exponential, timeout: 5s", "(f x retry=5 delay=500ms backoff=exponential timeout=5s)"},
		{"f(x) with max_delay: 1min, jitter: full, budget: 1h, deadline: 1d", "(f x max_delay=1m0s jitter=full budget=1h0m0s deadline=24h0m0s)"},
		{"f(x) with jitter: true", "(f x jitter=factor)"},
		{"f(x) with jitter: false, backoff: fibonacci", "(f x jitter=none backoff=fibonacci)"},
		{`f(x) with retry_on: [network, exit_code(75, 111), pattern("a\\d")], abort_on: timeout`, `(f x retry_on=network+exit_code[75 111]+pattern(a\d) abort_on=timeout)`},
		{"f(x) with breaker: 5/30s, throttle: 100/1min", "(f x breaker=5/30s throttle=100/1m0s)"},
		{"f(x) with throttle: 100/min", "(f x throttle=100/1m0s)"},
		{"f(x) with throttle: 100 / 2s", "(f x throttle=100/2s)"},
		{`f(x) with fallback: "none", cache: 10min, cache_backend: "memory"`, `(f x fallback="none" cache=10m0s cache_backend="memory")`},
		{"f(x) with concurrency: 4, on_error: wrap, lazy, priority: high", "(f x concurrency=4 on_error=wrap lazy=true priority=high)"},
		{"f(x) with lazy: false, priority: -3", "(f x lazy=false priority=-3)"},
		{"f(x) with batch: 10, batch_timeout: 5s, checkpoint: 30s", "(f x batch=10 batch_timeout=5s checkpoint=30s)"},
		{"f(x) with window: tumbling(5s)", "(f x window=tumbling(5s,0s,0))"},
		{"f(x) with window: sliding(10min, 1min), join: zip", "(f x window=sliding(10m0s,1m0s,0) join=zip(0s))"},
		{"f(x) with window: count(100), join: buffer(5s)", "(f x window=count(0s,0s,100) join=buffer(5s))"},
		{"f(x) with policy: flaky", "(f x policy=flaky)"},
		// Other ways to write a clause.
		{"f(x) with { retry: 3, delay: 1s, }", "(f x retry=3 delay=1s)"},
		{"f(x) with retry(3, 1s, linear), timeout(5s)", "(f x retry=3 delay=1s backoff=linear timeout=5s)"},
		{"f(x) with batch=50, retry = 2", "(f x batch=50 retry=2)"},
		{"f(x) with retry: 3,", "(f x retry=3)"},
		// Whom a comma belongs to.
		{"f(g(x) with retry: 3, y)", "(f (g x retry=3) y)"},
		{"f(g(x) with retry: 3, delay: 1s, y)", "(f (g x retry=3 delay=1s) y)"},
		{"f(g(x) with retry: 3, lazy, y)", "(f (g x retry=3 lazy=true) y)"},
		{"[g(x) with retry: 3, retry]", "[(g x retry=3) retry]"},
		{"{a: g(x) with retry: 3, priority: 5}", "{a:(g x retry=3 priority=5)}"},
		{"{a: g(x) with retry: 3, delay: 5}", "{a:(g x retry=3) delay:5}"},
		{"{a: g(x) with retry: 3, delay: 5s}", "{a:(g x retry=3 delay=5s)}"},
		{"{a: g(x) with retry: 3, policy: p}", "{a:(g x retry=3) policy:p}"},
		{"{a: g(x) with retry: 3, lazy: x}", "{a:(g x retry=3) lazy:x}"},
		{"{a: g(x) with retry: 3, backoff: b}", "{a:(g x retry=3) backoff:b}"},
		{"{a: g(x) with retry: 3, throttle: 5/x}", "{a:(g x retry=3) throttle:(/ 5 x)}"},
		{"{a: (g(x) with retry: 3), priority: 5}", "{a:<(g x retry=3)> priority:5}"},
		{"{a: f(g(x) with retry: 3, priority: 5), priority: 6}", "{a:(f (g x retry=3 priority=5)) priority:6}"},
		{"f(x) with fallback: g(x) with retry: 2, timeout: 5s", "(f x fallback=(g x retry=2 timeout=5s))"},
		{"f(x) with fallback: (g(x) with retry: 2), timeout: 5s", "(f x fallback=<(g x retry=2)> timeout=5s)"},
		{"xs | f() with fallback: [] | g()", "(g (f xs fallback=[]))"},
		{"branch { f(x) with retry: 1 -> a, otherwise -> b }", "(branch (f x retry=1)->a b)"},
		{"map(xs, (x) => f(x) with retry: 3, concurrency: 8)", "(map xs (lambda (x) (f x retry=3 concurrency=8)))"},
		{"f(x) with backoff: fixed.a", "(. (f x backoff=fixed) a)"},
	} {
		if got := shape(parseOne(t, c.src)); got != c.want {
			t.Errorf("%s\n got  %s\n want %s", c.src, got, c.want)
		}
	}
}

// TestLineEndsMeanNothing parses a program on one line and spread out.
func TestLineEndsMeanNothing(t *testing.T) {
	one := `type T = { a: Int } use stdlib.math as m @example(3) in a: Int in b: List<T> = [] x = a policy p = retry: 3, delay: 1s y = f(x) with policy: p out y out x.a`
	f, list := Parse("x.cst", []byte(one))
	if list.HasErrors() || len(f.Decls) != 9 {
		t.Fatalf("%d declarations, %v", len(f.Decls), list)
	}
	var spread []string
	for _, w := range strings.Fields(one) {
		spread = append(spread, w, "# comment")
	}
	g, list := Parse("x.cst", []byte("\ufeff"+strings.Join(spread, "\r\n")))
	if list.HasErrors() || dump(f) != dump(g) {
		t.Fatalf("%v\n%s\n%s", list, dump(f), dump(g))
	}
	if len(g.Comments) != len(spread)/2 {
		t.Fatalf("%d comments", len(g.Comments))
	}
}

func TestDeclarations(t *testing.T) {
	src := `@example("a") @source(http-sse, topic: "t", n: 1)
in a: Int | String + R = 3
in b: Map<String, List[Int]> @example({}) @example(2)
@example(1)
in c: Int @example(2) in d: Int @sink("memory", key: 1)
out r.type
out r{x, y}
out { x, z: 1 }
out total = a + b
use stdlib.in.math as m
`
	f, list := Parse("x.cst", []byte(src))
	if list.HasErrors() {
		t.Fatal(list)
	}
	var got []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *InDecl:
			s := "in " + d.Name.Name
			for _, a := range d.Annotations {
				s += " @" + a.Name.Name
				if a.Kind == Example {
					s += shape(a.Value)
				} else {
					s += a.Connector
				}
			}
			if d.Default != nil {
				s += " = " + shape(d.Default)
			}
			got = append(got, s)
		case *OutDecl:
			s := "out"
			for _, a := range d.Annotations {
				s += " @" + a.Name.Name + a.Connector
			}
			for _, o := range d.Outputs {
				s += " " + o.Name.Name + "=" + shape(o.Value)
			}
			got = append(got, s)
		case *UseDecl:
			got = append(got, "use "+d.Path.String()+" as "+d.Alias.Name)
		}
	}
	want := []string{`in a @example"a" @sourcehttp-sse = 3`, "in b @example{} @example2", "in c @example1", "in d @example2",
		"out @sinkmemory type=(. r type)", "out x=(. r x) y=(. r y)", "out x=x z=1", "out total=(+ a b)", "use stdlib.in.math as m"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestUnclosedStrings(t *testing.T) {
	for _, c := range []struct {
		src   string
		lines []int
	}{
		{"a = \"x\nb = 3\nout a", []int{1}},
		{"a = f(\"x)\nb = g(\"y\")\nc = 3x\nout b", []int{1, 1, 3}},
		{"a = \"p ${x\nb = \"q\"\nout b", []int{1}},
		{"a = \"p ${\"q\nout a", []int{1}},
		{"out a\nb = \"", []int{2}},
		{"out a\nb = \"\\", []int{2}},
	} {
		_, list := Parse("x.cst", []byte(c.src))
		var lines []int
		for _, p := range list {
			lines = append(lines, p.Line)
		}
		if fmt.Sprint(lines) != fmt.Sprint(c.lines) || !strings.Contains(fmt.Sprint(list), CodeString) {
			t.Errorf("%q: errors in lines %v, want %v: %v", c.src, lines, c.lines, list)
		}
	}
}

func TestMethodCall(t *testing.T) {
	call := parseOne(t, "xs.items.map(f)").(*CallExpr)
	m, ok := call.AsMethod()
	if !ok || shape(m) != "(map (. xs items) f)" || m.Form != MethodCall || len(call.Args) != 1 {
		t.Fatalf("%v %s", ok, shape(m))
	}
	if _, ok := parseOne(t, "map(xs)").(*CallExpr).AsMethod(); ok {
		t.Fatal("map(xs) is no method call")
	}
}

func TestPositions(t *testing.T) {
	src := "a = \"héé\" + b\r\n\tout a"
	f, list := Parse("x.cst", []byte(src))
	if list.HasErrors() {
		t.Fatal(list)
	}
	b := f.Decls[0].(*AssignDecl).Value.(*BinaryExpr).Y
	if pos, end := f.Span(b.Extent()); pos != (diag.Pos{File: "x.cst", Line: 1, Column: 13}) || end != 14 {
		t.Fatalf("%v %d", pos, end)
	}
	if pos := f.Pos(f.Decls[1].Extent().Start); pos.Line != 2 || pos.Column != 2 {
		t.Fatal(pos)
	}
	if pos := f.Pos(1 << 30); pos.Line != 2 || pos.Column != 7 {
		t.Fatal(pos)
	}
	if pos := f.Pos(-1); pos.Line != 1 || pos.Column != 1 {
		t.Fatal(pos)
	}
}

func TestGet(t *testing.T) {
	call := parseOne(t, "f(x) with retry: 3, delay: 1s").(*CallExpr)
	if o := call.With.Get(OptDelay); o == nil || o.Kind != OptDelay {
		t.Fatal(o)
	}
	if o := call.With.Get(OptCache); o != nil {
		t.Fatal(o)
	}
	if o := (*WithClause)(nil).Get(OptRetry); o != nil {
		t.Fatal(o)
	}
}

// TestOptionTable checks that the tables of options agree.
func TestOptionTable(t *testing.T) {
	for _, name := range OptionNames() {
		k := OptionByName(name)
		if k == BadOption || k.String() != name {
			t.Errorf("%s is %v", name, k)
		}
		if _, list := Parse("x.cst", []byte("v = f(x) with "+OptionExample(k)+"\nout v")); len(list) > 0 {
			t.Errorf("%s: the example has errors: %v", name, list)
		}
		for _, w := range OptionWords(k) {
			if k == OptWindow || w == "buffer" {
				continue // they take values
			}
			if _, list := Parse("x.cst", []byte("v = f(x) with "+name+": "+w+"\nout v")); len(list) > 0 {
				t.Errorf("%s: %s: %v", name, w, list)
			}
		}
	}
	for _, w := range ReservedWords() {
		if _, list := Parse("x.cst", []byte(w+" = 3\nout v")); len(list) != 1 || list[0].Code != CodeReserved {
			t.Errorf("%s as a name: %v", w, list)
		}
		if _, list := Parse("x.cst", []byte("v = r."+w+"\nw = { "+w+": 1 }["+w+"]\nout v")); len(list) > 0 {
			t.Errorf("%s as a field: %v", w, list)
		}
	}
}
