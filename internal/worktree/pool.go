package worktree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/files"
	"github.com/gofrs/flock"
)

// pool is the worktrees in which the agents of a run work, one after another.
// Whoever takes one finds it as the snapshot has it. It grows with the number
// of agents that work at the same time.
type pool struct {
	mu     sync.Mutex
	loaded bool
	free   []*slot
	// held are the slots that have, or may have, the work of an attempt, by
	// item: of an agent that works, and of one that a former life of the run
	// left.
	held map[string]*slot
	// accounted are commits beside the run that a branch of bide's has, or that were merged; and
	// uncommitted are those of what is uncommitted in worktrees that steps made, by how these are.
	accounted   map[string]bool
	uncommitted map[Point]string
}

// slot is one worktree of a pool. Who has it locked is the only one to touch
// it; the lock ends with the process.
type slot struct {
	dir   string
	admin string // its private git directory
	log   string // the directory of the log of its HEAD
	at    string // the commit that it is at, clean; "": it has to be put there
	owner owner  // while it is held
	lock  *flock.Flock
	clean stamps // of the worktree as it was put back last; nil: there is none
	over  bool   // no step works in it any more
	tip   string // where it was then; "" before
	kept  *look  // how it stood when all that is worth it was kept; nil: that is to be done
}

// owner says whose work is in a slot. It is on record in the slot's private git
// directory from before the agent begins until its work has been taken over.
type owner struct {
	Item    string `json:"item"`
	Attempt int    `json:"attempt"`
	Base    string `json:"base"`  // the commit that it started from
	Moves   int64  `json:"moves"` // the size of HEAD's log at that time
}

const (
	poolDir   = "pool"           // in the run's directory
	ownerFile = "bide-owner"     // in a slot's private git directory
	lockFile  = "bide-slot.lock" // beside it
)

// adminDir gives the private git directory of a worktree without asking git.
func adminDir(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, ".git"))
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: ")
	if !ok || strings.Contains(path, "\x00") { // which a power cut leaves
		return "", fmt.Errorf("%s is no link to a git directory", filepath.Join(dir, ".git"))
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil { // the repository may have been moved, with a link to it in its place
		path = real
	}
	return path, nil
}

// openSlot locks a worktree that git knows. It is nil where another process has
// it.
func (run *Run) openSlot(dir string) (*slot, error) {
	admin, err := adminDir(dir)
	if err != nil {
		return nil, err
	}
	s := &slot{dir: dir, admin: admin, lock: flock.New(filepath.Join(admin, lockFile))}
	if ok, err := s.lock.TryLock(); err != nil || !ok {
		return nil, err
	}
	if err := s.saveLog(filepath.Join(run.repo.common, headsDir, run.ID, filepath.Base(dir))); err != nil {
		return nil, errors.Join(err, s.lock.Unlock())
	}
	return s, s.protect()
}

// headsDir has, in the git directory that all worktrees have in common, the logs of the
// HEADs of worktrees of pools, by run: a step may remove its worktree with all that is
// private to it, after it has committed.
const headsDir = "bide-heads"

// saveLog has the log of the slot's HEAD in a directory, to which a link leads from the
// place where git looks for it. Where the system has no links, it stays in that.
func (s *slot) saveLog(dir string) error {
	place, link := filepath.Join(s.admin, "logs"), filepath.Join(s.admin, "logs.bide")
	if info, err := os.Lstat(place); err == nil && !info.IsDir() {
		s.log = dir
		return os.MkdirAll(dir, 0o777) // a power cut may have kept the link alone, and git commits nothing then
	}
	s.log = place
	up, err := filepath.Rel(s.admin, dir)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(link), os.RemoveAll(dir), os.MkdirAll(filepath.Dir(dir), 0o777)); err != nil {
		return err
	}
	if err := os.Symlink(up, link); err != nil {
		return nil
	}
	if err := os.Rename(place, dir); errors.Is(err, fs.ErrNotExist) {
		err = os.Mkdir(dir, 0o777)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	s.log = dir
	return os.Rename(link, place)
}

// protect has git refuse to remove or to prune the worktree, unless it is forced twice: a
// step that tidies up would take commits with it that only the worktree's HEAD has.
func (s *slot) protect() error {
	return os.WriteFile(filepath.Join(s.admin, "locked"), []byte("a run of bide works here, and removes it when it ends\n"), 0o666)
}

