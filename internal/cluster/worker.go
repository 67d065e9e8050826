package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/telemetry"
	"github.com/bide-dev/bide/internal/value"
	"github.com/gofrs/flock"
)

// Worker does work of runs on this machine. Several goroutines may use it at once.
type Worker struct {
	scratch string
	lock    *flock.Flock // on scratch, until the worker is closed
	allowed []Store      // the stores for whose runs it works; nil means any
	leaving atomic.Bool

	// Queue is the queue for work that only this worker does; "" if there is none. It is
	// set before the worker does anything.
	Queue string
	// Work measures what the worker does; nil measures nothing. It is set before the worker
	// does anything.
	Work *telemetry.Work

	mu       sync.Mutex
	copies   map[string]*keptCopy
	sessions map[string]*session
	spoilt   int             // sessions that were spoilt so far
	stops    map[string]Stop // by run: a Stop that was heard from another source than the store
}

// Tell tells the worker that a run is to stop, if a source other than the store says so.
// The store may be full.
func (w *Worker) Tell(run string, s Stop) {
	w.mu.Lock()
	defer w.mu.Unlock()
	value.Put(&w.stops, run, s)
}

// stopped gives the Stop of a life of a run.
func (w *Worker) stopped(shared Shared, life int) Stop {
	s := shared.Stopped(life)
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.stops[shared.run]; t.Life == life && (t.Now || s.Life == 0) {
		return t
	}
	return s
}

// NewWorker gives a worker. It keeps its copies of journals in its own directory below
// scratch; "" means the system's directory for temporary files. It works for runs of the
// allowed stores, or of all stores that it reaches if none is given.
func NewWorker(scratch string, allowed ...Store) (*Worker, error) {
	scratch = cmp.Or(scratch, os.TempDir())
	sweep(scratch)
	dir, err := os.MkdirTemp(scratch, scratchName)
	if err != nil {
		return nil, err
	}
	// The lock is held before any other process can see it.
	lock := flock.New(filepath.Join(dir, ".lock"))
	if err = lock.Lock(); err == nil {
		err = os.Rename(lock.Path(), filepath.Join(dir, scratchLock))
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Worker{scratch: dir, lock: lock, allowed: allowed, sessions: map[string]*session{}}, nil
}

const (
	scratchName = "bide-worker-"
	scratchLock = "lock"
)

// sweep removes the copies of workers that were killed, as far as possible.
func sweep(scratch string) {
	locks, _ := filepath.Glob(filepath.Join(scratch, scratchName+"*", scratchLock)) // the pattern is valid
	for _, path := range locks {
		lock := flock.New(path, flock.SetFlag(os.O_RDWR))
		if free, err := lock.TryLock(); err == nil && free {
			_ = os.RemoveAll(filepath.Dir(path)) // the next worker removes the rest
			_ = lock.Unlock()
		}
	}
}

// Open opens the store of a run for which the worker is to do something.
func (w *Worker) Open(text string) (Store, error) {
	s, err := OpenStore(text)
	if err != nil || len(w.allowed) == 0 || slices.Contains(w.allowed, s) {
		return s, err
	}
	var names []string
	for _, a := range w.allowed {
		names = append(names, a.String())
	}
	return s, fmt.Errorf("this worker works for runs in %s only (--store), and not for one in %s", strings.Join(names, " and "), s)
}

// Leave makes the worker begin nothing more. What is running may end within a grace, as
// after an interrupt.
func (w *Worker) Leave() {
	w.leaving.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		s.soft()
	}
}

// Close ends what is still running, and removes the copies.
func (w *Worker) Close() error {
	w.mu.Lock()
	var all []*session
	for key, s := range w.sessions {
		all = append(all, s)
		delete(w.sessions, key)
	}
	copies := slices.Collect(maps.Values(w.copies))
	w.mu.Unlock()
	var errs []error
	for _, k := range copies {
		k.end()
		<-k.done
	}
	for _, s := range all {
		s.end()
		errs = append(errs, s.over())
	}
	return errors.Join(append(errs, os.RemoveAll(w.scratch), w.lock.Unlock())...)
}

