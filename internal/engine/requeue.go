package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/workflow"
)

// Letter is what is kept of a failed attempt at an item: the data of
// item_retry_scheduled and of the item_finished of a dead letter.
type Letter = mapper.Letter

// Requeue says which dead letters to run again.
type Requeue struct {
	Filter journal.DeadLetterFilter
	// Accept, where it is not nil, has the last word on each.
	Accept func(journal.DeadLetter) (bool, error)
	// Edited is the data that items have from now on, as JSON, by index. What
	// they had is kept.
	Edited map[int]json.RawMessage
	// AsRecorded uses the file as it was when the run began.
	AsRecorded bool
}

// ErrNoDeadLetters says that no dead letter fits.
var ErrNoDeadLetters = errors.New("no dead letter fits")

// HandedOverError says that dead letters are run again by the process that has
// the run, and that nobody waited for the end of it.
type HandedOverError struct {
	Run string
	PID int
}

func (e *HandedOverError) Error() string {
	return fmt.Sprintf("the dead letters of run %s are run again by process %d, which goes on; see `bide events %s -f`", e.Run, e.PID, e.Run)
}

// letters gives the dead letters that are wanted.
func (q *Requeue) letters(ctx context.Context, r *journal.Reader) ([]journal.DeadLetter, error) {
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

// RetryDeadLetters runs dead letters again, in the same run and with their
// histories, and then reduce. The file is the present one, unless AsRecorded.
//
// While another process has the run, it is asked to run them: it does so in the
// map that goes on, with the file that it has. RetryDeadLetters then shows
// what happens there until the run ends. Where the map is over already, the
// letters are run here as soon as the process gives the run back. A second
// retry of the same run meanwhile is a *journal.LockedError.
func RetryDeadLetters(ctx context.Context, id string, opt Options, q Requeue) (_ *Summary, err error) {
	opt.Force, opt.AsRecorded = !q.AsRecorded, q.AsRecorded
	id, release, err := opt.Store.ClaimRetry(id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	sum, err := reopen(ctx, id, opt, func(j *journal.Journal, st *journal.State, left int) (func() error, error) {
		// A retry that was killed may have requeued letters and gone no further.
		begun := st.Status == event.CompletedWithFailures && st.Items.Counts().Pending > 0
		list, err := q.letters(ctx, &j.Reader)
		if errors.Is(err, ErrNoDeadLetters) && (left > 0 || begun) {
			return nil, nil
		}
		return func() error { return requeue(ctx, j, list, q.Edited) }, err
	})
	if locked, ok := errors.AsType[*journal.LockedError](err); ok {
		return handOver(ctx, id, opt, q, locked.PID)
	}
	return sum, err
}

// requeue records that items are run again.
func requeue(ctx context.Context, j *journal.Journal, list []journal.DeadLetter, edited map[int]json.RawMessage) error {
	for _, l := range list {
		if err := j.Append(mapper.RequeuedFact(mapper.Again{Index: l.Index, ID: l.ID, Item: edited[l.Index]})); err != nil {
			return err
		}
	}
	return j.Sync(ctx)
}

// leftRetries carries out requests that came too late for the run's former
// life, and says how many letters they named.
func leftRetries(ctx context.Context, j *journal.Journal) (int, error) {
	left, err := j.LeftRetries()
	if err != nil || len(left.Of) == 0 {
		return 0, err
	}
	list, err := stillOpen(ctx, &j.Reader, left.Of)
	if err != nil {
		return 0, err
	}
	if err := requeue(ctx, j, list, left.Edited); err != nil {
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
	list, err := q.letters(ctx, r)
	if errors.Is(err, ErrNoDeadLetters) {
		return nil, nil
	}
	return list, err
}

// lookEvery is how often a map looks for requests, and who asked for their
// being taken.
const lookEvery = 100 * time.Millisecond

// handOver asks the process that has the run to run dead letters again.
func handOver(ctx context.Context, id string, opt Options, q Requeue, pid int) (_ *Summary, err error) {
	if opt.Soft == nil {
		opt.Soft = ctx
	}
	r, err := opt.Store.Read(id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	from, err := r.Last(ctx)
	if err != nil {
		return nil, err
	}
	list, err := q.letters(ctx, r)
	if err != nil {
		return nil, err
	}
	req := journal.RetryRequest{PID: os.Getpid(), Time: time.Now(), Edited: q.Edited}
	for _, l := range list {
		req.Of = append(req.Of, journal.LetterRef{Index: l.Index, Seq: l.Seq})
	}
	if err := r.RequestRetry(req); err != nil {
		return nil, err
	}
	tell(opt, id, fmt.Sprintf("process %d has the run: it was asked to run %s again", pid, diag.Count(len(list), "dead letter")))
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-opt.Soft.Done():
			if was, err := r.WithdrawRetry(); err != nil || was {
				return nil, errors.Join(ErrInterrupted, err)
			}
		}
		if !r.RetryRequested() {
			return follow(ctx, id, opt, r, from, pid)
		}
		if held, err := r.InUse(); err != nil || held {
			continue // an error of looking is met again below, by opening
		}
		// The run ended before the map looked: its request is carried out here.
		sum, err := reopen(ctx, id, opt, nil)
		if !errors.As(err, new(*journal.LockedError)) {
			return sum, err
		}
	}
}

func tell(opt Options, id, message string) {
	for _, s := range opt.Sinks {
		s.Emit(event.Event{Type: event.Note, Time: time.Now(), Run: id, Message: message})
	}
}

// follow shows what the process that has the run does, until the run ends.
func follow(ctx context.Context, id string, opt Options, r *journal.Reader, from int64, pid int) (*Summary, error) {
	tell(opt, id, fmt.Sprintf("process %d runs them again in the map that goes on", pid))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(opt.Soft, cancel)()
	var end *event.Event
	for e, err := range r.Follow(ctx, from+1, journal.EventFilter{}) {
		if err != nil {
			return nil, err
		}
		for _, s := range opt.Sinks {
			s.Emit(e)
		}
		if e.Type == event.RunFinished {
			end = &e
		}
	}
	if opt.Soft.Err() != nil {
		return nil, &HandedOverError{Run: id, PID: pid}
	}
	if end == nil {
		return nil, fmt.Errorf("process %d, which had run %s, has gone before its end: `bide resume %s` goes on, the dead letters that were asked for included", pid, id, id)
	}
	return summaryOf(opt, r, *end)
}

// summaryOf is the summary that a run_finished tells.
func summaryOf(opt Options, r *journal.Reader, e event.Event) (*Summary, error) {
	id := r.Run()
	s := &Summary{}
	if len(e.Data) > 0 {
		if err := json.Unmarshal(e.Data, s); err != nil {
			return nil, fmt.Errorf("the summary of run %s: %w", id, err)
		}
	}
	s.Run, s.Status, s.DurationMS, s.Class, s.Message = id, e.Status, e.DurationMS, e.Class, e.Message
	var began Settings
	if err := json.Unmarshal(r.Header().Options, &began); err != nil {
		return nil, fmt.Errorf("the recorded options of run %s: %w", id, err)
	}
	s.AllowFailedItems = began.AllowFailedItems || opt.AllowFailedItems
	if s.FailOn = began.FailOn; len(opt.FailOn) > 0 {
		s.FailOn = opt.FailOn
	}
	s.MapReduce, s.Pipeline, s.Dir = r.Header().Kind == workflow.MapReduce.String(), r.Header().Kind == workflow.Dataflow.String(), r.Dir()
	return s, nil
}

// requests looks for requests of other processes while the map goes on.
func (x *mapRun) requests(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if !x.r.j.RetryRequested() {
				continue
			}
			if err := x.requeue(ctx); err != nil {
				x.r.x.NoteOnce("requeue", fmt.Sprintf("a request to run dead letters again: %v", err))
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// requeue takes a request and gives its dead letters back to the map. One
// that comes too late stays where it is.
func (x *mapRun) requeue(ctx context.Context) error {
	req, err := x.r.j.PeekRetry()
	if err != nil || req == nil {
		return err
	}
	list, err := stillOpen(ctx, &x.r.j.Reader, req.Of)
	if err != nil {
		return err
	}
	again, seal := x.again(list, req.Edited)
	taken := false
	err = x.m.Requeue(ctx, again, func() (bool, error) {
		if taken, err = x.r.j.TakeRetry(); err != nil || !taken {
			return false, err
		}
		return true, seal()
	})
	if err != nil || !taken {
		return err
	}
	if err := x.r.j.Sync(ctx); err != nil {
		return err
	}
	return x.r.j.RetryTaken()
}
