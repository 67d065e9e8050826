package worktree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Committed is what an agent has committed, as its checks see it.
type Committed struct {
	Commit, Tree string
	// Commits are the commits that the agent made, oldest first. Files are the paths that
	// these change together. Left are the paths that are not committed, or are in a
	// repository of their own.
	Commits, Files, Left []string
}

// Commit commits what is uncommitted in the agent's worktree, with text as the message, and
// gives the state after that. With an empty text it commits nothing.
func (a *Agent) Commit(ctx context.Context, text string) (Committed, error) {
	c, err := a.commit(ctx, text)
	if err != nil {
		return c, fmt.Errorf("commit the work of item %q: %w", a.Item, err)
	}
	return c, nil
}

func (a *Agent) commit(ctx context.Context, text string) (c Committed, err error) {
	if s := a.held(); s != nil && !s.whole() {
		return c, &GoneError{Dir: s.dir}
	}
	r := a.run.repo
	st, err := r.State(ctx, a.Dir)
	if err == nil && text != "" {
		st, err = r.commitLeft(ctx, a.Dir, st, text, nil)
	}
	if err != nil {
		return c, err
	}
	c.Commit, c.Left = st.Commit, st.dirty
	if c.Tree, err = r.line(ctx, a.Dir, "rev-parse", "--verify", st.Commit+"^{tree}"); err != nil {
		return c, err
	}
	modules, err := r.modulesLeft(ctx, a.Dir, a.Base, st.Commit)
	if err != nil {
		return c, err
	}
	c.Left = append(slices.Clip(c.Left), modules...)
	if st.Commit != a.Base {
		c.Commits, c.Files, err = r.workSince(ctx, a.Base, st.Commit)
		c.Left = append(slices.Clip(c.Left), linked(a.Dir, c.Files)...)
	}
	return c, err
}

// Bare removes from the agent's worktree what git ignores, except for what [Run.Prepare]
// left there: no merge has it, so a check must not see it. [Agent.OnlyIgnored] and
// [Agent.Release] still give it.
func (a *Agent) Bare(ctx context.Context) error {
	s := a.held()
	if s == nil {
		return nil
	}
	ignored, err := a.run.repo.ignored(ctx, s.dir)
	if err != nil {
		return err
	}
	ignored = slices.DeleteFunc(ignored, func(path string) bool { return slices.Contains(s.prepared, path) })
	before, _ := s.bared()
	var rows []string
	for _, path := range slices.Compact(slices.Sorted(slices.Values(append(before, ignored...)))) {
		if !isCache(filepath.Join(s.dir, filepath.FromSlash(path))) {
			rows = append(rows, path)
		}
	}
	if err := replace(filepath.Join(s.admin, baredFile), []byte(strings.Join(rows, "\x00"))); err != nil || len(ignored) == 0 {
		return err
	}
	_, err = a.run.repo.cleanAll(ctx, s)
	return err
}

// baredFile is in the private git directory of a worktree of the pool whose agent's checks
// have begun. It lists what [Agent.Bare] removed there, except for caches of tools.
const baredFile = "bide-bared"

// bared gives the rows of baredFile, and whether it exists.
func (s *slot) bared() (rows []string, ok bool) {
	text, err := os.ReadFile(filepath.Join(s.admin, baredFile))
	return splitNUL(string(text)), err == nil
}

// cleanAll removes from a slot all that is in no commit, except for what the preparation
// left there, and gives what git prints.
func (r *Repo) cleanAll(ctx context.Context, s *slot) (string, error) {
	args := []string{"clean", "-ffdx"}
	for _, path := range s.prepared {
		args = append(args, "-e", "/"+path)
	}
	return r.git(ctx, s.dir, args...)
}

// Changed reports whether the agent's worktree differs from a commit. Files that git
// ignores do not count.
func (a *Agent) Changed(ctx context.Context, commit string) (bool, error) {
	st, err := a.run.repo.State(ctx, a.Dir)
	return err == nil && (st.Commit != commit || len(st.dirty) > 0), err
}

// Reset puts the agent's worktree back to a commit. Files that git ignores stay.
func (a *Agent) Reset(ctx context.Context, commit string) error {
	r := a.run.repo
	if err := r.put(ctx, a.Dir, commit); err != nil {
		return err
	}
	_, err := r.git(ctx, a.Dir, "clean", "-ffd")
	return err
}

// Tree gives the tree of a commit; "" if the repository has no such commit.
func (r *Repo) Tree(ctx context.Context, commit string) (string, error) {
	id, err := r.line(ctx, r.dir, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{tree}")
	if status(err) == 1 {
		return "", nil
	}
	return id, err
}

// Trailers gives the trailers for the merge of an item's work, in the form that `git
// interpret-trailers` reads.
func Trailers(pairs ...string) string {
	var b strings.Builder
	b.WriteString("\n\n")
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%s: %s\n", pairs[i], Subject(pairs[i+1]))
	}
	return strings.TrimRight(b.String(), "\n")
}
