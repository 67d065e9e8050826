package simulate

import (
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// TestChangesNameStepsAsPeopleDo: what tune and simulate propose to set names a step by its
// name or id, and by its path only where there is none, or where two have it.
func TestChangesNameStepsAsPeopleDo(t *testing.T) {
	t.Parallel()
	f, _ := workflow.Parse("f.yml", []byte(`name: x
map:
  input: [1]
  agent_template:
    - {name: call, shell: a}
    - {shell: b}
    - {name: twice, shell: c}
    - {name: twice, shell: d}
    - {id: own, shell: e}
`), workflow.Options{})
	want := []string{"call", "map.agent_template[1]", "map.agent_template[2]", "map.agent_template[3]", "own"}
	for i, s := range f.Map.Template.Steps {
		if got := settable(f, s); got != want[i] {
			t.Errorf("step %d is %q; want %q", i, got, want[i])
		}
	}
}
