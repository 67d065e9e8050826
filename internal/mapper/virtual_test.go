package mapper_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

// virtualMap is a map whose items run through the executor of steps, all of it
// on virtual ports.
type virtualMap struct {
	*step.Executor
	p step.Place
	n int
}

func (v *virtualMap) Run(ctx context.Context, a *mapper.Attempt, e *mapper.Ending) {
	p := v.p
	err := v.ForItem(&p, step.ItemAttempt{Item: a.Item, Attempt: a.Number}, v.n)
	if err == nil {
		err = v.Template(ctx, &p, v.File.Map.Template, nil)
	}
	if err != nil {
		e.Err, e.Failure = step.Cause(err), *failure.From(err)
	}
}

func (v *virtualMap) Handle(context.Context, event.Item, mapper.Due) error { return nil }
func (v *virtualMap) Label(event.Item) string                              { return "" }
func (v *virtualMap) Why(int) string                                       { return "" }

// runVirtually runs a map of n items that takes 2 s an item, where every third
// item fails at its first attempt, and gives its facts and how long it took.
func runVirtually(t *testing.T, n int) ([]string, time.Duration) {
	t.Helper()
	f, problems := workflow.Parse("flow.yml", []byte("mode: mapreduce\nmap: {input: [1], max_parallel: 4, agent_template: [{shell: 'fetch ${item.id}'}, {shell: store}]}\n"), workflow.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := virtual.NewClock(start)
	rec := &virtual.Recorder{Clock: clock}
	life, end := step.NewLifecycle(clock, context.Background())
	defer end()
	x := &step.Executor{Clock: clock, Recorder: rec, File: f, Life: life, Actions: &virtual.Actions{Clock: clock, Model: func(c *step.Call) virtual.Answer {
		a := virtual.Answer{Takes: time.Second}
		if c.Path == "map.agent_template[0]" && c.Index%3 == 0 && c.Attempt == 1 {
			a.Failure = failure.From(&action.ExitError{Code: 1, Stderr: "not yet"})
		}
		return a
	}}}
	env := environ.New(environ.Options{File: f, Now: clock.Now, Warn: x.NoteOnce})
	if err := env.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	x.Values = env
	again := retry.Policy{Attempts: 2}
	m, err := mapper.New(mapper.Options{
		Policy: policy.Config{MaxParallel: 4, OnItemFailure: policy.Retry, Retry: &again}, Total: n, Clock: clock, Recorder: rec, Name: "R",
		Template: &virtualMap{x, step.Place{Address: step.Address{Phase: "map"}, Scope: env.Scope, Env: env.Base(), Quiet: true}, n},
		Items: func(_ context.Context, from, limit int) (list []event.Item, err error) {
			for i := from; i <= min(n, from+limit-1); i++ {
				list = append(list, event.Item{Index: i, ID: fmt.Sprint("i", i), Data: []byte(fmt.Sprintf(`{"id": "i%d"}`, i))})
			}
			return list, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	clock.Run(func() { m.Run(context.Background()) })
	if c := m.Outcome().Counts; c.Succeeded != n {
		t.Fatalf("%+v", c)
	}
	var facts []string
	for _, e := range rec.Facts() {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, string(text))
	}
	return facts, clock.Now().Sub(start)
}

// TestMapOnVirtualPorts: the same map has the same facts each time, to the byte,
// in the time that its items take and none of ours.
func TestMapOnVirtualPorts(t *testing.T) {
	const n = 60
	began := time.Now()
	facts, took := runVirtually(t, n)
	again, _ := runVirtually(t, n)
	if !slices.Equal(facts, again) {
		for i := range facts {
			if facts[i] != again[i] {
				t.Fatalf("fact %d is\n%s, and then\n%s", i, facts[i], again[i])
			}
		}
	}
	// 60 items of 2 s and 20 failures of 1 s, 4 at once; the last round need not be full.
	if least, most := 35*time.Second, 38*time.Second; took < least || took > most {
		t.Errorf("it took %s, want %s to %s", took, least, most)
	}
	if real := time.Since(began); real > time.Minute {
		t.Errorf("it took %s of our time", real)
	}
	ended := 0
	for _, text := range facts {
		var e event.Event
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == event.ItemFinished && e.Status == event.Succeeded {
			ended++
		}
	}
	if ended != n {
		t.Errorf("%d items ended, want %d", ended, n)
	}
}
