package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
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
