package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
)

// Info is a branch of ours, with its worktree if it has one.
type Info struct {
	Run    string `json:"run"`
	Item   string `json:"item,omitempty"` // as encoded in the branch's name; "" of a run's own
	Branch string `json:"branch"`         // "" of a worktree with a detached HEAD
	Commit string `json:"commit"`
	// Path is the worktree; "" where only the branch is left.
	Path string `json:"path,omitempty"`
	// Unmerged is the number of commits that are neither in the run's branch
	// nor in the branch that the run started from.
	Unmerged int `json:"unmerged"`
	// Uncommitted is the number of uncommitted files in the worktree.
	Uncommitted int `json:"uncommitted"`
	// Bytes is the size of the files in the worktree.
	Bytes int64 `json:"bytes"`

	stray bool // Branch, if any, is not ours: it is not deleted
}

// Merged reports whether nothing is lost when the branch and its worktree are removed.
func (i Info) Merged() bool { return i.Unmerged == 0 && i.Uncommitted == 0 }

// List gives the branches and worktrees of ours in the repository, of one run,
// or of all with an empty id, in the order of their names.
func (r *Repo) List(ctx context.Context, run string) ([]Info, error) {
	trees, err := r.worktrees(ctx)
	if err != nil {
		return nil, err
	}
	out, err := r.git(ctx, r.dir, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads/"+runBranches, "refs/heads/"+itemBranches)
	if err != nil {
		return nil, err
	}
	var all []Info
	for line := range strings.Lines(out) {
		branch, commit, _ := strings.Cut(strings.TrimSpace(line), " ")
		i := Info{Branch: branch, Commit: commit}
		if rest, ok := strings.CutPrefix(branch, itemBranches); ok {
			i.Run, rest, _ = strings.Cut(rest, "/")
			i.Item, _, _ = strings.Cut(rest, "/")
		} else {
			i.Run, _, _ = strings.Cut(strings.TrimPrefix(branch, runBranches), ".")
		}
		if t := slices.IndexFunc(trees, func(e entry) bool { return e.branch == branch }); t >= 0 {
			i.Path = trees[t].path
			trees = slices.Delete(trees, t, t+1)
		}
		all = append(all, i)
	}
	strays, err := r.strays(ctx, trees)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(append(all, strays...), func(i Info) bool { return run != "" && i.Run != run })
	for n := range all {
		if err := r.measure(ctx, &all[n]); err != nil {
			return nil, fmt.Errorf("branch %s: %w", all[n].Branch, err)
		}
	}
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(strings.Compare(a.Branch, b.Branch), strings.Compare(a.Path, b.Path))
	})
	return all, nil
}

// Tips gives the branches of a run and of its items, and the commits at which they are.
func (r *Repo) Tips(ctx context.Context, run string) (map[string]string, error) {
	out, err := r.git(ctx, r.dir, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads/"+runBranch(run), "refs/heads/"+itemBranches+run+"/")
	tips := map[string]string{}
	for line := range strings.Lines(out) {
		branch, commit, _ := strings.Cut(strings.TrimSpace(line), " ")
		tips[branch] = commit
	}
	return tips, err
}

// HasAll reports whether a branch has all of the commits, or HEAD if there is no such
// branch. A commit that git does not have is missing.
func (r *Repo) HasAll(ctx context.Context, branch string, commits []string) (bool, error) {
	into, err := r.commit(ctx, r.dir, "refs/heads/"+branch)
	if err != nil || len(commits) == 0 {
		return true, err
	}
	out, err := r.run(ctx, call{dir: r.dir, args: []string{"rev-list", "--max-count=1", "--stdin"}, stdin: strings.Join(commits, "\n") + "\n^" + cmp.Or(into, "HEAD") + "\n"})
	if status(err) == 128 { // git does not have one of them
		return false, nil
	}
	return out == "", err
}

// NoBranchError is the error of FindRun for a run that has no branch, or never had one.
type NoBranchError struct{ Run, Dir string }

func (e *NoBranchError) Error() string {
	return fmt.Sprintf("run %s has no branch %s in %s; `bide worktree ls` shows those that there are", e.Run, runBranch(e.Run), e.Dir)
}

// strays gives the worktrees of ours in which an agent or a step switched from our branch
// to another or to none. They are recognised by their path, and by the private name of
// their run.
func (r *Repo) strays(ctx context.Context, trees []entry) (all []Info, err error) {
	for _, e := range trees {
		i := Info{Path: e.path, Commit: e.head, stray: true}
		parent := filepath.Dir(e.path)
		switch {
		case filepath.Base(e.path) == "run":
			i.Run = filepath.Base(parent)
		case filepath.Base(parent) == poolDir:
			i.Run = filepath.Base(filepath.Dir(parent))
			if admin, err := adminDir(e.path); err == nil {
				if o, ok := readOwner(admin); ok {
					i.Item = encode(o.Item)
				}
			}
		}
		if checkRunID(i.Run) != nil {
			continue
		}
		start, err := r.commit(ctx, r.dir, privateRef(i.Run, "start"))
		if err != nil {
			return nil, err
		}
		if start != "" {
			i.Branch = e.branch
			all = append(all, i)
		}
	}
	return all, nil
}

func (r *Repo) measure(ctx context.Context, i *Info) (err error) {
	into, err := r.target(ctx, i.Run)
	if err != nil {
		return err
	}
	into = cmp.Or(into, "HEAD")
	also := []string{into, privateRef(i.Run, "start")}
	if i.Branch != runBranch(i.Run) { // what a later life began with is work of the run itself
		also = append(also, privateRef(i.Run, "base"), "refs/heads/"+runBranch(i.Run))
	}
	if i.Unmerged, err = r.countNew(ctx, i.Commit, also...); err != nil || i.Path == "" {
		return err
	}
	if _, err := os.Stat(i.Path); errors.Is(err, fs.ErrNotExist) {
		return nil // only its registration is left
	}
	files, err := r.dirty(ctx, i.Path)
	if err != nil {
		return err
	}
	i.Uncommitted = len(files)
	i.Bytes, err = SizeOf(i.Path)
	return err
}

// SizeOf adds up the sizes of the files under a directory. Files that vanish meanwhile are
// skipped.
func SizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return total, err
}

