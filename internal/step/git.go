package step

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// Repository is what steps ask of git; *worktree.Repo is one.
type Repository interface {
	Mark(ctx context.Context, dir string) (worktree.Point, error)
	Context(ctx context.Context, dir string, from worktree.Point) (worktree.GitContext, error)
	State(ctx context.Context, dir string) (worktree.State, error)
	AutoCommit(ctx context.Context, dir string, o worktree.CommitOptions) (string, error)
	RequireCommit(ctx context.Context, dir, since string) error
}

// Git is what the steps of a run have to do with git.
type Git struct {
	Repo Repository
	// Context says that step.* and workflow.* of the git context are read
	// somewhere, State that git.* is.
	Context, State bool
	Head           *worktree.Point // where the git context of the workflow begins; nil: nobody asks
}

// commitCheck is what is to be known of the git history around an attempt.
type commitCheck struct {
	x    *Executor
	dir  string
	from *worktree.Point // nil where nobody asks
}

func (x *Executor) beforeCommits(ctx context.Context, p *Place, s *workflow.Step) (commitCheck, error) {
	c := commitCheck{x: x, dir: p.Dir}
	if !s.CommitRequired && s.AutoCommit == nil {
		return c, nil
	}
	if x.Git == nil {
		return c, inputError("the step has to commit, but %s is in no git repository with a commit", p.Dir)
	}
	from, err := x.Git.Repo.Mark(ctx, p.Dir)
	if err != nil {
		return c, err
	}
	c.from = &from
	return c, nil
}

// after makes the step's own commit and checks that there is one.
func (c commitCheck) after(ctx context.Context, p *Place, s *workflow.Step) error {
	if a := s.AutoCommit; a != nil {
		if err := c.commit(ctx, p, s, a); err != nil {
			return err
		}
	}
	if !s.CommitRequired {
		return nil
	}
	if v, _ := c.x.Values.Get("PRODIGY_NO_COMMIT_VALIDATION"); v == "true" {
		return nil
	}
	return c.x.Git.Repo.RequireCommit(ctx, c.dir, c.from.Commit)
}

func (c commitCheck) commit(ctx context.Context, p *Place, s *workflow.Step, a *workflow.Commit) error {
	msg := "bide: " + cmp.Or(s.Filled(c.x.View(ctx, p), c.x.Values.Mask()), s.Label())
	if a.Message != nil {
		var err error
		if msg, err = a.Message.Expand(c.x.View(ctx, p)); err != nil {
			return inputError("commit_config: %w", err)
		}
	}
	if a.Pattern != nil && !a.Pattern.MatchString(msg) {
		return &action.InputError{Err: fmt.Errorf("commit_config: the message %q does not match message_pattern %s", msg, a.Pattern)}
	}
	o := worktree.CommitOptions{Message: msg, Author: a.Author, Sign: a.Sign, Include: a.Include, Exclude: a.Exclude}
	if a.Squash {
		o.SquashSince = c.from.Commit
	}
	_, err := c.x.Git.Repo.AutoCommit(ctx, c.dir, o)
	return err
}

// standing is the place of a step whose git context begins now, or where it began in an
// earlier life of the run: what that has changed, the step has.
func (x *Executor) standing(ctx context.Context, p *Place, rec *journal.StepRecord) (*Place, error) {
	if x.Git == nil || !x.Git.Context {
		return p, nil
	}
	q := *p
	q.From = &worktree.Point{}
	if rec != nil && unfinished(rec) && json.Unmarshal(rec.From, q.From) == nil {
		if _, err := x.Git.Repo.Context(ctx, p.Dir, *q.From); err == nil { // a power cut may have taken its files
			return &q, nil
		}
	}
	var err error
	*q.From, err = x.Git.Repo.Mark(ctx, p.Dir)
	return &q, err
}

// gitVariables sets step.* and workflow.* of the git context.
func (x *Executor) gitVariables(ctx context.Context, p *Place) {
	if p.From == nil {
		return
	}
	git := x.Git
	step, err := git.Repo.Context(ctx, p.Dir, *p.From)
	if err != nil {
		x.NoteOnce("git "+p.Dir, fmt.Sprintf("the git context of %s: %v", p.Dir, err))
		return
	}
	p.Scope.Set("step", GitContext(step))
	if git.Head == nil {
		return
	}
	if all, err := git.Repo.Context(ctx, p.Dir, *git.Head); err == nil {
		m := GitContext(all)
		m["name"], m["id"] = x.File.Name, x.Run
		if it, ok := p.Scope.Lookup("ITERATION"); ok {
			m["iteration"] = it.V
		}
		p.Scope.Set("workflow", m)
	}
}

// GitContext is a git context as a variable.
func GitContext(g worktree.GitContext) map[string]any {
	return map[string]any{
		"files_added": Anys(g.FilesAdded), "files_modified": Anys(g.FilesModified), "files_deleted": Anys(g.FilesDeleted),
		"files_changed": Anys(g.FilesChanged), "commits": Anys(g.Commits), "commit_count": int64(g.CommitCount),
		"insertions": int64(g.Insertions), "deletions": int64(g.Deletions),
	}
}

// Anys is a list of texts as a value of a variable.
func Anys(list []string) []any {
	return value.Map(list, func(s string) any { return s })
}

// gitState sets git.*, the state of the working tree in which a step begins.
// A variable of the file that is called git stays what it is.
func (x *Executor) gitState(ctx context.Context, p *Place) {
	if x.Git == nil || !x.Git.State {
		return
	}
	if old, ok := p.Scope.Lookup("git"); ok {
		if m, _ := old.V.(map[string]any); m["unstaged_files"] == nil {
			return
		}
	}
	s, err := x.Git.Repo.State(ctx, p.Dir)
	if err != nil {
		x.NoteOnce("git state "+p.Dir, fmt.Sprintf("the state of %s: %v", p.Dir, err))
		return
	}
	changed := append(Anys(s.Modified), Anys(s.Deleted)...)
	p.Scope.Set("git", map[string]any{
		"branch": s.Branch, "commit": s.Commit,
		"staged_files": Anys(s.Staged), "unstaged_files": Anys(s.Unstaged), "untracked_files": Anys(s.Untracked),
		"modified_files": Anys(s.Modified), "deleted_files": Anys(s.Deleted), "changed_files": append(changed, Anys(s.Untracked)...),
	})
}
