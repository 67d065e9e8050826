package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A worktree has the git directories of its submodules in its own private git directory,
// and git removes them with it. So what a step did in a submodule and no other repository
// has is moved to a directory of the run, like a repository that a step made
// (repositories.go).
//
// If a submodule is at another commit than before, that is a change of the worktree, and
// bide commits it for a step that did not. But after a merge or a move, a submodule may be
// at a commit that its worktree does not name, although no step changed it. So bide notes
// where a submodule was before any step changed it. If it is still there, it is nobody's
// work.

// modulesDir has the git directories of submodules, inside the git directory of their
// repository.
const modulesDir = "modules"

// module is a submodule of a worktree, or of one of its submodules.
type module struct {
	git  string // its git directory
	dir  string // its working tree; "" if it has none
	path string // relative to the worktree, with "/"; its name if it has no working tree
	in   bool   // it is inside another submodule
}

// mayHaveModules reports whether a worktree with this private git directory may have a
// submodule that was fetched.
func mayHaveModules(top, admin string) bool {
	for _, name := range []string{filepath.Join(admin, modulesDir), filepath.Join(top, ".gitmodules")} {
		if _, err := os.Lstat(name); err == nil {
			return true
		}
	}
	return false
}

// modules gives the submodules of a worktree that were fetched. A submodule comes before
// those inside it.
func (r *Repo) modules(ctx context.Context, top, admin string) ([]module, error) {
	var all []module
	for _, path := range modulePaths(top) { // a step may have cloned a repository there
		dir := filepath.Join(top, filepath.FromSlash(path))
		if info, err := os.Lstat(filepath.Join(dir, ".git")); err == nil && info.IsDir() {
			all = append(all, module{git: filepath.Join(dir, ".git"), dir: dir, path: path})
		}
	}
	for _, git := range moduleDirs(filepath.Join(admin, modulesDir)) {
		name := filepath.ToSlash(strings.TrimPrefix(git, filepath.Join(admin, modulesDir)+string(filepath.Separator)))
		m := module{git: git, path: name}
		for _, of := range all {
			m.in = m.in || strings.HasPrefix(git, of.git+string(filepath.Separator))
		}
		tree, err := r.line(ctx, r.dir, "config", "--file", filepath.Join(git, "config"), "core.worktree")
		if err != nil && status(err) != 1 {
			return nil, err
		}
		if tree != "" && !filepath.IsAbs(tree) {
			tree = filepath.Join(git, tree)
		}
		if path, err := filepath.Rel(top, tree); tree != "" && err == nil && filepath.IsLocal(path) {
			m.path = filepath.ToSlash(path)
			if link, err := adminDir(tree); err == nil && filepath.Clean(link) == git {
				m.dir = tree
			}
		}
		all = append(all, m)
	}
	return all, nil
}

// moduleDirs finds the git directories of submodules below a directory.
func moduleDirs(dir string) (list []string) {
	dirs, _ := subdirs(dir) // a directory that cannot be read cannot be kept
	for _, d := range dirs {
		if _, err := os.Lstat(filepath.Join(d, "HEAD")); err == nil {
			list = append(append(list, d), moduleDirs(filepath.Join(d, modulesDir))...)
		} else { // part of a name with a "/"
			list = append(list, moduleDirs(d)...)
		}
	}
	return list
}

// standsFile is in the private git directory of a worktree. It says how the worktree's
// submodules were before any step changed them.
const standsFile = "bide-submodules"

// stand is the state of a submodule: its commit, and digests of what is uncommitted and of
// what is ignored in it.
type stand struct{ Head, Dirty, Ignored string }

// standing gives the state of a submodule now.
func (r *Repo) standing(ctx context.Context, m module) (s stand, err error) {
	if m.dir == "" {
		return s, nil
	}
	if s.Head, err = r.commit(ctx, m.dir, "HEAD"); err != nil {
		return s, err
	}
	rows, err := r.list(ctx, m.dir, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignored", "--ignore-submodules=none")
	var dirty, ignored []string
	for _, row := range rows {
		if strings.HasPrefix(row, "!! ") {
			ignored = append(ignored, row)
		} else {
			dirty = append(dirty, row)
		}
	}
	s.Dirty, s.Ignored = digest(dirty), digest(ignored)
	return s, err
}

func digest(rows []string) string {
	if len(rows) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(rows, "\x00")))
	return hex.EncodeToString(sum[:])
}