// CleanOptions say what Clean removes.
type CleanOptions struct {
	// Run limits it to one run; "" means all.
	Run string
	// Force also removes what is not merged. What is uncommitted is lost then,
	// and branches are deleted.
	Force bool
	// DryRun only reports what would be removed.
	DryRun bool
	// Busy reports whether a run is in progress; its worktrees are left alone, also with
	// Force. Nil means that no run is.
	Busy func(run string) bool
	// Replaced reports whether a branch has the work of an earlier attempt at an item whose
	// later attempt is merged. Nil means that no branch has.
	Replaced func(Info) bool
}

// Cleaned is what Clean did about one branch and its worktree.
type Cleaned struct {
	Info
	// Removed says that it is gone, or with DryRun would be.
	Removed bool `json:"removed"`
	// Why says why it was left; "" if it was removed.
	Why string `json:"why,omitempty"`
}

// Clean removes branches and worktrees of ours: those that are merged and have
// nothing uncommitted, or with Force all.
func (r *Repo) Clean(ctx context.Context, o CleanOptions) ([]Cleaned, error) {
	infos, err := r.List(ctx, o.Run)
	if err != nil {
		return nil, err
	}
	// Items first: whether they are merged depends on their run's branch.
	slices.SortStableFunc(infos, func(a, b Info) int { return len(b.Item) - len(a.Item) })
	var done []Cleaned
	var errs []error
	for _, i := range infos {
		c := Cleaned{Info: i, Why: whyLeft(i, o)}
		if c.Why == "" && !o.DryRun {
			if err := r.clean(ctx, i); err != nil {
				errs = append(errs, fmt.Errorf("clean %s: %w", cmp.Or(i.Branch, i.Path), err))
				c.Why = err.Error()
			}
		}
		c.Removed = c.Why == ""
		done = append(done, c)
	}
	return done, errors.Join(errs...)
}

func whyLeft(i Info, o CleanOptions) string {
	switch {
	case o.Busy != nil && o.Busy(i.Run):
		return "the run continues"
	case o.Force:
		return ""
	case i.Unmerged > 0 && o.Replaced != nil && o.Replaced(i):
		remove := "`git branch -D " + i.Branch + "`"
		if i.Path != "" || i.stray {
			remove = "--force"
		}
		return "work of an earlier attempt: a later one succeeded and is merged; remove it with " + remove
	case i.Unmerged > 0 && i.Item == "" && !i.stray:
		return diag.Count(i.Unmerged, "commit") + " not merged; merge with `bide worktree merge " + i.Run + "`, or remove with --force"
	case i.Unmerged > 0:
		return diag.Count(i.Unmerged, "commit") + " not merged; when the work of the run is, merge with `git merge --no-ff " + cmp.Or(i.Branch, i.Commit) + "`, or remove with --force"
	case i.Uncommitted > 0:
		return diag.Count(i.Uncommitted, "file") + " uncommitted in " + i.Path + "; commit them, or remove with --force"
	}
	return ""
}

