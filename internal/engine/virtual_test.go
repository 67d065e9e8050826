package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
	ports "github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/vars"
)

// standardPlaces are the places of steps in a standard workflow, whose steps
// need nothing but an executor.
var standardPlaces = []string{"commands", "on_failure", "on_success", "on_exit_code", "do", "validate", "on_incomplete", "workflow"}

// virtually executes the steps of a run again under virtual ports, with what
// actions and git answered in that run, and gives the differences between the
// facts of both.
func (r *ran) virtually(local *step.Executor, tape *ports.Tape, unordered bool) (wrong []string) {
	clock := ports.NewClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	rec := &ports.Recorder{Clock: clock}
	life, end := step.NewLifecycle(clock, context.Background())
	defer end()
	x := &step.Executor{Clock: clock, Recorder: rec, Actions: ports.Player{Clock: clock, Tape: tape}, Run: local.Run, File: local.File,
		Life: life, AgentConfigs: local.AgentConfigs}
	if g := local.Git; g != nil {
		x.Git = &step.Git{Repo: ports.TapingRepo{Tape: tape}, Context: g.Context, State: g.State, Head: g.Head}
	}
	env, err := environ.Load(context.Background(), environ.Options{
		File: local.File, Inherited: r.opt.Environ, Profile: r.load.Profile, Run: local.Run, Dir: r.dir, Now: clock.Now, Warn: x.NoteOnce,
		Command: func(context.Context, environ.Command) (string, error) {
			return "", errors.New("no value is computed by a command")
		},
	}, func(sc *vars.Scope) {
		sc.SetTrusted("PROJECT_ROOT", r.dir)
		sc.SetTrusted("WORKTREE", r.dir)
		sc.SetTrusted("workflow", map[string]any{"name": local.File.Name, "id": local.Run, "iteration": int64(1)})
		sc.SetTrusted("ITERATION", int64(1))
	})
	if err != nil {
		return []string{err.Error()}
	}
	x.Values = env
	clock.Run(func() {
		// How it ends, the facts say.
		_ = x.Sequence(context.Background(), step.Site{Scope: env.Scope, Dir: r.dir, Env: env.Base()}, local.File.Steps)
	})
	if left := tape.Left(); left != "" {
		wrong = append(wrong, "virtually nobody asked to "+left)
	}
	have, want := steps(rec.Facts(), unordered), steps(r.events, unordered)
	if len(want) == 0 {
		return append(wrong, "the run has said nothing of steps")
	}
	for i := range max(len(have), len(want)) {
		a, b := "nothing", "nothing"
		if i < len(have) {
			a = have[i]
		}
		if i < len(want) {
			b = want[i]
		}
		if a != b {
			return append(wrong, fmt.Sprintf("fact %d is virtually\n\t%s, and here\n\t%s", i, a, b))
		}
	}
	if got, want := x.Tally.Counts(), r.sum.Steps; got != want {
		wrong = append(wrong, fmt.Sprintf("virtually counted %+v, here %+v", got, want))
	}
	return wrong
}

// steps gives what facts say of steps, without what time and chance have in
// them.
func steps(facts []event.Event, unordered bool) (said []string) {
	for _, e := range facts {
		if e.Step == "" || e.Type == event.AgentMessage || e.Type == event.Output {
			continue
		}
		e.Seq, e.Time, e.Run, e.DurationMS = 0, time.Time{}, "", 0
		e.Message = probe.ReplaceAllString(e.Message, "a probe through later")
		if e.Retry != nil {
			st := *e.Retry
			st.Began, st.FirstFailure, st.Due = time.Time{}, time.Time{}, time.Time{}
			e.Retry = &st
		}
		if len(e.Data) > 0 {
			var v any
			if err := json.Unmarshal(e.Data, &v); err != nil {
				panic(err)
			}
			e.Data, _ = json.Marshal(timeless(v))
		}
		text, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		said = append(said, string(text))
	}
	if unordered {
		slices.Sort(said)
	}
	return said
}

// probe is what is left of the time of an open breaker.
var probe = regexp.MustCompile(`a probe through in \S+`)

// timeless takes times out of a value.
func timeless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(k string, _ any) bool {
			return slices.Contains([]string{"duration", "at", "timestamp", "waited_ms"}, k) || len(k) > 9 && k[len(k)-9:] == ".duration"
		})
		for k, x := range v {
			v[k] = timeless(x)
		}
	case []any:
		for i, x := range v {
			v[i] = timeless(x)
		}
	case string:
		return probe.ReplaceAllString(v, "a probe through later")
	}
	return v
}
