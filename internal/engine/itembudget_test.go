package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	reasons "github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/step"
	ports "github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
)

// waitingFlows are maps in which each call takes 4 seconds and each item may run for 10;
// for 15 if three agents are asked.
var waitingFlows = map[string]struct {
	flow string
	// failed is how many items use up their time.
	failed int
}{
	"a slot": {flow: `
map:
  input: [1, 2, 3, 4, 5, 6]
  max_parallel: 6
  item_budget: {time: 10s}
  agent_template: [{shell: work, limits: [one]}]
`},
	"a slot, among the rounds of a foreach": {flow: `
map:
  input: [1, 2, 3]
  item_budget: {time: 10s}
  agent_template:
    - foreach: [a, b]
      parallel: 2
      do: [{shell: work, limits: [one]}]
`},
	"a pause for a rate limit": {flow: `
map:
  input: [1, 2, 3]
  item_budget: {time: 10s}
  agent_template: [{claude: limited}]
`},
	"a pause of all agents of a chain": {flow: `
agents: {coder: {first_of: [claude, codex]}}
map:
  input: [1, 2, 3]
  item_budget: {time: 15s}
  agent_template: [{coder: limited}]
`},
	"a run that is held": {flow: `
map:
  input: [1, 2]
  item_budget: {time: 10s}
  agent_template: [{shell: hold}, {shell: work}]
`},
	"a next attempt at a step": {flow: `
map:
  input: [1, 2]
  item_budget: {time: 10s}
  agent_template: [{shell: flaky, retry: {attempts: 2, delays: [1m]}}]
`},
	"nothing": {failed: 2, flow: `
map:
  input: [1, 2]
  item_budget: {time: 10s}
  agent_template: [{shell: work}, {shell: work}, {shell: work}]
`},
	"nothing, over a failure that is tolerated": {failed: 2, flow: `
map:
  input: [1, 2]
  item_budget: {time: 10s}
  agent_template: [{shell: work}, {shell: work}, {shell: work, retry: {attempts: 5, on_failure: continue}}]
`},
	"nothing, with rounds at the same time": {failed: 1, flow: `
map:
  input: [1]
  item_budget: {time: 10s}
  agent_template:
    - foreach: [a, b, c, d, e, f]
      parallel: 2
      do: [{shell: work}]
`},
	"nothing, within its time": {flow: `
map:
  input: [1]
  item_budget: {time: 10s}
  agent_template:
    - foreach: [a, b, c, d]
      parallel: 2
      do: [{shell: work}]
`},
}

// TestWaitsAreNoneOfTheTimeOfAnItem: an item that waits uses nothing of its
// item_budget.time. It ends when its commands, requests and agents have run that long.
func TestWaitsAreNoneOfTheTimeOfAnItem(t *testing.T) {
	t.Parallel()
	for name, tt := range waitingFlows {
		t.Run("waits for "+name, func(t *testing.T) {
			t.Parallel()
			f, problems := workflow.Parse("flow.yml", []byte("name: flow\nisolation: none\n"+tt.flow), workflow.Options{})
			if problems.HasErrors() {
				t.Fatal(problems)
			}
			begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			clock := ports.NewClock(begin)
			rec := &ports.Recorder{Clock: clock}
			var ask func(*journal.ControlRequest)
			tries, held := map[string]int{}, false
			model := func(c *step.Call) ports.Answer {
				ans := ports.Answer{Takes: 4 * time.Second, Result: action.Result{Output: "ok"}}
				if a, is := c.Action.(*workflow.Claude); is {
					if tries[a.Provider]++; tries[a.Provider] == 1 {
						ans.Failure = &reasons.Failure{Class: "rate_limit", RateLimited: true, RetryAfter: time.Minute, Message: "rate limit"}
					}
					return ans
				}
				switch what := c.Action.(*workflow.Shell).Text.String(); {
				case what == "flaky":
					if tries[c.Item]++; tries[c.Item] == 1 {
						ans.Failure = &reasons.Failure{Class: "exit", Exit: 1, Message: "exit status 1"}
					}
				case what == "hold" && !held:
					held = true
					ask(&journal.ControlRequest{Do: journal.Pause})
					clock.Go(func() {
						_ = clock.Wait(context.Background(), time.Minute, nil)
						ask(&journal.ControlRequest{Do: journal.Continue})
					})
				}
				return ans
			}
			machine, err := limits.NewAlone(&limits.Config{Limits: map[string]limits.Limit{"one": {Name: "one", Slots: 1}}}, clock)
			if err != nil {
				t.Fatal(err)
			}
			opt := engine.Options{File: f}
			opt.Dir, opt.Isolation = "/work", "none"
			opt.Environ = []string{"HOME=/root"}
			clock.Run(func() {
				engine.RunOn(context.Background(), opt, engine.Ports{Clock: clock, Recorder: rec, Actions: &ports.Actions{Clock: clock, Model: model}, Rand: luck, Data: true,
					Machine:  machine,
					Composed: func(_ func(), control func(*journal.ControlRequest)) { ask = control },
					Items:    func(read func() ([]event.Item, error)) ([]event.Item, error) { return read() }})
			})
			started, failed := 0, 0
			for _, e := range rec.Facts() {
				switch e.Type {
				case event.ItemStarted:
					started++
				case event.ItemUsed:
					if d := time.Duration(e.DurationMS) * time.Millisecond; d <= 0 || d > 15*time.Second {
						t.Errorf("item %s has run for %s", e.Item, d)
					}
				case event.ItemFinished:
					if e.Status == event.Succeeded {
						continue
					}
					failed++
					if e.Class != "budget" || e.DurationMS != 10_000 {
						t.Errorf("item %s is %s after %d ms: %s: %s", e.Item, e.Status, e.DurationMS, e.Class, e.Message)
					}
				}
			}
			if started == 0 || failed != tt.failed {
				t.Errorf("%d of %d items failed, want %d; %v later", failed, started, tt.failed, clock.Now().Sub(begin))
			}
		})
	}
}

