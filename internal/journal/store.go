package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/value"
)

// Home is the directory of all state: $BIDE_HOME, else $XDG_STATE_HOME/bide,
// else ~/.local/state/bide.
func Home() (string, error) {
	if dir := os.Getenv("BIDE_HOME"); dir != "" {
		return filepath.Abs(dir)
	}
	// The convention says that a relative path in XDG_STATE_HOME is no path.
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "bide"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no directory for the state of runs: %w; set BIDE_HOME", err)
	}
	return filepath.Join(home, ".local", "state", "bide"), nil
}

// Store is the runs of a home directory. It may be used by many goroutines
// and processes at once.
type Store struct {
	Dir string // the home directory, absolute
	// Refresh, if not nil, brings the journal in dir up to what has happened since,
	// before it is read: of runs that are kept [Elsewhere].
	Refresh func(dir string) error

	mu   sync.Mutex
	left *folded // of the last interrupted run of a list: who continues it need not fold it again
}

// OpenStore opens the store in dir and makes it, mode 0700, if there is none.
func OpenStore(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{Dir: dir}
	if err := makeDurable(s.runs()); err != nil {
		return nil, fmt.Errorf("cannot make the directory for the state of runs: %w; BIDE_HOME names another", err)
	}
	return s, nil
}

func (s *Store) runs() string             { return filepath.Join(s.Dir, "runs") }
func (s *Store) dir(run string) string    { return filepath.Join(s.runs(), run) }
func (s *Store) dbPath(run string) string { return filepath.Join(s.dir(run), dbName) }

// newRun gives run ids: in order of time, ordered within a millisecond in one
// process, and with 80 random bits, so that no two processes make the same.
var newRun = func() func() (string, error) {
	var mu sync.Mutex
	entropy := ulid.Monotonic(rand.Reader, 0)
	return func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		id, err := ulid.New(ulid.Now(), entropy)
		return id.String(), err
	}
}()

// These begin the names of directories that are no run yet, or no more.
const (
	newPrefix = ".new-"
	oldPrefix = ".old-"
)

// NewID gives the id of a run that is yet to be made.
func NewID() (string, error) { return newRun() }

// Create makes a run with a new id, unless the header has one, and gives its
// journal, locked. The run's
// directory appears complete or not at all.
func (s *Store) Create(h Header) (*Journal, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	run := h.Run
	if run == "" {
		var err error
		if run, err = newRun(); err != nil {
			return nil, fmt.Errorf("cannot make a run id: %w", err)
		}
	} else if _, err := ulid.ParseStrict(run); err != nil {
		return nil, fmt.Errorf("the run id %q: %w", run, err)
	}
	h.Run = run
	if h.Started.IsZero() {
		h.Started = time.Now()
	}
	draft := filepath.Join(s.runs(), newPrefix+run)
	if err := os.Mkdir(draft, 0o700); err != nil { // what belongs in it is made when there is some
		return nil, fmt.Errorf("cannot make the directory of a run: %w", err)
	}
	j, err := s.create(&h, draft)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(draft))
	}
	return j, nil
}

func (s *Store) create(h *Header, draft string) (_ *Journal, err error) {
	lock, err := takeLock(draft, h.Run)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.release())
		}
	}()
	path := filepath.Join(draft, dbName)
	if err := h.writeNew(path); err != nil {
		return nil, writeError(path, err)
	}
	if err := os.Rename(draft, s.dir(h.Run)); err != nil {
		return nil, err
	}
	lock.dir = s.dir(h.Run)
	r, err := newReader(lock.dir, h.Run)
	if err != nil {
		return nil, err
	}
	r.header, r.words = h.recorded(), firstWords()
	return startJournal(lock, r, 0, func() error {
		log := begin(func() error { return syncDir(lock.dir) })
		return errors.Join(syncName(s.runs()), log())
	})
}

// begin begins to do something, and gives the function that waits for its end.
func begin(do func() error) (wait func() error) {
	done := make(chan struct{})
	var err error
	go func() { err = do(); close(done) }()
	return func() error { <-done; return err }
}

// Find gives the id of a run that is meant by an id, the beginning of one that
// is like no other, or "" for the newest. The error is a *NotFoundError, or of
// the file system.
func (s *Store) Find(run string) (string, error) { return s.resolve(run) }

// RunDir is the directory of the run with an id.
func (s *Store) RunDir(id string) string { return s.dir(id) }

// Open opens a run to continue with it and takes its lock. run is an id, the
// beginning of one that is like no other, or "" for the newest.
//
// Errors are a *NotFoundError, a *LockedError, a *DamagedError, a
// *ForeignError, ErrElsewhere, or of the file system; none of them leaves
// anything changed.
func (s *Store) Open(run string) (*Journal, error) {
	id, err := s.resolve(run)
	if err != nil {
		return nil, err
	}
	if elsewhere(s.dir(id)) {
		return nil, fmt.Errorf("run %s: %w", id, ErrElsewhere)
	}
	return s.open(id)
}

func (s *Store) open(run string) (*Journal, error) {
	lock, err := takeLock(s.dir(run), run)
	if err != nil {
		return nil, err
	}
	var j *Journal
	if err = forgetKept(lock.dir); err == nil {
		j, err = openJournal(lock, run)
	}
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j.left, s.left = s.left, nil
	return j, nil
}