// copyOf makes a copy of a run's journal in a home of its own. A copy for lanes is without
// what other lanes have recorded: they need only the run and its items, and begin at once
// however many items have ended. If it takes long, tell is called with the number of items
// so far; tell may be nil.
func (w *Worker) copyOf(ctx context.Context, store Store, run string, lanes bool, tell func(items int) error) (home *journal.Store, err error) {
	home, j, err := w.emptyCopy(store, run)
	if err != nil {
		return nil, err
	}
	f := fold{shared: store.Run(run), j: j, lanes: lanes, tell: tell}
	if err = errors.Join(f.all(ctx), j.Close()); err != nil {
		return nil, errors.Join(err, discard(home.Dir))
	}
	return home, nil
}

// emptyCopy makes a home of its own for the copy of a run's journal.
func (w *Worker) emptyCopy(store Store, run string) (home *journal.Store, j *journal.Journal, err error) {
	plan, err := store.Run(run).Plan()
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp(w.scratch, "run-")
	if err != nil {
		return nil, nil, err
	}
	if home, err = journal.OpenStore(dir); err == nil {
		j, err = Make(home, store, plan)
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return home, j, err
}

// share makes a part of a run work in its own clone, below home, if the work of the run is
// in a chain. If not, it gives nil.
func (w *Worker) share(ctx context.Context, shared Shared, home *journal.Store, part *engine.Part) (*gitShare, error) {
	if !shared.HasGit() {
		return nil, nil
	}
	git := &gitShare{gitCopy: newGitCopy(shared)}
	var err error
	if part.Dir, err = git.clone(ctx, filepath.Join(home.Dir, "clone")); err != nil {
		return nil, err
	}
	part.Git = git
	return git, nil
}

// discard removes a copy, also the directories in it that a step made read-only.
func discard(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
	return errors.Join(err, os.RemoveAll(dir))
}

// session is a run that is open on this worker, for the lanes that work for it.
type session struct {
	w      *Worker
	key    string
	ready  chan struct{} // closed when m or err is set
	done   chan struct{}
	quit   chan struct{}
	once   sync.Once
	softly context.Context
	soft   context.CancelFunc
	hardly context.Context
	hard   context.CancelFunc

	m      *engine.PartMap
	ctx    context.Context // the context of items
	err    error
	shared Shared
	files  string // the directory of its large outputs
	// measure is called with what is recorded.
	measure func(facts []event.Event)

	mu    sync.Mutex
	logs  map[int]*writer // of the running items, by index
	users int
	idle  *time.Timer
	// spoilt says that no further lane may use it, and that it ends when its present lanes
	// are done.
	spoilt bool
}

// lifeKey gives the key of a life of a run on this worker.
func lifeKey(store Store, run string, life int) string {
	return fmt.Sprintf("%s %s %d", store, run, life)
}

// idleSession is how long a session stays open when no lane needs it.
const idleSession = 30 * time.Second

// session gives the session of a life of a run. It is made when it is first needed. The
// caller gives it back with leave.
func (w *Worker) session(l Lease, store Store) *session {
	key := lifeKey(store, l.Run, l.Life)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sessions[key]
	if s == nil {
		s = &session{w: w, key: key, ready: make(chan struct{}), done: make(chan struct{}), quit: make(chan struct{}), logs: map[int]*writer{}, measure: w.Work.Part()}
		s.softly, s.soft = context.WithCancel(context.Background())
		s.hardly, s.hard = context.WithCancel(context.Background())
		w.sessions[key] = s
		go s.run(store, l)
		if w.leaving.Load() {
			s.soft()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
	if s.idle != nil {
		s.idle.Stop()
	}
	return s
}

func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		wait := idleSession
		if s.spoilt {
			wait = 0
		}
		s.idle = time.AfterFunc(wait, s.retire)
	}
}

// spoil makes the next lease begin another session: this one could not record something,
// and begins nothing more.
func (s *session) spoil() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spoilt || s.w.sessions[s.key] != s {
		return
	}
	s.spoilt = true
	delete(s.w.sessions, s.key)
	s.w.spoilt++
	s.key = fmt.Sprintf("%s spoilt %d", s.key, s.w.spoilt)
	s.w.sessions[s.key] = s
}

