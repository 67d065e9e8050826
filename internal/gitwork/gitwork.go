// Package gitwork does the git work of a run: it opens the repository, makes the run's
// worktree, merges the work of agents into it (item.go), and merges the run's work into the
// user's branch (back.go). The calls of git are in package worktree.
package gitwork

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// Options are what is known of a run before git is asked.
type Options struct {
	Executor *step.Executor
	Dir      string // where the run was started
	Home     string // the run's directory
	Mode     string // of isolation
	Rounds   int    // iterations that the options ask for
	Yes      bool   // merge without a question
	Resumed  bool
	Began    time.Time // when the run began
	// Ended says that the life before this one reached the end of the file.
	Ended bool
	// Shared is what the machines that share the run know; nil if no machines do.
	Shared Shared
	// Steps are the steps of the run itself that earlier lives have recorded, and Items is
	// how many work items they had.
	Steps map[string]journal.StepRecord
	Items int
	// Lost are steps that had ended and whose work was lost with the run's worktree.
	Lost []string
	// Results gives the results of the items that have ended; nil if nobody keeps them.
	Results func(context.Context) iter.Seq2[journal.Result, error]
	// Command runs a command of the file in a directory, to prepare a worktree.
	Command func(ctx context.Context, command *workflow.Shell, dir string) error
}

// Work is the git work of a run.
type Work struct {
	Options
	x *step.Executor

	Repo *worktree.Repo // nil outside git, and if nothing needs it
	Tree *worktree.Run  // the run's worktree; nil without isolation
	Made bool           // in this life of the run
	// Context says that something reads the variables step.* or workflow.* of the git
	// context.
	Context bool
	// Unmerged is how many files the steps of the run itself left uncommitted and in no
	// merge.
	Unmerged int
	// Stashed is how many entries that steps left in the git stash are in no merge, plus
	// how many entries of the user's are in the work of the run.
	Stashed int
	// Verify, if not nil, is called before the final merge. If it gives an error, the merge
	// is not made.
	Verify worktree.Verify
	// MergeWith is the command that merges what the run left in branches; "" for nothing.
	MergeWith string

	stash      []worktree.StashEntry // before the first step of the run; nil: not read
	stashStamp string                // when the items began

	onlyIgnored atomic.Int64 // items that left only what git ignores; mostTold of them are reported
}

// Root gives the directory of the worktrees of a run.
func Root(home, run string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(home)), "worktrees", run)
}

// New gives the git work of a run. It does not ask git anything.
func New(o Options) *Work { return &Work{Options: o, x: o.Executor} }

// readsState finds the variables git.* in a file's text: if nothing reads them, git is not
// asked.
var readsState = pattern.Lazy(`\bgit\.(branch|commit|(staged|unstaged|untracked|modified|deleted|changed)_files)\b`)

// readsGit finds the variables of the git context in a file's text. It only decides whether
// git is asked before and after each step, so a match too many does no harm.
var readsGit = pattern.Lazy(`\b(step|workflow)\.(files_|commit|insertions|deletions)|file_pattern`)

// mentions reports whether a text has one of the words. Most files have none, and then no
// expression has to be compiled.
func mentions(text []byte, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(text, []byte(w)) })
}

// Asked says what the texts of the file need to know from git.
func (g *Work) Asked() *step.Git {
	asks := &step.Git{}
	for _, text := range append(slices.Collect(maps.Values(g.x.File.Others)), g.x.File.Source) {
		asks.Context = asks.Context || mentions(text, "step.", "workflow.", "file_pattern") && readsGit().Match(text)
		asks.State = asks.State || mentions(text, "git.") && readsState().Match(text)
	}
	g.Context = asks.Context
	return asks
}