// stands gives the states of the submodules of a worktree.
func (r *Repo) stands(ctx context.Context, top, admin string) (map[string]stand, error) {
	all, err := r.modules(ctx, top, admin)
	if err != nil {
		return nil, err
	}
	now := map[string]stand{}
	for _, m := range all {
		if now[m.path], err = r.standing(ctx, m); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// noteStands records the states of the submodules of a worktree, all of them or those that
// are named. They have nobody's work.
func (r *Repo) noteStands(ctx context.Context, top string, only ...string) error {
	admin, err := adminDir(top)
	if err != nil || !mayHaveModules(top, admin) {
		return err
	}
	now, err := r.stands(ctx, top, admin)
	if err != nil {
		return err
	}
	if len(only) > 0 {
		noted, err := notedStands(admin)
		if err != nil {
			return err
		}
		for path, s := range now {
			if slices.Contains(only, path) {
				noted[path] = s
			}
		}
		now = noted
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return replace(filepath.Join(admin, standsFile), text)
}

// noteMerged records the states of those submodules of the run's worktree for which the
// merges from the commit old to tip name another commit: the submodules are not moved.
func (run *Run) noteMerged(ctx context.Context, old, tip string) error {
	admin, err := adminDir(run.Dir)
	if err != nil || !mayHaveModules(run.Dir, admin) {
		return err
	}
	changes, err := run.repo.diffTrees(ctx, old, tip)
	if err != nil {
		return err
	}
	var named []string
	for _, c := range changes {
		if c.new.mode == gitlink {
			named = append(named, c.path)
		}
	}
	if len(named) == 0 {
		return nil
	}
	return run.repo.noteStands(ctx, run.Dir, named...)
}

func notedStands(admin string) (map[string]stand, error) {
	noted := map[string]stand{}
	text, err := os.ReadFile(filepath.Join(admin, standsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return noted, nil
	}
	if err == nil && json.Unmarshal(text, &noted) != nil {
		return map[string]stand{}, nil // a power cut damaged the file
	}
	return noted, err
}

// unmoved gives the submodules of the worktree that a directory is in, and for each whether
// it is still at the commit where it was before any step changed it. For a working tree of
// the user it gives none.
func (r *Repo) unmoved(ctx context.Context, dir string) (map[string]bool, error) {
	admin, err := r.gitDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	top, complete := worktreeOf(admin)
	if filepath.Dir(admin) != filepath.Join(r.common, "worktrees") || !complete || !mayHaveModules(top, admin) {
		return nil, nil
	}
	noted, err := notedStands(admin)
	if err != nil {
		return nil, err
	}
	now, err := r.stands(ctx, top, admin)
	still := map[string]bool{}
	for path, s := range now {
		still[path] = s.Head != "" && s.Head == noted[path].Head
	}
	return still, err
}

// stay gives the submodules that are where they were.
func stay(unmoved map[string]bool) (paths []string) {
	for path, still := range unmoved {
		if still {
			paths = append(paths, path)
		}
	}
	return paths
}

// moved reports whether a submodule of a slot differs from when the slot was taken.
func (r *Repo) moved(ctx context.Context, s *slot) (bool, error) {
	if !mayHaveModules(s.dir, s.admin) {
		return false, nil
	}
	noted, err := notedStands(s.admin)
	if err != nil {
		return false, err
	}
	now, err := r.stands(ctx, s.dir, s.admin)
	if err != nil || len(now) != len(noted) {
		return true, err
	}
	for path, n := range now {
		if n != noted[path] {
			return true, nil
		}
	}
	return false, nil
}

// ownModules gives the submodules of a worktree that have something no other repository
// has: commits that no remote is known to have, or uncommitted files. base is the commit
// from which the worktree started, and tip is its last commit.
func (r *Repo) ownModules(ctx context.Context, top, admin, base, tip string) (own []module, err error) {
	if !mayHaveModules(top, admin) {
		return nil, nil
	}
	all, err := r.modules(ctx, top, admin)
	if err != nil {
		return nil, err
	}
	noted, err := notedStands(admin)
	if err != nil {
		return nil, err
	}
	named, known, err := r.gitlinks(ctx, base, tip)
	if err != nil {
		return nil, err
	}
	for _, s := range noted {
		known = append(known, s.Head)
	}
	var outer module
	for _, m := range all {
		if !m.in {
			outer = m
		}
		if slices.ContainsFunc(own, func(o module) bool { return o.git == outer.git }) {
			continue
		}
		now, err := r.standing(ctx, m)
		if err != nil {
			return nil, err
		}
		alone := now.Dirty != noted[m.path].Dirty
		if !alone {
			if alone, err = r.aloneHas(ctx, m.git, named, known); err != nil {
				return nil, err
			}
		}
		if alone {
			own = append(own, outer)
		}
	}
	return own, nil
}

// gitlinks gives the commits of other repositories that the commits from base to tip name,
// and those that base names.
func (r *Repo) gitlinks(ctx context.Context, base, tip string) (named, known []string, err error) {
	if base == "" || tip == "" {
		return nil, nil, nil
	}
	rows, err := r.list(ctx, r.dir, "ls-tree", "-r", "-z", "--full-tree", base)
	if err != nil {
		return nil, nil, err
	}
	for _, row := range rows {
		if id, ok := strings.CutPrefix(row, gitlink+" commit "); ok {
			id, _, _ = strings.Cut(id, "\t")
			known = append(known, id)
		}
	}
	rows, err = r.list(ctx, r.dir, "log", "-m", "-z", "--raw", "--no-abbrev", "--no-renames", "--format=", tip, "^"+base)
	for _, row := range rows {
		// :160000 160000 ID ID M
		if f := strings.Fields(row); len(f) == 5 && strings.HasPrefix(row, ":") && f[1] == gitlink {
			named = append(named, f[3])
		}
	}
	return named, known, err
}

// modulesLeft gives the paths of such submodules, in the form in which repositories are
// reported.
func (r *Repo) modulesLeft(ctx context.Context, top, base, tip string) (paths []string, err error) {
	admin, err := adminDir(top)
	if err != nil {
		return nil, err
	}
	own, err := r.ownModules(ctx, top, admin, base, tip)
	for _, m := range own {
		paths = append(paths, m.path+"/")
	}
	return paths, err
}

// aloneHas reports whether a repository has commits that are nowhere else. It looks at
// HEAD, branches, the stash and the commits in named, and leaves out what a remote's refs
// or the commits in known contain.
func (r *Repo) aloneHas(ctx context.Context, git string, named, known []string) (bool, error) {
	args := append([]string{"--git-dir=" + git, "rev-list", "--max-count=1", "--ignore-missing", "HEAD", "--branches", "refs/stash"}, named...)
	args = append(args, "--not", "--remotes")
	for _, id := range known {
		if id != "" {
			args = append(args, id)
		}
	}
	out, err := r.line(ctx, filepath.Dir(git), args...)
	return out != "", err
}

// keepModules moves submodules of a worktree to a directory of the run if they have
// something no other repository has, and gives their new places. Each becomes a repository
// that does not need the worktree. It may be repeated after any part of it was done. All of
// it is on the disk when it returns.
func (run *Run) keepModules(ctx context.Context, top, admin, name, base, tip string) (kept []string, err error) {
	own, err := run.repo.ownModules(ctx, top, admin, base, tip)
	if err != nil || len(own) == 0 {
		return nil, err
	}
	all, err := run.repo.modules(ctx, top, admin)
	if err != nil {
		return nil, err
	}
	for _, m := range own {
		to := filepath.Join(run.asideDir(name), filepath.FromSlash(m.path))
		part := to + partSuffix
		if err := run.repo.keepModule(ctx, m, all, part); err != nil {
			return kept, fmt.Errorf("keep the submodule %s: %w", m.path, err)
		}
		to = freeName(to)
		if err := os.Rename(part, to); err != nil {
			return kept, err
		}
		kept = append(kept, to)
	}
	return kept, run.repo.Sync(ctx)
}

// partSuffix is that of a submodule that is being moved; no step calls a repository so.
const partSuffix = ".bide-part"

// keepModule moves a submodule, with those inside it, to the directory part. It leaves an
// empty directory in its place, like that of a submodule that was not fetched.
func (r *Repo) keepModule(ctx context.Context, m module, all []module, part string) error {
	if _, err := os.Lstat(part); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(part), 0o700); err != nil {
			return err
		}
		if err := r.Sync(ctx); err != nil { // as in setAside
			return err
		}
		if m.dir == "" {
			err = os.Mkdir(part, 0o777)
		} else if err = os.Rename(m.dir, part); err == nil {
			err = os.Mkdir(m.dir, 0o777)
		}
		if err != nil {
			return err
		}
	}
	link, fresh := filepath.Join(part, ".git"), filepath.Join(part, ".git.part")
	if info, err := os.Lstat(link); err == nil && info.IsDir() {
		return nil // it was done before
	}
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.CopyFS(fresh, os.DirFS(m.git)); err != nil {
		return err
	}
	if _, err := r.git(ctx, r.dir, "config", "--file", filepath.Join(fresh, "config"), "--unset-all", "core.worktree"); err != nil && status(err) != 5 { // 5: it has none
		return err
	}
	for _, inner := range all {
		inside, in := strings.CutPrefix(inner.git, m.git+string(filepath.Separator))
		path, below := strings.CutPrefix(inner.path, m.path+"/")
		tree := filepath.Join(part, filepath.FromSlash(path))
		if _, err := os.Lstat(filepath.Join(tree, ".git")); !in || !below || err != nil {
			continue
		}
		git := filepath.Join(link, inside) // where it will be
		up, err := filepath.Rel(git, tree)
		if err != nil {
			return err
		}
		down, err := filepath.Rel(tree, git)
		if err != nil {
			return err
		}
		if _, err := r.git(ctx, r.dir, "config", "--file", filepath.Join(fresh, inside, "config"), "core.worktree", filepath.ToSlash(up)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tree, ".git"), []byte("gitdir: "+filepath.ToSlash(down)+"\n"), 0o666); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(link); err != nil {
		return err
	}
	return os.Rename(fresh, link)
}

// eraseLost is [Repo.erase] for a worktree that is no longer whole: its submodules may have
// something no other repository has.
func (run *Run) eraseLost(ctx context.Context, path string) error {
	dirs, err := subdirs(filepath.Join(run.repo.common, "worktrees"))
	if err != nil {
		return err
	}
	for _, admin := range dirs {
		if of, complete := worktreeOf(admin); !complete || of != path {
			continue
		}
		if _, err := run.keepModules(ctx, path, admin, filepath.Base(path), "", ""); err != nil {
			return err
		}
	}
	return run.repo.erase(path)
}
