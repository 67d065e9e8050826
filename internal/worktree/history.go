package worktree

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"
)

// ItemMerge is a merge of an item's work, as the message of its commit describes it.
type ItemMerge struct {
	Commit, Tree   string
	Parents        []string
	Item, Evidence string // of its trailers
}

// ItemMerges gives the merges of a run's items that carry trailers and that the commit in
// contains, the newest first.
func (r *Repo) ItemMerges(ctx context.Context, run, in string) (list []ItemMerge, err error) {
	const one = ",valueonly,separator=%x1e)"
	format := "--format=%H%x1f%T%x1f%P%x1f%(trailers:key=Bide-Run" + one + "%x1f%(trailers:key=Bide-Item" + one + "%x1f%(trailers:key=Bide-Evidence" + one
	rows, err := r.list(ctx, r.dir, "log", "-z", "--topo-order", "--fixed-strings", "--grep=Bide-Run: "+run, format, "--end-of-options", in)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		f := strings.Split(row, "\x1f")
		if len(f) != 6 || f[3] != run {
			continue
		}
		list = append(list, ItemMerge{Commit: f[0], Tree: f[1], Parents: strings.Fields(f[2]), Item: f[4], Evidence: f[5]})
	}
	return list, nil
}

// Landing gives the commit with which a commit reached the branch that the run started
// from: the oldest of the branch's first parents that contains it. It is zero if the branch
// does not contain it, or is not known.
func (r *Repo) Landing(ctx context.Context, run, commit string) (m Merged, err error) {
	target, err := r.target(ctx, run)
	if err != nil || target == "" {
		return m, err
	}
	if in, err := r.Contains(ctx, target, commit); err != nil || !in {
		return m, err
	}
	at, err := r.landing(ctx, target, commit)
	if err != nil || at == "" {
		return m, err
	}
	tree, err := r.Tree(ctx, at)
	return Merged{Commit: at, Tree: tree}, err
}

// landing gives the oldest of the first parents of tip that contains a commit; "" if that
// is tip itself.
func (r *Repo) landing(ctx context.Context, tip, commit string) (string, error) {
	text, err := r.git(ctx, r.dir, "rev-list", "--first-parent", tip, "^"+commit)
	if err != nil {
		return "", err
	}
	list := strings.Fields(text) // the newest first; those that contain the commit come before all others
	n := sort.Search(len(list), func(i int) bool {
		if err != nil {
			return true
		}
		in, cerr := r.Contains(ctx, list[i], commit)
		err = cerr
		return !in
	})
	if err != nil || n == 0 {
		return "", err
	}
	return list[n-1], nil
}

// Landed is what one commit, perhaps a merge, brought to HEAD, and what has changed there
// since.
type Landed struct {
	repo    *Repo
	brought map[string]bool   // commits
	since   map[string]change // by path
}

// LandedWith gives what a commit brought to HEAD; nil if HEAD does not contain the commit.
func (r *Repo) LandedWith(ctx context.Context, commit string) (*Landed, error) {
	head, err := r.commit(ctx, r.dir, "HEAD")
	if err != nil || head == "" {
		return nil, err
	}
	if in, err := r.Contains(ctx, head, commit); err != nil || !in {
		return nil, err
	}
	at, err := r.landing(ctx, head, commit)
	if err != nil {
		return nil, err
	}
	at = cmp.Or(at, commit)
	before, err := r.commit(ctx, r.dir, at+"^1")
	if err != nil {
		return nil, err
	}
	args := []string{"rev-list", at}
	if before != "" {
		args = append(args, "^"+before)
	}
	ids, err := r.git(ctx, r.dir, args...)
	if err != nil {
		return nil, err
	}
	changes, err := r.diffTrees(ctx, at, head)
	if err != nil {
		return nil, err
	}
	l := &Landed{repo: r, brought: map[string]bool{}, since: map[string]change{}}
	for id := range strings.FieldsSeq(ids) {
		l.brought[id] = true
	}
	for _, c := range changes {
		l.since[c.path] = c
	}
	return l, nil
}

// Has reports whether a commit came with it.
func (l *Landed) Has(commit string) bool { return l.brought[commit] }

// Undone reports whether one of the files that the commits (the oldest first) changed was
// deleted since, or is again as it was before them.
func (l *Landed) Undone(ctx context.Context, commits, files []string) (bool, error) {
	var touched []change
	for _, path := range files {
		if c, ok := l.since[path]; ok {
			touched = append(touched, c)
		}
	}
	if len(touched) == 0 {
		return false, nil
	}
	did, err := l.repo.diffTrees(ctx, commits[0]+"^1", commits[len(commits)-1])
	if err != nil {
		return false, err
	}
	by := map[string]change{}
	for _, c := range did {
		by[c.path] = c
	}
	return slices.ContainsFunc(touched, func(c change) bool {
		mine, ok := by[c.path]
		return ok && (c.new == blob{} || c.new == mine.old)
	}), nil
}

// Into gives the names of what may have the work of a run, if they exist: the branch that
// it started from, its own branch, and HEAD.
func (r *Repo) Into(ctx context.Context, run string) ([]string, error) {
	target, err := r.target(ctx, run)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range []string{target, "refs/heads/" + runBranch(run), "HEAD"} {
		if name == "" {
			continue
		}
		id, err := r.commit(ctx, r.dir, name)
		if err != nil {
			return nil, err
		}
		if id != "" {
			names = append(names, id)
		}
	}
	return names, nil
}