// Open opens the repository and, if the file and the options ask for it, the run's own
// worktree. asks is what steps need to know from git; nil if nothing.
func (g *Work) Open(ctx context.Context) (asks *step.Git, err error) {
	asks = g.Asked()
	own := workflow.Isolates(g.x.File, g.Mode)
	if !own && g.Unsafe() == nil && !asks.Context && !asks.State && !commits(g.x.File) && max(g.Rounds, g.x.File.MaxIterations) <= 1 {
		return nil, nil // nothing needs git
	}
	open := worktree.Open
	if g.Shared != nil {
		open = worktree.OpenClone
	}
	repo, err := open(ctx, g.Dir)
	if err != nil {
		return nil, unusable(err, g.Mode, g.Dir)
	}
	g.Repo, asks.Repo = repo, repo
	switch head, err := repo.HeadInfo(ctx); {
	case err != nil && own: // the steps must not work in the user's checkout instead
		return nil, fmt.Errorf("the state of the repository cannot be read, so that no worktree can be made of it (mend that, or run with --isolation none): %w", err)
	case err == nil && head.Commit == "" && g.Mode == "worktree":
		return nil, fmt.Errorf("isolation: worktree: %w", worktree.ErrUnborn)
	case err != nil || head.Commit == "":
		own = false
	}
	if own {
		if err := g.ownWorktree(ctx); err != nil {
			return nil, err
		}
	}
	if g.Context {
		asks.Head, err = g.markHead(ctx)
	}
	return asks, err
}

// unusable is the error of a run whose directory is in no repository that can be used; nil
// if the run needs none.
func unusable(err error, mode, dir string) error {
	switch {
	case mode == "worktree":
		return fmt.Errorf("isolation: worktree: %s: %w", dir, err)
	case mode == "none", errors.Is(err, worktree.ErrNotRepo), errors.Is(err, worktree.ErrBare), errors.Is(err, worktree.ErrNoGit):
		return nil
	}
	return err
}

// Repository gives the repository in which a run that is started in a directory has a
// worktree of its own; nil if it has none.
func Repository(ctx context.Context, f *workflow.File, mode, dir string) (*worktree.Repo, error) {
	if !workflow.Isolates(f, mode) {
		return nil, nil
	}
	repo, err := worktree.Open(ctx, dir)
	if err != nil {
		return nil, unusable(err, mode, dir)
	}
	head, err := repo.HeadInfo(ctx)
	switch {
	case err == nil && head.Commit == "" && mode == "worktree":
		return nil, fmt.Errorf("isolation: worktree: %w", worktree.ErrUnborn)
	case err != nil || head.Commit == "":
		return nil, err
	}
	return repo, nil
}

// Unsafe gives a step of a map that writes with git in a working tree that all items share;
// nil if there is none.
func (g *Work) Unsafe() *workflow.Step {
	if g.Mode != "none" {
		return nil
	}
	return workflow.MapWritesWithGit(g.x.File)
}

