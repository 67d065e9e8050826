package worktree

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// What setup leaves uncommitted is in the snapshot that agents start from and in no
// commit of theirs: see [Run.withoutSnapshot]. So the merge of an agent that took such a
// file away does not say that it is gone. The private name "gone" says it, a blob with a
// merge, and how the file was, for each of them, written before the run's branch has the
// merge; the file is removed from the run's worktree when that follows the branch.

// goneFile is a file that a merge takes away from what is uncommitted.
type goneFile struct {
	merge string
	path  string
	was   blob
}

// tookAway gives the files of the snapshot at base that are in no commit of the run, and
// that the commit tip has no more.
func (run *Run) tookAway(ctx context.Context, base, tip string) (gone []goneFile, err error) {
	s, err := run.snapshotAt(ctx, base)
	if err != nil || s == nil || s.base == s.head {
		return nil, err
	}
	changes, err := run.repo.diffTrees(ctx, s.base, tip)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if before, brought := s.files[c.path]; brought && before == (blob{}) && c.new == (blob{}) {
			gone = append(gone, goneFile{path: c.path, was: c.old})
		}
	}
	return gone, nil
}

// noteGone has the private name say what a merge takes away; the next sync makes it safe.
func (run *Run) noteGone(ctx context.Context, merge string, gone []goneFile) error {
	if len(gone) == 0 {
		return nil
	}
	text, err := run.goneText(ctx)
	if err != nil {
		return err
	}
	for _, g := range gone {
		text += fmt.Sprintf("%s %s %s %s\x00", merge, g.was.mode, g.was.id, g.path)
	}
	r := run.repo
	id, err := r.run(ctx, call{dir: r.dir, stdin: text, args: []string{"hash-object", "-w", "--stdin"}})
	if err != nil {
		return err
	}
	_, err = r.git(ctx, r.dir, "update-ref", privateRef(run.ID, "gone"), strings.TrimSpace(id))
	return err
}

// goneText gives what the private name says; "" where there is none.
func (run *Run) goneText(ctx context.Context) (string, error) {
	r := run.repo
	id, err := r.line(ctx, r.dir, "rev-parse", "--verify", "--quiet", "--end-of-options", privateRef(run.ID, "gone"))
	if status(err) == 1 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return r.git(ctx, r.dir, "cat-file", "blob", id)
}

// takeAway removes from the run's worktree what the merges in its branch, at tip, have
// taken away, where it is as it was; it says whether they had. It may be repeated.
func (run *Run) takeAway(ctx context.Context, tip string) (had bool, err error) {
	text, err := run.goneText(ctx)
	if err != nil || text == "" {
		return false, err
	}
	own, err := run.preparedOwn()
	if err != nil {
		return false, err
	}
	there, err := run.uncommitted(ctx, tip)
	if err != nil {
		return false, err
	}
	merged := map[string]bool{}
	var remove []string
	for _, line := range splitNUL(text) {
		f := strings.SplitN(line, " ", 4)
		if len(f) < 4 {
			return false, fmt.Errorf("the name %s has %q", privateRef(run.ID, "gone"), line)
		}
		g := goneFile{merge: f[0], was: blob{f[1], f[2]}, path: f[3]}
		in, known := merged[g.merge]
		if !known {
			if in, err = run.repo.isAncestor(ctx, g.merge, tip); err != nil {
				return false, err
			}
			merged[g.merge] = in
		}
		if in && there[g.path] == g.was && !slices.Contains(own, g.path) {
			remove = append(remove, g.path)
		}
	}
	return true, run.repo.removePaths(ctx, run.Dir, remove)
}

// uncommitted gives the files of the run's worktree that the commit tip does not have.
func (run *Run) uncommitted(ctx context.Context, tip string) (map[string]blob, error) {
	now, err := run.repo.writeTree(ctx, run.Dir)
	if err != nil {
		return nil, err
	}
	changes, err := run.repo.diffTrees(ctx, tip, now)
	files := map[string]blob{}
	for _, c := range changes {
		if c.old == (blob{}) {
			files[c.path] = c.new
		}
	}
	return files, err
}
