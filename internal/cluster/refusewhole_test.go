package cluster_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/workflow"
)

// TestWhatIsKnownOfOneMachineIsRefused: how many items run at once, and which agent of a
// chain is paused, are found out on one machine.
func TestWhatIsKnownOfOneMachineIsRefused(t *testing.T) {
	t.Parallel()
	for what, source := range map[string]string{
		"map.max_parallel":      "isolation: none\nmap: {input: [1], max_parallel: auto, agent_template: [{shell: a}]}\n",
		"map.item_budget":       "isolation: none\nmap: {input: [1], item_budget: {time: 1m}, agent_template: [{shell: a}]}\n",
		"agents.coder.first_of": "isolation: none\nagents: {coder: {first_of: [claude, codex]}}\ncommands: [{coder: a}]\n",
	} {
		f, problems := workflow.Parse("a.yml", []byte(source), workflow.Options{})
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		list := cluster.Refused(f, "")
		if len(list) != 1 || !strings.HasPrefix(list[0].Message, what+":") || list[0].Pos.Line == 0 {
			t.Errorf("%s: %v", what, list)
		}
	}
}
