package limits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/retry/driver"
	"golang.org/x/sys/unix"
)

// Who says for whom a slot is taken, for people.
type Who struct {
	Run  string    `json:"run,omitempty"`
	Name string    `json:"name,omitempty"` // of the workflow, or the command
	Item string    `json:"item,omitempty"`
	Step string    `json:"step,omitempty"`
	PID  int       `json:"pid"`
	At   time.Time `json:"since"`
}

// short is the run, or what else tells one from another.
func (w Who) short() string {
	switch {
	case w.Run != "":
		return w.Run
	case w.Name != "":
		return fmt.Sprintf("%s (process %d)", w.Name, w.PID)
	}
	return fmt.Sprintf("process %d", w.PID)
}

// Request is what is asked of limits.
type Request struct {
	// Names are the limits. They are taken together.
	Names []string
	Who   Who
	Clock driver.Clock
	// Priority is more than 0 for whoever is to go before others, and less for whoever is to
	// go after them: see [Point].
	Priority int
	// Index and Round are the item and the attempt at it, Number the attempt at the step,
	// for who knows when each of them began; 0: there is none.
	Index, Round, Number int
	// MaxPause, if not 0, bounds the pauses that the request waits for, one after the other: it
	// does not wait for the end of one that is later.
	MaxPause time.Duration
	// Waits, if not nil, is told what the request waits for: before it waits, and
	// whenever that changes.
	Waits func(*Block)
}

// Point is the time of waiting that equals a point of priority: two points a second, as at the limits of package limit. So nobody is overtaken for longer than the
// difference in priority is worth.
const Point = time.Second / 2

// Held is what was taken of some limits.
type Held interface {
	// Release gives it back, once.
	Release()
}

// Home is the limits of the home directory of this machine. It is safe for concurrent
// use. Close it when nothing holds a slot any more.
type Home struct {
	dir string
	// keep gives a descriptor to whoever outlives this process until the commands of
	// it are dead; nil: nobody does.
	keep func(*os.File) error

	mu     sync.Mutex
	config *Config
	stamp  stamp
	limits map[string]*shared
	lines  map[string]*line // by the names that are asked for together
	stir   chan struct{}    // closed, and made again, when something was given back here
}

// stamp tells one content of a file from another.
type stamp struct {
	at   time.Time
	size int64
}

// Open gives the limits of a home directory, of which nothing is read yet.
func Open(dir string, keep func(*os.File) error) *Home {
	return &Home{dir: dir, keep: keep, limits: map[string]*shared{}, lines: map[string]*line{}, stir: make(chan struct{})}
}

// shared is a limit that this process has used.
type shared struct {
	dir   string
	lock  *os.File
	slots []*held // by number; nil: not used here
}

// held is a slot file that this process has open. Its description in the kernel is
// the same in the companion, so that it is given back by unlocking and not by closing.
type held struct {
	file *os.File
	busy bool
	kept bool // the companion has it
}

// lease is what was taken.
type lease struct {
	home  *Home
	slots []*held
}

// line has those of this process that want the same in turn: only the first of them
// asks, so that a thousand that wait cost no more than one does.
type line struct {
	first *waiter   // whose turn it is; nil: nobody's
	next  []*waiter // in the order of their tickets
	last  time.Time // since when the last that came waits
}

