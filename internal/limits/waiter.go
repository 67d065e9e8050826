package limits

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// waiter is a request that waits. It has a ticket in the queue of each limit that keeps
// it from beginning: a file, locked, whose name says since when it waits, earlier or later by
// what its priority is worth. Who dies loses the lock, and with it the place.
type waiter struct {
	home     *Home
	names    []string
	r        Request
	since    time.Time
	turn     chan struct{}       // gives a value when its turn to ask has come
	name     string              // of its tickets
	tickets  map[string]*os.File // by limit
	fresh    time.Time           // when they were last touched
	reported string
	waited   map[string]time.Duration // for each limit
}

// stale is after how long a ticket that nobody has touched is no longer heeded: its
// process was stopped, and must not hold up the others.
const stale = 5 * time.Second

// ticket is the name of the waiter's file. Those with the lesser name go first.
func (w *waiter) ticket() string {
	if w.name == "" {
		var random [4]byte
		rand.Read(random[:]) // never fails, says its documentation
		w.name = fmt.Sprintf("%020d-%s", max(w.since.Add(-time.Duration(w.r.Priority)*Point).UnixNano(), 0), hex.EncodeToString(random[:]))
	}
	return w.name
}

// before says whether it goes before another one.
func (w *waiter) before(other *waiter) bool { return w.ticket() < other.ticket() }

// tell says what the request waits for, where that is something else than before.
func (w *waiter) tell(b *Block) {
	if text := b.String(); w.r.Waits != nil && text != w.reported {
		w.reported = text
		w.r.Waits(b)
	}
}

// wait waits for d, or until stir, for a limit.
func (w *waiter) wait(ctx context.Context, name string, d time.Duration, stir <-chan struct{}) error {
	began := w.r.Clock.Now()
	err := w.r.Clock.Wait(ctx, d, stir)
	if w.waited == nil {
		w.waited = map[string]time.Duration{}
	}
	w.waited[name] += max(w.r.Clock.Now().Sub(began), 0)
	return err
}

// counted adds to what a limit remembers how long the request has waited for it, once, and
// says whether it has.
func (w *waiter) counted(name string, st *State) bool {
	d, ok := w.waited[name]
	if ok {
		delete(w.waited, name)
		st.Waits++
		st.Waited += d
	}
	return ok
}

// register takes a place in a queue. The lock of the limit is held.
func (w *waiter) register(name string, s *shared) error {
	now := time.Now()
	if f := w.tickets[name]; f != nil {
		if now.Sub(w.fresh) < time.Second {
			return nil
		}
		w.fresh = now
		for _, f := range w.tickets {
			if err := os.Chtimes(f.Name(), now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	f, err := os.OpenFile(filepath.Join(s.dir, "waiting", w.ticket()), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err = flock(f); err == nil {
		err = writeAt(f, w.r.Who, 512)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if w.tickets == nil {
		w.tickets, w.fresh = map[string]*os.File{}, now
	}
	w.tickets[name] = f
	return nil
}

// unregister gives the place up.
func (w *waiter) unregister(name string) error {
	f := w.tickets[name]
	if f == nil {
		return nil
	}
	delete(w.tickets, name)
	err := os.Remove(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// leave gives up all places.
func (w *waiter) leave() error {
	var errs []error
	for name := range w.tickets {
		errs = append(errs, w.unregister(name))
	}
	return errors.Join(errs...)
}

// waiting gives the tickets of a queue whose owners live, those that go first at the
// beginning. What the dead have left is removed. The lock of the limit is held.
func (s *shared) waiting(own string, now time.Time, yield func(name string, f *os.File)) error {
	dir := filepath.Join(s.dir, "waiting")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		if a.Name() < b.Name() {
			return -1
		}
		return 1
	})
	for _, e := range entries {
		if e.Name() == own {
			yield(own, nil)
			continue
		}
		if err := look(filepath.Join(dir, e.Name()), now, func(f *os.File) { yield(e.Name(), f) }); err != nil {
			return err
		}
	}
	return nil
}

// look calls live with a ticket whose owner lives and looks after it, as of a time, and
// removes that of a dead one. At the zero time all who live have looked after theirs.
func look(path string, now time.Time, live func(*os.File)) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has just gone
	}
	if err != nil {
		return err
	}
	switch err = flock(f); err {
	case nil:
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	case unix.EWOULDBLOCK:
		info, serr := f.Stat()
		if err = serr; err == nil && now.Sub(info.ModTime()) < stale {
			live(f)
		}
	}
	return errors.Join(err, f.Close())
}

// ahead is how many go before the owner of a ticket. The lock of the
// limit is held.
func (s *shared) ahead(own string, now time.Time) (n int, err error) {
	err = s.waiting(own, now, func(name string, _ *os.File) {
		if name < own {
			n++
		}
	})
	return n, err
}
