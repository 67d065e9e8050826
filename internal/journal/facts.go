package journal

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/event"
)

// Facts are what is recorded of a run, in memory: the events from number 1 on, and
// how many work items its list has, 0 where none is recorded. They tell what a
// [Journal] of the same events would that a process before has left.
type Facts struct {
	Events []event.Event
	Items  int
}

// State folds the events; what was in flight is settled, as in a Journal.
func (f Facts) State(context.Context) (*State, error) {
	s := &State{}
	if f.Items > 0 {
		s.Items.limit = f.Items
		if err := s.Items.grow(f.Items); err != nil {
			return nil, err
		}
	}
	for _, e := range f.Events {
		if err := s.Apply(e); err != nil {
			return nil, err
		}
	}
	s.settle(s.Status == event.Running)
	if want := s.Items.causes.lacking(); want != nil {
		for _, e := range f.Events {
			if _, ok := want[e.Index]; ok && e.Type == event.ItemFinished {
				s.Items.causes.exemplify(e)
			}
		}
	}
	return s, nil
}

// ItemSteps is that of a Reader.
func (f Facts) ItemSteps(_ context.Context, st *State) (map[int]map[string]StepRecord, error) {
	return itemSteps(st, func(first int64, filter EventFilter) iter.Seq2[event.Event, error] {
		return func(yield func(event.Event, error) bool) {
			for _, e := range f.Events {
				if from, ok := filter.Items[e.Index]; ok && e.Seq >= max(first, from) && slices.Contains(filter.Types, e.Type) && !yield(e, nil) {
					return
				}
			}
		}
	})
}

// Event gives the event of a number.
func (f Facts) Event(_ context.Context, seq int64) (event.Event, error) {
	if seq < 1 || seq > int64(len(f.Events)) {
		return event.Event{}, fmt.Errorf("there is no event %d: the last one is %d", seq, len(f.Events))
	}
	return f.Events[seq-1], nil
}

// At is that of a Reader.
func (f Facts) At(ctx context.Context, seqs []int64) (list []event.Event, err error) {
	for _, seq := range seqs {
		e, err := f.Event(ctx, seq)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Results is that of a Reader.
func (f Facts) Results(context.Context) iter.Seq2[Result, error] {
	last := map[int]event.Event{}
	for _, e := range f.Events {
		switch e.Type {
		case event.ItemFinished, event.ItemRequeued:
			delete(last, e.Index)
			if e.Type == event.ItemFinished && finished(e.Status).Done() {
				last[e.Index] = e
			}
		}
	}
	return func(yield func(Result, error) bool) {
		for _, i := range slices.Sorted(maps.Keys(last)) {
			if !yield(ResultOf(last[i]), nil) {
				return
			}
		}
	}
}
