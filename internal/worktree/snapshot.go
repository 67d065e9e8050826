package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// snapshot is the state of a run's worktree that its agents start from.
type snapshot struct {
	head string // the run's HEAD at that time
	base string // the snapshot's commit on top of it; head itself if nothing was uncommitted
	// files are the files that the snapshot added or changed: how they were in head, by
	// path.
	files map[string]blob
}

// blob is a file in a tree; the zero blob means no file.
type blob struct{ mode, id string }

// Frozen reports whether there is a snapshot that agents start from.
func (run *Run) Frozen() bool { return run.snap != nil }

// Freeze takes the snapshot that agents start from: the run's HEAD and what is uncommitted
// in its worktree now. A later call takes a new one, for agents that start later.
func (run *Run) Freeze(ctx context.Context) error {
	if err := run.Follow(ctx); err != nil {
		return err
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.freeze(ctx)
}

func (run *Run) frozen(ctx context.Context) (*snapshot, error) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.snap == nil {
		if err := run.freeze(ctx); err != nil {
			return nil, err
		}
	}
	return run.snap, nil
}

func (run *Run) freeze(ctx context.Context) error {
	s, err := run.takeSnapshot(ctx)
	if err != nil {
		return fmt.Errorf("take the snapshot of %s for agents: %w", run.Dir, err)
	}
	run.snap = s
	return nil
}

func (run *Run) takeSnapshot(ctx context.Context) (*snapshot, error) {
	r := run.repo
	head, base, err := run.present(ctx)
	if err != nil {
		return nil, err
	}
	err = r.locked(ctx, func() error {
		all := fmt.Sprintf("update %s %s\nupdate %s %s\ndelete %s\n", privateRef(run.ID, "head"), head, privateRef(run.ID, "base"), base, privateRef(run.ID, "took"))
		_, err := r.run(ctx, call{dir: r.dir, stdin: all, args: []string{"update-ref", "--stdin"}})
		return err
	})
	if err != nil {
		return nil, err
	}
	return r.loadSnapshot(ctx, head, base)
}

// snapshotMessage is the message of the commit of what is uncommitted when agents start.
const snapshotMessage = "bide: files that were uncommitted when the map started"

// present gives the HEAD of the run's worktree, and a commit on top of it that has what is
// uncommitted there. Both are HEAD if nothing is uncommitted.
func (run *Run) present(ctx context.Context) (head, base string, err error) {
	r := run.repo
	p, err := r.Mark(ctx, run.Dir)
	if err != nil || p.Tree == "" {
		return p.Commit, p.Commit, err
	}
	headTree, err := r.line(ctx, run.Dir, "rev-parse", p.Commit+"^{tree}")
	if err != nil || p.Tree == headTree {
		return p.Commit, p.Commit, err
	}
	base, err = r.line(ctx, run.Dir, "commit-tree", p.Tree, "-p", p.Commit, "-m", snapshotMessage)
	return p.Commit, base, err
}

func (r *Repo) loadSnapshot(ctx context.Context, head, base string) (*snapshot, error) {
	s := &snapshot{head: head, base: base, files: map[string]blob{}}
	changes, err := r.diffTrees(ctx, head, base)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		s.files[c.path] = c.old
	}
	return s, nil
}

// change is a path that differs between two trees.
type change struct {
	path     string
	old, new blob
}

func (r *Repo) diffTrees(ctx context.Context, a, b string) ([]change, error) {
	if a == b {
		return nil, nil
	}
	fields, err := r.list(ctx, r.dir, "diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", a, b)
	if err != nil {
		return nil, err
	}
	var all []change
	for i := 0; i+1 < len(fields); i += 2 {
		// :100644 100644 ID ID M
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) < 5 {
			return nil, fmt.Errorf("git diff-tree gave %q", fields[i])
		}
		c := change{path: fields[i+1], old: blob{f[0], f[2]}, new: blob{f[1], f[3]}}
		if c.old.mode == "000000" {
			c.old = blob{}
		}
		if c.new.mode == "000000" {
			c.new = blob{}
		}
		all = append(all, c)
	}
	return all, nil
}

// writeTree gives the tree of what is in a working tree now, uncommitted and
// untracked files included, through a copy of the index.
func (r *Repo) writeTree(ctx context.Context, top string) (tree string, err error) {
	index, drop, err := r.copyIndex(ctx, top)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, drop()) }()
	unmoved, err := r.unmoved(ctx, top)
	if err != nil {
		return "", err
	}
	env := []string{"GIT_INDEX_FILE=" + index}
	if _, err := r.run(ctx, call{dir: top, env: env, args: addAll(stay(unmoved))}); err != nil {
		return "", err
	}
	out, err := r.run(ctx, call{dir: top, env: env, args: []string{"write-tree"}})
	return strings.TrimSpace(out), err
}

// copyIndex copies the index of a working tree to a file beside it. The copy keeps the time
// of the original: git trusts size and time to see that a file is unchanged only if the
// file is older than the index.
func (r *Repo) copyIndex(ctx context.Context, top string) (path string, drop func() error, err error) {
	out, err := r.gitDir(ctx, top)
	if err != nil {
		return "", nil, err
	}
	dropIndexes(out)
	dir, err := os.MkdirTemp(out, fmt.Sprintf("%s%d-", indexDirs, os.Getpid()))
	if err != nil {
		return "", nil, err
	}
	drop = func() error { return os.RemoveAll(dir) }
	path = filepath.Join(dir, "index")
	if err := copyFile(filepath.Join(out, "index"), path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, errors.Join(err, drop())
	}
	return path, drop, nil
}