// readOwner says whose work a worktree of a pool has; false where it has
// nobody's.
func readOwner(admin string) (owner, bool) {
	var o owner
	b, err := os.ReadFile(filepath.Join(admin, ownerFile))
	if err != nil || json.Unmarshal(b, &o) != nil {
		return owner{}, false
	}
	return o, true
}

// replace writes a small file of a worktree, whole or not at all.
func replace(path string, text []byte) error {
	return files.Replace(path, 0o600, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}

func (s *slot) give(o owner) error {
	if info, err := os.Stat(s.headLog()); err == nil {
		o.Moves = info.Size()
	}
	s.owner, s.at, s.kept, s.over = o, "", nil, false
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return replace(filepath.Join(s.admin, ownerFile), b)
}

// takeBack ends what give began.
func (s *slot) takeBack() error { return os.Remove(filepath.Join(s.admin, ownerFile)) }

func (s *slot) headLog() string { return filepath.Join(s.log, "HEAD") }

// load finds the slots that a former life of the run left. The caller has p.mu.
func (run *Run) load(ctx context.Context) error {
	p := &run.pool
	if p.loaded || run.root == "" {
		return nil
	}
	p.held = map[string]*slot{}
	root := filepath.Join(run.root, poolDir) // which may be gone, and git know of it still
	// Under the repository's lock nobody adds one, and so has it unlocked yet.
	err := run.repo.locked(ctx, func() error {
		entries, err := run.repo.worktrees(ctx)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if filepath.Dir(e.path) != root {
				continue
			}
			if err := run.adopt(ctx, e); err != nil {
				return fmt.Errorf("the worktree %s of a former life of the run: %w", e.path, err)
			}
		}
		return nil
	})
	p.loaded = err == nil
	return err
}

// adopt takes a worktree of a former life into the pool. The caller has the
// repository's lock.
func (run *Run) adopt(ctx context.Context, e entry) error {
	r := run.repo
	if e.half {
		return r.erase(e.path)
	}
	if !r.intact(e.path) {
		return errors.Join(run.moveAside(e.path), run.eraseLost(ctx, e.path))
	}
	s, err := run.openSlot(e.path)
	if err != nil || s == nil {
		return err
	}
	if err := dropStale(s.admin); err != nil {
		return err
	}
	o, ok := readOwner(s.admin)
	of := r.tree(s.dir, "")
	if whole, err := r.mend(ctx, &of, cmp.Or(o.Base, run.Base)); err != nil {
		return errors.Join(err, s.lock.Unlock())
	} else if !whole {
		return errors.Join(run.moveAside(s.dir), run.eraseLost(ctx, s.dir), s.lock.Unlock())
	}
	if !ok {
		// The owner stands there before there is work. To be sure, it is looked
		// at all the same when the run ends.
		o = owner{Item: "\x00" + filepath.Base(e.path), Base: run.Base}
		said, err := r.line(ctx, s.dir, "log", "-1", "--no-show-signature", "--format=%H %s")
		if err != nil {
			return errors.Join(err, s.lock.Unlock())
		}
		if id, subject, _ := strings.Cut(said, " "); subject == snapshotMessage {
			o.Base = id // what agents start from is nobody's work
		}
	}
	if o.Item == nobody {
		if err := r.put(ctx, s.dir, o.Base); err != nil {
			return errors.Join(err, s.lock.Unlock())
		}
		if _, err := r.git(ctx, s.dir, "clean", "-ffd"); err != nil {
			return errors.Join(err, s.lock.Unlock())
		}
	}
	if other := run.pool.held[o.Item]; other != nil {
		o.Item = "\x00" + filepath.Base(e.path) // one worktree for each item; never reached
	}
	s.owner = o
	run.pool.held[o.Item] = s
	return nil
}

// has says whether a directory is that of a slot, which a step may have removed.
func (p *pool) has(dir string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := func(s *slot) bool { return s.dir == dir }
	return slices.ContainsFunc(p.free, at) || slices.ContainsFunc(slices.Collect(maps.Values(p.held)), at)
}

// of is the slot in which an agent works; where that is none of the pool's, one that
// has its directory alone.
func (p *pool) of(a *Agent) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.held[a.Item]; s != nil && s.dir == a.Dir {
		return s
	}
	return &slot{dir: a.Dir}
}

