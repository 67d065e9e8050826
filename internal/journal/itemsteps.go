package journal

import (
	"context"
	"iter"

	"github.com/bide-dev/bide/internal/event"
)

// ItemSteps gives what is recorded of the steps of the items that a process left
// in flight, by the items' indexes and the steps' paths. Each begins where its
// item's Since says. st is the state of the run before it continues.
func (r *Reader) ItemSteps(ctx context.Context, st *State) (map[int]map[string]StepRecord, error) {
	return itemSteps(st, func(first int64, f EventFilter) iter.Seq2[event.Event, error] { return r.Events(ctx, first, f) })
}

// itemSteps folds what events gives of them, from a number on.
func itemSteps(st *State, events func(first int64, f EventFilter) iter.Seq2[event.Event, error]) (map[int]map[string]StepRecord, error) {
	since := map[int]int64{}
	first := int64(0)
	for i, x := range st.Items.special {
		if x.since > 0 && !st.Items.status[i-1].Done() {
			since[i] = x.since
			if first == 0 || x.since < first {
				first = x.since
			}
		}
	}
	if len(since) == 0 {
		return nil, nil
	}
	folds := make(map[int]*State, len(since))
	filter := EventFilter{Items: since, Types: []event.Type{event.StepStarted, event.AttemptStarted, event.AttemptFailed, event.RetryScheduled, event.StepFinished,
		event.ForeachStarted, event.RoundStarted, event.RoundFinished, event.WidthChanged}}
	for e, err := range events(first, filter) {
		if err != nil {
			return nil, err
		}
		s := folds[e.Index]
		if s == nil {
			s = &State{}
			folds[e.Index] = s
		}
		if e.Type == event.RoundStarted || e.Type == event.RoundFinished {
			s.applyRound(e)
		} else {
			s.applyStep(e)
		}
	}
	steps := make(map[int]map[string]StepRecord, len(folds))
	for i, s := range folds {
		s.settle(false)
		steps[i] = s.Steps
	}
	return steps, nil
}
