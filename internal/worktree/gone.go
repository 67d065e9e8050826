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
// merge; the file is removed from the run's worktree when that follows the branch. "took"
// says the same of files that are removed, until there is another snapshot: a worktree that
// is made anew does not have them.

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
	text, err := run.goneText(ctx, "gone")
	if err != nil {
		return err
	}
	for _, g := range gone {
		text += fmt.Sprintf("%s %s %s %s\x00", merge, g.was.mode, g.was.id, g.path)
	}
	id, err := run.writeText(ctx, text)
	if err != nil {
		return err
	}
	_, err = run.repo.git(ctx, run.repo.dir, "update-ref", privateRef(run.ID, "gone"), id)
	return err
}

// goneText gives what a private name says; "" where there is none.
func (run *Run) goneText(ctx context.Context, name string) (string, error) {
	r := run.repo
	id, err := r.line(ctx, r.dir, "rev-parse", "--verify", "--quiet", "--end-of-options", privateRef(run.ID, name))
	if status(err) == 1 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return r.git(ctx, r.dir, "cat-file", "blob", id)
}

// writeText writes a blob.
func (run *Run) writeText(ctx context.Context, text string) (id string, err error) {
	id, err = run.repo.run(ctx, call{dir: run.repo.dir, stdin: text, args: []string{"hash-object", "-w", "--stdin"}})
	return strings.TrimSpace(id), err
}

// taken gives the files of a text of goneText that merges in the commit tip take away.
func (run *Run) taken(ctx context.Context, text, tip string) (files []goneFile, err error) {
	merged := map[string]bool{}
	for _, line := range splitNUL(text) {
		f := strings.SplitN(line, " ", 4)
		if len(f) < 4 {
			return nil, fmt.Errorf("what is noted of files that merges of run %s took away has %q", run.ID, line)
		}
		in, known := merged[f[0]]
		if !known {
			if in, err = run.repo.isAncestor(ctx, f[0], tip); err != nil {
				return nil, err
			}
			merged[f[0]] = in
		}
		if in {
			files = append(files, goneFile{merge: f[0], was: blob{f[1], f[2]}, path: f[3]})
		}
	}
	return files, nil
}

// takeAway removes from the run's worktree what the merges in its branch, at tip, have
// taken away, where it is as it was. It may be repeated. If there is any, done replaces
// the private name "gone" by "took", when all of it is on the disk.
func (run *Run) takeAway(ctx context.Context, tip string) (done func() error, err error) {
	text, err := run.goneText(ctx, "gone")
	if err != nil || text == "" {
		return nil, err
	}
	files, err := run.taken(ctx, text, tip)
	if err != nil {
		return nil, err
	}
	own, err := run.preparedOwn()
	if err != nil {
		return nil, err
	}
	there, err := run.uncommitted(ctx, tip)
	if err != nil {
		return nil, err
	}
	var remove []string
	for _, g := range files {
		if there[g.path] == g.was && !slices.Contains(own, g.path) {
			remove = append(remove, g.path)
		}
	}
	if err := run.repo.removePaths(ctx, run.Dir, remove); err != nil {
		return nil, err
	}
	before, err := run.goneText(ctx, "took")
	if err != nil {
		return nil, err
	}
	id, err := run.writeText(ctx, before+text)
	if err != nil {
		return nil, err
	}
	return func() error {
		both := fmt.Sprintf("update %s %s\ndelete %s\n", privateRef(run.ID, "took"), id, privateRef(run.ID, "gone"))
		_, err := run.repo.run(ctx, call{dir: run.repo.dir, stdin: both, args: []string{"update-ref", "--stdin"}})
		return err
	}, nil
}

// takenAway gives, by path, how the files were that merges in the run's branch have taken
// away from what is uncommitted.
func (run *Run) takenAway(ctx context.Context) (map[string]blob, error) {
	before, err := run.goneText(ctx, "took")
	if err != nil {
		return nil, err
	}
	text, err := run.goneText(ctx, "gone")
	if err != nil {
		return nil, err
	}
	files, err := run.taken(ctx, before+text, "refs/heads/"+run.Branch)
	was := map[string]blob{}
	for _, g := range files {
		was[g.path] = g.was
	}
	return was, err
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
