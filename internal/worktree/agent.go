package worktree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Agent is the worktree of one attempt at an item. Its HEAD is detached. Branch is the name
// of the branch that keeps work which is not merged.
type Agent struct {
	Tree
	Item    string
	Attempt int
	// Kept is work of earlier attempts that was found. It is now in branches of
	// its own.
	Kept []Kept

	run *Run
}

// NewAgent gives an attempt at an item a worktree at the run's snapshot. The first call
// takes the snapshot if [Run.Freeze] has not. Work that an earlier attempt left, in this
// life of the run or in one before, is kept as by [Agent.Remove]; see Agent.Kept. The
// number of the first attempt is 1.
func (run *Run) NewAgent(ctx context.Context, item string, attempt int) (*Agent, error) {
	if attempt < 1 {
		return nil, fmt.Errorf("item %q: attempt %d: attempts are numbered from 1", item, attempt)
	}
	snap, err := run.frozen(ctx)
	if err != nil {
		return nil, err
	}
	return run.newAgent(ctx, item, attempt, snap.base)
}

// NewAgentNow is [Run.NewAgent], but the attempt starts from everything that is merged by
// now. It is for an attempt after a conflict with merged work: from the snapshot, the
// conflict would come again.
func (run *Run) NewAgentNow(ctx context.Context, item string, attempt int) (*Agent, error) {
	if err := run.Follow(ctx); err != nil {
		return nil, err
	}
	_, base, err := run.present(ctx)
	if err != nil {
		return nil, fmt.Errorf("take the state of %s for item %q, attempt %d: %w", run.Dir, item, attempt, err)
	}
	return run.newAgent(ctx, item, attempt, base)
}

func (run *Run) newAgent(ctx context.Context, item string, attempt int, base string) (*Agent, error) {
	a, err := run.Former(item, attempt)
	if err != nil {
		return nil, err
	}
	s, kept, err := run.take(ctx, owner{Item: item, Attempt: attempt, Base: base})
	if err != nil {
		return nil, fmt.Errorf("make a worktree for item %q, attempt %d: %w", item, attempt, err)
	}
	return run.at(a, s, kept), nil
}

// at gives the agent that works in a slot.
func (run *Run) at(a *Agent, s *slot, kept []Kept) *Agent {
	branch := a.Branch
	a.Tree = run.repo.tree(s.dir, branch)
	a.Base, a.Kept = s.owner.Base, kept
	return a
}

// Continue gives an attempt the worktree that an earlier attempt at the item left in an
// earlier life of the run, unchanged; nil if there is none.
func (run *Run) Continue(ctx context.Context, item string, attempt int) (*Agent, error) {
	a, err := run.Former(item, attempt)
	if err != nil {
		return nil, err
	}
	run.pool.mu.Lock()
	defer run.pool.mu.Unlock()
	if err := run.load(ctx); err != nil {
		return nil, err
	}
	s := run.pool.held[item]
	if s == nil {
		return nil, nil
	}
	if err := dropStale(s.admin); err != nil { // from a killed git: it would refuse all further calls
		return nil, err
	}
	if err := run.unrescueItem(ctx, s); err != nil {
		return nil, err
	}
	s.over, s.tip = false, ""
	moves := s.owner.Moves
	if err := s.give(owner{Item: item, Attempt: attempt, Base: s.owner.Base}); err != nil {
		return nil, err
	}
	s.owner.Moves = moves // the earlier attempt's moves are its own as well
	return run.at(a, s, nil), nil
}

// unrescueItem undoes the commit in which [Agent.Keep] saved uncommitted files of a slot.
// The attempt is not over, because its failure was not recorded. The branch of the commit
// is deleted when the files are on the disk.
func (run *Run) unrescueItem(ctx context.Context, s *slot) error {
	r := run.repo
	said, err := r.line(ctx, s.dir, "log", "-1", "--no-show-signature", "--format=%H %P %s")
	if err != nil {
		return err
	}
	f := strings.SplitN(said, " ", 3)
	if len(f) < 3 || f[2] != rescueMessage(itemPrefix(s.owner.Item)) {
		return nil
	}
	kept, err := run.withoutSnapshot(ctx, f[0], s.owner.Base)
	if err != nil {
		return err
	}
	if _, err := r.git(ctx, s.dir, "reset", "--quiet", "--mixed", f[1], "--"); err != nil {
		return err
	}
	if err := r.Sync(ctx); err != nil {
		return err
	}
	branch := itemBranch(run.ID, s.owner.Item, s.owner.Attempt)
	if tip, err := r.commit(ctx, r.dir, "refs/heads/"+branch); err != nil || tip != kept {
		return err
	}
	return r.deleteBranch(ctx, branch, kept)
}

