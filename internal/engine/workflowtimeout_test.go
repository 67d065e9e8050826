package engine_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// TestWorkflowTimeoutInMap: the workflow's timeout ends the run. Items that it cuts short
// have not failed: a resume continues with them.
func TestWorkflowTimeoutInMap(t *testing.T) {
	t.Parallel()
	inTime(t, &virtual{took: time.Minute}, func(b *bench) {
		slow := true
		b.opt.HTTP.Transport = answers(func(r *http.Request) (*http.Response, error) {
			if slow && r.URL.Path != "/1" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return reply(200, "fine")
		})
		r := b.run(`
timeout: 90s
mode: mapreduce
map:
  input: [1, 2, 3]
  max_parallel: 3
  agent_template:
    - http: "http://example.test/${item}"
`)
		r.status(event.Failed)
		if want := (event.ItemCounts{Total: 3, Succeeded: 1, Pending: 2}); r.sum.Items != want || r.sum.Class != "timeout" {
			t.Errorf("%+v, %s: %s%s", r.sum.Items, r.sum.Class, r.sum.Message, r.story())
		}
		slow = false
		r = b.resume(context.Background())
		r.status(event.Succeeded)
		if want := (event.ItemCounts{Total: 3, Succeeded: 3}); r.sum.Items != want {
			t.Errorf("%+v%s", r.sum.Items, r.story())
		}
	})
}

// TestLastItemFailsWithTheBudget: a map whose last item spends the budget has ended. It is
// no success if that item failed.
func TestLastItemFailsWithTheBudget(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
max_cost: 0.25
mode: mapreduce
map:
  input: [1]
  agent_template:
    - claude: /say a
    - shell: exit 3
`)
	r.status(event.CompletedWithFailures)
}

// TestWorkflowTimeoutInStep: a step that the workflow's timeout cuts short has not used an
// attempt, and the run is no success: a resume runs the step again.
func TestWorkflowTimeoutInStep(t *testing.T) {
	t.Parallel()
	inTime(t, &virtual{took: time.Minute}, func(b *bench) {
		slow := true
		b.opt.HTTP.Transport = answers(func(r *http.Request) (*http.Response, error) {
			if slow {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return reply(200, "fine")
		})
		r := b.run("timeout: 90s\ncommands:\n  - http: http://example.test/\n")
		r.status(event.Failed)
		if r.sum.Class != "timeout" || r.sum.Steps.Succeeded != 0 {
			t.Errorf("%s: %s, steps %+v%s", r.sum.Class, r.sum.Message, r.sum.Steps, r.story())
		}
		slow = false
		b.resume(context.Background()).status(event.Succeeded)
	})
}