func (r *Repo) clean(ctx context.Context, i Info) error {
	return r.locked(ctx, func() error {
		if i.Path != "" {
			if err := r.unregister(ctx, i.Path); err != nil {
				return err
			}
			if root, ok := strings.CutSuffix(i.Path, string(filepath.Separator)+"run"); ok {
				tidy(root)
			}
		}
		if i.stray {
			return nil
		}
		if i.Item == "" && i.Unmerged == 0 {
			if err := r.dropTip(ctx, i.Run); err != nil {
				return err
			}
		}
		// Delete only if the branch is still at the commit that was judged.
		if err := r.deleteBranch(ctx, i.Branch, i.Commit); err != nil {
			return err
		}
		return r.forget(ctx, i.Run)
	})
}

// ownTree finds the run's own worktree, whatever its HEAD is at: while items are merged, it is detached.
// It is nil where there is none.
func (r *Repo) ownTree(ctx context.Context, run *Run) (*entry, error) {
	all, err := r.worktrees(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(e entry) bool {
		return e.branch == run.Branch || filepath.Base(e.path) == "run" && filepath.Base(filepath.Dir(e.path)) == run.ID
	}); i >= 0 {
		return &all[i], nil
	}
	return nil, nil
}

// FindRun gives a run by its id, for FinalMerge, FinalMergeItem and Remove. It does not
// need the run's worktree. The run may have only branches of its items left. If Root is given, what a
// merge or a removal that was cut short has left is mended first, as by OpenRun; what is left of a
// run without branches is then taken away, and the error is a *[NoBranchError].
func (r *Repo) FindRun(ctx context.Context, o RunOptions) (*Run, error) {
	if err := checkRunID(o.ID); err != nil {
		return nil, err
	}
	run := &Run{ID: o.ID, found: true}
	run.Tree = r.tree("", runBranch(o.ID))
	if o.Root != "" {
		mended, err := r.mendFound(ctx, o)
		if err != nil {
			return nil, err
		}
		run.Locks, run.Lost, run.inTheWay, run.Remade = mended.Locks, mended.Lost, mended.inTheWay, mended.Remade
	}
	e, err := r.ownTree(ctx, run)
	if err != nil {
		return nil, err
	}
	tip, err := r.commit(ctx, r.dir, "refs/heads/"+run.Branch)
	if err != nil {
		return nil, err
	}
	items, err := r.itemBranches(ctx, o.ID)
	if err != nil {
		return nil, err
	}
	if run.Gone = tip == ""; run.Gone && o.Root != "" {
		if err := r.clear(ctx, o); err != nil {
			return nil, err
		}
	}
	if run.Gone && len(items) == 0 {
		return nil, &NoBranchError{o.ID, r.dir}
	}
	if e != nil {
		run.Tree = r.tree(e.path, run.Branch)
		run.root = filepath.Dir(e.path)
		run.queue = newLock(filepath.Join(run.root, "merge.lock"))
	}
	return run, r.recall(ctx, run)
}

// mendFound mends what a merge or a removal of the run that was cut short has left.
func (r *Repo) mendFound(ctx context.Context, o RunOptions) (*Run, error) {
	run, err := r.blankRun(o)
	if err != nil {
		return nil, err
	}
	if err := r.mendRepo(ctx, run); err != nil {
		return nil, err
	}
	e, err := r.ownTree(ctx, run)
	if err != nil {
		return nil, err
	}
	if e != nil {
		opened, err := r.OpenRun(ctx, o)
		if err == nil {
			opened.Locks = append(run.Locks, opened.Locks...)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return opened, err
		}
		if _, err := os.Lstat(e.path); errors.Is(err, fs.ErrNotExist) { // the run was being removed: git alone knows of it
			if err := r.locked(ctx, func() error { return r.erase(e.path) }); err != nil {
				return nil, err
			}
		}
	}
	return run, r.dropLost(ctx, run)
}

// clear takes away what is left of a run that has no branch any more. A worktree that this repository
// does not know may be of another one, in which the run is.
func (r *Repo) clear(ctx context.Context, o RunOptions) error {
	run, err := r.blankRun(o)
	if err != nil {
		return err
	}
	return r.locked(ctx, func() error {
		e, err := r.registered(ctx, run.Dir)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(run.Dir); err == nil && e == nil {
			return nil
		}
		if err := r.makeRoom(ctx, run); err != nil {
			return err
		}
		if err := run.sweep(ctx); err != nil {
			return err
		}
		tidy(run.root)
		return r.forget(ctx, run.ID)
	})
}