// Take waits until all limits of a request let an attempt begin, and takes a slot and
// a token of each. The error is the cause of ctx, or says what is wrong with the limits.
func (h *Home) Take(ctx context.Context, r Request) (_ Held, err error) {
	names := slices.Compact(slices.Sorted(slices.Values(r.Names)))
	if len(names) == 0 {
		return &lease{home: h}, nil
	}
	r.Who.PID, r.Who.At = os.Getpid(), r.Clock.Now()
	r.Who.Name, r.Who.Item, r.Who.Step = brief(r.Who.Name, 60), brief(r.Who.Item, 60), brief(r.Who.Step, 60)
	w := &waiter{home: h, names: names, r: r, since: r.Who.At}
	defer func() { err = errors.Join(err, w.leave()); h.count(w) }()
	turn := h.line(w.names)
	if err := h.queue(ctx, turn, w); err != nil {
		return nil, err
	}
	defer h.pass(turn, w)
	var paused time.Time // since when; zero: it is not
	for {
		if h.overtaken(turn, w) {
			if err := h.yield(ctx, turn, w); err != nil {
				return nil, err
			}
		}
		l, block, stir, err := h.try(w)
		switch {
		case err != nil:
			return nil, err
		case l != nil:
			return l, nil
		}
		now := r.Clock.Now()
		switch {
		case !block.Paused:
			paused = time.Time{}
		case paused.IsZero():
			paused = now
		}
		if block.Paused && r.MaxPause > 0 && block.Until.Sub(paused) > r.MaxPause {
			return nil, &PausedError{Block: block}
		}
		w.tell(block)
		d := pause(now.Sub(w.since))
		if !block.Until.IsZero() {
			d = min(max(block.Until.Sub(now), 0)+time.Millisecond, time.Second)
		}
		if h.overtaken(turn, w) {
			continue
		}
		if err := w.wait(ctx, block.Limit, d, stir); err != nil {
			return nil, err
		}
	}
}

// count adds to what the limits remember how long a request has waited for each of them that
// it did not get.
func (h *Home) count(w *waiter) {
	if len(w.waited) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range w.waited {
		s := h.limits[name]
		if s == nil {
			continue
		}
		if ok, err := tryLock(s.lock, 20*time.Millisecond); !ok || err != nil {
			continue // it is for statistics alone, and nobody waits for that
		}
		st := s.readState()
		w.counted(name, st)
		_ = s.writeState(st)                           // as above
		_ = unix.Flock(int(s.lock.Fd()), unix.LOCK_UN) // it is ours
	}
}

// PausedError is a pause that lasts longer than a request waits for one.
type PausedError struct{ Block *Block }

func (e *PausedError) Error() string { return e.Block.String() }

// pause is how long a waiter that has waited for d waits before it looks again whether
// another process has given something back: a hundredth of that, so that it comes later
// by no more than that.
func pause(d time.Duration) time.Duration {
	return min(max(d/100, 2*time.Millisecond), 100*time.Millisecond)
}

