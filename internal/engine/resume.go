package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/local"
	"github.com/bide-dev/bide/internal/proc"
)

// FinishedError says that there is nothing to continue with. The summary that comes
// with it says how the run ended: a process that was killed just after it had
// recorded that may have told nobody.
type FinishedError struct{ Run, Status string }

func (e *FinishedError) Error() string {
	return fmt.Sprintf("run %s has ended (%s): there is nothing to resume", e.Run, strings.ReplaceAll(e.Status, "_", " "))
}

// Resume continues with an interrupted or failed run; id "" is the last one.
// opt.File is not used: the file is the recorded one, or with Force the present
// one.
func Resume(ctx context.Context, id string, opt Options) (*Summary, error) {
	var ended *Summary
	sum, err := reopen(ctx, id, opt, func(j *journal.Journal, st *journal.State, left int) (none revision, err error) {
		if left > 0 || st.Items.Counts().Pending > 0 {
			return none, nil // dead letters wait to be run again
		}
		if st.Status != event.Succeeded && st.Status != event.CompletedWithFailures {
			return none, nil
		}
		// Somebody has merged it since, or a bide that was killed before it had recorded that. A
		// run that failed in its merge continues, and takes away what is left of it.
		if is, err := gitwork.NoteMerged(ctx, j, st.Left); err != nil {
			return none, err
		} else if is {
			if st, err = j.State(ctx); err != nil {
				return none, err
			}
		}
		if ended, err = lastSummary(ctx, opt, &j.Reader); err != nil {
			return none, err
		}
		if ended.Status = st.Status; st.Left.Command == "" {
			ended.MergeWith, ended.OnceMerged = "", "" // it was merged since
		}
		return none, &FinishedError{j.Run(), st.Status}
	})
	if errors.As(err, new(*FinishedError)) {
		return ended, err
	}
	return sum, err
}

// lastSummary is the summary with which a run ended last; those who watch are
// told of that end again.
func lastSummary(ctx context.Context, opt Options, r *journal.Reader) (*Summary, error) {
	var last event.Event
	for e, err := range r.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.RunFinished}}) {
		if err != nil {
			return nil, err
		}
		last = e
	}
	for _, s := range opt.Sinks {
		s.Emit(last)
	}
	return summaryOf(ctx, opt, r, last)
}

// revision is what a command changes of the record of a run before it continues.
type revision struct {
	add   func() error // adds it to the journal; nil for nothing
	again []string     // the steps that are to run again
	// outdates says that items run again, so that reduce and merge do.
	outdates bool
}

// reopen opens a run, lets change (which may be nil) look at it, and executes it.
// What change gives is added to the journal when nothing is left that could refuse
// the run, as one that does not continue stays as it is.
// change is told how many dead letters a request that was left has just requeued.
func reopen(ctx context.Context, id string, opt Options, change func(j *journal.Journal, st *journal.State, left int) (revision, error)) (_ *Summary, err error) {
	open := opt.Store.Open
	if opt.Part != nil {
		open = opt.Store.OpenCopy
	}
	j, err := open(id)
	if err != nil {
		return nil, err
	}
	owned := true
	defer func() {
		if owned {
			err = errors.Join(err, j.Close())
		}
	}()
	left, err := letters.Left(ctx, j, func(edited map[int]json.RawMessage) (map[int]json.RawMessage, error) {
		return sealEdited(ctx, j, opt, edited)
	})
	if err != nil {
		return nil, err
	}
	st, err := j.State(ctx)
	if err != nil {
		return nil, err
	}
	var rev revision
	if change != nil {
		if rev, err = change(j, st, left); err != nil {
			return nil, err
		}
	}
	parallel := opt.MaxParallel
	if opt, err = recordedOptions(j, opt); err != nil {
		return nil, err
	}
	if opt.Part != nil && opt.Part.Dir != "" {
		opt.Dir = opt.Part.Dir
	}
	if err := fill(&opt); err != nil {
		return nil, err
	}
	if err := preflight(opt); err != nil {
		return nil, err
	}
	if err := sameSteps(ctx, j, st, opt, rev); err != nil {
		return nil, err
	}
	if rev.add != nil { // the events of a large run are not folded twice for nothing
		if err := errors.Join(rev.add(), j.Sync(ctx)); err != nil {
			return nil, err
		}
		if st, err = j.State(ctx); err != nil {
			return nil, err
		}
	}
	if opt.Part == nil {
		again, err := local.Unsound(ctx, j, st)
		if err != nil {
			return nil, err
		}
		if len(again) > 0 {
			if err := errors.Join(j.RecordAll(again), j.Sync(ctx)); err != nil {
				return nil, err
			}
			if st, err = j.State(ctx); err != nil {
				return nil, err
			}
		}
	}
	if parallel > 0 { // what is said now is the newer word
		st.Parallel = 0
	}
	if opt.Part == nil {
		if err := items.DropInputs(j.Dir()); err != nil {
			return nil, err
		}
	}
	if n, err := proc.ReapOrphans(j.ProcDir()); err != nil {
		return nil, fmt.Errorf("processes of the run's former life: %w", err)
	} else if n > 0 {
		if err := j.Append(event.Event{Type: event.Note, Message: fmt.Sprintf("%s of the run's former life %s ended", diag.Count(n, "process", "processes"), diag.Plural(n, "was", "were"))}); err != nil {
			return nil, err
		}
	}
	owned = false
	return execute(ctx, opt, j, st)
}