// where gives the directory of the steps of the run itself.
func (g *Work) where() string {
	if g.Tree != nil {
		return g.Tree.WorkDir
	}
	return g.Dir
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

// ownWorktree makes the run's worktree, or opens that of an earlier life.
func (g *Work) ownWorktree(ctx context.Context) error {
	o := worktree.RunOptions{ID: g.x.Run, Root: Root(g.Home, g.x.Run), Began: g.Began}
	tree, err := g.Repo.OpenRun(ctx, o)
	if err == nil && g.Ended && g.Shared == nil { // what runs again starts from the branch that has the work, as if bide had merged it
		var merged bool
		if merged, err = tree.Merged(ctx); err == nil && merged {
			if _, err = tree.Remove(ctx); err == nil {
				tree, err = g.Repo.OpenRun(ctx, o)
			}
		} else if err == nil {
			err = g.tellBehind(ctx, tree)
		}
	}
	g.Made = errors.Is(err, fs.ErrNotExist) || err != nil && !g.Resumed
	if g.Made || err == nil {
		if err := g.lookAtStash(); err != nil {
			return fmt.Errorf("the git stash: %w", err)
		}
	}
	if g.Made {
		tree, err = g.Repo.NewRun(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("the run's worktree: %w", err)
	}
	g.Tree = tree
	if g.Shared != nil {
		g.Shared.Share(tree)
		if g.Made {
			tree.LeftOut = g.Shared.LeftOut()
		}
		if err := tree.Told(ctx); err != nil { // each machine makes it anew, and nothing is lost
			return err
		}
	} else if tree.Remade {
		if err := errors.Join(g.tellRemade(), g.x.Recorder.Sync(ctx)); err != nil {
			return err
		}
		if err := tree.Told(ctx); err != nil {
			return err
		}
	} else if n := len(g.Lost); n > 0 {
		g.x.Note("what %s may have left uncommitted was lost with the run's worktree, so the exit status is 3, until %s run again: bide rerun %s --step %s",
			diag.Count(n, "step"), diag.Plural(n, "it has", "they have"), g.x.Run, g.Lost[0])
	}
	for _, name := range tree.Locks {
		g.x.Note("a git that was killed left %s, which is removed", name)
	}
	g.tellLost()
	left := g.usersOwn(tree.LeftOut)
	if n := len(left); n > 0 {
		g.x.Note("%s of your working tree %s not in the run's worktree (%s): commit what is to be there, or run with --isolation none",
			diag.Count(n, "uncommitted file"), diag.Plural(n, "is", "are"), diag.First(left, 3))
	}
	return nil
}

// usersOwn gives the names in the user's working tree that are not in the directory of
// runs, which may itself be in the working tree.
func (g *Work) usersOwn(names []string) []string {
	home, err := filepath.EvalSymlinks(filepath.Dir(filepath.Dir(g.Home))) // git names what is behind a link
	if err == nil {
		home, err = filepath.Rel(g.Repo.Dir(), home)
	}
	if err != nil || !filepath.IsLocal(home) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasPrefix(name, filepath.ToSlash(home)+"/") })
}

// tellBehind reports that what runs again does not see commits that were made since the run
// began.
func (g *Work) tellBehind(ctx context.Context, tree *worktree.Run) error {
	n, err := tree.Behind(ctx)
	if err != nil || n == 0 {
		return err
	}
	g.x.Note("%s has %s that the run's work is not merged with yet, and what runs again does not see %s: merge it first with `bide worktree merge %s`",
		tree.Target, diag.Count(n, "commit"), diag.Plural(n, "it", "them"), g.x.Run)
	return nil
}

// tellRemade reports that the run's worktree was gone, and what is lost with it:
// uncommitted files of steps that have ended and do not run again.
func (g *Work) tellRemade() error {
	back := ""
	if n := g.Tree.Restored; n > 0 {
		back = fmt.Sprintf("; %s that %s uncommitted when the items started %s back", diag.Count(n, "file"), diag.Plural(n, "was", "were"), diag.Plural(n, "is", "are"))
	}
	var ended []string
	for path, rec := range g.Steps {
		if step.TakenOver(rec) && rec.Status != event.Skipped && !IsCheck(path) && !(g.Tree.Frozen() && strings.HasPrefix(path, "setup")) {
			ended = append(ended, path)
		}
	}
	what := fmt.Sprintf("the run's worktree was gone, and was made again from branch %s%s", g.Tree.Branch, back)
	if len(ended) == 0 {
		g.x.Note("%s", what)
		return nil
	}
	slices.Sort(ended)
	g.Lost = ended
	return g.x.Recorder.Record(event.Event{Type: event.Note, Class: event.LostWork, Data: step.Data(event.LostSteps{Steps: ended}), Message: fmt.Sprintf("%s; what %s that %s ended (%s) may have left uncommitted is lost, so the exit status is 3 until %s run again: bide rerun %s --step %s",
		what, diag.Count(len(ended), "step"), diag.Plural(len(ended), "has", "have"), diag.First(ended, 3), diag.Plural(len(ended), "it has", "they have"), g.x.Run, ended[0])})
}

// Safe syncs what a step did in a worktree of the run, and marks the commit that the
// worktree was at.
func (g *Work) Safe(ctx context.Context, p step.Place, path string) error {
	switch {
	case IsCheck(path):
	case p.Mark != nil:
		p.Mark(path)
	case p.Index == 0:
		if err := g.Tree.Mark(ctx, path); err != nil {
			return err
		}
	}
	if p.Index == 0 && g.Shared != nil {
		return g.Shared.Standing(ctx, path)
	}
	return g.Repo.Sync(ctx)
}

