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

// pool is the worktrees in which the agents of a run work, one after another. An agent that
// takes one finds the snapshot in it. The pool grows with the number of agents that work at
// the same time.
type pool struct {
	mu     sync.Mutex
	loaded bool
	free   []*slot
	// held are the slots that have, or may have, the work of an attempt, by item: of an
	// agent that works now, or of one that an earlier life of the run left.
	held map[string]*slot
	// accounted are commits outside the run's branch that a branch of bide's holds, or that
	// were merged. uncommitted has a commit for each state of a step's own worktree that
	// has uncommitted files.
	accounted   map[string]bool
	uncommitted map[Point]string
}

// slot is one worktree of a pool. Only the holder of its lock touches it. The lock ends
// with the process.
type slot struct {
	dir   string
	admin string // its private git directory
	log   string // the directory of the log of its HEAD
	at    string // the commit that it is at, clean; "": it has to be put at one
	owner owner  // while it is held
	lock  *flock.Flock
	clean stamps // the worktree after it was put back last; nil: not known
	over  bool   // no step works in it any more
	tip   string // its commit when its steps were over; "" before
	kept  *look  // the state in which all work in it was kept; nil: not kept yet

	// prepared is what the preparation left in it and git ignores. ready says that it was
	// prepared to its end, in this life of the run or in one before.
	prepared []string
	ready    bool
}

// owner says whose work is in a slot. It is written to the slot's private git directory
// before the agent begins, and stays until the agent's work has been taken over.
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
	if !ok || strings.Contains(path, "\x00") { // a power cut may leave NUL bytes
		return "", fmt.Errorf("%s is no link to a git directory", filepath.Join(dir, ".git"))
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil { // the repository may have been moved, with a link to it in the old place
		path = real
	}
	return path, nil
}

// openSlot locks a worktree that git knows. It gives nil if another process has the lock.
func (run *Run) openSlot(ctx context.Context, dir string) (*slot, error) {
	admin, err := adminDir(dir)
	if err != nil {
		return nil, err
	}
	s := &slot{dir: dir, admin: admin, lock: flock.New(filepath.Join(admin, lockFile))}
	if ok, err := s.lock.TryLock(); err != nil || !ok {
		return nil, err
	}
	if err := run.saveLog(ctx, s); err != nil {
		return nil, errors.Join(err, s.lock.Unlock())
	}
	return s, s.protect()
}

// logRef is the private name at which git keeps the log of the HEAD of a worktree of the
// pool.
func (run *Run) logRef(s *slot) string {
	return privateRef(run.ID, poolDir+"/"+filepath.Base(s.dir)+"/HEAD")
}

// saveLog makes the log of the slot's HEAD that of a private name as well: it moves the log
// to where git looks for that, and makes a link to it in the private git directory. A step
// may commit and then remove its worktree, with all that is private to it, and git does not
// follow the link when it looks for the commits that a gc must keep. If the system has no
// links, the log stays where it was.
func (run *Run) saveLog(ctx context.Context, s *slot) error {
	ref := run.logRef(s)
	dir := filepath.Dir(filepath.Join(run.repo.common, "logs", filepath.FromSlash(ref)))
	place, link := filepath.Join(s.admin, "logs"), filepath.Join(s.admin, "logs.bide")
	if to, err := os.Readlink(place); err == nil { // to dir, or to where an older bide had the logs
		s.log = filepath.Join(s.admin, to)
		if err := os.MkdirAll(s.log, 0o777); err != nil { // after a power cut, the link may have no target, and then git commits nothing
			return err
		}
		return run.nameLog(ctx, ref)
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
	if err := run.nameLog(ctx, ref); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // a log of the name itself, which some configurations ask for
		return err
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

// makeLogs makes the directory of these logs. A file in it, which git does not take for a
// log, keeps git from removing the directory with the last log: that would change logs/refs,
// where [Repo.StashStamp] looks for uses of the stash.
func (run *Run) makeLogs() error {
	dir := filepath.Join(run.repo.common, "logs", filepath.FromSlash(privateRef(run.ID, "")))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ".keep"), nil, 0o666)
}