// known gives what the file says of a limit now. h.mu is held.
func (h *Home) known(name string) (Limit, error) {
	info, err := os.Stat(filepath.Join(h.dir, FileName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Limit{}, fmt.Errorf("the limits of this machine: %w", err)
	}
	var now stamp
	if err == nil {
		now = stamp{info.ModTime(), info.Size()}
	}
	if h.config == nil || now != h.stamp {
		c, err := Read(h.dir)
		if err != nil && h.config == nil {
			return Limit{}, err
		}
		if err == nil { // else somebody is at it: what it said before holds
			h.config, h.stamp = c, now
		}
	}
	l, ok := h.config.Limits[name]
	if !ok {
		return l, fmt.Errorf("there is no limit %q in %s; add under limits: %s", name, h.config.Path, exampleLine(name))
	}
	return l, nil
}

// open opens the directory of a limit. h.mu is held.
func (h *Home) open(name string) (*shared, error) {
	if s := h.limits[name]; s != nil {
		return s, nil
	}
	dir := filepath.Join(h.dir, "limits", name)
	for _, d := range []string{"slots", "waiting"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("the limit %s: %w", name, err)
		}
	}
	if err := lockable(dir); err != nil {
		return nil, fmt.Errorf("the limit %s: %w", name, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the limit %s: %w", name, err)
	}
	s := &shared{dir: dir, lock: lock}
	h.limits[name] = s
	return s, nil
}

// line gives the line of those who want some limits.
func (h *Home) line(names []string) *line {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := strings.Join(names, " ")
	if h.lines[key] == nil {
		h.lines[key] = &line{}
	}
	return h.lines[key]
}

// queue waits for the turn to ask.
func (h *Home) queue(ctx context.Context, l *line, w *waiter) error {
	h.mu.Lock()
	// The tickets are in the order of the line: one that is before the first in the line has
	// no turn, and would hold it up. No two of them have the same time.
	if !w.since.After(l.last) {
		w.since = l.last.Add(1)
	}
	l.last = w.since
	if l.first == nil {
		l.first = w
		h.mu.Unlock()
		return nil
	}
	before := l.enter(w) + 1
	if w.before(l.first) { // which gives up its turn
		h.stirAll()
	}
	h.mu.Unlock()
	w.tell(&Block{Limit: w.names[0], Before: before})
	if err := h.place(w); err != nil {
		h.leave(l, w)
		return err
	}
	return h.await(ctx, l, w)
}

// enter puts a waiter into its place in the line, and gives that. h.mu is held.
func (l *line) enter(w *waiter) int {
	w.turn = make(chan struct{}, 1)
	i, _ := slices.BinarySearchFunc(l.next, w, func(a, b *waiter) int { return strings.Compare(a.ticket(), b.ticket()) })
	l.next = slices.Insert(l.next, i, w)
	return i
}

// await waits in the line for the turn.
func (h *Home) await(ctx context.Context, l *line, w *waiter) error {
	err := w.wait(ctx, w.names[0], -1, w.turn)
	if err != nil {
		h.leave(l, w)
	}
	return err
}

// overtaken says whether one that came later goes before the one whose turn it is.
func (h *Home) overtaken(l *line, w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(l.next) > 0 && l.next[0].before(w)
}

// yield gives the turn to the next, and waits for it again. Places at several limits are
// given up meanwhile, as place says.
func (h *Home) yield(ctx context.Context, l *line, w *waiter) error {
	h.mu.Lock()
	l.enter(w)
	l.pass()
	h.mu.Unlock()
	if len(w.names) > 1 {
		if err := w.leave(); err != nil {
			h.leave(l, w)
			return err
		}
	}
	return h.await(ctx, l, w)
}

// place takes a place in the queue of the one limit that is wanted, for those of other
// processes to see. Who wants several has a place only where one of them is found to
// keep it from beginning: elsewhere it would hold up others.
func (h *Home) place(w *waiter) error {
	if len(w.names) > 1 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.known(w.names[0]); err != nil {
		return err
	}
	s, err := h.open(w.names[0])
	if err != nil {
		return err
	}
	return s.locked(func() error { return w.register(w.names[0], s) })
}

// leave gives up waiting for a turn.
func (h *Home) leave(l *line, w *waiter) {
	h.mu.Lock()
	if i := slices.Index(l.next, w); i >= 0 {
		l.next = slices.Delete(l.next, i, i+1)
	}
	h.mu.Unlock()
	h.pass(l, w) // it had come already
}

// pass gives the turn to the next, where the waiter has it.
func (h *Home) pass(l *line, w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.first == w {
		l.pass()
	}
}

// pass gives the turn to the first in the line. h.mu is held.
func (l *line) pass() {
	l.first = nil
	if len(l.next) > 0 {
		l.first, l.next = l.next[0], l.next[1:]
		l.first.turn <- struct{}{}
	}
}

// try takes all, or says what keeps it from that. stir is closed when it may be
// otherwise.
func (h *Home) try(w *waiter) (*lease, *Block, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*shared
	var states []*State
	var limits []Limit
	defer func() {
		for _, s := range list {
			_ = unix.Flock(int(s.lock.Fd()), unix.LOCK_UN) // it is ours
		}
	}()
	now := w.r.Clock.Now()
	var first *Block
	for _, name := range w.names {
		l, err := h.known(name)
		if err != nil {
			return nil, nil, nil, err
		}
		s, err := h.open(name)
		if err != nil {
			return nil, nil, nil, err
		}
		ok, err := tryLock(s.lock, 20*time.Millisecond)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("the limit %s: %w", name, err)
		}
		if !ok { // somebody was stopped just there; who waits comes again
			return nil, &Block{Limit: name, Full: true, Slots: l.Slots}, h.stir, nil
		}
		list, limits = append(list, s), append(limits, l)
		st := s.readState()
		states = append(states, st)
		ahead, err := s.ahead(w.ticket(), time.Now())
		if err != nil {
			return nil, nil, nil, err
		}
		count, by, err := s.count()
		if err != nil {
			return nil, nil, nil, err
		}
		b := st.Ask(l, now, count, ahead)
		if b == nil {
			if err := w.unregister(name); err != nil {
				return nil, nil, nil, err
			}
			continue
		}
		if b.Full {
			b.By = by
		}
		if first == nil {
			first = b
		}
		if err := w.register(name, s); err != nil {
			return nil, nil, nil, err
		}
	}
	if first != nil {
		return nil, first, h.stir, nil
	}
	l := &lease{home: h}
	for i, s := range list {
		if limits[i].Slots > 0 {
			got, err := h.slot(s, w.r.Who)
			if err != nil {
				l.free()
				return nil, nil, nil, fmt.Errorf("the limit %s: %w", limits[i].Name, err)
			}
			l.slots = append(l.slots, got)
		}
	}
	for i, s := range list {
		states[i].Begin(limits[i], now)
		counted := w.counted(limits[i].Name, states[i])
		if limits[i].Rate == 0 && !counted {
			continue
		}
		if err := s.writeState(states[i]); err != nil && limits[i].Rate > 0 { // else it is for statistics alone
			l.free()
			return nil, nil, nil, fmt.Errorf("the limit %s: %w", limits[i].Name, err)
		}
	}
	return l, nil, nil, nil
}

