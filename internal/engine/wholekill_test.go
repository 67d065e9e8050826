package engine_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// These runs are killed at each event: runs whose width is found out, whose agents are a
// chain, and whose items have a budget.

const wideFlow = `
name: wide
mode: mapreduce
isolation: none
map:
  input: seq 1 16
  max_parallel: {min: 1, max: 4}
  agent_template:
    - shell: echo "done ${item}" >> $EV/log
error_policy: {max_recoveries: 1000}
`

var widthBefore = regexp.MustCompile(`([0-9]+) items? at once(, ([0-9]+) before|)`)

// TestTheWidthGoesOnAfterAKill: a resume continues with the last recorded width.
func TestTheWidthGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	carried := false
	killedAtEach(t, wideFlow, 58, 60, 0, func(k *kill) {
		if !k.resume() {
			return
		}
		at, lives := 0, 0
		for _, e := range k.events {
			switch e.Type {
			case event.RunResumed:
				lives++
			case event.WidthChanged:
				m := widthBefore.FindStringSubmatch(e.Message)
				if m == nil {
					t.Fatalf("event %d: %q", k.at, e.Message)
				}
				if before, _ := strconv.Atoi(m[3]); before != at {
					t.Errorf("event %d: %q follows a width of %d", k.at, e.Message, at)
				}
				carried = carried || lives > 0 && at > 1
				if at = e.Total; at < 1 || at > 4 {
					t.Errorf("event %d: %d at once", k.at, at)
				}
			}
		}
		lines := k.lines()
		slices.Sort(lines)
		if c := k.state.Items.Counts(); len(slices.Compact(lines)) != 16 || c.Succeeded != 16 {
			t.Errorf("event %d: %v, %+v", k.at, lines, c)
		}
	})
	if !carried {
		t.Error("no resume continued with a width that was found out")
	}
}

const chainFlow = `
name: chain
mode: mapreduce
isolation: none
agents:
  one: {command: [sh, one.sh], output: stream-json}
  two: {command: [sh, two.sh], output: stream-json}
  coder: {first_of: [one, two]}
map:
  input: seq 1 5
  max_parallel: 1
  agent_template:
    - coder: item ${item}
error_policy: {max_recoveries: 1000}
`

// TestAPausedAgentStaysSoAfterAKill: if the pause of an agent in a chain is on record, a
// resume does not ask this agent, and no item is lost or fails.
func TestAPausedAgentStaysSoAfterAKill(t *testing.T) {
	t.Parallel()
	paused := false
	flow := strings.NewReplacer("one.sh", "-c, '"+`echo one >>$EV/log; if [ $(grep -c one $EV/log) -gt 2 ]; then echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"result\":\"Claude AI usage limit reached, try again in 5 hours\"}"; exit 1; fi; echo "{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"done\"}"`+"'",
		"two.sh", "-c, '"+`echo two >>$EV/log; echo "{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"done\"}"`+"'").Replace(chainFlow)
	killedAtEach(t, flow, 24, 19, 0, func(k *kill) {
		known := slices.ContainsFunc(k.events, func(e event.Event) bool { return e.Type == event.AgentPaused })
		paused = paused || known
		asked := func() (n int) {
			for _, l := range k.lines() {
				if l == "one" {
					n++
				}
			}
			return n
		}
		before := asked()
		if !k.resume() {
			return
		}
		if now := asked(); known && now != before {
			t.Errorf("event %d: the paused agent was asked %d times more", k.at, now-before)
		}
		if c := k.state.Items.Counts(); c.Succeeded != 5 {
			t.Errorf("event %d: %+v", k.at, c)
		}
	})
	if !paused {
		t.Error("no run was killed while an agent was paused")
	}
}

const budgetFlow = `
name: budget
mode: mapreduce
isolation: none
agents:
  helper: {command: [sh, -c, 'echo "{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true,\"usage\":{\"input_tokens\":300,\"output_tokens\":100}}"; exit 1'], output: stream-json}
map:
  input: [a, b]
  max_parallel: 2
  item_budget: {tokens: 1k}
  agent_template:
    - helper: item ${item}
error_policy: {max_recoveries: 1000, retry: {attempts: 10, initial_delay: 1ms}}
`

// TestABudgetGoesOnAfterAKill: what an item had used when the run was killed still counts.
// At every kill, the recorded calls of an item have used 400, 800 and 1200 tokens, and no
// call follows.
func TestABudgetGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	killedAtEach(t, budgetFlow, 16, 14, 3, func(k *kill) {
		k.resume()
		used := map[string][]int{}
		for _, e := range k.events {
			if e.Type != event.AgentUsage {
				continue
			}
			var d struct {
				In  int `json:"input_tokens"`
				Out int `json:"output_tokens"`
			}
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
			used[e.Item] = append(used[e.Item], d.In+d.Out)
		}
		if got, want := fmt.Sprint(used), fmt.Sprint(map[string][]int{"0": {400, 400, 400}, "1": {400, 400, 400}}); got != want {
			t.Errorf("event %d: %s, want %s", k.at, got, want)
		}
		if c := k.state.Items.Counts(); c.DeadLettered != 2 {
			t.Errorf("event %d: %+v", k.at, c)
		}
	})
}
