package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// readsGit finds the variables of the git context in a file's text. It only
// decides whether git is asked around each step: one time too many does no
// harm.
var readsGit = pattern.Lazy(`\b(step|workflow)\.(files_|commit|insertions|deletions)|file_pattern`)

// isolate opens the repository and, where the file and the options ask for it,
// the run's own worktree.
func (r *run) isolate(ctx context.Context) error {
	mode := r.isolation()
	r.git, r.tellState = readsGit().Match(r.file.Source), readsState().Match(r.file.Source)
	for _, text := range r.file.Others {
		r.git = r.git || readsGit().Match(text)
		r.tellState = r.tellState || readsState().Match(text)
	}
	own := mode == "worktree" || mode == "auto" && workflow.NeedsIsolation(r.file)
	if !own && !r.git && !r.tellState && !commits(r.file) && max(r.opt.MaxIterations, r.file.MaxIterations) <= 1 {
		return nil // git is not asked where nobody wants to know
	}
	repo, err := worktree.Open(ctx, r.opt.Dir)
	switch {
	case err == nil:
		r.repo = repo
	case mode == "worktree":
		return fmt.Errorf("isolation: worktree: %s: %w", r.opt.Dir, err)
	case mode == "none", errors.Is(err, worktree.ErrNotRepo), errors.Is(err, worktree.ErrBare), errors.Is(err, worktree.ErrNoGit):
		return nil
	default:
		return err
	}
	if head, err := repo.HeadInfo(ctx); err != nil || head.Commit == "" {
		if mode == "worktree" {
			return fmt.Errorf("isolation: worktree: %w", worktree.ErrUnborn)
		}
		own = false
	}
	if own {
		if err := r.ownWorktree(ctx); err != nil {
			return err
		}
	}
	if r.git {
		// What there is before the first step.
		r.scope.SetTrusted("step", gitContext(worktree.GitContext{}))
		whole := gitContext(worktree.GitContext{})
		if known, ok := r.scope.Get("workflow").(map[string]any); ok {
			maps.Copy(whole, known)
		}
		r.scope.SetTrusted("workflow", whole)
		return r.markHead(ctx)
	}
	return nil
}

func (r *run) isolation() string {
	if r.opt.Isolation != "" {
		return r.opt.Isolation
	}
	if r.file.Isolation != "" {
		return r.file.Isolation
	}
	return "auto"
}

// commits reports whether a step has to commit.
func commits(f *workflow.File) (found bool) {
	workflow.WalkAll(f, func(s *workflow.Step) {
		found = found || s.CommitRequired || s.AutoCommit != nil || s.OnFailure != nil && s.OnFailure.CommitRequired
		if s.Validate != nil && s.Validate.OnIncomplete != nil {
			found = found || s.Validate.OnIncomplete.CommitRequired
		}
		if v, ok := s.Action.(*workflow.Validate); ok && v.OnIncomplete != nil {
			found = found || v.OnIncomplete.CommitRequired
		}
	})
	return found
}

