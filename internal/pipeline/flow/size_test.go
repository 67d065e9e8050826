package flow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/pipeline/flow"
)

// TestDoubled checks that values which double forty times are refused, in
// whatever way they do, and not computed until the memory is used up.
func TestDoubled(t *testing.T) {
	for _, double := range []string{"[N, N]", "list-concat(N, N)", "map([1, 2], (i) => N)"} {
		t.Run(double, func(t *testing.T) {
			src := "in x: Int\na0 = [x, x]\n"
			for i := range 40 {
				src += fmt.Sprintf("a%d = %s\n", i+1, strings.ReplaceAll(double, "N", fmt.Sprint("a", i)))
			}
			p := compile(t, environment(t), src+"out a40\n")
			f, err := flow.New(p, flow.NewShared(flow.SharedOptions{}))
			if err != nil {
				t.Fatal(err)
			}
			values, given, err := p.Decode(map[string]any{"x": int64(1)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = f.Run(t.Context(), values, given, flow.Options{}); err == nil || !strings.Contains(err.Error(), "larger than") && !strings.Contains(err.Error(), "more than") {
				t.Errorf("error %v", err)
			}
		})
	}
}
