package engine_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
)

// nested has each kind of step that others can be in, and files that call files. Each command
// writes a name of its own.
var nested = map[string]string{
	"flow.yml": `
imports: [{path: outer.yml, alias: outer}, {path: inner.yml, alias: inner}]
commands:
  - {id: call, workflow: outer}
  - id: loop
    foreach: [x, y]
    do:
      - {workflow: inner}
      - foreach: [z]
        do: [{shell: 'echo loop-${item} >> $EV/log; exit 1', on_failure: {fail_workflow: false, commands: [{shell: 'echo loop-handler >> $EV/log'}, {workflow: inner}]}}]
      - {shell: 'echo loop-last >> $EV/log', on_success: {shell: 'echo loop-success >> $EV/log'}}
  - {id: pipe, pipeline: p.cst}
  - id: checked
    shell: 'echo checked >> $EV/log; touch a'
    validate: {shell: 'echo check >> $EV/log; test -e fixed && echo "score: 100" || echo "score: 1"', threshold: 50, on_incomplete: {max_attempts: 2, commands: [{shell: 'echo repair >> $EV/log; touch fixed'}]}}
  - goal_seek: {goal: be good, shell: 'echo goal >> $EV/log', validate: {shell: 'echo goal-check >> $EV/log; echo "score: 95"'}, threshold: 90, max_attempts: 2}
  - test: {command: 'echo test >> $EV/log; test -e tested', on_failure: {max_attempts: 2, commands: [{shell: 'echo test-repair >> $EV/log; touch tested'}]}}
  - {shell: 'echo last >> $EV/log', retry: {attempts: 2, initial_delay: 1ms}}
finally:
  - {shell: 'echo finally >> $EV/log'}
`,
	"outer.yml": `
imports: [{path: inner.yml, alias: inner}]
commands:
  - {shell: 'echo outer-1 >> $EV/log'}
  - {workflow: inner}
  - {foreach: [u, v], do: [{workflow: inner}, {shell: 'echo outer-each >> $EV/log'}]}
  - {pipeline: p.cst}
`,
	"inner.yml": `
commands:
  - {shell: 'echo inner-1 >> $EV/log', capture: got}
  - {foreach: [r], do: [{shell: 'echo inner-each >> $EV/log; exit 1', on_failure: {fail_workflow: false, shell: 'echo inner-handler >> $EV/log'}}]}
  - {shell: 'echo inner-last >> $EV/log'}
`,
	"modules.yml": `modules:
  - {name: Sub, params: {p: String}, result: String, workflow: {file: inner.yml, output: got}}
  - {name: Echo, params: {p: String}, result: String, shell: 'echo echo >> $EV/log; echo e'}
`,
	"p.cst": "a = Echo(\"x\")\nb = Sub(a)\nout b\n",
}

// stack is the oracle of what is around what: in a run of one step at a time, it is what has begun and
// has not ended.
func stack(t *testing.T, events []event.Event) (parents map[string]string, order []string) {
	t.Helper()
	parents = map[string]string{}
	var open []string
	for _, e := range events {
		switch e.Type {
		case event.StepStarted:
			if _, again := parents[e.Step]; again {
				t.Fatalf("%s began twice", e.Step)
			}
			parents[e.Step] = ""
			if len(open) > 0 {
				parents[e.Step] = open[len(open)-1]
			}
			open, order = append(open, e.Step), append(order, e.Step)
		case event.StepFinished:
			if len(open) == 0 || open[len(open)-1] != e.Step {
				t.Fatalf("%s ends where %q is open", e.Step, open)
			}
			open = open[:len(open)-1]
		}
	}
	return parents, order
}

// TestAddresses: what is around a step is read from its address, by the timeline too, and the step is
// found in the files.
func TestAddresses(t *testing.T) {
	t.Parallel()
	b := flowBench(t, false, nested, nested["flow.yml"])
	r := b.run(nested["flow.yml"])
	parents, order := stack(t, r.events)
	labels := map[string]string{}
	for _, e := range r.events {
		if e.Type == event.StepStarted {
			labels[e.Step] = e.Label
		}
	}
	line := timeline.New(journal.Header{Kind: "workflow"})
	for _, e := range r.events {
		line.Apply(e)
	}
	seen := map[string]bool{}
	f := b.parse(nested["flow.yml"])
	for _, at := range order {
		var want []string
		for p := parents[at]; p != ""; p = parents[p] {
			want = append(want, p)
		}
		if got := slices.Collect(event.Enclosing(at, func(a string) bool { return seen[a] })); !slices.Equal(got, want) {
			t.Errorf("around %s are %q, want %q", at, got, want)
		}
		seen[at] = true
		var rows []string
		for row := line.Row(at).Parent; row != nil && row.Kind == timeline.Step; row = row.Parent {
			rows = append(rows, row.Path)
		}
		if !slices.Equal(rows, want) {
			t.Errorf("the row of %s is under %q, want %q", at, rows, want)
		}
		step := timeline.StepAt(f, at)
		if strings.Contains(at, "/a") || strings.Contains(at, "/b") { // of a pipeline, and what it calls
			if step != nil {
				t.Errorf("%s, which is of a pipeline, is the step %q", at, step.Label())
			}
		} else if step == nil || step.Label() != labels[at] {
			t.Errorf("%s is %v, want %q", at, step, labels[at])
		}
	}
	if len(order) < 80 {
		t.Errorf("only %d steps: %q", len(order), order)
	}
}

// TestEachStepAgain: of a run that has ended, each step runs again, and what is in it does. What it is
// in begins again, with a handler of its own, and nothing else does. The normal run takes every
// ninth step.
func TestEachStepAgain(t *testing.T) {
	t.Parallel()
	b := flowBench(t, false, nested, nested["flow.yml"])
	r := b.run(nested["flow.yml"])
	parents, order := stack(t, r.events)
	in := func(step, other string) bool {
		for ; step != "" && step != other; step = parents[step] {
		}
		return step == other
	}
	every := 9
	if chaos() > 0 {
		every = 1
	}
	for i := rand.IntN(every); i < len(order); i += every {
		at := order[i]
		for _, made := range []string{"fixed", "tested"} {
			if err := os.Remove(filepath.Join(b.dir, made)); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		opt := b.opt
		opt.Dir, opt.Store = b.dir, b.store()
		began := map[string]bool{}
		opt.Sinks = append(opt.Sinks, event.SinkFunc(func(e event.Event) {
			if e.Type == event.StepStarted {
				began[e.Step] = true
			}
		}))
		sum, err := engine.Rerun(context.Background(), "", at, false, opt)
		if err != nil || sum.Status != event.Succeeded {
			t.Fatalf("%s: %v %v", at, sum, err)
		}
		for _, o := range order {
			again := in(o, at) || in(at, o) || strings.HasPrefix(o, "finally")
			anew := false // it is in the handler, or the check, of a step that begins again
			for p := at; p != ""; p = parents[p] {
				anew = anew || in(o, p) && (strings.Contains(o, event.InFile(p)+".on_") || strings.Contains(o, event.InFile(p)+".validate"))
			}
			if again && !began[o] || began[o] && !again && !anew {
				t.Errorf("with %s: %s runs again: %v", at, o, began[o])
			}
		}
	}
}