// take gives an attempt a worktree at base that nobody else has. Work that is
// left of the item is kept first.
func (run *Run) take(ctx context.Context, o owner) (s *slot, kept []Kept, err error) {
	p := &run.pool
	p.mu.Lock()
	err = run.load(ctx)
	old := p.held[o.Item]
	delete(p.held, o.Item)
	p.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	if old != nil {
		k, err := run.release(ctx, old)
		if err != nil {
			return nil, nil, err
		}
		if k.Branch != "" {
			kept = append(kept, k)
		}
	}
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		s, p.free = p.free[n-1], p.free[:n-1]
	}
	p.mu.Unlock()
	if s != nil && (!s.whole() || s.at != o.Base && mayHaveModules(s.dir, s.admin)) { // a step removed it; or they stay where they are
		if err := run.drop(ctx, s); err != nil {
			return nil, kept, err
		}
		s = nil
	}
	if s == nil {
		if s, err = run.grow(ctx, o.Base); err != nil {
			return nil, kept, err
		}
	}
	if s.at != o.Base {
		if err := run.repo.put(ctx, s.dir, o.Base); err != nil {
			return nil, kept, errors.Join(err, run.drop(ctx, s))
		}
	}
	if err := errors.Join(s.unmark(), run.repo.noteStands(ctx, s.dir), s.give(o)); err != nil {
		return nil, kept, errors.Join(err, run.drop(ctx, s))
	}
	p.mu.Lock()
	p.held[o.Item] = s
	p.mu.Unlock()
	return s, kept, nil
}