// ownWorktree makes the run's worktree, or finds that of an earlier life.
func (r *run) ownWorktree(ctx context.Context) error {
	o := worktree.RunOptions{ID: r.id, Root: filepath.Join(filepath.Dir(filepath.Dir(r.j.Dir())), "worktrees", r.id)}
	tree, err := r.repo.OpenRun(ctx, o)
	if errors.Is(err, fs.ErrNotExist) || err != nil && !r.resumed {
		tree, err = r.repo.NewRun(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("the run's worktree: %w", err)
	}
	r.tree = tree
	if n := len(tree.LeftOut); n > 0 {
		r.note("%d uncommitted files of your working tree are not in the run's worktree (%s%s): commit them, or run with --isolation none",
			n, strings.Join(tree.LeftOut[:min(3, n)], ", "), more(n-3))
	}
	r.dir = tree.WorkDir
	r.scope.SetTrusted("PROJECT_ROOT", r.dir)
	r.scope.SetTrusted("WORKTREE", r.dir)
	return nil
}

func more(n int) string {
	if n > 0 {
		return fmt.Sprintf(" and %d more", n)
	}
	return ""
}

// markHead notes where the git context of the workflow begins; a resumed run
// finds it in a file of the run.
func (r *run) markHead(ctx context.Context) error {
	name := filepath.Join(r.j.Dir(), "git-start.json")
	var p worktree.Point
	if b, err := os.ReadFile(name); err == nil && json.Unmarshal(b, &p) == nil {
		r.head = &p
		return nil
	}
	p, err := r.repo.Mark(ctx, r.dir)
	if err != nil {
		return err
	}
	r.head = &p
	return os.WriteFile(name, data(p), 0o600)
}

// freeze takes the state of the run's worktree from which agents start.
func (r *run) freeze(ctx context.Context) error {
	if r.tree == nil {
		return nil
	}
	return r.tree.Freeze(ctx)
}

// enter gives an agent its own worktree, where the run has one, and a function
// that takes over its work and leaves.
func (r *run) enter(ctx context.Context, p *place, a *agentRun) (func(context.Context, error) error, error) {
	if r.tree == nil {
		return func(_ context.Context, err error) error { return err }, nil
	}
	tree, err := r.tree.NewAgent(ctx, a.item.ID, a.attempt)
	if err != nil {
		return nil, fmt.Errorf("the worktree of item %s: %w", a.item.ID, err)
	}
	for _, k := range tree.Kept {
		r.note("item %s: %s", a.item.ID, k)
	}
	a.tree = tree
	a.data.Worktree, a.data.Branch = tree.Dir, tree.Branch
	p.dir = tree.WorkDir
	p.scope.SetTrusted("WORKTREE", p.dir)
	return func(ctx context.Context, err error) error { return r.leave(ctx, *p, a, err) }, nil
}

// leave merges an agent's commits into the run. Work that is not merged stays
// in its branch.
func (r *run) leave(ctx context.Context, p place, a *agentRun, err error) error {
	ctx = context.WithoutCancel(ctx) // what is done is taken over, also when the run stops
	if err != nil {
		k, rerr := a.tree.Remove(ctx)
		if rerr != nil {
			return errors.Join(err, rerr)
		}
		a.data.Worktree = ""
		if k.Branch == "" {
			a.data.Branch = ""
		} else {
			a.data.Branch = k.Branch
			r.emit(event.Event{Type: event.Note, Phase: "map", Item: a.item.ID, Index: a.item.Index, Message: k.String()})
		}
		return err
	}
	if g, gerr := a.tree.Committed(ctx); gerr == nil {
		a.data.Commits, a.data.Files = g.Commits, g.FilesChanged
	} else {
		r.note("item %s: its commits: %v", a.item.ID, gerr)
	}
	res, err := r.tree.Merge(ctx, a.tree, worktree.MergeOptions{
		Message: fmt.Sprintf("bide: item %s", a.item.ID), Resolve: r.resolver(p),
		Before: func(commit string) error { return r.merging(ctx, a, commit) }})
	if err != nil {
		k, rerr := a.tree.Remove(ctx)
		if rerr == nil {
			a.data.Branch, a.data.Worktree = k.Branch, ""
		}
		return errors.Join(fmt.Errorf("the work of item %s could not be merged: %w", a.item.ID, err), rerr)
	}
	if res.Commits == 0 {
		a.data.Commits, a.data.Files = nil, nil
	}
	k, err := a.tree.Remove(ctx)
	if err != nil {
		r.note("item %s is merged, but its worktree is left: %v", a.item.ID, err)
		return nil
	}
	a.data.Worktree, a.data.Branch = "", k.Branch
	if k.Branch != "" {
		r.emit(event.Event{Type: event.Note, Phase: "map", Item: a.item.ID, Index: a.item.Index, Message: k.String()})
	}
	return nil
}

// resolver resolves a conflict with the merge block, or with the agent that is
// configured under the name merge; nil where there is neither.
func (r *run) resolver(p place) worktree.Resolver {
	steps := []*workflow.Step(nil)
	switch {
	case r.file.Merge != nil:
		steps = r.file.Merge.Steps
	case r.file.Agents["merge"] != nil:
		text, err := template.Parse("Resolve the merge conflict of ${merge.source_branch} into ${merge.target_branch} in the files ${merge.file_list}, then git add and commit them.")
		if err != nil {
			return nil
		}
		steps = []*workflow.Step{{Path: "merge", Name: "resolve the conflict", Action: &workflow.Claude{Text: text, Provider: "merge"}}}
	default:
		return nil
	}
	return func(ctx context.Context, c worktree.ConflictInfo) error {
		q := p
		q.dir, q.phase, q.at = c.Dir, "merge", p.at+"@"+p.item
		q.scope = p.scope.Child()
		q.scope.Set("merge", map[string]any{
			"worktree": c.Dir, "source_branch": c.Branch, "target_branch": c.Into, "session_id": r.id,
			"commit": c.Commit, "modified_files": anys(c.Files), "file_list": strings.Join(c.Files, ", "), "file_count": int64(len(c.Files)),
			"conflicts": anys(c.Files),
		})
		return r.sequence(ctx, q, steps)
	}
}

// mergeBack takes the run's work to the user's branch: with the merge block,
// with -y, or after a person said yes. Otherwise it stays where it is, and the
// message says how to get it.
func (r *run) mergeBack(ctx context.Context) error {
	g, err := r.tree.Committed(ctx)
	if err != nil {
		return err
	}
	ahead, err := r.repo.HasNewCommits(ctx, r.tree.Dir, r.tree.Base)
	if err != nil {
		return err
	}
	if !ahead {
		if r.file.Merge != nil {
			r.note("the merge block is left out: nothing was committed")
		}
		return r.leaveRun(ctx)
	}
	if r.file.Merge != nil {
		p := place{r: r, scope: r.scope.Child(), dir: r.dir, env: r.base, steps: r.state.Steps}
		p.scope.Set("merge", map[string]any{
			"worktree": r.tree.Dir, "source_branch": r.tree.Branch, "target_branch": r.tree.Target, "session_id": r.id,
			"commits": anys(g.Commits), "commit_ids": strings.Join(g.Commits, " "), "commit_count": int64(g.CommitCount),
			"modified_files": anys(g.FilesChanged), "file_count": int64(len(g.FilesChanged)), "file_list": strings.Join(g.FilesChanged, ", "),
		})
		if err := r.phase(ctx, p, "merge", func(ctx context.Context, p place) error {
			return r.block(ctx, p, r.file.Merge, "merge")
		}); err != nil {
			return fmt.Errorf("%w; the work is in branch %s: %s", err, r.tree.Branch, r.tree.MergeCommand())
		}
	}
	if !r.opt.Yes && (r.opt.Ask == nil || !r.opt.Ask(fmt.Sprintf("Merge %s into %s?", r.tree.Branch, r.tree.Target))) {
		r.note("the work is in branch %s and is not merged yet: run again with -y, or merge it with: %s", r.tree.Branch, r.tree.MergeCommand())
		return nil
	}
	res, err := r.tree.FinalMerge(ctx, worktree.MergeOptions{Message: "bide: " + r.file.Name})
	if err != nil {
		return err
	}
	if res.Commits > 0 {
		r.note("merged %d commits of %s into %s", res.Commits, r.tree.Branch, r.tree.Target)
	}
	return r.leaveRun(ctx)
}

// leaveRun removes the run's worktree when nothing is in it that is not merged.
func (r *run) leaveRun(ctx context.Context) error {
	k, err := r.tree.Remove(ctx)
	if err != nil {
		return err
	}
	if k.Branch != "" {
		r.note("%s", k)
	}
	return r.tellLeft(ctx)
}

// tellLeft says how many branches of items hold work that is not merged: of
// agents that failed, and of those that were killed, also where the process
// died before it could tell of each.
func (r *run) tellLeft(ctx context.Context) error {
	left, err := r.repo.List(ctx, r.id)
	if err != nil {
		return err
	}
	n := 0
	for _, i := range left {
		if i.Item != "" && i.Unmerged > 0 {
			n++
		}
	}
	if n > 0 {
		r.note("%d branches of items hold work that is not merged: `bide worktree ls` lists them", n)
	}
	return nil
}

// saveOutput keeps a large output of an item as a file.
func (r *run) saveOutput(index, attempt int, text string) (string, error) {
	f, err := r.j.CreateOutput(index, "item", attempt, "output")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(r.mask.String(text))
	return f.Name(), errors.Join(err, f.Close())
}