// TestWaitsAreCountedOnce: a step that waits for its next attempt, and then for a slot of the
// machine, has waited that long together. What remains is its duration.
func TestWaitsAreCountedOnce(t *testing.T) {
	t.Parallel()
	f, problems := workflow.Parse("flow.yml", []byte(`
name: flow
isolation: none
map:
  input: [fails, works]
  max_parallel: 2
  agent_template: [{shell: 'work ${item}', limits: [one], retry: {attempts: 2, initial_delay: 1s}}]
`), workflow.Options{})
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	clock := ports.NewClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	rec := &ports.Recorder{Clock: clock}
	failed := false
	model := func(c *step.Call) ports.Answer {
		ans := ports.Answer{Takes: 4 * time.Second}
		if c.Item == "0" && !failed {
			failed = true
			ans.Failure = &reasons.Failure{Class: "exit", Exit: 1, Message: "exit status 1"}
		}
		return ans
	}
	machine, err := limits.NewAlone(&limits.Config{Limits: map[string]limits.Limit{"one": {Name: "one", Slots: 1}}}, clock)
	if err != nil {
		t.Fatal(err)
	}
	opt := engine.Options{File: f}
	opt.Dir, opt.Isolation, opt.Environ = "/work", "none", []string{"HOME=/root"}
	clock.Run(func() {
		engine.RunOn(context.Background(), opt, engine.Ports{Clock: clock, Recorder: rec, Actions: &ports.Actions{Clock: clock, Model: model}, Rand: luck, Data: true,
			Machine: machine, Items: func(read func() ([]event.Item, error)) ([]event.Item, error) { return read() }})
	})
	got := map[string]string{}
	for _, e := range rec.Facts() {
		if e.Type == event.StepFinished {
			var d struct {
				Waited int64 `json:"waited_ms"`
			}
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
			got[e.Item] = fmt.Sprintf("%d attempts, %d ms, waited %d ms", e.Attempts, e.DurationMS, d.Waited)
		}
	}
	want := map[string]string{"0": "2 attempts, 8000 ms, waited 4000 ms", "1": "1 attempts, 4000 ms, waited 4000 ms"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// lives gives the facts of a type from the record of a run that was cut short and resumed,
// for each life.
func lives(events []event.Event, typ event.Type) [][]event.Event {
	out := [][]event.Event{nil}
	for _, e := range events {
		switch e.Type {
		case event.RunResumed:
			out = append(out, nil)
		case typ:
			out[len(out)-1] = append(out[len(out)-1], e)
		}
	}
	return out
}

// TestTheTimeOfAnItemGoesOn: after a kill, and after a stop, an item has the time that it
// had left. At most a tenth is forgotten.
func TestTheTimeOfAnItemGoesOn(t *testing.T) {
	t.Parallel()
	const flow = `
name: time
mode: mapreduce
isolation: none
map:
  input: [a]
  item_budget: {time: 4s}
  agent_template: [{shell: 'sleep 60'}]
error_policy: {max_recoveries: 1000}
`
	const before = 11 // events in the record up to the third tenth
	for _, how := range []string{"kill", "stop"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.write("flow.yml", flow)
			if how == "kill" {
				if got := b.start("die-at", strconv.Itoa(before), "committed").wait(t); got != -1 {
					t.Fatalf("exit status %d", got)
				}
			} else {
				p := b.start("bide", "run", "-q", "flow.yml")
				for {
					if events, _ := b.recordedEvents(); len(lives(events, event.ItemUsed)[0]) > 1 {
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
				if got := b.start("bide", "stop", "--now").wait(t); got != 0 {
					t.Fatalf("stop: exit status %d", got)
				}
				p.wait(t)
			}
			b.quiet()
			if got := b.start("bide", "resume", "-q").wait(t); got != 3 {
				t.Fatalf("resume: exit status %d", got)
			}
			events, state := b.recordedEvents()
			told := lives(events, event.ItemUsed)
			if len(told) != 2 || len(told[0]) == 0 {
				t.Fatalf("it has run %v", told)
			}
			last := int64(0)
			for life, facts := range told {
				for _, e := range facts {
					if e.DurationMS <= last || e.DurationMS > 4000 && life == 0 {
						t.Errorf("life %d: %d ms follow %d ms", life, e.DurationMS, last)
					}
					last = e.DurationMS
				}
			}
			if c := state.Items.Counts(); c.DeadLettered != 1 {
				t.Errorf("%+v", c)
			}
			for _, e := range events {
				if e.Type == event.ItemFinished && e.Status == event.DeadLettered && !strings.Contains(e.Message, "has used all of its item_budget.time 4s") {
					t.Errorf("it ended with %s", e.Message)
				}
			}
		})
	}
}

// TestWhatAnAgentToldGoesOn: the usage that an agent had reported when its run was killed
// counts in the next life, in the budget of its item and in all totals.
func TestWhatAnAgentToldGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("flow.yml", `
name: tokens
mode: mapreduce
isolation: none
agents:
  helper: {command: [sh, -c, 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do echo "{\"type\":\"assistant\",\"message\":{\"content\":[],\"usage\":{\"input_tokens\":900,\"output_tokens\":100}}}"; sleep 0.03; done; sleep 60'], output: stream-json}
map:
  input: [a]
  item_budget: {tokens: 10k}
  agent_template: [{helper: '${item}'}]
error_policy: {max_recoveries: 1000}
`)
	if got := b.start("die-at", "14", "committed").wait(t); got != -1 {
		t.Fatalf("exit status %d", got)
	}
	b.quiet()
	if got := b.start("bide", "resume", "-q").wait(t); got != 3 {
		t.Fatalf("resume: exit status %d", got)
	}
	events, state := b.recordedEvents()
	sum, calls := 0, 0
	told := lives(events, event.AgentUsage)
	for _, facts := range told {
		for _, e := range facts {
			var d struct {
				In    int `json:"input_tokens"`
				Out   int `json:"output_tokens"`
				Calls int `json:"calls"`
			}
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
			sum, calls = sum+d.In+d.Out, calls+d.Calls
		}
	}
	if len(told) != 2 || len(told[0]) < 3 || len(told[1]) == 0 {
		t.Fatalf("the lives have told %v", told)
	}
	if calls != 2 || state.Usage["calls"] != 2 {
		t.Errorf("%d calls, %v", calls, state.Usage)
	}
	if all := state.Usage["input_tokens"] + state.Usage["output_tokens"]; int(all) != sum || sum < 10_000 || sum > 19_000 {
		t.Errorf("%d tokens are on record, %v in all", sum, all)
	}
	message := ""
	for _, e := range events {
		if e.Type == event.ItemFinished && e.Status == event.DeadLettered {
			message = e.Message
		}
	}
	if want := fmt.Sprintf("have used %d of its item_budget.tokens 10000", 11_000); !strings.Contains(message, want) {
		t.Errorf("it ended with %q, want %q", message, want)
	}
}
