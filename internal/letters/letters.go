// Package letters runs again what a run has ended: dead letters, here or in the
// process that has the run, and steps; and it does what other processes ask of a
// running run: pause, continue, retry now, another number of items at once.
package letters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
)

// Requeue says which dead letters to run again.
type Requeue struct {
	Filter journal.DeadLetterFilter
	// Accept, where it is not nil, has the last word on each.
	Accept func(journal.DeadLetter) (bool, error)
	// Edited is the data that items have from now on, as JSON, by index. What
	// they had is kept.
	Edited map[int]json.RawMessage
	// Begins, if not nil, is called when nothing can refuse the dead letters any more, before
	// they are dead letters no longer: they run again, here or in the process that has the run.
	// edited is the data as they are recorded here, with secrets masked.
	Begins func(edited map[int]json.RawMessage) error
	// AsRecorded uses the file as it was when the run began.
	AsRecorded bool
}

// ErrNoDeadLetters says that no dead letter matches.
var ErrNoDeadLetters = errors.New("no dead letter matches")

// HandedOverError says that dead letters are run again by the process that has
// the run, and that nobody waited for the end of it.
type HandedOverError struct {
	Run string
	PID int
}

func (e *HandedOverError) Error() string {
	return fmt.Sprintf("the dead letters of run %s are run again by process %d, which is still running; see `bide events %s -f`", e.Run, e.PID, e.Run)
}

// Find gives the dead letters that are wanted.
func (q *Requeue) Find(ctx context.Context, r *journal.Reader) ([]journal.DeadLetter, error) {
	for index, item := range q.Edited {
		if !json.Valid(item) {
			return nil, fmt.Errorf("the edited data of item %d is not JSON", index)
		}
	}
	var list []journal.DeadLetter
	for l, err := range r.DeadLetters(ctx, q.Filter) {
		if err != nil {
			return nil, err
		}
		if q.Accept != nil {
			if ok, err := q.Accept(l); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
		}
		l.History, l.Item, l.Letter = nil, nil, nil
		list = append(list, l)
	}
	if len(list) == 0 {
		return nil, ErrNoDeadLetters
	}
	return list, nil
}

// Record records that items are run again. The secrets of edited data are masked.
func Record(ctx context.Context, j *journal.Journal, list []journal.DeadLetter, edited map[int]json.RawMessage) error {
	for _, l := range list {
		if err := j.Append(mapper.RequeuedFact(mapper.Again{Index: l.Index, ID: l.ID, Item: edited[l.Index]})); err != nil {
			return err
		}
	}
	return j.Sync(ctx)
}

// Left carries out requests that came too late for the run's former
// life, and says how many letters they named. seal masks the secrets of edited data.
func Left(ctx context.Context, j *journal.Journal, seal func(map[int]json.RawMessage) (map[int]json.RawMessage, error)) (int, error) {
	left, err := j.LeftRetries()
	if err != nil || len(left.Of) == 0 {
		return 0, err
	}
	list, err := stillOpen(ctx, &j.Reader, left.Of)
	if err != nil {
		return 0, err
	}
	edited, err := seal(left.Edited)
	if err != nil {
		return 0, err
	}
	if err := Record(ctx, j, list, edited); err != nil {
		return 0, err
	}
	return len(list), j.EndRetries()
}

// stillOpen gives those of the letters that are dead letters still.
func stillOpen(ctx context.Context, r *journal.Reader, refs []journal.LetterRef) ([]journal.DeadLetter, error) {
	want := make(map[int]int64, len(refs))
	for _, ref := range refs {
		want[ref.Index] = max(want[ref.Index], ref.Seq)
	}
	q := Requeue{Accept: func(l journal.DeadLetter) (bool, error) { return want[l.Index] == l.Seq, nil }}
	list, err := q.Find(ctx, r)
	if errors.Is(err, ErrNoDeadLetters) {
		return nil, nil
	}
	return list, err
}
