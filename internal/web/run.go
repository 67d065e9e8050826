package web

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

// fresh is how old what is known of a run may be when it is shown, and
// lockEvery how often it is asked whether a process has the run.
const (
	fresh     = 50 * time.Millisecond
	lockEvery = 500 * time.Millisecond
)

// run is what the server knows of a run: one fold over its events, which goes
// on where it was whenever somebody looks.
type run struct {
	id string
	r  *journal.Reader

	mu     sync.Mutex // guards all below; held while events are read
	line   *timeline.Timeline
	items  items
	seq    int64 // the last event that was taken
	read   time.Time
	asked  time.Time
	held   bool // a process has the run
	used   time.Time
	served int // requests that use it
	stream streamed
}

// streamed is what the stream tells of a map: the same to all of its watchers, so that what
// it costs does not grow with them.
type streamed struct {
	at     int64
	made   time.Time
	status string
	counts []int
	total  int
	cells  map[int64]string // by where a watcher is, what has changed since; see items.changes
}

// toldEvery is how often it is made again at most.
const toldEvery = 200 * time.Millisecond

// tell gives it for a watcher that is at a position; r.mu is held.
func (r *run) tell(after int64) (t *streamed, cells string) {
	t = &r.stream
	if at := r.position(); at != t.at || t.cells == nil {
		if now := time.Now(); now.Sub(t.made) >= toldEvery {
			*t = streamed{at: at, made: now, status: r.line.Status, counts: slices.Clone(r.items.counts[:]), total: len(r.items.cells), cells: map[int64]string{}}
		}
	}
	cells, ok := t.cells[after]
	if !ok && after != t.at {
		cells = base64.StdEncoding.EncodeToString(r.items.changes(after))
		t.cells[after] = cells
	}
	return t, cells
}

// openRun begins to know a run.
func openRun(st *journal.Store, id string) (*run, error) {
	r, err := st.Read(id)
	if err != nil {
		return nil, err
	}
	return &run{id: r.Run(), r: r, line: timeline.New(r.Header())}, nil
}

// catchUp takes the events that are there by now. r.mu is held.
func (r *run) catchUp(ctx context.Context) error {
	now := time.Now()
	if now.Sub(r.read) < fresh {
		return nil
	}
	// Asked before reading: what a process that is gone by now has written is
	// then all read.
	gone := false
	if now.Sub(r.asked) >= lockEvery || r.asked.IsZero() {
		held, err := r.r.InUse()
		if err != nil {
			return err
		}
		r.asked, gone = now, !held
		if held {
			r.held = true
		}
	}
	seq, err := r.r.Scan(ctx, r.seq+1, func(f *journal.Fact) error {
		r.items.take(f)
		return r.line.Take(f)
	})
	r.seq = seq
	if err == nil {
		err = r.items.examples(ctx, r.r)
	}
	if err != nil {
		return err
	}
	if gone {
		r.held = false
		if r.line.Status == event.Running {
			r.line.Gone()
			r.items.settle(uint32(r.seq))
		}
	}
	r.read = time.Now()
	return nil
}

// position is where the run is, as far as a page can tell: its last event,
// and whether a process has it, which changes without one. r.mu is held.
func (r *run) position() int64 {
	p := r.seq * 2
	if r.held {
		p++
	}
	return p
}

// labels tells what the steps of the run's items did.
func (r *run) labels() *timeline.Labels {
	r.mu.Lock()
	total := len(r.items.cells)
	r.mu.Unlock()
	return timeline.LabelsOf(r.r.Header(), total)
}

// look calls f with what is known of the run by now. f must be quick: nobody
// else looks meanwhile.
func (r *run) look(ctx context.Context, f func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	f()
	return nil
}

// lookAnew is look with what is known now, however short ago somebody looked.
func (r *run) lookAnew(f func()) error {
	r.mu.Lock()
	r.read, r.asked = time.Time{}, time.Time{}
	r.mu.Unlock()
	return r.look(context.Background(), f)
}

// changes gives the cells that changed after a position: for each the distance
// from the one before as a varint, and the cell.
func (t *items) changes(after int64) []byte {
	var out []byte
	at := -1
	for i, seq := range t.moved {
		if int64(seq)*2 > after {
			out = binary.AppendUvarint(out, uint64(i-at))
			out = append(out, t.cells[i])
			at = i
		}
	}
	return out
}

// runs keeps the runs that are looked at.
type runs struct {
	st   *journal.Store
	mu   sync.Mutex
	open map[string]*run
	done bool
}

// Runs that nobody looks at are forgotten: all but the last few soon, and those
// after a while. To open a run again is to read all of its events: one that is
// watched, or in progress, is looked at every second, however many there are.
const (
	keptRuns  = 6
	keptFor   = 10 * time.Minute
	keptAfter = 5 * lookEvery
)

// with calls f with a run, which stays open until f returns.
func (s *runs) with(id string, f func(*run) error) error {
	r, err := s.take(id)
	if err != nil {
		return err
	}
	defer s.give(r)
	return f(r)
}

func (s *runs) take(id string) (*run, error) {
	full, err := s.st.Find(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return nil, errors.New("the server ends")
	}
	r := s.open[full]
	if r == nil {
		if r, err = openRun(s.st, full); err != nil {
			return nil, err
		}
		value.Put(&s.open, full, r)
	}
	r.served++
	r.used = time.Now()
	return r, nil
}

func (s *runs) give(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.served--
	r.used = time.Now()
	for len(s.open) > keptRuns {
		if !s.forgetOldest(keptAfter) {
			break
		}
	}
	for s.forgetOldest(keptFor) {
	}
}

// forgetOldest forgets the run that was looked at the longest ago, if that is
// longer than a time.
func (s *runs) forgetOldest(than time.Duration) bool {
	var oldest *run
	for _, r := range s.open {
		if r.served == 0 && time.Since(r.used) >= than && (oldest == nil || r.used.Before(oldest.used)) {
			oldest = r
		}
	}
	if oldest == nil {
		return false
	}
	delete(s.open, oldest.id)
	_ = oldest.r.Close() // it was read only: there is nothing to lose
	return true
}

// close forgets all runs.
func (s *runs) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	var errs []error
	for id, r := range s.open {
		errs = append(errs, r.r.Close())
		delete(s.open, id)
	}
	return errors.Join(errs...)
}
