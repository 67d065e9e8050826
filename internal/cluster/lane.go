package cluster

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/retry/driver"
)

// maxOdd limits how many ends that are no successes a lease reports: they all go into one
// message.
const maxOdd = 1000

// ErrBroken says that a lane could not begin, or could not record. Its items are unchanged.
var ErrBroken = errors.New("the lane cannot work")

// Lane runs the items of a lease. When drain is closed, it ends after its present item. If
// the run stops or the worker leaves, that item gets a grace. When ctx ends, the item is
// ended immediately. If an item takes longer than the lease, Lane calls keep with the
// number of items that the lane keeps at most. keep must not wait; it may be nil.
func (w *Worker) Lane(ctx context.Context, l Lease, drain <-chan struct{}, keep func(first int)) (_ Settled, err error) {
	store, err := w.Open(l.Store)
	if err != nil {
		return Settled{}, broken(err)
	}
	if err := store.Run(l.Run).Over(l.Life); err != nil {
		return Settled{}, err
	}
	s := w.session(l, store)
	defer s.leave()
	select {
	case <-s.ready:
	case <-ctx.Done():
		return Settled{}, ctx.Err()
	}
	if s.err != nil {
		return Settled{}, broken(s.err)
	}
	shared := store.Run(l.Run)
	log, err := newWriter(shared, l.Log)
	if err != nil {
		return Settled{}, broken(err)
	}
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.watch(shared, l, s, over)
	}()
	run := laneRun{w: w, s: s, l: l, log: log, shared: shared, drain: drain}
	reported := make(chan struct{})
	slow := time.AfterFunc(l.Slice, func() { run.slow(keep); close(reported) })
	workErr := run.all(ctx)
	if !slow.Stop() {
		<-reported
	}
	close(over)
	<-watched
	run.out.Prefix, err = log.close()
	run.out.Used = log.usage()
	if StoreFails(err) {
		err = broken(err)
	}
	if err = errors.Join(workErr, err); errors.Is(err, ErrBroken) {
		s.spoil()
	}
	return run.out, err
}

// broken makes an error that is ErrBroken and has the text of err.
func broken(err error) error { return brokenError{err} }

type brokenError struct{ error }

func (e brokenError) Unwrap() []error { return []error{ErrBroken, e.error} }

// lookEvery is how often a lane checks whether the whole run stops: this is sooner than the
// server would report it. If each check is a call to a server, lookSeldom is used.
const (
	lookEvery  = 250 * time.Millisecond
	lookSeldom = time.Second
)