// tryLock takes a lock that others hold for a moment only.
func tryLock(f *os.File, patience time.Duration) (bool, error) {
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Microsecond) {
		switch err := flock(f); {
		case err == nil:
			return true, nil
		case err != unix.EWOULDBLOCK:
			return false, err
		case time.Now().After(end):
			return false, nil
		}
	}
}

// flock locks an open file, or gives EWOULDBLOCK.
func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// readState gives what is remembered; what cannot be read is nothing.
func (s *shared) readState() *State {
	st := &State{}
	if b, err := os.ReadFile(filepath.Join(s.dir, "state")); err == nil && json.Unmarshal(b, st) != nil {
		return &State{}
	}
	return st
}

// writeState keeps it, in one write of a length that no other is longer than: the longest
// text of a pause takes 1,800 bytes as JSON.
func (s *shared) writeState(st *State) error {
	return writeText(filepath.Join(s.dir, "state"), st, 4096)
}

func writeText(path string, v any, size int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(writeAt(f, v, size), f.Close())
}

// writeAt writes a value as JSON over what is in a file.
func writeAt(f *os.File, v any, size int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(writerAt{f}, "%-*s\n", size-1, b)
	return err
}

type writerAt struct{ *os.File }

func (w writerAt) Write(p []byte) (int, error) { return w.WriteAt(p, 0) }

// count says how many slots are held, and by whom. The lock is held.
func (s *shared) count() (n int, by []string, err error) {
	err = s.each(func(i int, f *os.File, free bool) error {
		if free {
			return nil
		}
		n++
		if w := readWho(f); w.PID > 0 && !slices.Contains(by, w.short()) {
			by = append(by, w.short())
		}
		return nil
	})
	return n, by, err
}

// each gives every slot file that there is, and whether nobody holds it; a free one is
// not locked afterwards.
func (s *shared) each(f func(i int, file *os.File, free bool) error) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, "slots"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		var i int
		if n, err := fmt.Sscanf(e.Name(), "%d", &i); n != 1 || err != nil || i < 0 || i >= MaxSlots {
			continue // it is not ours
		}
		slot, err := s.at(i)
		if err != nil {
			return err
		}
		free := false
		if !slot.busy {
			switch err := flock(slot.file); err {
			case nil:
				free = true
				if err := unix.Flock(int(slot.file.Fd()), unix.LOCK_UN); err != nil {
					return err
				}
			case unix.EWOULDBLOCK:
			default:
				return err
			}
		}
		if err := f(i, slot.file, free); err != nil {
			return err
		}
	}
	return nil
}

