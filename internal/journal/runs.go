package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// Summary is a run in a list of runs.
type Summary struct {
	ID   string
	Name string // of the workflow
	// Title is what a person knows it by, see [Header.Title].
	Title string
	Path  string // of its file
	Kind  string
	// Status is event.Running if a process has the run, event.Interrupted if
	// none has and it is not finished, else the status it finished with.
	Status   string
	Dir      string // the working directory
	Started  time.Time
	Finished time.Time     // zero if it is not finished
	Took     time.Duration // by processes; not the time between them
	Steps    event.Counts  // of the run itself, by [StepRecord.Kind]
	Items    Counts
	Left     Left
}

// Kind is the status of the step in more detail: of one that succeeded or failed
// also event.Recovered, event.Tolerated and event.Incomplete.
func (s *StepRecord) Kind() string {
	if s.Status != event.Succeeded && s.Status != event.Failed && s.Status != event.Degraded || !ofStepKind(string(s.Data)) {
		return s.Status
	}
	var d struct{ Tolerated, Recovered, Incomplete bool }
	switch err := json.Unmarshal(s.Data, &d); {
	case err != nil:
	case d.Tolerated && s.Status == event.Failed:
		return event.Tolerated
	case d.Incomplete:
		return event.Incomplete
	case d.Recovered:
		return event.Recovered
	}
	return s.Status
}

// ofStepKind reports whether the data of a step_finished may have a kind.
func ofStepKind(data string) bool {
	return strings.Contains(data, `ed":true`) || strings.Contains(data, `ete":true`)
}

// Runs lists the runs, newest first. A run that cannot be read is given with
// its ID alone and the error; the list continues.
func (s *Store) Runs(ctx context.Context) iter.Seq2[Summary, error] {
	return s.RunsWhere(ctx, nil)
}

// RunsWhere is Runs for the runs that are wanted, by what does not change of them: ID,
// Name, Title, Path, Kind, Dir and Started. It does not read the events of others. nil:
// all are.
func (s *Store) RunsWhere(ctx context.Context, want func(Summary) bool) iter.Seq2[Summary, error] {
	return func(yield func(Summary, error) bool) {
		ids, err := s.ids()
		if err != nil {
			yield(Summary{}, err)
			return
		}
		for _, id := range ids {
			sum, wanted, err := s.summary(ctx, id, want)
			if ctx.Err() != nil {
				yield(Summary{}, ctx.Err())
				return
			}
			var gone *NotFoundError
			if errors.As(err, &gone) {
				continue // removed since
			}
			if wanted && !yield(sum, err) {
				return
			}
		}
	}
}

func (s *Store) summary(ctx context.Context, id string, want func(Summary) bool) (sum Summary, wanted bool, err error) {
	dir := s.dir(id)
	if sum, ok := keptIn(dir); ok {
		return sum, want == nil || want(sum), nil
	}
	r, err := s.Read(id)
	if err != nil {
		return Summary{ID: id}, true, err
	}
	if sum = r.about(); want == nil || want(sum) {
		wanted = true
		sum, err = r.listed(ctx)
		if r.left != nil {
			s.mu.Lock()
			s.left = r.left
			s.mu.Unlock()
		}
	}
	return sum, wanted, errors.Join(err, r.Close())
}

// listed is Summary, which is kept for the next list.
func (r *Reader) listed(ctx context.Context) (Summary, error) {
	of, err := r.lastRow(ctx)
	if err != nil {
		return r.about(), err
	}
	sum, err := r.Summary(ctx)
	if err != nil {
		return sum, err
	}
	return sum, r.keep(ctx, of, sum)
}

// about is what does not change of a run.
func (r *Reader) about() Summary {
	h := r.Header()
	return Summary{ID: r.run, Name: h.Name, Title: h.Title(), Path: h.Path, Kind: h.Kind, Dir: h.Dir, Started: h.Started}
}