// itemPrefix begins the messages of commits of what an item left.
func itemPrefix(item string) string { return "item " + Subject(item) + ": " }

// rescueMessage is the message of a commit that saves uncommitted files. The text of
// follows the program's name.
func rescueMessage(of string) string { return "bide: " + message(of) + leftWork }

// Former gives the agent of an attempt in an earlier life of the run, to remove what the
// attempt left. It may have left nothing.
func (run *Run) Former(item string, attempt int) (*Agent, error) {
	if run.root == "" {
		return nil, errNoWorktree
	}
	a := &Agent{run: run, Item: item, Attempt: attempt}
	a.Tree = run.repo.tree("", itemBranch(run.ID, item, attempt))
	return a, nil
}

// Keep makes sure that a branch holds the agent's unmerged work, without the run's
// snapshot. Uncommitted files are committed first. The worktree is not changed until
// [Agent.Release]: a next life of the run that does not know that the attempt ended finds
// the work there.
func (a *Agent) Keep(ctx context.Context) (Kept, error) { return a.keep(ctx, nil) }

func (a *Agent) keep(ctx context.Context, st *look) (k Kept, err error) {
	s := a.held()
	if s == nil {
		return k, nil
	}
	if !s.whole() {
		k, _, err = a.run.keepRest(ctx, s)
		return k, err
	}
	if st == nil {
		if st, err = a.run.look(ctx, s); err != nil {
			return k, err
		}
	}
	if k, err = a.run.keep(ctx, s, st); err != nil {
		return k, notSaved(s.dir, err)
	}
	s.kept = st
	return k, nil
}

// held is the slot in which the agent works; nil if it has none.
func (a *Agent) held() *slot {
	p := &a.run.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.held[a.Item]; s != nil && a.has(s) {
		return s
	}
	return nil
}

// has reports whether a slot is the agent's: another attempt may have it by now.
func (a *Agent) has(s *slot) bool {
	return a.Dir == "" || a.Dir == s.dir && a.Attempt == s.owner.Attempt
}

// Release puts the agent's worktree back for the next agent. It is called once the end of
// this attempt is on record. It gives what [Agent.Remove] gives, without what is kept
// already.
func (a *Agent) Release(ctx context.Context) (Kept, error) { return a.remove(ctx) }

// Remove ends the use of the agent's worktree. What is uncommitted in it is
// committed; work that is not merged into the run is kept in a branch, without
// the run's snapshot. Ignored files are deleted; see Kept.Ignored. A second call
// is no error.
func (a *Agent) Remove(ctx context.Context) (Kept, error) { return a.remove(ctx) }

// Leave ends the use of the agent's worktree in this life of the run. The worktree is not
// changed, so that [Run.Continue] finds it in the next life.
func (a *Agent) Leave() error {
	p := &a.run.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.held[a.Item]
	if s == nil || !a.has(s) {
		return nil
	}
	delete(p.held, a.Item)
	return s.lock.Unlock()
}

func (a *Agent) remove(ctx context.Context) (Kept, error) {
	s, err := a.letGo(ctx)
	if err != nil || s == nil {
		return Kept{}, err
	}
	return a.run.release(ctx, s)
}

// Drop removes the agent's worktree with all that is in it. It keeps no commits that only
// the worktree's log names: they are no work, for example a merge that was tried and
// refused.
func (a *Agent) Drop(ctx context.Context) error {
	s, err := a.letGo(ctx)
	if err != nil || s == nil {
		return err
	}
	return a.run.drop(ctx, s)
}

// letGo takes the agent's worktree from it; nil if it has none.
func (a *Agent) letGo(ctx context.Context) (*slot, error) {
	p := &a.run.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := a.run.load(ctx); err != nil {
		return nil, err
	}
	s := p.held[a.Item]
	if s == nil || !a.has(s) {
		return nil, nil
	}
	delete(p.held, a.Item)
	return s, nil
}

