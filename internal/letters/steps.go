package letters

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
)

// NoStepError says that a run has no step of a name that could be run again.
type NoStepError struct{ Run, Name, Why string }

func (e *NoStepError) Error() string {
	end := ";"
	if strings.HasSuffix(e.Why, "?") {
		end = ""
	}
	return fmt.Sprintf("run %s: the step %s cannot be run again: %s%s `bide show %s` lists the steps", e.Run, e.Name, e.Why, end, e.Run)
}

// ran is a recorded step of a run.
type ran struct {
	path, label string
	phase       string
	seq         int64 // where it began first, which is the order of the file
}

// Steps lists the steps that are to be forgotten so that one runs again: with
// the ones that it is in, and the ones that are in it. There is none where all of them are
// forgotten: a process that was to run them again was killed.
func Steps(ctx context.Context, j *journal.Journal, st *journal.State, name string, onward bool) ([]string, error) {
	steps, err := ranSteps(ctx, j)
	if err != nil {
		return nil, err
	}
	var found []ran
	var names []string
	for _, s := range steps {
		names = append(names, s.path, s.label)
		if s.path == name || s.label == name {
			found = append(found, s)
		}
	}
	no := func(format string, args ...any) error {
		return &NoStepError{j.Run(), name, fmt.Sprintf(format, args...)}
	}
	switch {
	case len(found) == 0:
		return nil, no("%s", strings.TrimSuffix("none of its name has begun; "+diag.DidYouMean(name, names), "; "))
	case len(found) > 1:
		return nil, no("%d steps have that label; name it by its path, such as %s", len(found), found[0].path)
	}
	it := found[0]
	if onward && it.phase == "setup" && j.Header().Kind == workflow.MapReduce.String() {
		return nil, no("it comes before the map, whose items would have to run again; start a new run, or run this step alone with --step")
	}
	began := map[string]bool{}
	for _, s := range steps {
		began[s.path] = true
	}
	known := func(path string) bool { return began[path] }
	again := map[string]bool{it.path: true}
	for around := range event.Enclosing(it.path, known) {
		again[around] = true
	}
	for _, s := range steps {
		if onward && s.seq > it.seq {
			again[s.path] = true
		}
		for around := range event.Enclosing(s.path, known) {
			if around == it.path {
				again[s.path] = true
			}
		}
	}
	maps.DeleteFunc(again, func(path string, _ bool) bool { _, is := st.Steps[path]; return !is }) // they run again already
	return slices.Sorted(maps.Keys(again)), nil
}

// ranSteps gives the steps that have begun, in the order in which they began first.
func ranSteps(ctx context.Context, j *journal.Journal) ([]ran, error) {
	known := map[string]ran{}
	for e, err := range j.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.StepStarted, event.StepFinished}, Own: true}) {
		if err != nil {
			return nil, err
		}
		if e.Step == event.InputStep {
			continue
		}
		s := known[e.Step]
		s.seq = cmp.Or(s.seq, e.Seq)
		s.path, s.label, s.phase = e.Step, cmp.Or(e.Label, s.label), e.Phase
		known[e.Step] = s
	}
	return slices.SortedFunc(maps.Values(known), func(a, b ran) int { return cmp.Compare(a.seq, b.seq) }), nil
}
