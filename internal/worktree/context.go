package worktree

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
)

// Point is the state of a working tree at one time: its commit, and the tree of all that
// was in it, uncommitted files included. [Repo.Mark] gives both. A Point that has only a
// commit means that commit with nothing uncommitted.
type Point struct {
	Commit string `json:"commit"` // id or name; "" before the first commit
	Tree   string `json:"tree"`
}

func (p Point) tree() string { return cmp.Or(p.Tree, p.Commit) }

// GitContext is what changed in a working tree from one point to another, for the variables
// step.* and workflow.*. Paths are relative to the top, sorted, with "/" between their
// parts. A file that was uncommitted at the first point and is unchanged is no change. A
// file that is uncommitted at the second point is a change.
type GitContext struct {
	FilesAdded    []string `json:"files_added"`
	FilesModified []string `json:"files_modified"`
	FilesDeleted  []string `json:"files_deleted"`
	FilesChanged  []string `json:"files_changed"` // all three
	Commits       []string `json:"commits"`       // full ids, oldest first
	CommitCount   int      `json:"commit_count"`
	Insertions    int      `json:"insertions"` // lines; none of binary files
	Deletions     int      `json:"deletions"`
}

// Mark gives the point that the working tree of a directory is at. It reads what has
// changed since the last commit, and writes it to the repository as unreferenced objects,
// which git deletes after some weeks.
func (r *Repo) Mark(ctx context.Context, dir string) (Point, error) {
	s, err := r.State(ctx, dir)
	if err != nil || len(s.dirty) == 0 && s.Commit != "" {
		return Point{Commit: s.Commit}, err
	}
	tree, err := r.writeTree(ctx, dir)
	return Point{Commit: s.Commit, Tree: tree}, err
}

// Context gives what has changed in the working tree of a directory since a
// point.
func (r *Repo) Context(ctx context.Context, dir string, from Point) (GitContext, error) {
	to, err := r.Mark(ctx, dir)
	if err != nil {
		return GitContext{}, err
	}
	return r.Between(ctx, from, to)
}

// Between gives what changed from one point to another. A zero Point is an
// error.
func (r *Repo) Between(ctx context.Context, from, to Point) (GitContext, error) {
	c := GitContext{FilesAdded: []string{}, FilesModified: []string{}, FilesDeleted: []string{}, FilesChanged: []string{}, Commits: []string{}}
	if from.tree() == "" || to.tree() == "" {
		return c, errors.New("git context: a point has neither a commit nor a tree")
	}
	changes, err := r.diffTrees(ctx, from.tree(), to.tree())
	if err != nil {
		return c, err
	}
	for _, ch := range changes {
		c.FilesChanged = append(c.FilesChanged, ch.path)
		switch {
		case ch.old == blob{}:
			c.FilesAdded = append(c.FilesAdded, ch.path)
		case ch.new == blob{}:
			c.FilesDeleted = append(c.FilesDeleted, ch.path)
		default:
			c.FilesModified = append(c.FilesModified, ch.path)
		}
	}
	if len(changes) > 0 {
		if err := r.countLines(ctx, from, to, &c); err != nil {
			return c, err
		}
	}
	if to.Commit == "" || to.Commit == from.Commit {
		return c, nil
	}
	args := []string{"rev-list", "--reverse", to.Commit}
	if from.Commit != "" {
		args = append(args, "^"+from.Commit)
	}
	out, err := r.git(ctx, r.dir, args...)
	c.Commits = append(c.Commits, strings.Fields(out)...)
	c.CommitCount = len(c.Commits)
	return c, err
}

func (r *Repo) countLines(ctx context.Context, from, to Point, c *GitContext) error {
	rows, err := r.list(ctx, r.dir, "diff-tree", "-r", "-z", "--no-renames", "--numstat", from.tree(), to.tree())
	if err != nil {
		return err
	}
	for _, row := range rows {
		f := strings.SplitN(row, "\t", 3)
		if len(f) < 3 || f[0] == "-" { // "-": binary
			continue
		}
		added, err1 := strconv.Atoi(f[0])
		deleted, err2 := strconv.Atoi(f[1])
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		c.Insertions += added
		c.Deletions += deleted
	}
	return nil
}