// Summary is the run as in a list of runs.
func (r *Reader) Summary(ctx context.Context) (Summary, error) {
	return keptAs(ctx, r, keptTotal, func() (Summary, error) {
		of, err := r.lastRow(ctx)
		if err != nil {
			return r.about(), err
		}
		var spent tookFold
		state, held, err := r.heldState(ctx, func(f *Fact) error {
			spent.apply(f)
			return nil
		})
		if err != nil {
			return r.about(), err
		}
		sum := r.summary(state, held, &spent)
		if sum.Status != event.Interrupted {
			return sum, nil
		}
		now, err := r.lastRow(ctx)
		if err == nil && now == of {
			r.left = &folded{of, state}
		}
		return sum, err
	})
}

// Outcome is what one pass over the events of a run gives.
type Outcome struct {
	Summary Summary
	State   *State
	Last    time.Time   // of the last event
	Again   map[int]int // by item, how many attempts its steps have made after their first ones; see [Fact.Again]
}

// Outcome reads the events once, and gives each to each as well. Of a run that is over it
// keeps what lists of runs and of dead letters are asked for.
func (r *Reader) Outcome(ctx context.Context, each func(*Fact) error) (o Outcome, err error) {
	of, over, err := r.end(ctx)
	if err != nil {
		return o, err
	}
	o.Again = map[int]int{}
	var letters letterFold
	var spent tookFold
	state, held, err := r.heldState(ctx, func(f *Fact) error {
		if f.Again() {
			o.Again[f.Index()]++
		}
		letters.apply(f)
		spent.apply(f)
		return each(f)
	})
	if err != nil {
		return o, err
	}
	o.State, o.Last, o.Summary = state, spent.last, r.summary(state, held, &spent)
	if !over {
		return o, nil
	}
	return o, errors.Join(keepAs(ctx, r, keptTotal, of, o.Summary), keepAs(ctx, r, keptLetters, of, letters.open(o.Again)))
}

// heldState is State, and whether a process has the run.
func (r *Reader) heldState(ctx context.Context, each func(*Fact) error) (s *State, held bool, err error) {
	// The lock first: a run that ends in between is then running, not
	// interrupted.
	if held, err = r.InUse(); err != nil {
		return nil, false, err
	}
	if err = r.ready(ctx); err != nil {
		return nil, false, err
	}
	s, err = r.fold(ctx, each)
	return s, held, err
}

func (r *Reader) summary(state *State, held bool, spent *tookFold) Summary {
	sum := r.about()
	sum.Finished = state.Finished
	switch {
	case held:
		sum.Status = event.Running
	case state.Finished.IsZero():
		sum.Status = event.Interrupted
	default:
		sum.Status = state.Status
	}
	sum.Took = spent.all(state, held)
	sum.Items = state.Items.Counts()
	sum.Items.KindCounts = state.kinds
	sum.Left = state.Left
	sum.Steps = state.ItemSteps
	for path, step := range state.Steps {
		if !event.Aside(path) {
			sum.Steps.Add(step.Kind(), 1)
		}
	}
	return sum
}

// tookFold is how long processes had the run in all, without the time between them: as
// each counted it, as the clock may have been set meanwhile.
type tookFold struct {
	took  time.Duration
	since time.Time // the beginning of the process that has not said that it ended
	last  time.Time // of the last event
}

func (t *tookFold) apply(f *Fact) {
	if f.rec.index == 0 {
		switch event.Type(f.rec.kind.vocabulary()) {
		case event.RunFinished:
			t.took, t.since = t.took+cmp.Or(millis(f.Duration()), max(0, f.Time().Sub(t.since))), time.Time{}
		case event.RunResumed:
			t.took, t.since = t.took+t.unended(), f.Time()
		case event.RunStarted:
			t.since = f.Time()
		}
	}
	t.last = f.Time()
}

// unended is what the process spent that has not said that it ended.
func (t *tookFold) unended() time.Duration {
	if t.since.IsZero() {
		return 0
	}
	return max(0, t.last.Sub(t.since))
}

func (t *tookFold) all(s *State, held bool) time.Duration {
	switch {
	case s.Resumes == 0 && !s.Finished.IsZero():
		return cmp.Or(s.Ran, max(0, s.Finished.Sub(s.Started)))
	case held && !t.since.IsZero():
		return t.took + max(0, time.Since(t.since))
	}
	return t.took + t.unended()
}

// ShortRun is what a person calls a run: the end of its id, which every command takes.
func ShortRun(id string) string { return id[max(0, len(id)-6):] }