// at opens slot i.
func (s *shared) at(i int) (*held, error) {
	for len(s.slots) <= i {
		s.slots = append(s.slots, nil)
	}
	if s.slots[i] == nil {
		f, err := os.OpenFile(filepath.Join(s.dir, "slots", fmt.Sprint(i)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		s.slots[i] = &held{file: f}
	}
	return s.slots[i], nil
}

// slot takes the first slot that is free. The lock of the limit is held.
func (h *Home) slot(s *shared, who Who) (*held, error) {
	for i := range MaxSlots {
		slot, err := s.at(i)
		if err != nil {
			return nil, err
		}
		if slot.busy {
			continue
		}
		if err := flock(slot.file); err == unix.EWOULDBLOCK {
			continue
		} else if err != nil {
			return nil, err
		}
		slot.busy = true
		err = writeAt(slot.file, who, 512)
		if err == nil && !slot.kept && h.keep != nil {
			err = h.keep(slot.file)
			slot.kept = err == nil
		}
		if err != nil {
			slot.busy = false
			return nil, errors.Join(err, unix.Flock(int(slot.file.Fd()), unix.LOCK_UN))
		}
		return slot, nil
	}
	return nil, errors.New("no slot is free") // which Ask would have said
}

func readWho(f *os.File) (w Who) {
	var b [1024]byte
	n, _ := f.ReadAt(b[:], 0) // what cannot be read is nobody known
	if json.Unmarshal(b[:n], &w) != nil {
		return Who{}
	}
	return w
}

// Release gives everything back.
func (l *lease) Release() {
	if l == nil || len(l.slots) == 0 {
		return
	}
	l.home.mu.Lock()
	defer l.home.mu.Unlock()
	l.free()
	l.home.stirAll()
}

// free unlocks the slots. h.mu is held.
func (l *lease) free() {
	for _, s := range l.slots {
		s.busy = false
		_ = unix.Flock(int(s.file.Fd()), unix.LOCK_UN) // it is open, and ours
	}
	l.slots = nil
}

// Pause has all runs wait until a time that use one of the limits which is shared so.
func (h *Home) Pause(names []string, until time.Time, by, why string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range names {
		l, err := h.known(name)
		if err != nil {
			return err
		}
		if !l.Shared {
			continue
		}
		s, err := h.open(name)
		if err != nil {
			return err
		}
		err = s.locked(func() error {
			st := s.readState()
			if !st.Pause(until, by, brief(why, 300)) {
				return nil
			}
			return s.writeState(st)
		})
		if err != nil {
			return fmt.Errorf("the limit %s: %w", name, err)
		}
	}
	return nil
}

// Lift ends at a time the pauses of some limits, for all runs, and gives the names of those
// that were paused. What waits in other processes sees it within a second.
func (h *Home) Lift(names []string, now time.Time) (lifted []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(h.dir, "limits", name, "state")); errors.Is(err, fs.ErrNotExist) {
			continue // it was never paused
		}
		l, err := h.known(name)
		if err != nil {
			return lifted, err
		}
		s, err := h.open(name)
		if err != nil {
			return lifted, err
		}
		err = s.locked(func() error {
			st := s.readState()
			if st.Lift(now) && l.Shared {
				lifted = append(lifted, name)
			}
			return s.writeState(st)
		})
		if err != nil {
			return lifted, fmt.Errorf("the limit %s: %w", name, err)
		}
	}
	h.stirAll()
	return lifted, nil
}

// stirAll has those who wait in this process look again. h.mu is held.
func (h *Home) stirAll() {
	close(h.stir)
	h.stir = make(chan struct{})
}

// brief is the first line of a text, or the n characters that it begins with.
func brief(text string, n int) string {
	text, _, _ = strings.Cut(text, "\n")
	return diag.Clip(text, n)
}

// locked calls f with the lock of the limit.
func (s *shared) locked(f func() error) error {
	ok, err := tryLock(s.lock, 5*time.Second)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("another process has %s locked, and does not let it go", filepath.Join(s.dir, "lock"))
	}
	return errors.Join(f(), unix.Flock(int(s.lock.Fd()), unix.LOCK_UN))
}

// Close closes the files. What is still held by the companion stays held.
func (h *Home) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, s := range h.limits {
		for _, slot := range s.slots {
			if slot != nil {
				errs = append(errs, slot.file.Close())
			}
		}
		errs = append(errs, s.lock.Close())
	}
	clear(h.limits)
	return errors.Join(errs...)
}
