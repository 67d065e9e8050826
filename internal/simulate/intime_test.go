package simulate

import (
	"github.com/bide-dev/bide/internal/worst"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/workflow"
)

// What is inside of something that has a bound has no other one, and none
// that is larger.
func TestNothingOutlivesWhatItIsIn(t *testing.T) {
	f, problems := workflow.Parse("x.yml", []byte(`
timeout: 1h
commands:
  - shell: exit 1
    timeout: 10s
    on_failure: {timeout: 7s, commands: [{shell: sleep 1}, {foreach: [1, 2], do: [{shell: sleep 1}]}]}
  - foreach: {items: [1, 2], timeout: 20s, do: [{shell: sleep 1}, {shell: sleep 1, timeout: 30s}]}
  - shell: sleep 1
`), workflow.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	p := worst.Explain(f)
	inside := map[string]time.Duration{"commands[0].on_failure": 7 * time.Second, "commands[1]": 20 * time.Second, "commands[2]": time.Hour}
	var check func(list []*worst.Step, most time.Duration)
	check = func(list []*worst.Step, most time.Duration) {
		for _, s := range list {
			for path, d := range inside {
				if strings.HasPrefix(s.Path, path) {
					most = d
				}
			}
			if s.Worst.Time.Open || s.Worst.Time.D > most {
				t.Errorf("%s: %+v, want at most %s", s.Path, s.Worst.Time, most)
			}
			for _, g := range s.Groups {
				check(g.Steps, most)
			}
		}
	}
	for _, ph := range p.Phases {
		check(ph.Steps, time.Hour)
	}
}
