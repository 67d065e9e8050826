package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	reasons "github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/step"
	ports "github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
)

var keepFacts = flag.Bool("keep-facts", false, "write testdata/facts anew")

// keptFlows are files that have none of the keys that judge a run as a whole: same_error,
// canary, limits, a width that is found out, chains of agents, item_budget.
var keptFlows = map[string]string{
	"map": `
name: map
isolation: none
map:
  input: [a, b, flaky1, down1, c, flaky2, slow, d, late, e, down2, f]
  max_parallel: 4
  start_delay: 100ms
  agent_timeout: 30s
  agent_template:
    - http: http://example.test/${item}
      retry: {attempts: 3, backoff: exponential, initial_delay: 500ms, jitter: full, circuit_breaker: {failure_threshold: 4, timeout: 20s}}
    - http: http://example.test/then-${item}
reduce:
  - http: http://example.test/reduce-${map.succeeded}
error_policy:
  retry: {attempts: 2, initial_delay: 2s, jitter: equal}
  max_failures: 9
`,
	"alike": `
name: alike
isolation: none
map:
  input: [down1, down2, down3, down4, down5, down6, down7, down8, down9, down10, down11, down12, down13, down14, down15, down16, down17, down18, down19, down20]
  max_parallel: 8
  agent_template:
    - http: http://example.test/${item}
error_policy: {retry: {attempts: 3, initial_delay: 1s}}
`,
	"agents": `
name: agents
isolation: none
max_tokens: 100000
map:
  input: [a, b, limited, c, flaky, down]
  max_parallel: 3
  agent_template:
    - claude: do ${item}
error_policy: {retry: {attempts: 3, initial_delay: 1s}, on_item_failure: skip}
`,
	"steps": `
name: steps
commands:
  - http: http://example.test/flaky
    retry: {attempts: 5, delays: [1s, 3s], quota: {name: q, ratio: 0.5}}
  - foreach: [a, down, b, flaky, c]
    parallel: 2
    continue_on_error: true
    do:
      - http: http://example.test/${item}
        retry: {attempts: 2, initial_delay: 700ms}
  - http: http://example.test/down
    retry: {attempts: 2, on_failure: continue}
  - http: http://example.test/bad
    on_failure: {http: 'http://example.test/mend', max_attempts: 2, fail_workflow: false}
`,
}

// TestFactsWithoutTheNewKeys: a run without those keys records the same facts, byte for
// byte, as the program did before these keys existed. Facts of runs in virtual time are
// kept in testdata/facts; the program before same_error wrote them, but for what the data of
// failures repeated of their facts, which was taken out since, and that a foreach of which rounds failed is incomplete.
func TestFactsWithoutTheNewKeys(t *testing.T) {
	t.Parallel()
	for name, text := range keptFlows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			have := factsOf(t, text)
			file := filepath.Join("testdata", "facts", name+".jsonl")
			if *keepFacts {
				if err := os.WriteFile(file, have, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			a, b := bytes.Split(have, []byte("\n")), bytes.Split(want, []byte("\n"))
			for i := range max(len(a), len(b)) {
				if i >= len(a) || i >= len(b) || !bytes.Equal(a[i], b[i]) {
					t.Fatalf("from fact %d on they differ: now\n%s\nkept\n%s", i+1, bytes.Join(a[min(i, len(a)):min(i+3, len(a))], []byte("\n")), bytes.Join(b[min(i, len(b)):min(i+3, len(b))], []byte("\n")))
				}
			}
		})
	}
}

// past removes from a fact what was added later for other reasons: rounds, the draws of
// jitter, what a server asked for, how long what failed took, why no attempt follows, the text of a step, that
// items of a map failed, the groups of what they failed of and their steps, and the step of
// an item that failed and is no dead letter. It is
// false if the whole fact was added later.
func past(e *event.Event) bool {
	e.Seq = 0
	if e.Type == event.PhaseFinished && e.Status == event.CompletedWithFailures {
		e.Status = event.Succeeded
	}
	switch e.Type {
	case "foreach_started", "round_started", "round_finished":
		return false
	case event.StepStarted:
		e.Message = ""
	case event.AttemptFailed:
		e.Status = ""
	}
	if e.Type == event.RunFinished || e.Type == event.ItemFinished && e.Status != event.DeadLettered {
		e.Data = failedStep.ReplaceAll(e.Data, nil)
	}
	e.Data = drawn.ReplaceAll(e.Data, nil)
	return true
}

var failedStep = regexp.MustCompile(`,"step":"[^"]*"(,"step_label":"[^"]*")?`)

var drawn = regexp.MustCompile(`,"((drawn|group)":"[0-9a-f]*"|retries_ended":"[a-z_]*"|(asked|duration)_ns":[0-9]+)`)

// factsOf gives the facts of a run in virtual time, a line each.
func factsOf(t *testing.T, text string) []byte {
	t.Helper()
	f, problems := workflow.Parse("flow.yml", []byte(text), workflow.Options{})
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := ports.NewClock(begin)
	rec := &ports.Recorder{Clock: clock}
	tries, mu := map[string]int{}, sync.Mutex{}
	model := func(c *step.Call) ports.Answer {
		var what string
		switch a := c.Action.(type) {
		case *workflow.HTTP:
			url, err := a.URL.Expand(c.Scope)
			if err != nil {
				t.Error(err)
			}
			what = url[strings.LastIndexByte(url, '/')+1:]
		case *workflow.Claude:
			prompt, err := a.Text.Expand(c.Scope)
			if err != nil {
				t.Error(err)
			}
			what = strings.TrimPrefix(prompt, "do ")
		}
		mu.Lock()
		defer mu.Unlock()
		tries[what]++
		ans := ports.Answer{Takes: time.Second + time.Duration(len(what))*17*time.Millisecond, Result: action.Result{Output: "ok " + what}}
		if _, agent := c.Action.(*workflow.Claude); agent {
			ans.Result.Usage = &action.Usage{InputTokens: 300, OutputTokens: 20, CostUSD: 0.01}
		}
		down := &reasons.Failure{Class: "server_error", Status: 503, Message: fmt.Sprintf("http 503: try %d of %s", tries[what], what)}
		switch strings.TrimRight(what, "0123456789") {
		case "down", "bad":
			ans.Failure = down
		case "flaky":
			if tries[what] <= 2 {
				ans.Failure = down
			}
		case "late":
			if clock.Now().Sub(begin) < 8*time.Second {
				ans.Failure = down
			}
		case "slow":
			ans.Takes = time.Hour
		case "limited":
			if tries[what] == 1 {
				ans.Failure = &reasons.Failure{Class: "rate_limit", RateLimited: true, RetryAfter: 40 * time.Second, Message: "rate limit"}
			}
		}
		return ans
	}
	opt := engine.Options{File: f}
	opt.Dir = "/work"
	opt.Environ = []string{"HOME=/root"}
	opt.Isolation = "none"
	clock.Run(func() {
		engine.RunOn(context.Background(), opt, engine.Ports{Clock: clock, Recorder: rec, Actions: &ports.Actions{Clock: clock, Model: model}, Rand: luck, Data: true, Run: "01M8A0MB1VRRBC35QJA4RXX0N4",
			Items: func(read func() ([]event.Item, error)) ([]event.Item, error) { return read() }})
	})
	var out bytes.Buffer
	for _, e := range rec.Facts() {
		if !past(&e) {
			continue
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}