// Finish merges the agent's commits as [Run.Merge] does, and keeps what is not
// merged as [Agent.Keep] does. [Agent.Release] puts the worktree back. If it is gone,
// the error is a *[GoneError].
func (a *Agent) Finish(ctx context.Context, o MergeOptions) (MergeResult, Kept, error) {
	if s := a.held(); s != nil && !s.whole() {
		k, err := a.keep(ctx, nil)
		return MergeResult{}, k, errors.Join(&GoneError{Dir: s.dir}, err)
	}
	res, st, err := a.run.mergeOne(ctx, a, o)
	if st.merged = res.Merged != ""; err != nil {
		st = nil // the state is too old, or reading it failed
	}
	k, kerr := a.keep(ctx, st)
	if err == nil && res.Merged != "" { // the merge is made, so this is no failure
		res.Left = errors.Join(res.Left, kerr)
		return res, k, nil
	}
	return res, k, errors.Join(err, kerr)
}

// look is the state of a worktree when it was last read, and whether what is committed in
// it has been merged since.
type look struct {
	State
	merged    bool
	untouched bool // nothing in it has changed since it was put back
	// links are the repositories that its commits name; nil if nobody has looked.
	links []string
}

// look looks at a slot.
func (run *Run) look(ctx context.Context, s *slot) (*look, error) {
	if s.clean != nil && slices.Equal(s.clean, run.stamps(s)) && s.settled() == nil {
		return &look{State: State{Commit: s.owner.Base}, untouched: true}, nil
	}
	st, err := run.repo.State(ctx, s.dir)
	return &look{State: st}, err
}

// keep makes sure that branches hold all work in a slot that is not merged into the run. st
// is the state of the slot; with nil, keep reads it.
func (run *Run) keep(ctx context.Context, s *slot, st *look) (k Kept, err error) {
	r := run.repo
	if err := dropStale(s.admin); err != nil {
		return k, err
	}
	tip := st.Commit
	if len(plainFiles(st.dirty)) > 0 {
		if tip, err = r.rescueIn(ctx, s.dir, st.State, itemPrefix(s.owner.Item)); err != nil {
			return k, err
		}
	}
	if tip == s.owner.Base && st.Branch == "" && len(st.dirty) == 0 {
		s.at = s.owner.Base
	}
	branch := itemBranch(run.ID, s.owner.Item, s.owner.Attempt)
	if !st.merged || tip != st.Commit {
		if k, err = run.keepTip(ctx, branch, tip, s.owner.Base); err != nil {
			return k, err
		}
	}
	if k.Branch != "" {
		k.Rescued = plainFiles(st.dirty)
	}
	other, err := run.keepLeft(ctx, branch, s, tip)
	return k.and(other), err
}

// rescueIn commits what is uncommitted, and gives the commit. In its message, of follows
// the program's name.
func (r *Repo) rescueIn(ctx context.Context, dir string, st State, of string) (string, error) {
	if _, err := r.git(ctx, dir, addAll(append(repositories(st.Untracked), st.unmoved...))...); err != nil {
		return "", err
	}
	if _, err := r.git(ctx, dir, "commit", "--quiet", "--no-verify", "--allow-empty", "-m", rescueMessage(of)); err != nil {
		return "", err
	}
	return r.commit(ctx, dir, "HEAD")
}

// keepTip makes a branch hold a commit, without the snapshot, unless the run has all of it.
// The commit is on the disk before the branch is made, and the branch is on the disk before
// keepTip returns.
func (run *Run) keepTip(ctx context.Context, branch, tip, base string) (Kept, error) {
	if tip == base {
		return Kept{}, nil
	}
	clean, err := run.withoutSnapshot(ctx, tip, base)
	if err != nil {
		return Kept{}, err
	}
	into, err := run.tips(ctx)
	if err != nil {
		return Kept{}, err
	}
	n, err := run.repo.countNew(ctx, clean, append(into, run.Base)...)
	if err != nil || n == 0 {
		return Kept{}, err
	}
	if err := run.repo.Sync(ctx); err != nil {
		return Kept{}, err
	}
	name, err := run.repo.nameCommit(ctx, branch, clean)
	if err == nil {
		err = run.repo.Sync(ctx)
	}
	return Kept{Branch: name, Commit: clean, Commits: n}, err
}

