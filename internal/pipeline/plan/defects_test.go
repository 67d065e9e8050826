package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// The tests of this file hold one case or more for each defect of the original
// that compiled pipelines could have; the numbers are those of ../DEFECTS.md.

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
	if o.Retry.Timeout != 0 || o.Deadline != 0 || o.Retry.Budget != 0 || o.Breaker != nil || o.Limit != 0 || o.Throttle.Count != 0 || o.Cache != 0 || o.Lazy || o.Priority != option.NormalPriority || o.OnError != check.Propagate {
		t.Errorf("%+v", o)
	}
}

// R18: 40 doublings of a second end at the cap, not in an overflow.
func TestR18NoOverflow(t *testing.T) {
	o := optionsOf(t, "retry: 999999, delay: 300d, backoff: exponential, max_delay: 36500d, timeout: 36500d")
	if d := o.Retry.Backoff.Base(2_000_000_000); d != 36500*24*time.Hour {
		t.Error(d)
	}
	if worst := o.Worst().Time; worst.Open || worst.D != 1<<63-1 {
		t.Errorf("the worst case is %v", worst)
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
	hash := func(env *check.Env, src string) string { return compile(t, env, src).Hash() }
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