// watch ends a session's items if the run stops, with grace or without, or if a later life
// of it has begun: then their results do not count.
func (w *Worker) watch(shared Shared, l Lease, s *session, over <-chan struct{}) {
	tick := time.NewTicker(shared.every(lookEvery, lookSeldom))
	defer tick.Stop()
	for {
		stop := w.stopped(shared, l.Life)
		if w.leaving.Load() || stop.Life == l.Life {
			s.soft()
		}
		if stop.Now || shared.Over(l.Life) != nil {
			s.soft()
			s.hard()
		}
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}

// laneRun is one lease in progress.
type laneRun struct {
	w      *Worker
	s      *session
	l      Lease
	log    *writer
	shared Shared
	drain  <-chan struct{}
	out    Settled

	mu   sync.Mutex
	at   int // the place of the present item
	kept int // how many items the lane said that it keeps at most; 0: it has not said so

	failures, row int
	earlier       map[string]map[int]*failure.Failure
}

func (r *laneRun) all(ctx context.Context) error {
	start := time.Now()
	defer func() { r.out.Took = time.Since(start) }()
	lane := r.s.m.Lane()
	work, cancel := context.WithCancel(r.s.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	due := map[int]time.Time{} // when the items of out.Odd that wait continue
	items, last := r.l.items()
	for i, it := range items {
		if i > 0 && time.Since(start) >= r.l.Slice || r.spent() || r.ending(work) || !r.begins(i) {
			break
		}
		r.s.route(it.Item, r.log)
		end, err := lane.Work(work, it, r.before(last[i], it.Item))
		r.s.route(it.Item, nil)
		if err != nil {
			if work.Err() != nil || r.ending(work) {
				break
			}
			return broken(err)
		}
		o := end.Outcome
		if o.Cancelled && !o.Shortage {
			break
		}
		r.out.Done = i + 1
		if odd, is := oddOf(i, o); is {
			r.out.Odd = append(r.out.Odd, odd)
			if o.Judged != nil && o.Judged.Again {
				due[len(r.out.Odd)-1] = time.Now().Add(o.Judged.Delay)
			}
		}
		r.count(o)
		if o.Shortage || o.RateLimited || o.Halt != policy.NotStopped {
			break
		}
	}
	if r.out.Done == 0 && r.s.ctx.Err() != nil && ctx.Err() == nil && r.s.softly.Err() == nil && r.s.hardly.Err() == nil {
		return broken(errors.New("the run has ended on this worker, whose copy of its journal cannot be written"))
	}
	for n, at := range due { // clocks differ, so the rest of the wait is sent
		r.out.Odd[n].Judged.Delay = max(time.Until(at), 0)
	}
	return nil
}

// begins reports whether the lane may begin the item at a place.
func (r *laneRun) begins(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept > 0 {
		return false
	}
	r.at = i
	return true
}

// slow gives back the items after the present one when the time of the lease is over.
func (r *laneRun) slow(keep func(first int)) {
	items, _ := r.l.items()
	r.mu.Lock()
	first := r.at + 1
	if keep != nil && first < len(items) {
		r.kept = first
	}
	kept := r.kept
	r.mu.Unlock()
	if kept > 0 {
		keep(kept)
	}
}

// ending reports whether no further item may begin.
func (r *laneRun) ending(ctx context.Context) bool {
	select {
	case <-r.drain:
		return true
	case <-r.s.softly.Done():
		return true
	default:
		return ctx.Err() != nil
	}
}

// count counts an outcome against the credits of the lease.
func (r *laneRun) count(o policy.Outcome) {
	switch {
	case o.OK:
		r.row = 0
	case o.Judged != nil:
		r.row++
		if !o.Judged.Again {
			r.failures++
		}
	}
}

func (r *laneRun) spent() bool {
	return r.l.Failures > 0 && r.failures >= r.l.Failures || r.l.Row > 0 && r.row >= r.l.Row || len(r.out.Odd) >= cmp.Or(r.l.Odd, maxOdd) || reached(r.log.usage(), r.l.Budget)
}

// before gives how the attempt before this one failed, according to its log.
func (r *laneRun) before(log string, index int) *failure.Failure {
	if log == "" {
		return nil
	}
	if r.earlier == nil {
		r.earlier = map[string]map[int]*failure.Failure{}
	}
	if r.earlier[log] == nil {
		known := map[int]*failure.Failure{}
		r.earlier[log] = known
		_, err := r.shared.readLog(log, 0, -1, func(text []byte, _ int64) error {
			facts, err := eventsOf(text)
			for _, e := range facts {
				if e.Type == event.ItemRetry && err == nil {
					known[e.Index], err = mapper.FailureOf(&e)
				}
			}
			return err
		})
		if err != nil {
			return nil // whoever accepted the log reports it
		}
	}
	return r.earlier[log][index]
}

// Adopt gives how a lease ended whose lane is gone, from what the lane has left.
func (w *Worker) Adopt(l Lease) (out Settled, err error) {
	store, err := w.Open(l.Store)
	if err != nil {
		return out, err
	}
	shared := store.Run(l.Run)
	if err := shared.endGit(gitEntry{Life: l.Life, Kind: gitClosed, Log: l.Log}); err != nil {
		return out, err
	}
	if out.Prefix, err = shared.prefixOf(l.Log); err != nil {
		return out, err
	}
	ended := map[int]event.Event{}
	_, err = shared.readLog(l.Log, 0, out.Length, func(text []byte, _ int64) error {
		facts, err := eventsOf(text)
		out.Used = plus(out.Used, usageOf(facts))
		for _, e := range facts {
			if e.Index > 0 && ends(e) && e.Status != event.Interrupted {
				ended[e.Index] = e
			}
		}
		return err
	})
	items, _ := l.items()
	for i, it := range items {
		e, ok := ended[it.Item]
		if !ok {
			break
		}
		out.Done = i + 1
		out.Took += time.Duration(e.DurationMS) * time.Millisecond
		if odd, is := oddOf(i, adopted(e)); is {
			out.Odd = append(out.Odd, odd)
		}
	}
	return out, err
}

// adopted gives how an agent ended, from its record. The time in the record is from the
// clock of the agent's machine, which may be wrong: so nothing waits longer than was
// decided.
func adopted(e event.Event) policy.Outcome {
	switch {
	case e.Type == event.ItemRetry:
		delay := time.Duration(e.DelayMS) * time.Millisecond
		j := &policy.Judged{Again: true, Delay: min(max(time.Until(e.Time)+delay, 0), delay), Class: e.Class, Reason: driver.ReasonNone}
		if e.Retry != nil {
			j.State = *e.Retry
		}
		return policy.Outcome{Judged: j}
	case e.Status == event.Succeeded:
		return policy.Outcome{OK: true}
	}
	return policy.Outcome{Judged: &policy.Judged{Class: e.Class, LeftOut: e.Status == event.Skipped}}
}
