package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

func repeat(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestProblemsAreBounded gives sources that are wrong throughout. A hundred
// errors are reported, and that there are more.
func TestProblemsAreBounded(t *testing.T) {
	env := newEnv(t)
	for name, src := range map[string]string{
		"names":      repeat(150, "v%[1]d = w%[1]d\n") + "out v0",
		"types":      repeat(150, "in v%[1]d: W%[1]d\n") + "out v0",
		"functions":  repeat(150, "v%[1]d = w%[1]d(1)\n") + "out v0",
		"one record": "x = {" + repeat(150, "f%[1]d: w%[1]d, ") + "}\nout x",
	} {
		t.Run(name, func(t *testing.T) {
			p, problems := run(env, src)
			errors, _ := problems.Count()
			if p != nil || errors != 101 {
				t.Fatalf("%d errors, program %v", errors, p != nil)
			}
			for i, problem := range problems {
				if more := problem.Code == "E029"; more != (i == 100) {
					t.Errorf("problem %d: %v", i, problem)
				}
			}
		})
	}
}

func TestWarningsAreBounded(t *testing.T) {
	p, problems := run(newEnv(t), repeat(150, "x = %d\n")+"out x")
	errors, warnings := problems.Count()
	if p == nil || errors != 0 || warnings != 101 || problems[100].Code != "more-warnings" {
		t.Errorf("%d errors, %d warnings, program %v, last %v", errors, warnings, p != nil, problems[len(problems)-1])
	}
	if n := len(p.Assigns); n != 150 {
		t.Errorf("%d assignments", n)
	}
}

// TestRepeatedDeclarations: of inputs and outputs declared again the last counts.
func TestRepeatedDeclarations(t *testing.T) {
	p, problems := run(newEnv(t), "in a: Int\nin b: Int\nin a: String\nout b\nout a\nout c = b\nout b = 1.5\nout c = 2")
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	var got []string
	for _, v := range p.Inputs {
		got = append(got, "in "+v.Name+" "+v.Type.String())
	}
	for _, o := range p.Outputs {
		got = append(got, "out "+o.Name+" "+o.Value.Type().String())
	}
	want := "in a String, in b Int, out a String, out b Float, out c Int"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// TestSuggestionsStayCheap: with very many names around, errors are reported
// without looking for similar ones.
func TestSuggestionsStayCheap(t *testing.T) {
	env := newEnv(t)
	suggestions := func(names int) (n int) {
		_, problems := run(env, repeat(names, "value%d = 1\n")+repeat(90, "u%[1]d = valu%[1]d\n")+"out u0")
		if errors, _ := problems.Count(); errors != 90 {
			t.Fatalf("%d errors", errors)
		}
		for _, p := range problems {
			if p.Severity == diag.Error && p.Suggestion != "" {
				n++
			}
		}
		return n
	}
	if few := suggestions(100); few != 90 {
		t.Errorf("%d of 90 errors have a suggestion", few)
	}
	if many := suggestions(50_000); many > 5 {
		t.Errorf("%d errors have a suggestion found among 50,000 names", many)
	}
}

// TestWhatAnErrorHidIsCheap: of names that one syntax error hides there may be
// very many; none is reported, and none costs a search for similar ones.
func TestWhatAnErrorHidIsCheap(t *testing.T) {
	for name, src := range map[string]string{
		"an import": "import x\n" + repeat(20_000, "v%[1]d = w%[1]d(1)\n") + "out v0",
		"names":     "x y " + repeat(5000, "Q%d ") + "\n" + repeat(5000, "in v%[1]d: Q%[1]d\nu%[1]d = Q%[1]d\n") + "out v0",
	} {
		p, problems := run(newEnv(t), src)
		if p != nil || len(problems) != 1 || problems[0].Code != "E020" || problems[0].Line != 1 {
			t.Errorf("%s: %.500v", name, problems)
		}
	}
}

// TestEqualOptionsAreSettledOnce: calls whose options are equal have them in common, but for
// the fallbacks, which mean what they mean at each call. What is wrong is reported at each.
func TestEqualOptionsAreSettledOnce(t *testing.T) {
	p, problems := run(newEnv(t), "policy slow = retry: 2, delay: 1s\n"+
		"a = Fetch(1) with retry: 2, delay: 1s, fallback: \"x\"\n"+
		"b = Fetch(2) with delay: 1s, fallback: \"y\", retry: 2\n"+
		"c = Fetch(3) with policy: slow\n"+
		"d = Fetch(4) with retry: 3, delay: 1s\n"+
		"e = Fetch(5) with limits: \"gpu\"\n"+
		"f = Fetch(6) with limits: \"gpu\"\n"+
		"out a")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var o []*check.Options
	for _, v := range p.Assigns {
		o = append(o, v.Value.(*check.Call).Options)
	}
	if o[0].Plain != o[1].Plain || o[0].Plain != o[2].Plain {
		t.Error("equal options are settled more than once")
	}
	if o[0].Plain == o[3].Plain || o[3].Retry.Attempts != 4 {
		t.Errorf("other options: %+v", o[3].Plain)
	}
	if x, y := o[0].Fallback.(*check.Const), o[1].Fallback.(*check.Const); x.Value != "x" || y.Value != "y" || o[2].Fallback != nil {
		t.Error(x, y, o[2].Fallback)
	}
	// As numbers one after the other, these two would be the same.
	p, _ = run(newEnv(t), "a = Fetch(1) with breaker: 0.5/220/30s\nb = Fetch(2) with breaker: 0.52/20/30s\nout a")
	if a, b := p.Assigns[0].Value.(*check.Call).Options, p.Assigns[1].Value.(*check.Call).Options; a.Text == b.Text || b.Breaker.FailureRate != 0.52 {
		t.Errorf("%q, %q", a.Text, b.Text)
	}
	if _, problems := run(newEnv(t), "a = Fetch(1) with breaker: 0.5/20/30s\nb = Fetch(2) with breaker: 0.52/0/30s\nout a"); !problems.HasErrors() {
		t.Error("a breaker of no calls is no error")
	}
	if o[4].Named[0].Pos.Line != 6 || o[5].Named[0].Pos.Line != 7 {
		t.Errorf("named limits have their places: %v, %v", o[4].Named, o[5].Named)
	}
	_, problems = run(newEnv(t), "policy p = timeout: 0s\na = Fetch(1) with policy: p\nb = Fetch(1) with timeout: 0s\nc = Fetch(2) with timeout: 0s\nout a")
	var lines []int
	for _, problem := range problems {
		lines = append(lines, problem.Pos.Line)
	}
	if !slices.Equal(lines, []int{1, 3, 4}) {
		t.Errorf("a wrong option is reported at lines %v:\n%v", lines, problems)
	}
}

// TestOptionsStandAlone: what options mean, and what is wrong with them, is the same whatever
// calls there are before them.
func TestOptionsStandAlone(t *testing.T) {
	values := map[string][]string{
		"retry": {"0", "1", "11", "unlimited", "1000000"}, "delay": {"0s", "1s", "11s", "1ms"}, "max_delay": {"1s", "0s"}, "timeout": {"1s", "0s", "11s"},
		"backoff": {"fixed", "linear", "exponential", "fibonacci", "custom", "nothing"}, "jitter": {"none", "full", "nothing"},
		"breaker": {"5/30s", "53/0s", "0.5/20/30s", "0.52/0/30s", "0.5/220/30s", "0.52/20/30s", "2.5/1/1s"}, "throttle": {"1/1s", "11/1s", "1/11s", "0/1s"},
		"concurrency": {"1", "11", "0"}, "priority": {"high", "low", "1", "101", "nothing"}, "cache": {"1s", "0s", "1min"},
		"cache_backend": {`"memory"`, `"disk"`, `"tape"`}, "on_error": {"skip", "log", "wrap", "nothing"}, "budget": {"1s", "0s"}, "deadline": {"1s", "1h", "0s"},
		"retry_on": {"network", "timeout", "[network, timeout]", "exit_code(1)", "exit_code(1, 2)", "exit_code(12)", "exit_code(0)", `pattern("a")`, `pattern("(")`, "nothing", "[]"},
		"abort_on": {"network", "exit_code(1)"}, "limits": {`"a"`, `"a,b"`, `"a,a"`, `","`}, "lazy": {"true", "false"},
		"until": {"(v) => v == \"a\"", "(v) => v == \"b\"", "(v) => 1"}, "fallback": {`"a"`, `"b"`, "1"},
		"rules": {"[{on: network, retry: 2}]", "[{on: network, retry: 22}]", "[{on: timeout, retry: 2}]", "[{on: network, delay: 2s}]", "[{retry: 2}]", "[{on: network, timeout: 1s}]"},
	}
	env := newEnv(t)
	clauses := []string{}
	for name, list := range values {
		for _, v := range list {
			clauses = append(clauses, name+": "+v, "retry: 2, delay: 3s, "+name+": "+v)
		}
	}
	clauses = slices.DeleteFunc(clauses, func(c string) bool { // not what the parser refuses
		_, problems := syntax.Parse("a.cst", []byte("a = Fetch(1) with "+c+"\nout a"))
		return problems.HasErrors()
	})
	slices.Sort(clauses)
	if len(clauses) < 100 {
		t.Fatalf("%d clauses", len(clauses))
	}
	text := func(list diag.List, line int) (out string) {
		for _, p := range list {
			if p.Pos.Line == line && p.Code != "conflicting-limits" && p.Code != "redefined" {
				out += p.Code + " " + p.Message + " " + p.Suggestion + "\n"
			}
		}
		return out
	}
	for i, c := range clauses {
		other := clauses[(i*7+3)%len(clauses)]
		_, alone := run(env, "a = Fetch(1) with "+c+"\nout a")
		for _, before := range []string{c, other, strings.Join(clauses[:i], "\nx = Fetch(1) with ")} {
			if before == "" {
				continue
			}
			src := "x = Fetch(1) with " + before + "\na = Fetch(1) with " + c + "\nout a"
			p, both := run(env, src)
			if got, want := text(both, strings.Count(src, "\n")), text(alone, 1); got != want && len(both) < 100 {
				t.Errorf("%s\nafter %s\n%swant\n%s", c, before, got, want)
			}
			if p == nil || before == c {
				continue
			}
			last := p.Assigns[len(p.Assigns)-1].Value.(*check.Call).Options
			for _, v := range p.Assigns[:len(p.Assigns)-1] {
				if o := v.Value.(*check.Call).Options; o.Plain == last.Plain && !strings.Contains(c, "fallback") {
					t.Errorf("%s has the options of others, whose text is %s", c, o.Text)
				}
			}
		}
	}
}