// keepLeft makes branches hold work that the agent left by a checkout and that no branch
// holds. In a clone, it also keeps what the agent left in the stash, on its own branches
// and in its own worktrees.
func (run *Run) keepLeft(ctx context.Context, branch string, s *slot, tip string) (k Kept, err error) {
	seen := []string{s.owner.Base, tip}
	for line := range strings.Lines(s.moves()) {
		ids, what, _ := strings.Cut(line, "\t")
		from, _, _ := strings.Cut(ids, " ")
		if !strings.HasPrefix(what, "checkout: moving from ") || slices.Contains(seen, from) || strings.Trim(from, "0") == "" {
			continue
		}
		if whole, err := run.repo.connected(ctx, run.repo.dir, from, s.owner.Base); err != nil {
			return k, err
		} else if !whole {
			continue // lost in a power cut
		}
		lost, err := run.inNoBranch(ctx, from, seen...)
		if err != nil {
			return k, err
		}
		if seen = append(seen, from); !lost {
			continue
		}
		left, err := run.keepTip(ctx, branch+besideSuffix, from, s.owner.Base)
		if err != nil {
			return k, err
		}
		k = k.and(left)
	}
	if run.pull == nil {
		return k, nil
	}
	commits, err := run.named(ctx) // read before the other agents' ends: an agent that begins later has none of these
	if err != nil {
		return k, err
	}
	last, tips := run.lastAtWork(s, tip)
	named, err := run.keepNamed(ctx, commits, append(seen, tips...), last, func(commit string) (Kept, error) { return run.keepTip(ctx, branch+besideSuffix, commit, s.owner.Base) })
	if k = k.and(named); err != nil || !last {
		return k, err
	}
	stashed, err := run.keepStash(ctx, branch+besideSuffix)
	return k.and(stashed), err
}

// nameCommit makes a branch at a commit. If something else has the name, the branch gets a
// number as well.
func (r *Repo) nameCommit(ctx context.Context, branch, commit string) (string, error) {
	for i := 0; ; i++ {
		name := branch
		if i > 0 {
			name = fmt.Sprintf("%s.%d", branch, i)
		}
		_, err := r.git(ctx, r.dir, "update-ref", "refs/heads/"+name, commit, strings.Repeat("0", len(commit)))
		if err == nil {
			return name, nil
		}
		tip, cerr := r.commit(ctx, r.dir, "refs/heads/"+name)
		switch {
		case cerr != nil || tip == "": // something other than a taken name
			return "", errors.Join(err, cerr)
		case tip == commit:
			return name, nil
		}
	}
}

// Committed gives what was committed in the worktree since its base: an
// agent's commits and files, without the run's snapshot.
func (t *Tree) Committed(ctx context.Context) (GitContext, error) {
	head, err := t.repo.commit(ctx, t.Dir, "HEAD")
	if err != nil {
		return GitContext{}, err
	}
	return t.repo.Between(ctx, Point{Commit: t.Base}, Point{Commit: head})
}

// workSince gives the commits from base to tip, oldest first, and the files that
// differ.
func (r *Repo) workSince(ctx context.Context, base, tip string) (commits, files []string, err error) {
	rows, err := r.list(ctx, r.dir, "log", "--reverse", "-m", "-z", "--no-renames", "--name-only", "--format=format:%x01%H", tip, "^"+base)
	if err != nil {
		return nil, nil, err
	}
	entries := 0
	for _, row := range rows {
		if head, ok := strings.CutPrefix(row, "\x01"); ok && len(head) >= len(tip) {
			id, first, _ := strings.Cut(head, "\n")
			if entries++; !slices.Contains(commits, id) {
				commits = append(commits, id)
			}
			row = first
		}
		if row != "" {
			files = append(files, row)
		}
	}
	if entries == 1 { // with more than one entry, one may undo what another adds
		slices.Sort(files)
		return commits, files, nil
	}
	files = nil
	changes, err := r.diffTrees(ctx, base, tip)
	for _, c := range changes {
		files = append(files, c.path)
	}
	return commits, files, err
}