// grow adds a worktree to the pool.
func (run *Run) grow(ctx context.Context, base string) (s *slot, err error) {
	r := run.repo
	root := filepath.Join(run.root, poolDir)
	err = r.locked(ctx, func() error {
		path := ""
		for n := 1; path == ""; n++ {
			path = filepath.Join(root, strconv.Itoa(n))
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) || run.pool.has(path) {
				path = "" // somebody's, or nobody knows what
			}
		}
		if err := r.add(ctx, path, "", base); err != nil {
			return err
		}
		if s, err = run.openSlot(path); err == nil && s == nil {
			err = fmt.Errorf("the new worktree %s is locked", path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.at = base
	if run.prepare == nil {
		return s, nil
	}
	if err := run.prepare(ctx, r.tree(s.dir, "").WorkDir); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the worktree %s: %w", s.dir, err), run.drop(ctx, s))
	}
	return s, nil
}

// put has a worktree of the pool at a commit, with nothing else in it.
func (r *Repo) put(ctx context.Context, dir, commit string) error {
	if err := r.unhide(ctx, dir); err != nil {
		return err
	}
	_, err := r.git(ctx, dir, "checkout", "--quiet", "--force", "--detach", commit, "--")
	return err
}

// release ends the use of a slot that is held by nobody any more: work that is
// not merged is kept in a branch, unless [Agent.Keep] has done so, and the worktree is
// put back.
func (run *Run) release(ctx context.Context, s *slot) (k Kept, err error) {
	if !s.whole() {
		return run.releaseRest(ctx, s)
	}
	st := s.kept
	if s.owner.Item == nobody {
		st = &look{} // nothing in it is worth keeping
	}
	if st == nil {
		if st, err = run.look(ctx, s); err == nil {
			k, err = run.keep(ctx, s, st)
		}
	}
	if err == nil {
		err = run.putAside(ctx, s, st, &k)
	}
	if err != nil {
		run.pool.mu.Lock()
		run.pool.held[s.owner.Item] = s
		run.pool.mu.Unlock()
		return k, fmt.Errorf("save the work in %s (the worktree stays as it is): %w", s.dir, err)
	}
	if err := run.clear(ctx, s, st, &k); err != nil {
		// What is worth keeping is kept: a new one takes its place.
		return k, run.drop(ctx, s)
	}
	run.pool.mu.Lock()
	run.pool.free = append(run.pool.free, s)
	run.pool.mu.Unlock()
	return k, nil
}

// whole reports whether the worktree and its private git directory still belong
// together.
func (s *slot) whole() bool {
	admin, err := adminDir(s.dir)
	if err != nil || admin != s.admin || !s.hasAdmin() {
		return false
	}
	_, err = os.Stat(filepath.Join(admin, "HEAD"))
	return err == nil
}

// hasAdmin says whether the private git directory is still that of the slot: git gives the
// name of one that was removed to the next worktree.
func (s *slot) hasAdmin() bool {
	of, complete := worktreeOf(s.admin)
	return complete && of == s.dir
}

// GoneError says that the worktree of an attempt at an item is not there any more.
type GoneError struct{ Dir string }

func (e *GoneError) Error() string {
	return fmt.Sprintf("the worktree %s is gone, with what was uncommitted in it: a step removed it, or its .git; bide removes it itself when the item has ended", e.Dir)
}

// keepRest has branches hold what was committed in a slot of which a part is gone, and gives
// the commit that it was at, if it is known.
func (run *Run) keepRest(ctx context.Context, s *slot) (k Kept, tip string, err error) {
	if tip = s.lastCommit(); tip == "" {
		return k, "", nil
	}
	if whole, err := run.repo.connected(ctx, run.repo.dir, tip, s.owner.Base); err != nil || !whole {
		return k, "", err
	}
	branch := itemBranch(run.ID, s.owner.Item, s.owner.Attempt)
	if k, err = run.keepTip(ctx, branch, tip, s.owner.Base); err != nil {
		return k, tip, err
	}
	other, err := run.keepLeft(ctx, branch, s, tip)
	return k.and(other), tip, err
}

// lastCommit is the commit that the HEAD of a slot names, or named last; "" where that is
// not known, or a branch has it.
func (s *slot) lastCommit() string {
	id := ""
	if s.hasAdmin() {
		head, _ := os.ReadFile(filepath.Join(s.admin, "HEAD"))
		id = strings.TrimSpace(string(head))
	} else if log, err := os.ReadFile(s.headLog()); err == nil && int64(len(log)) > s.owner.Moves {
		for line := range strings.Lines(string(log[s.owner.Moves:])) {
			if f := strings.Fields(line); len(f) > 1 {
				id = f[1]
			}
		}
	}
	if !isID(id) {
		return ""
	}
	return id
}

// releaseRest is release of a worktree of which a part is gone: commits are
// kept, and a directory that git knows nothing of is moved aside.
func (run *Run) releaseRest(ctx context.Context, s *slot) (k Kept, err error) {
	k, tip, err := run.keepRest(ctx, s)
	if err != nil {
		return k, err
	}
	if tip != "" && s.hasAdmin() {
		if k.Submodules, err = run.keepModules(ctx, s.dir, s.admin, s.name(), s.owner.Base, tip); err != nil {
			return k, err
		}
	}
	return k, run.dropRest(ctx, s)
}

// dropRest is drop of a worktree of which a part is gone.
func (run *Run) dropRest(ctx context.Context, s *slot) error {
	err := run.repo.locked(ctx, func() error {
		if err := run.moveAside(s.dir); err != nil {
			return err
		}
		e, err := run.repo.registered(ctx, s.dir)
		if err != nil || e == nil {
			return err
		}
		return run.repo.unregister(ctx, s.dir)
	})
	return errors.Join(err, s.dropLog(), s.lock.Unlock())
}

// dropLog removes the log of a slot that is no more.
func (s *slot) dropLog() error {
	if s.log == filepath.Join(s.admin, "logs") {
		return nil
	}
	return os.RemoveAll(s.log)
}

// unsettled are the traces in a private git directory of something that a plain
// checkout does not end, or that changes how git sees the worktree.
var unsettled = []string{
	"MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "sequencer",
	"config.worktree", "info/sparse-checkout", "index.lock", "HEAD.lock",
}

var errUnsettled = errors.New("something is under way in it")

// settled is an error where something is under way in a worktree.
func (s *slot) settled() error {
	for _, name := range unsettled {
		if _, err := os.Lstat(filepath.Join(s.admin, name)); err == nil {
			return fmt.Errorf("%s: %w (%s)", s.dir, errUnsettled, name)
		}
	}
	return nil
}

// settled is an error where a worktree cannot be put back by a checkout.
func (run *Run) settled(ctx context.Context, s *slot) error {
	if moved, err := run.repo.moved(ctx, s); err != nil || moved {
		return cmp.Or(err, errUnsettled)
	}
	if before, err := hiddenBefore(s.admin); err != nil || len(before) > 0 {
		_, now, herr := run.repo.hidden(ctx, s.dir)
		if err := errors.Join(err, herr); err != nil || !slices.Equal(before, now) {
			return cmp.Or(err, errUnsettled)
		}
	}
	return s.settled()
}

// putAside moves repositories and submodules out of a slot that have what no commit of it
// can have.
func (run *Run) putAside(ctx context.Context, s *slot, st *look, k *Kept) (err error) {
	if st.untouched || s.owner.Item == nobody {
		return nil
	}
	links := st.links
	if links == nil && st.Commit != s.owner.Base {
		if links, err = run.repo.links(ctx, s.dir); err != nil {
			return err
		}
	}
	name := s.name()
	if k.Repositories, err = run.setAside(s.dir, name, append(repositories(st.Untracked), links...)); err != nil {
		return err
	}
	k.Submodules, err = run.keepModules(ctx, s.dir, s.admin, name, s.owner.Base, st.Commit)
	return err
}

// name is that of the directory for what is moved out of the slot.
func (s *slot) name() string { return encode(s.owner.Item) + "-" + strconv.Itoa(s.owner.Attempt) }

// clear makes a worktree as it was for the first agent in it.
func (run *Run) clear(ctx context.Context, s *slot, st *look, k *Kept) error {
	if st.untouched {
		return s.takeBack()
	}
	r := run.repo
	if err := run.settled(ctx, s); err != nil { // what git ignores goes with the worktree
		ignored, lerr := r.ignored(ctx, s.dir)
		k.Ignored = slices.DeleteFunc(ignored, func(path string) bool { return slices.Contains(run.prepared, path) })
		return errors.Join(err, lerr)
	}
	unchanged := s.at != ""
	if !unchanged {
		if err := r.put(ctx, s.dir, s.owner.Base); err != nil {
			return err
		}
		s.at = s.owner.Base
	}
	args := []string{"clean", "-ffdx"}
	for _, path := range run.prepared {
		args = append(args, "-e", "/"+path)
	}
	out, err := r.git(ctx, s.dir, args...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "Removing "); ok {
			k.Ignored = append(k.Ignored, path)
		}
	}
	// Where agents change something, to look whether the next one did would be in
	// vain.
	s.clean = nil
	if unchanged && len(k.Ignored) == 0 {
		s.clean = run.stamps(s)
	}
	return s.takeBack()
}

// drop takes a worktree out of the pool and away. Its work is kept already.
func (run *Run) drop(ctx context.Context, s *slot) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	if !s.whole() {
		return run.dropRest(ctx, s)
	}
	return run.repo.locked(ctx, func() error {
		err := run.repo.unregister(ctx, s.dir)
		if err != nil { // files that cannot be deleted: nobody is to work there any more
			err = run.moveAside(s.dir)
		}
		return errors.Join(err, s.dropLog(), s.lock.Unlock())
	})
}