// nameLog makes the private name of a log, unless there is one.
func (run *Run) nameLog(ctx context.Context, ref string) error {
	r := run.repo
	if at, err := r.commit(ctx, r.dir, ref); err != nil || at != "" {
		return err
	}
	if err := r.dropTornRef(ref); err != nil {
		return err
	}
	_, err := r.git(ctx, r.dir, "update-ref", ref, run.Base)
	return err
}

// protect makes git refuse to remove or prune the worktree, unless it is forced twice.
// Otherwise a step that tidies up would lose commits that only the worktree's HEAD has.
func (s *slot) protect() error {
	return os.WriteFile(filepath.Join(s.admin, "locked"), []byte("a run of bide works here, and removes it when it ends\n"), 0o666)
}

// readOwner says whose work a worktree of a pool has; false if it has nobody's.
func readOwner(admin string) (owner, bool) {
	var o owner
	b, err := os.ReadFile(filepath.Join(admin, ownerFile))
	if err != nil || json.Unmarshal(b, &o) != nil {
		return owner{}, false
	}
	return o, true
}

// replace writes a small file of a worktree, all of it or nothing.
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

// takeBack undoes give.
func (s *slot) takeBack() error {
	if err := os.Remove(filepath.Join(s.admin, baredFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Remove(filepath.Join(s.admin, ownerFile))
}

func (s *slot) headLog() string { return filepath.Join(s.log, "HEAD") }

// moves gives what the log of the slot's HEAD says since the owner began, as far as that is
// known. Somebody may have had git shorten the log.
func (s *slot) moves() string {
	log, _ := os.ReadFile(s.headLog())
	if int64(len(log)) < s.owner.Moves {
		return string(log)
	}
	return string(log[s.owner.Moves:])
}

// load finds the slots that an earlier life of the run left. The caller holds p.mu.
func (run *Run) load(ctx context.Context) error {
	p := &run.pool
	if p.loaded || run.root == "" {
		return nil
	}
	p.held = map[string]*slot{}
	root := filepath.Join(run.root, poolDir) // it may be gone while git still lists worktrees in it
	// Under the repository's lock, no other process is adding one that is not locked yet.
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

// adopt takes a worktree of an earlier life into the pool. The caller holds the
// repository's lock.
func (run *Run) adopt(ctx context.Context, e entry) error {
	r := run.repo
	if e.half {
		return r.erase(e.path)
	}
	if !r.intact(e.path) {
		return errors.Join(run.moveAside(e.path), run.eraseLost(ctx, e.path))
	}
	s, err := run.openSlot(ctx, e.path)
	if err != nil || s == nil {
		return err
	}
	if err := errors.Join(dropStale(s.admin), s.recallPrepared()); err != nil {
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
		// The owner is written before there is work, so there should be none. The worktree
		// is still checked when the run ends.
		o = owner{Item: "\x00" + filepath.Base(e.path), Base: run.Base}
		said, err := r.line(ctx, s.dir, "log", "-1", "--no-show-signature", "--format=%H %s")
		if err != nil {
			return errors.Join(err, s.lock.Unlock())
		}
		if id, subject, _ := strings.Cut(said, " "); subject == snapshotMessage {
			o.Base = id // the snapshot that agents start from is nobody's work
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

// has reports whether the pool has a slot in a directory. A step may have removed the
// directory.
func (p *pool) has(dir string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := func(s *slot) bool { return s.dir == dir }
	return slices.ContainsFunc(p.free, at) || slices.ContainsFunc(slices.Collect(maps.Values(p.held)), at)
}

// of gives the slot in which an agent works. If the pool has none, it gives a slot with
// only the directory.
func (p *pool) of(a *Agent) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.held[a.Item]; s != nil && s.dir == a.Dir {
		return s
	}
	return &slot{dir: a.Dir}
}

// take gives an attempt a worktree at base that nobody else has. Work of the item that is
// left in the pool is kept first.
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
	if s != nil && (!s.whole() || run.prepare != nil && !s.ready || s.at != o.Base && mayHaveModules(s.dir, s.admin)) { // a step removed it, no life has prepared it, or it has submodules, which a checkout does not move
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
				path = "" // it belongs to somebody, or nobody knows what it is
			}
		}
		if err := r.add(ctx, path, "", base); err != nil {
			return err
		}
		if s, err = run.openSlot(ctx, path); err == nil && s == nil {
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
	if err := run.prepareSlot(ctx, s); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the worktree %s: %w", s.dir, err), run.drop(ctx, s))
	}
	return s, nil
}

// prepareSlot prepares a new slot.
func (run *Run) prepareSlot(ctx context.Context, s *slot) error {
	if err := run.prepare(ctx, run.repo.tree(s.dir, "").WorkDir); err != nil {
		return err
	}
	if err := run.repo.noteHidden(ctx, s.dir); err != nil {
		return err
	}
	rows, err := run.repo.ignored(ctx, s.dir)
	if err != nil {
		return err
	}
	if err := run.repo.Sync(ctx); err != nil { // who finds the list finds what was prepared
		return err
	}
	s.prepared, s.ready = rows, true
	return replace(filepath.Join(s.admin, ignoredFile), []byte(strings.Join(rows, "\x00")))
}

// recallPrepared finds what an earlier life of the run prepared in a slot.
func (s *slot) recallPrepared() error {
	text, err := os.ReadFile(filepath.Join(s.admin, ignoredFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s.prepared, s.ready = splitNUL(string(text)), err == nil
	return err
}

// put brings a worktree of the pool to a commit, with nothing else in it.
func (r *Repo) put(ctx context.Context, dir, commit string) error {
	if err := r.unhide(ctx, dir); err != nil {
		return err
	}
	_, err := r.git(ctx, dir, "checkout", "--quiet", "--force", "--detach", commit, "--")
	return err
}

// release ends the use of a slot that nobody holds any more. Work that is not merged is
// kept in a branch, unless [Agent.Keep] has done so, and the worktree is put back.
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
		return k, notSaved(s.dir, err)
	}
	if err := run.clear(ctx, s, st, &k); err != nil {
		// All work is kept: a new worktree takes its place.
		return k, run.drop(ctx, s)
	}
	run.pool.mu.Lock()
	run.pool.free = append(run.pool.free, s)
	run.pool.mu.Unlock()
	return k, nil
}

// notSaved is the error of a worktree whose work cannot be committed, for example because
// a filter of the repository refuses a file.
func notSaved(dir string, err error) error {
	return fmt.Errorf("save the work in %s (the worktree stays as it is: mend the cause, or change or remove there the file that git refuses): %w", dir, err)
}

// whole reports whether the worktree and its private git directory still belong to each
// other.
func (s *slot) whole() bool {
	admin, err := adminDir(s.dir)
	if err != nil || admin != s.admin || !s.hasAdmin() {
		return false
	}
	_, err = os.Stat(filepath.Join(admin, "HEAD"))
	return err == nil
}

// hasAdmin reports whether the private git directory still belongs to the slot: when one
// was removed, git gives its name to the next worktree.
func (s *slot) hasAdmin() bool {
	of, complete := worktreeOf(s.admin)
	return complete && of == s.dir
}

// GoneError says that the worktree of an attempt at an item no longer exists.
type GoneError struct{ Dir string }

func (e *GoneError) Error() string {
	return fmt.Sprintf("the worktree %s is gone, with what was uncommitted in it: a step removed it, or its .git; bide removes it itself when the item has ended", e.Dir)
}

// keepRest makes branches hold what was committed in a slot that is partly gone, and gives
// the commit that it was at, if that is known.
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

// lastCommit gives the commit that the HEAD of a slot names, or named last. It is "" if
// that is not known, or if HEAD names a branch.
func (s *slot) lastCommit() string {
	id := ""
	if s.hasAdmin() {
		head, _ := os.ReadFile(filepath.Join(s.admin, "HEAD"))
		id = strings.TrimSpace(string(head))
	} else {
		for line := range strings.Lines(s.moves()) {
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

// releaseRest is release for a worktree that is partly gone: commits are kept, and a
// directory that git does not know is moved aside.
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

// dropRest is drop for a worktree that is partly gone.
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
	return errors.Join(err, run.dropLog(ctx, s), s.lock.Unlock())
}

// dropLog removes the log of a slot that no longer exists.
func (run *Run) dropLog(ctx context.Context, s *slot) error {
	if s.log == filepath.Join(s.admin, "logs") {
		return nil
	}
	if _, err := run.repo.git(ctx, run.repo.dir, "update-ref", "-d", run.logRef(s)); err != nil {
		return err
	}
	return os.RemoveAll(s.log)
}

// unsettled are files in a private git directory that show an operation in progress which a
// plain checkout does not end, or a setting that changes how git sees the worktree.
var unsettled = []string{
	"MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "sequencer",
	"config.worktree", "info/sparse-checkout", "index.lock", "HEAD.lock",
}

var errUnsettled = errors.New("something is under way in it")

// settled is an error if such an operation is in progress in a worktree.
func (s *slot) settled() error {
	for _, name := range unsettled {
		if _, err := os.Lstat(filepath.Join(s.admin, name)); err == nil {
			return fmt.Errorf("%s: %w (%s)", s.dir, errUnsettled, name)
		}
	}
	return nil
}

// settled is an error if a checkout cannot put the worktree back.
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

// putAside moves repositories and submodules out of a slot if they have something that no
// commit of it can have.
func (run *Run) putAside(ctx context.Context, s *slot, st *look, k *Kept) (err error) {
	if s.owner.Item == nobody {
		return nil
	}
	name := s.name()
	if st.untouched {
		k.Repositories, err = run.asideAs(name)
		return err
	}
	links := st.links
	if links == nil && st.Commit != s.owner.Base {
		if links, err = run.repo.links(ctx, s.dir); err != nil {
			return err
		}
	}
	if k.Repositories, err = run.setAside(ctx, s.dir, name, append(repositories(st.Untracked), links...)); err != nil {
		return err
	}
	k.Submodules, err = run.keepModules(ctx, s.dir, s.admin, name, s.owner.Base, st.Commit)
	return err
}

// name gives the name of the directory for what is moved out of the slot.
func (s *slot) name() string { return encode(s.owner.Item) + "-" + strconv.Itoa(s.owner.Attempt) }

// clear brings a worktree back to the state that its first agent found.
func (run *Run) clear(ctx context.Context, s *slot, st *look, k *Kept) error {
	if st.untouched {
		return s.takeBack()
	}
	r := run.repo
	if err := run.settled(ctx, s); err != nil { // what git ignores goes with the worktree
		ignored, lerr := r.ignored(ctx, s.dir)
		k.Ignored = slices.DeleteFunc(ignored, func(path string) bool { return slices.Contains(s.prepared, path) })
		return errors.Join(err, lerr)
	}
	unchanged := s.at != ""
	if !unchanged {
		if err := r.put(ctx, s.dir, s.owner.Base); err != nil {
			return err
		}
		s.at = s.owner.Base
	}
	out, err := r.cleanAll(ctx, s)
	if err != nil {
		return err
	}
	k.Ignored, _ = s.bared()
	for line := range strings.Lines(out) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "Removing "); ok && !slices.Contains(k.Ignored, path) {
			k.Ignored = append(k.Ignored, path)
		}
	}
	// Agents change files here, so checking whether the next one did would be wasted.
	s.clean = nil
	if unchanged && len(k.Ignored) == 0 {
		s.clean = run.stamps(s)
	}
	return s.takeBack()
}

// drop removes a worktree from the pool and from the disk. Its work is kept already.
func (run *Run) drop(ctx context.Context, s *slot) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	if !s.whole() {
		return run.dropRest(ctx, s)
	}
	return run.repo.locked(ctx, func() error {
		err := run.repo.unregister(ctx, s.dir)
		if err != nil { // files that cannot be deleted: no agent may work there any more
			err = run.moveAside(s.dir)
		}
		return errors.Join(err, run.dropLog(ctx, s), s.lock.Unlock())
	})
}

// Drain removes the worktrees in which no agent works and no work is left. It is called at
// the end of the map. The run keeps its own worktree.
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

// retireAll keeps the work of all agents that earlier lives of the run left, and removes
// the pool.
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

// Prepare calls f to prepare each new worktree of the pool, with its directory. Files that
// git ignores and that f leaves stay for all agents that work there one after another. f
// must not leave other files.
func (run *Run) Prepare(f func(ctx context.Context, dir string) error) {
	run.prepare = f
}

// ignored gives the files and directories of a worktree that git ignores.
func (r *Repo) ignored(ctx context.Context, dir string) ([]string, error) {
	return r.list(ctx, dir, "ls-files", "-z", "--full-name", "--others", "--ignored", "--exclude-standard", "--directory", ":(top)")
}
