package letters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
)

// LookEvery is how often a run looks for requests, and who asked for their
// being taken.
const LookEvery = 100 * time.Millisecond

// Handover has the process that has a run run its dead letters again.
type Handover struct {
	Store *journal.Store
	Run   string
	PID   int // of the process that has the run
	Sinks []event.Sink
	// Soft, when it is done, ends the waiting. The request is withdrawn if it was
	// not taken.
	Soft context.Context
	// Here runs the run in this process. It is called where the other one gave the
	// run back before it had looked; a *journal.LockedError says that it is taken again.
	Here func() error
	// Ended is given the end of the run in the other process.
	Ended func(*journal.Reader, event.Event) error
}

// Do asks the process, and waits for the end of the run.
func (h *Handover) Do(ctx context.Context, q Requeue) (err error) {
	if h.Soft == nil {
		h.Soft = ctx
	}
	r, err := h.Store.Read(h.Run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	from, err := r.Last(ctx)
	if err != nil {
		return err
	}
	list, err := q.Find(ctx, r)
	if err != nil {
		return err
	}
	req := journal.RetryRequest{PID: os.Getpid(), Time: time.Now(), Edited: q.Edited}
	for _, l := range list {
		req.Of = append(req.Of, journal.LetterRef{Index: l.Index, Seq: l.Seq})
	}
	if err := r.RequestRetry(req); err != nil {
		return err
	}
	if q.Begins != nil {
		if err := q.Begins(nil); err != nil {
			return err
		}
	}
	h.tell(fmt.Sprintf("process %d has the run: it was asked to run %s again", h.PID, diag.Count(len(list), "dead letter")))
	tick := time.NewTicker(LookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.Soft.Done():
			if was, err := r.WithdrawRetry(); err != nil || was {
				return errors.Join(step.ErrInterrupted, err)
			}
		}
		if !r.RetryRequested() {
			return h.follow(ctx, r, from)
		}
		if held, err := r.InUse(); err != nil || held {
			continue // an error of looking is met again below, by opening
		}
		// The run ended before the map looked: its request is carried out here.
		if err := h.Here(); !errors.As(err, new(*journal.LockedError)) {
			return err
		}
	}
}

func (h *Handover) tell(message string) {
	for _, s := range h.Sinks {
		s.Emit(event.Event{Type: event.Note, Time: time.Now(), Run: h.Run, Message: message})
	}
}

// follow shows what the process that has the run does, until the run ends.
func (h *Handover) follow(ctx context.Context, r *journal.Reader, from int64) error {
	h.tell(fmt.Sprintf("process %d runs them again in the running map", h.PID))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.Soft, cancel)()
	var end *event.Event
	for e, err := range r.Follow(ctx, from+1, journal.EventFilter{}) {
		if err != nil {
			return err
		}
		for _, s := range h.Sinks {
			s.Emit(e)
		}
		if e.Type == event.RunFinished {
			end = &e
		}
	}
	if h.Soft.Err() != nil {
		return &HandedOverError{Run: h.Run, PID: h.PID}
	}
	if end == nil {
		return fmt.Errorf("process %d, which had run %s, has gone before its end: `bide resume %s` continues it, with the dead letters that were asked for", h.PID, h.Run, h.Run)
	}
	return h.Ended(r, *end)
}

// Requests are those of other processes to run dead letters again, which a map
// carries out while it is running.
type Requests struct {
	Executor *step.Executor
	Journal  *journal.Journal
	Map      *mapper.Map
	// Again gives letters as the map takes them, with the data that was edited. seal
	// is called before they are recorded.
	Again func(list []journal.DeadLetter, req *journal.RetryRequest) (again []mapper.Again, seal func() error)
}

// Watch looks for requests until stop is called.
func (q *Requests) Watch(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(LookEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if !q.Journal.RetryRequested() {
				continue
			}
			if err := q.take(ctx); err != nil {
				q.Executor.NoteOnce("requeue", fmt.Sprintf("a request to run dead letters again: %v", err))
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// take takes a request and gives its dead letters back to the map. One
// that comes too late stays where it is.
func (q *Requests) take(ctx context.Context) error {
	req, err := q.Journal.PeekRetry()
	if err != nil || req == nil {
		return err
	}
	list, err := stillOpen(ctx, &q.Journal.Reader, req.Of)
	if err != nil {
		return err
	}
	again, seal := q.Again(list, req)
	taken := false
	err = q.Map.Requeue(ctx, again, func() (bool, error) {
		if taken, err = q.Journal.TakeRetry(); err != nil || !taken {
			return false, err
		}
		return true, seal()
	})
	if err != nil || !taken {
		return err
	}
	if err := q.Journal.Sync(ctx); err != nil {
		return err
	}
	return q.Journal.RetryTaken()
}