// indexDirs begins the names of the directories of copied indexes; the number of their
// process follows.
const indexDirs = "bide-index-"

// dropIndexes removes the copies that belong to processes which have ended.
func dropIndexes(admin string) {
	dirs, _ := subdirs(admin)
	for _, dir := range dirs {
		rest, ours := strings.CutPrefix(filepath.Base(dir), indexDirs)
		of, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(of)
		if ours && err == nil && pid != os.Getpid() && !alive(pid) {
			_ = os.RemoveAll(dir) // a later call tries again
		}
	}
}

// gitDir gives the private git directory of a working tree. Git is asked if the directory
// is not the top of a worktree of ours.
func (r *Repo) gitDir(ctx context.Context, dir string) (string, error) {
	if admin, err := adminDir(dir); err == nil {
		return admin, nil
	}
	return r.line(ctx, dir, "rev-parse", "--absolute-git-dir")
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// snapshotAt gives the snapshot that an agent started from, perhaps in an earlier life of
// the run. It gives nil if the agent started from a commit of the run.
func (run *Run) snapshotAt(ctx context.Context, base string) (*snapshot, error) {
	run.mu.Lock()
	s := run.snap
	run.mu.Unlock()
	if s == nil || s.base == base {
		return s, nil
	}
	into, err := run.tips(ctx)
	if err != nil {
		return nil, err
	}
	if n, err := run.repo.countNew(ctx, base, append(into, run.Base)...); err != nil || n == 0 {
		return nil, err
	}
	head, err := run.repo.commit(ctx, run.repo.dir, base+"^1")
	if err != nil || head == "" {
		return nil, err
	}
	return run.repo.loadSnapshot(ctx, head, base)
}

// withoutSnapshot rewrites the commits from the run's HEAD to tip without what only the
// snapshot at base brought, and gives the new tip. Authors, dates and messages are kept;
// signatures cannot be kept.
func (run *Run) withoutSnapshot(ctx context.Context, tip, base string) (string, error) {
	s, err := run.snapshotAt(ctx, base)
	if err != nil || s == nil || s.base == s.head {
		return tip, err
	}
	// Not in run.Dir: the worktree may no longer exist.
	out, err := run.repo.git(ctx, run.repo.dir, "rev-list", "--topo-order", "--reverse", tip, "^"+s.head)
	if err != nil {
		return "", err
	}
	renamed := map[string]string{s.base: s.head}
	for id := range strings.FieldsSeq(out) {
		if id == s.base {
			continue
		}
		if renamed[id], err = run.repo.rewrite(ctx, s, id, renamed); err != nil {
			return "", fmt.Errorf("take the snapshot out of commit %s: %w", id, err)
		}
	}
	if id, ok := renamed[tip]; ok {
		return id, nil
	}
	return tip, nil
}

// rewrite rewrites one commit on rewritten parents.
func (r *Repo) rewrite(ctx context.Context, s *snapshot, id string, renamed map[string]string) (string, error) {
	tree, err := r.cleanTree(ctx, s, id)
	if err != nil {
		return "", err
	}
	raw, err := r.git(ctx, r.dir, "cat-file", "commit", id)
	if err != nil {
		return "", err
	}
	header, message, _ := strings.Cut(raw, "\n\n")
	var b bytes.Buffer
	signature := false
	for line := range strings.SplitSeq(header, "\n") {
		key, value, _ := strings.Cut(line, " ")
		if key != "" {
			signature = key == "gpgsig" || key == "gpgsig-sha256"
		}
		switch {
		case signature:
			continue
		case key == "tree":
			value = tree
		case key == "parent" && renamed[value] != "":
			value = renamed[value]
		}
		fmt.Fprintf(&b, "%s %s\n", key, value)
	}
	fmt.Fprintf(&b, "\n%s", message)
	out, err := r.run(ctx, call{dir: r.dir, stdin: b.String(), args: []string{"hash-object", "-t", "commit", "-w", "--stdin"}})
	return strings.TrimSpace(out), err
}

// cleanTree gives the tree of a commit without the snapshot's changes: its files are as
// they were before the snapshot, except those that the commit changed.
func (r *Repo) cleanTree(ctx context.Context, s *snapshot, id string) (tree string, err error) {
	changes, err := r.diffTrees(ctx, s.base, id)
	if err != nil {
		return "", err
	}
	changed := map[string]bool{}
	for _, c := range changes {
		changed[c.path] = true
	}
	var gone, back strings.Builder
	for path, old := range s.files {
		switch {
		case changed[path]:
		case old == blob{}:
			fmt.Fprintf(&gone, "0 %s\t%s\x00", strings.Repeat("0", len(s.base)), path)
		default:
			fmt.Fprintf(&back, "%s %s 0\t%s\x00", old.mode, old.id, path)
		}
	}
	dir, err := os.MkdirTemp("", "bide-index-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	for _, c := range []call{
		{args: []string{"read-tree", id}},
		// Removals come first, so that a directory can take the place of a file.
		{args: []string{"update-index", "-z", "--index-info"}, stdin: gone.String() + back.String()},
	} {
		c.dir, c.env = r.dir, env
		if _, err := r.run(ctx, c); err != nil {
			return "", err
		}
	}
	out, err := r.run(ctx, call{dir: r.dir, env: env, args: []string{"write-tree"}})
	return strings.TrimSpace(out), err
}
