package worktree

import (
	"context"
	"sort"
	"strings"
)

// ItemMerge is a merge of the work of an item as its commit tells of it.
type ItemMerge struct {
	Commit, Tree   string
	Parents        []string
	Item, Evidence string // of its trailers
}

// ItemMerges gives the merges of the items of a run that carry trailers and that a
// commit has, the newest first.
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

// Landing gives the commit by which the branch that a run started from got a commit: the
// oldest of its first parents that has it. It is zero where the branch has it not, or is not
// known.
func (r *Repo) Landing(ctx context.Context, run, commit string) (m Merged, err error) {
	target, err := r.target(ctx, run)
	if err != nil || target == "" {
		return m, err
	}
	if in, err := r.Contains(ctx, target, commit); err != nil || !in {
		return m, err
	}
	text, err := r.git(ctx, r.dir, "rev-list", "--first-parent", target, "^"+commit)
	if err != nil {
		return m, err
	}
	list := strings.Fields(text) // the newest first; those that have the commit are before all others
	n := sort.Search(len(list), func(i int) bool {
		if err != nil {
			return true
		}
		in, cerr := r.Contains(ctx, list[i], commit)
		err = cerr
		return !in
	})
	if err != nil || n == 0 {
		return m, err
	}
	tree, err := r.Tree(ctx, list[n-1])
	return Merged{list[n-1], tree}, err
}

// Into gives the names of what may have the work of a run: the branch that it started
// from, its own branch, and HEAD, those that are there.
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