// retire ends a session that nobody needs, or that could not be opened.
func (s *session) retire() {
	s.w.mu.Lock()
	s.mu.Lock()
	idle := s.users == 0
	if idle && s.w.sessions[s.key] == s {
		delete(s.w.sessions, s.key)
	}
	s.mu.Unlock()
	s.w.mu.Unlock()
	if idle {
		s.end()
	}
}

func (s *session) end() { s.once.Do(func() { close(s.quit) }) }

// over waits for the end of a session, and removes its copy.
func (s *session) over() error {
	<-s.done
	return nil
}

// run is the run of a session: the ordinary engine, up to the map and no further.
func (s *session) run(store Store, l Lease) {
	defer close(s.done)
	opened := false
	part := &engine.Part{Kept: s.kept, Sync: s.sync, Lanes: true, Map: func(ctx context.Context, m *engine.PartMap) error {
		s.m, s.ctx, opened = m, ctx, true
		close(s.ready)
		select {
		case <-s.quit:
		case <-ctx.Done():
		}
		return nil
	}}
	home, err := s.w.copyOf(s.hardly, store, l.Run, true, nil)
	var sum *engine.Summary
	if err == nil {
		var git *gitShare
		git, err = s.w.share(s.hardly, store.Run(l.Run), home, part)
		if git != nil {
			git.mine, git.log, git.all = l.Life, s.logOf, s.allLogs
		}
		if err == nil {
			s.shared, s.files = store.Run(l.Run), filepath.Join(home.RunDir(l.Run), "logs")
			sum, err = engine.Resume(s.hardly, l.Run, engine.Options{Store: home, Soft: s.softly, Part: part})
		}
		err = errors.Join(err, discard(home.Dir))
	}
	if !opened {
		if s.err = err; err == nil && sum != nil && sum.Err != nil {
			s.err = sum.Err
		}
		if s.err == nil {
			s.err = errors.New("the run has no map to work for")
		}
		close(s.ready)
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.w.sessions[s.key] == s {
		delete(s.w.sessions, s.key) // the next lease begins another one
	}
}

// kept writes what is recorded of an item into the log of the lane that has the item. A
// note that belongs to no item goes into the log of any lane. Other events of no item are
// only for this worker, and are not written.
func (s *session) kept(facts []event.Event) error {
	index := 0
	for i := range facts {
		index = max(index, facts[i].Index)
	}
	log := s.logOf(index)
	s.mu.Lock()
	if log == nil && facts[0].Type == event.Note {
		for _, any := range s.logs {
			log = any
			break
		}
	}
	s.mu.Unlock()
	if log == nil {
		return nil
	}
	facts, err := s.shared.carry(facts, s.files)
	if err != nil {
		return err
	}
	if err := log.record(facts); err != nil {
		return err
	}
	s.measure(facts)
	return nil
}

// sync writes the logs of all lanes to the disk.
func (s *session) sync() error {
	var errs []error
	for _, log := range s.allLogs() {
		errs = append(errs, log.sync())
	}
	return errors.Join(errs...)
}

// logOf gives the log of the lane that has an item; nil if none has it.
func (s *session) logOf(index int) *writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[index]
}

// allLogs gives the logs of all lanes that have an item.
func (s *session) allLogs() []*writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.logs))
}

func (s *session) route(index int, to *writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to == nil {
		delete(s.logs, index)
		return
	}
	s.logs[index] = to
}