// Rewind undoes the commits of a step of the run itself that was cut short, or failed. The
// step runs again, and finds its changes as if it had not committed them: a git commit that
// was ended when the commit was there would have nothing to commit. killed says that the
// last life of the run was killed, and that nothing but steps commits in it: then a step may
// have committed whose start is not on record.
func (g *Work) Rewind(ctx context.Context, steps map[string]journal.StepRecord, killed bool) error {
	cut, failed := killed, killed
	for path, rec := range steps {
		if !IsCheck(path) {
			cut, failed = cut || !rec.Over(), failed || !step.TakenOver(rec)
		}
	}
	if !failed { // nor cut short
		return nil
	}
	return g.Tree.Rewind(ctx, func(path string) bool { rec, ok := steps[path]; return ok && step.TakenOver(rec) }, !cut)
}

// IsCheck reports whether the path of a step that belongs to no item is that of a check in a
// worktree that belongs to nobody.
func IsCheck(path string) bool {
	return strings.HasPrefix(path, "map.evidence.") || strings.HasPrefix(path, "merge_queue.verify")
}

// markHead records where the git context of the workflow begins. A resumed run reads it
// from a file of the run.
func (g *Work) markHead(ctx context.Context) (*worktree.Point, error) {
	if g.Shared != nil && g.Tree != nil { // another machine may have begun the run
		return &worktree.Point{Commit: g.Tree.Base}, nil
	}
	name := filepath.Join(g.Home, "git-start.json")
	var p worktree.Point
	if b, err := os.ReadFile(name); err == nil && json.Unmarshal(b, &p) == nil {
		return &p, nil
	}
	p, err := g.Repo.Mark(ctx, g.where())
	if err != nil {
		return nil, err
	}
	return &p, files.Replace(name, 0o600, files.Synced(step.Data(p)))
}

// Freeze takes the snapshot of the run's worktree from which agents start.
func (g *Work) Freeze(ctx context.Context) error {
	if g.Tree == nil {
		return nil
	}
	g.stashStamp = g.Repo.StashStamp()
	if err := g.Tree.Freeze(ctx); err != nil || g.Shared == nil {
		return err
	}
	if err := g.keepBeside(ctx); err != nil {
		return err
	}
	return g.Shared.Standing(ctx, "")
}

// Drain removes the worktrees of agents that nothing needs any more, and brings the run's
// own worktree to the branch that they were merged into.
func (g *Work) Drain(ctx context.Context) error {
	if g.Tree == nil {
		return nil
	}
	if err := g.Tree.Drain(context.WithoutCancel(ctx)); err != nil {
		g.x.Note("worktrees of agents are left: %v", err)
	}
	if n := g.onlyIgnored.Swap(0); n > mostTold {
		g.x.Note("%d items in all left nothing in their worktrees but what git ignores", n)
	}
	err := g.Tree.Follow(context.WithoutCancel(ctx))
	g.tellLost()
	g.tellStashUse()
	g.mendStash(context.WithoutCancel(ctx))
	return err
}

// tellLost reports files of the run's worktree, and directories in the place of worktrees,
// that were moved aside.
func (g *Work) tellLost() {
	if tip := g.Tree.PutBack(); tip != "" {
		g.x.Note("branch %s was deleted or moved back by somebody, and is at %s again, with all that is merged", g.Tree.Branch, tip)
	}
	for _, dir := range g.Tree.InTheWay() {
		g.x.Note("a directory that git knows nothing of was where a worktree of the run should be: %s", g.keptAs([]string{dir}, "; take what you need from there, then remove it"))
	}
	for _, name := range g.Tree.Lost {
		g.x.Note("a file of the run's worktree that is of no commit that is known was in the way of merged work: %s", g.keptAs([]string{name}, ""))
	}
	g.Tree.Lost = nil
}
