package workflow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/workflow"
)

// TestDelaysWithoutAStrategy: a list of delays is the waits before probes, and of a retry
// policy that names no strategy it is told that they are none.
func TestDelaysWithoutAStrategy(t *testing.T) {
	t.Parallel()
	f, problems := workflow.Parse("a.yml", []byte("map: {input: [1], agent_template: [{shell: a}]}\nerror_policy: {same_error: {probe: {delays: [5s, 9s]}}}\n"), workflow.Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for n, want := range []time.Duration{5 * time.Second, 9 * time.Second, 10 * time.Minute} {
		if got := f.Policy.SameError.Probe.Delay(n+1, 0, nil); got != want {
			t.Errorf("before probe %d: %v, want %v", n+1, got, want)
		}
	}
	for text, told := range map[string]bool{"delays: [5s]": true, "increment: 5s": true, "backoff: custom, delays: [5s]": false, "base: 3": false} {
		_, problems = workflow.Parse("a.yml", []byte("commands: [{shell: a, retry: {attempts: 3, "+text+"}}]\n"), workflow.Options{})
		if got := strings.Contains(problems.Error(), "has no effect"); got != told {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
