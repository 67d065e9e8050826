package engine

import (
	"context"
	"fmt"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// commitCheck is what is to be known of the git history around an attempt.
type commitCheck struct {
	r    *run
	dir  string
	from *worktree.Point // nil where nobody asks, and outside git
}

func (r *run) beforeCommits(ctx context.Context, p place, s *workflow.Step) (*commitCheck, error) {
	c := &commitCheck{r: r, dir: p.dir}
	must := s.CommitRequired || s.AutoCommit != nil
	if !must && !r.git {
		return c, nil
	}
	if r.repo == nil {
		if must {
			return nil, &action.InputError{Err: fmt.Errorf("the step has to commit, but %s is in no git repository with a commit", p.dir)}
		}
		return c, nil
	}
	from, err := r.repo.Mark(ctx, p.dir)
	if err != nil {
		return nil, err
	}
	c.from = &from
	return c, nil
}

// after makes the step's own commit and checks that there is one.
func (c *commitCheck) after(ctx context.Context, p place, s *workflow.Step) error {
	if a := s.AutoCommit; a != nil {
		if err := c.commit(ctx, p, s, a); err != nil {
			return err
		}
	}
	if !s.CommitRequired || c.r.noCommitValidation() {
		return nil
	}
	return c.r.repo.RequireCommit(ctx, c.dir, c.from.Commit)
}

func (r *run) noCommitValidation() bool {
	v, ok := r.env.values["PRODIGY_NO_COMMIT_VALIDATION"]
	return ok && v.V == "true"
}

func (c *commitCheck) commit(ctx context.Context, p place, s *workflow.Step, a *workflow.Commit) error {
	msg := "bide: " + label(s)
	if a.Message != nil {
		var err error
		if msg, err = a.Message.Expand(p.scope); err != nil {
			return &action.InputError{Err: fmt.Errorf("commit_config: %w", err)}
		}
	}
	if a.Pattern != nil && !a.Pattern.MatchString(msg) {
		return &action.InputError{Err: fmt.Errorf("commit_config: the message %q does not match message_pattern %s", msg, a.Pattern)}
	}
	o := worktree.CommitOptions{Message: msg, Author: a.Author, Sign: a.Sign, Include: a.Include, Exclude: a.Exclude}
	if a.Squash {
		o.SquashSince = c.from.Commit
	}
	_, err := c.r.repo.AutoCommit(ctx, c.dir, o)
	return err
}

// variables sets step.* and workflow.* of the git context.
func (c *commitCheck) variables(ctx context.Context, p place) {
	if c.from == nil {
		return
	}
	step, err := c.r.repo.Context(ctx, c.dir, *c.from)
	if err != nil {
		c.r.noteOnce("git "+c.dir, fmt.Sprintf("the git context of %s: %v", c.dir, err))
		return
	}
	p.scope.Set("step", gitContext(step))
	if c.r.head == nil {
		return
	}
	if all, err := c.r.repo.Context(ctx, c.dir, *c.r.head); err == nil {
		m := gitContext(all)
		m["name"], m["id"] = c.r.file.Name, c.r.id
		if it, ok := p.scope.Lookup("ITERATION"); ok {
			m["iteration"] = it.V
		}
		p.scope.Set("workflow", m)
	}
}

func gitContext(g worktree.GitContext) map[string]any {
	return map[string]any{
		"files_added": anys(g.FilesAdded), "files_modified": anys(g.FilesModified), "files_deleted": anys(g.FilesDeleted),
		"files_changed": anys(g.FilesChanged), "commits": anys(g.Commits), "commit_count": int64(g.CommitCount),
		"insertions": int64(g.Insertions), "deletions": int64(g.Deletions),
	}
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