// Drain removes the worktrees in which nobody works and nobody's work is: at
// the end of the map. The run continues to have its own.
func (run *Run) Drain(ctx context.Context) error {
	p := &run.pool
	p.mu.Lock()
	free := p.free
	p.free = nil
	p.mu.Unlock()
	var errs []error
	for _, s := range free {
		errs = append(errs, run.drop(ctx, s))
	}
	return errors.Join(errs...)
}

// retireAll keeps the work of all agents that former lives of the run left, and
// removes the pool.
func (run *Run) retireAll(ctx context.Context) (kept []Kept, err error) {
	p := &run.pool
	p.mu.Lock()
	err = run.load(ctx)
	held := p.held
	p.held = map[string]*slot{}
	p.mu.Unlock()
	errs := []error{err}
	for _, s := range held {
		k, err := run.release(ctx, s)
		if errs = append(errs, err); k.Branch != "" {
			kept = append(kept, k)
		}
	}
	return kept, errors.Join(append(errs, run.Drain(ctx))...)
}

// Prepare has f prepare each new worktree of the pool, in the directory that is
// given. Files that git ignores and that f leaves stay for all agents that work
// there one after another; other files it must not leave.
func (run *Run) Prepare(ctx context.Context, f func(ctx context.Context, dir string) error) {
	run.prepare = func(ctx context.Context, dir string) error {
		if err := f(ctx, dir); err != nil {
			return err
		}
		if err := run.repo.noteHidden(ctx, run.repo.top(dir)); err != nil {
			return err
		}
		rows, err := run.repo.ignored(ctx, dir)
		if err != nil {
			return err
		}
		run.mu.Lock()
		defer run.mu.Unlock()
		run.prepared = rows
		return nil
	}
}

// ignored gives the files and directories of a worktree that git ignores.
func (r *Repo) ignored(ctx context.Context, dir string) ([]string, error) {
	return r.list(ctx, dir, "ls-files", "-z", "--full-name", "--others", "--ignored", "--exclude-standard", "--directory", ":(top)")
}
