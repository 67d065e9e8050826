package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
	ports "github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/worktree"
)

// virtually plays a run again from its start to its end under virtual ports, with the
// answers that actions and git gave in that run. It gives the differences between the facts
// of both.
func (r *ran) virtually(local *step.Executor, tape *Tape, dir string, unordered bool) (wrong []string) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := ports.NewClock(began)
	rec := &ports.Recorder{Clock: clock}
	p := engine.Ports{
		Clock: clock, Recorder: rec, Actions: Player{Clock: clock, Tape: tape}, Run: r.sum.Run, Data: true, Rand: luck,
		Items: func(read func() ([]event.Item, error)) ([]event.Item, error) { return read() },
	}
	if g := local.Git; g != nil {
		p.Git = &step.Git{Repo: TapingRepo{Tape: tape}, Head: g.Head}
	}
	if dir != r.dir {
		p.Merge = &worktree.Run{Tree: worktree.Tree{WorkDir: dir}}
	}
	opt := r.opt
	opt.Composed = nil
	opt.File, opt.Dir, opt.Profile = local.File, r.dir, r.load.Profile
	var sum *engine.Summary
	clock.Run(func() { sum = engine.RunOn(context.Background(), opt, p) })
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
	if got, want := sum.Steps, r.sum.Steps; got != want {
		wrong = append(wrong, fmt.Sprintf("virtually counted %+v, here %+v", got, want))
	}
	return wrong
}

// steps gives what facts say about steps, without times and random values.
func steps(facts []event.Event, unordered bool) (said []string) {
	for _, e := range facts {
		if e.Type == event.AgentMessage || e.Type == event.Output {
			continue
		}
		if e.Type == event.Note && strings.HasPrefix(e.Message, "the work is in branch ") {
			continue // from a worktree; a virtual run has none
		}
		if e.Type == event.ItemsReady {
			e.Data = nil // the digest of a journal's list
		}
		e.Seq, e.Time, e.Run, e.DurationMS = 0, time.Time{}, "", 0
		e.Message = left.ReplaceAllString(e.Message, "$1 a while")
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
			if end, ok := v.(map[string]any); ok && end["once_merged"] != nil { // a virtual run has no branch that waits to be merged
				e.Status, _ = end["once_merged"].(string)
				delete(end, "once_merged")
				delete(end, "merge_with")
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

// left matches the rest of the time of an open breaker or of a rate limit: it depends on
// when it is read.
var left = regexp.MustCompile(`(a probe through in|the rate limit lasts) [0-9a-zµ.]+`)

// timeless removes times from a value.
func timeless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(k string, _ any) bool {
			return slices.Contains([]string{"duration", "duration_ms", "at", "since", "until", "timestamp", "waited_ms"}, k) || len(k) > 9 && k[len(k)-9:] == ".duration"
		})
		for k, x := range v {
			v[k] = timeless(x)
		}
		if ns, ok := v["retry_after_ns"].(float64); ok && time.Duration(ns) > time.Hour { // also depends on when it is read
			v["retry_after_ns"] = time.Duration(ns).Round(time.Hour)
		}
	case []any:
		for i, x := range v {
			v[i] = timeless(x)
		}
	case string:
		return left.ReplaceAllString(v, "$1 a while")
	}
	return v
}