// Read opens a run for reading, while it is running or after it. run is as for
// Open, and so are the errors, but for the lock, which is not looked at.
func (s *Store) Read(run string) (*Reader, error) {
	id, err := s.resolve(run)
	if err != nil {
		return nil, err
	}
	if s.Refresh != nil && elsewhere(s.dir(id)) {
		if err := s.Refresh(s.dir(id)); err != nil {
			return nil, err
		}
	}
	return openReader(context.Background(), s.dir(id), id)
}

// Remove removes a run with all its files. A run that is in use is refused
// with a *LockedError.
func (s *Store) Remove(run string) error {
	id, err := s.resolve(run)
	if err != nil {
		return err
	}
	dir := s.dir(id)
	lock, err := takeLock(dir, id)
	if err != nil {
		return err
	}
	// Out of sight first: what is half removed is no run any more.
	gone := filepath.Join(s.runs(), oldPrefix+id)
	err = os.Rename(dir, gone)
	if err == nil {
		err = os.RemoveAll(gone)
	}
	if uerr := lock.file.Unlock(); err == nil {
		err = uerr
	}
	if err != nil {
		return fmt.Errorf("cannot remove run %s: %w", id, err)
	}
	return s.sweep()
}

// sweep removes what a process that ended too soon has left: runs half made,
// unless it was a moment ago, and runs half removed.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.runs())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if stale(e.Name()) {
			errs = append(errs, os.RemoveAll(filepath.Join(s.runs(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

// stale says whether a directory of that name is nobody's.
func stale(name string) bool {
	if id, ok := strings.CutPrefix(name, oldPrefix); ok {
		_, err := ulid.ParseStrict(id)
		return err == nil
	}
	id, ok := strings.CutPrefix(name, newPrefix)
	if !ok {
		return false
	}
	u, err := ulid.ParseStrict(id)
	return err == nil && time.Since(u.Timestamp()) > time.Hour
}

// ids lists the runs, newest first.
func (s *Store) ids() ([]string, error) {
	entries, err := os.ReadDir(s.runs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list the runs: %w", err)
	}
	var out []string
	for _, e := range entries {
		if _, err := ulid.ParseStrict(e.Name()); err == nil && e.IsDir() {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out, nil
}

// resolve finds the id that run means: an id, its beginning or its end where no
// other has that, "" or "last" for the newest, "last-1" for the one before it,
// or the name of a workflow for its newest run.
func (s *Store) resolve(run string) (string, error) {
	if _, err := ulid.ParseStrict(run); err == nil { // a whole id is looked for without a list of all runs
		if at, err := os.Lstat(s.dir(run)); err == nil && at.IsDir() {
			return run, nil
		}
	}
	ids, err := s.ids()
	if err != nil {
		return "", err
	}
	missing := &NotFoundError{Run: run, Dir: s.runs()}
	if back, ok := LastBut(run); ok {
		if back >= len(ids) {
			missing.Runs = len(ids)
			return "", missing
		}
		return ids[back], nil
	}
	part := strings.ToUpper(run)
	found := value.Filter(ids, func(id string) bool { return strings.HasPrefix(id, part) })
	if len(found) == 0 && len(part) >= shortestEnd {
		found = value.Filter(ids, func(id string) bool { return strings.HasSuffix(id, part) })
	}
	if len(found) == 0 {
		if id := s.named(ids, run); id != "" {
			return id, nil
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		missing.Ambiguous = true
		missing.Near = found[:min(len(found), 5)]
	default:
		missing.Near = near(part, ids)
	}
	return "", missing
}

// shortestEnd is how much of the end of an id has to be given, so that a short
// name of a workflow is not taken for one.
const shortestEnd = 4

// LastBut reads "", "last" and "last-N": how many runs are newer.
func LastBut(run string) (back int, ok bool) {
	rest, ok := strings.CutPrefix(strings.ToLower(run), "last")
	switch {
	case run == "" || ok && rest == "":
		return 0, true
	case !ok:
		return 0, false
	}
	digits, ok := strings.CutPrefix(rest, "-")
	back, err := strconv.Atoi(digits)
	return back, ok && err == nil && back >= 0 && digits[0] != '+'
}

// named is the newest run of the workflow with a name, or of a file with that
// name; "" if there is none. Runs that cannot be read have no name.
func (s *Store) named(ids []string, name string) string {
	for _, id := range ids {
		h, err := s.header(id)
		if err == nil && (h.Name == name || h.Name == "" && filepath.Base(h.Path) == name) {
			return id
		}
	}
	return ""
}

// header reads the header of a run.
func (s *Store) header(id string) (Header, error) {
	r, err := openReader(context.Background(), s.dir(id), id)
	if err != nil {
		return Header{}, err
	}
	return r.Header(), r.Close()
}

// near gives the ids that run may have been meant to be: one that a slip of
// the finger makes of it, or else those that contain it.
func near(run string, ids []string) []string {
	if id := diag.Nearest(run, ids); id != "" {
		return []string{id}
	}
	var out []string
	for _, id := range ids {
		if len(out) < 5 && len(run) >= 4 && strings.Contains(id, run) {
			out = append(out, id)
		}
	}
	return out
}
