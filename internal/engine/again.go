package engine

import (
	"context"
	"errors"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/value"
)

// RetryDeadLetters runs dead letters again, in the same run and with their
// histories, and then reduce. The file is the present one, unless AsRecorded.
//
// While another process has the run, it is asked to run them: it does so in the
// running map, with the file that it has. RetryDeadLetters then shows
// what happens there until the run ends. Where the map is over already, the
// letters are run here as soon as the process gives the run back. A second
// retry of the same run meanwhile is a *journal.LockedError.
func RetryDeadLetters(ctx context.Context, id string, opt Options, q letters.Requeue) (_ *Summary, err error) {
	opt.Force, opt.AsRecorded = !q.AsRecorded, q.AsRecorded
	id, release, err := opt.Store.ClaimRetry(id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	sum, err := reopen(ctx, id, opt, func(j *journal.Journal, st *journal.State, left int) (rev revision, err error) {
		// A retry that was killed may have requeued letters and gone no further.
		begun := st.Status == event.CompletedWithFailures && st.Items.Counts().Pending > 0
		list, err := q.Find(ctx, &j.Reader)
		if errors.Is(err, letters.ErrNoDeadLetters) && (left > 0 || begun) {
			return rev, nil
		}
		rev.outdates = true
		rev.add = func() error {
			edited, err := sealEdited(ctx, j, opt, q.Edited)
			if err != nil {
				return err
			}
			if q.Begins != nil {
				if err := q.Begins(edited); err != nil {
					return err
				}
			}
			return letters.Record(ctx, j, list, edited)
		}
		return rev, err
	})
	if locked, ok := errors.AsType[*journal.LockedError](err); ok {
		h := letters.Handover{Store: opt.Store, Run: id, PID: locked.PID, Sinks: opt.Sinks, Soft: opt.Soft}
		h.Here = func() (err error) {
			sum, err = reopen(ctx, id, opt, nil)
			return err
		}
		h.Ended = func(r *journal.Reader, e event.Event) (err error) {
			sum, err = summaryOf(ctx, opt, r, e)
			return err
		}
		err = h.Do(ctx, q)
	}
	return sum, err
}

// Rerun runs a step of a run again, although it has ended, and continues as
// [Resume] does. name is its path or its label. Everything else is taken over as
// it is recorded; with onward, all steps that came after it run again too. The
// items of a map are none of its steps: they are run again as dead letters.
func Rerun(ctx context.Context, id, name string, onward bool, opt Options) (*Summary, error) {
	return reopen(ctx, id, opt, func(j *journal.Journal, st *journal.State, _ int) (revision, error) {
		paths, err := letters.Steps(ctx, j, st, name, onward)
		facts := value.Map(paths, func(path string) event.Event { return event.Event{Type: event.StepRequeued, Step: path} })
		return revision{add: func() error { return j.RecordAll(facts) }, again: paths}, err
	})
}
