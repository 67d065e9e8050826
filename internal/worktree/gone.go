package worktree

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// What setup leaves uncommitted is in the snapshot that agents start from, and in no commit
// of the agents: see [Run.withoutSnapshot]. So when an agent deletes such a file, its merge
// does not say so. The private name "gone" says it. It is a blob that has, for each of
// these files, the merge and how the file was. It is written before the run's branch has
// the merge. The file is removed from the run's worktree when the worktree follows the
// branch. The private name "took" has the files that are already removed, until there is
// another snapshot: a worktree that is made anew must not have them.

// goneFile is an uncommitted file that a merge deletes.
type goneFile struct {
	merge string
	path  string
	was   blob
}

// tookAway gives the files of the snapshot at base that are in no commit of the run, and
// that the commit tip no longer has.
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

// noteGone writes under the private name "gone" what a merge deletes. The next sync makes
// it durable.
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

// goneText gives the text under a private name; "" if there is none.
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

// taken gives the files of a text of goneText that merges in the commit tip delete.
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

// takeAway removes from the run's worktree the files that the merges in its branch, at tip,
// have deleted, if they have not changed since. It may be repeated. If there are such
// files, done replaces the private name "gone" by "took"; it is called when the removal is
// on the disk.
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

// takenAway gives, by path, how the uncommitted files were that merges in the run's branch
// have deleted.
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
