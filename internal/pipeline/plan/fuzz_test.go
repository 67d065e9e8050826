package plan_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// FuzzCompile feeds any text to parser, checker and planner. What compiles is
// evaluated with zeroes as inputs: every output must be of its type.
func FuzzCompile(f *testing.F) {
	files, err := filepath.Glob("../check/testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split("\n"+string(data), "\n--- ")[1:] {
			_, src, _ := strings.Cut(c, "\n")
			f.Add(src)
		}
	}
	f.Add(chainSource(20))
	var counts counting
	env := environment(f, counts.modules()...)
	f.Fuzz(func(t *testing.T, src string) {
		file, problems := syntax.Parse("fuzz.cst", []byte(src))
		// The checker must survive what the parser made of wrong sources.
		program, more := check.Check(file, env)
		for _, p := range more {
			if p.Line < 1 || p.Column < 1 || p.Message == "" {
				t.Errorf("a problem without place or text: %+v", p)
			}
		}
		if problems.HasErrors() || program == nil {
			return
		}
		p, err := plan.New(program)
		if err != nil {
			t.Fatal(err)
		}
		if p.Hash == "" || p.Estimate().Total < 0 {
			t.Error("no hash, or a negative time")
		}
		runZeroes(t, p)
	})
}

func runZeroes(t *testing.T, p *plan.Plan) {
	for i := range p.Funcs {
		for j := range p.Funcs[i].Nodes {
			n := &p.Funcs[i].Nodes[j]
			// Services wait in real time; errors of modules are not ours.
			if n.Op == plan.Call {
				switch n.Label {
				case "SlowQuery", "SlowApiCall", "ExpensiveCompute", "TimeoutProneService", "RateLimitedApi", "ResourceIntensiveTask", "QuickCheck", "DeepAnalysis":
					return
				}
			}
		}
	}
	in := map[string]any{}
	for _, param := range p.Inputs {
		in[param.Name] = types.Zero(param.Type)
	}
	out, err := evaluate(p, in)
	if err != nil {
		return // division by zero, a merge of lists of different length, a failing module
	}
	for _, o := range p.Outputs {
		if !types.Conforms(out[o.Name], o.Type) {
			t.Errorf("the output %s = %v is no %s", o.Name, out[o.Name], o.Type)
		}
	}
}
