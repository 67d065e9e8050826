package flow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// FuzzRun runs any source that compiles.
func FuzzRun(f *testing.F) {
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
	for _, n := range []int{1, 5, 20} {
		f.Add(chain(n))
	}
	var counts counting
	env := environment(f, append(counts.modules(), noop())...)
	f.Fuzz(func(t *testing.T, src string) {
		if p, err := compileErr(env, src); err == nil {
			runZeroes(t, p)
		}
	})
}

// runZeroes runs a plan with zeroes as inputs: it ends, as the naive evaluator
// says, and every output is of its type.
func runZeroes(t *testing.T, p *plan.Plan) {
	for i := range p.Funcs {
		for j := range p.Funcs[i].Nodes {
			n := &p.Funcs[i].Nodes[j]
			// Services wait in real time, or count their calls.
			if n.Op == plan.Call {
				switch n.Label {
				case "SlowQuery", "SlowApiCall", "ExpensiveCompute", "TimeoutProneService", "RateLimitedApi", "ResourceIntensiveTask", "QuickCheck", "DeepAnalysis", "FlakyService":
					return
				}
			}
		}
	}
	in := map[string]any{}
	for _, param := range p.Inputs {
		in[param.Name] = types.Zero(param.Type)
	}
	_, wantErr := evaluate(p, in)
	out, err := run(t, p, in)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("error %v, want %v", err, wantErr)
	}
	if err != nil {
		return // division by zero, a merge of lists of different length, a failing module
	}
	for _, o := range p.Outputs {
		if !types.Conforms(out[o.Name], o.Type) {
			t.Errorf("the output %s = %v is no %s", o.Name, out[o.Name], o.Type)
		}
	}
}
