package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/step"
	ports "github.com/bide-dev/bide/internal/step/virtual"
)

// virtualCalls are pipelines, by the name of the option of calls that has an effect in
// them. A request takes a second. A request for "flaky…" fails twice, for "down…" always,
// and for "late…" until 20 s have passed.
var virtualCalls = map[string][]string{
	"retry":          {`out x = Get("flaky") with retry: 3`, `out x = Get("down") with retry: 1`},
	"delay":          {`out x = Get("flaky") with retry: 3, delay: 700ms`},
	"backoff":        {`out x = Get("late") with retry: 9, delay: 1s, backoff: exponential`, `out x = Get("late") with retry: 9, delay: 1s, backoff: fibonacci`},
	"max_delay":      {`out x = Get("late") with retry: 9, delay: 1s, backoff: exponential, max_delay: 3s`},
	"jitter":         {`out x = Get("flaky") with retry: 3, delay: 700ms, jitter: none`},
	"retry_on":       {`out x = Get("flaky") with retry: 3, retry_on: [network]`, `out x = Get("flaky") with retry: 3, retry_on: [server_error]`},
	"abort_on":       {`out x = Get("flaky") with retry: 3, abort_on: [server_error]`},
	"budget":         {`out x = Get("late") with retry: 9, delay: 1s, budget: 4s`},
	"budget_expires": {`out x = Get("late") with retry: 9, delay: 1s, budget: 4s, budget_expires: true`},
	"deadline":       {`out x = Get("late") with retry: 99, delay: 3s, deadline: 10s`, `out x = Get("slow") with deadline: 5s`},
	"until":          {`out x = Get("fine") with retry: 2, delay: 1s, until: result != "ok fine"`, `out x = Get("fine") with retry: 2, until: result != ""`},
	"rules":          {`out x = Get("late") with retry: 9, delay: 1s, rules: [{on: server_error, retry: 3}]`},
	"breaker":        {`xs = map(["down1", "down2", "down3"], (p) => Get(p) with breaker: 2/30s, concurrency: 1, fallback: error.class)` + "\nout xs"},
	"timeout":        {`out x = Get("slow") with timeout: 2s, retry: 1, delay: 1s`, `out x = Get("fine") with timeout: 5s`},
	"fallback":       {`out x = Get("down") with retry: 1, fallback: Get(error.class)`},
	"on_error":       {`out x = Get("down") with on_error: skip`, `out x = Get("down") with on_error: wrap`, `out x = Get("down") with on_error: log`, "x = Get(\"down\")\nout y = Get(x)\nout z = Get(\"fine\")"},
	"cache":          {"x = Get(\"fine\") with cache: 1m\ny = Get(\"fine\") with cache: 1m\nout x\nout y", "x = Get(\"flaky\") with cache: 1m, retry: 3\ny = Get(\"flaky\") with cache: 1m, retry: 3\nout x\nout y"},
	"cache_backend":  {`out x = Get("fine") with cache: 1m, cache_backend: "memory"`},
	"throttle":       {`xs = map(["a", "b", "c", "d", "e", "flaky", "g"], (p) => Get(p) with throttle: 2/3s, retry: 2)` + "\nout xs"},
	"concurrency":    {`xs = map(["a", "b", "c", "d", "flaky"], (p) => Get(p) with concurrency: 2, retry: 2, delay: 1s)` + "\nout xs"},
	"priority":       {"a = Get(\"a\") with concurrency: 1, priority: low\nb = Get(\"b\") with concurrency: 1, priority: critical\nc = Get(\"c\") with concurrency: 1\nout a\nout b\nout c"},
	"lazy":           {"a = Get(\"a\") with lazy: true\nb = Get(\"b\") with lazy: true\nout x = if (b == \"b\") a else b"},
	"policy":         {"policy flaky = retry: 3, delay: 1s\nout x = Get(\"flaky\") with policy: flaky"},
}

// TestCallsUnderVirtualPorts runs pipelines with the ports of this machine and with virtual
// ones: the facts and their times are the same.
func TestCallsUnderVirtualPorts(t *testing.T) {
	t.Parallel()
	for _, o := range option.Calls() {
		name := o.CallName()
		if o.Stream || name == "limits" { // these depend on other processes of the machine: pipelinelimits.txtar
			continue
		}
		if len(virtualCalls[name]) == 0 {
			t.Errorf("no pipeline for the option %s", name)
		}
		for i, src := range virtualCalls[name] {
			t.Run(fmt.Sprintf("%s %d", name, i), func(t *testing.T) {
				t.Parallel()
				v := &virtual{took: time.Second, fails: func(path string, n int, at time.Duration) bool {
					switch strings.TrimRight(path, "0123456789") {
					case "down":
						return true
					case "flaky":
						return n <= 2
					case "late":
						return at < 20*time.Second
					}
					return false
				}, slow: "slow"}
				inTime(t, v, func(b *bench) { b.samePipeline(src) })
			})
		}
	}
}

// samePipeline compares the facts of a pipeline under both kinds of ports.
func (b *bench) samePipeline(src string) {
	b.t.Helper()
	b.modules(getModule)
	tape := &Tape{}
	b.opt.Composed = func(x *step.Executor) { x.Actions = Taping{Actions: x.Actions, Tape: tape} }
	began := time.Now()
	r := b.pipeline(src, nil)

	p, problems := dataflow.Load(filepath.Join(b.dir, "flow.cst"), "", os.ReadFile)
	if problems.HasErrors() {
		b.t.Fatal(problems.Err())
	}
	for _, d := range r.replayed(simulate.Program{Pipeline: p}) {
		b.t.Error(d)
	}
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := ports.NewClock(begin)
	var shown []event.Event
	rec := &ports.Recorder{Clock: clock, Shown: func(e event.Event) { shown = append(shown, e) }}
	opt := b.opt
	opt.Composed = nil
	opt.Pipeline, opt.Dir, opt.Inputs = p, b.dir, nil
	var sum *engine.Summary
	clock.Run(func() {
		sum = engine.RunOn(context.Background(), opt, engine.Ports{Clock: clock, Recorder: rec, Actions: Player{Clock: clock, Tape: tape}, Data: true})
	})
	if left := tape.Left(); left != "" {
		b.t.Errorf("virtually nobody asked to %s", left)
	}
	sameEnd(b.t, sum, r.sum)
	sameTimes(b.t, timed(append(rec.Facts(), shown...), begin), timed(r.events, began))
}

// timed gives what facts say about steps and when; facts of the same moment are sorted.
func timed(facts []event.Event, began time.Time) (said []string) {
	for _, e := range facts {
		at := e.Time.Sub(began).Round(time.Millisecond)
		for _, text := range steps([]event.Event{e}, false) {
			said = append(said, fmt.Sprintf("%012d %s", at.Milliseconds(), text))
		}
	}
	slices.Sort(said)
	return said
}
