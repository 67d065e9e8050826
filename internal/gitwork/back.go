package gitwork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/worktree"
)

// MergeBack merges the run's work into the user's branch: with the merge block, with -y, or
// after a person said yes. Otherwise the work stays where it is, and the message says how
// to get it. items is how many items succeeded and left work that is in no merge. nowhere
// is how many of these left work that is in no branch either.
func (g *Work) MergeBack(ctx context.Context, block func(context.Context, map[string]any) error, items, nowhere int) error {
	if err := g.onRecord(ctx); err != nil {
		return err
	}
	if err := g.commitLeft(ctx); err != nil {
		return err
	}
	if err := g.tellStashed(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	ahead, err := g.Repo.HasNewCommits(ctx, g.Tree.Dir, g.Tree.Base)
	if err != nil {
		return err
	}
	if g.Shared != nil {
		return g.mergeShared(ctx, ahead, items, nowhere)
	}
	if !ahead {
		if g.x.File.Merge != nil {
			g.x.Note("the merge block is left out: nothing was committed")
		}
		return g.leaveRun(ctx, items)
	}
	if g.x.File.Merge != nil {
		did, err := g.Tree.Committed(ctx)
		if err != nil {
			return err
		}
		if err := block(ctx, MergeVariables(g.x.Run, g.Tree, did)); err != nil {
			return fmt.Errorf("%w; the work is in branch %s: %s", err, g.Tree.Branch, g.Tree.MergeCommand())
		}
		if err := g.onRecord(ctx); err != nil {
			return err
		}
		if err := g.commitLeft(ctx); err != nil { // by the block
			return err
		}
	}
	if !g.Yes && (g.x.Ask == nil || !g.x.Ask(fmt.Sprintf("Merge %s into %s?", g.Tree.Branch, g.Tree.Target))) {
		g.tellUnmerged(ctx, "the work is in branch "+g.Tree.Branch+" and is not merged yet")
		return nil
	}
	res, err := g.Tree.FinalMerge(ctx, worktree.MergeOptions{Message: g.runMessage(), Verify: g.Verify})
	if at := g.Tree.CaughtUp; at != "" {
		g.x.Note("branch %s was moved from a worktree while your checkout, at %.12s, had it; the checkout follows", g.Tree.Target, at)
	}
	if err != nil {
		g.tellMerge(ctx, "the work stays in branch "+g.Tree.Branch, cmp.Or(worktree.ByHand(err), "bide worktree merge "+g.x.Run))
		return err
	}
	if res.Commits > 0 {
		_ = g.x.Recorder.Record(event.Event{Type: event.Note, Class: event.Landed, Data: step.Data(event.LandedMerge{Commit: res.Commit}),
			Message: fmt.Sprintf("merged %s of %s into %s", diag.Count(res.Commits, "commit"), g.Tree.Branch, g.Tree.Target)})
		if err := g.onRecord(ctx); err != nil {
			return err
		}
	}
	return g.leaveRun(ctx, items)
}

// onRecord waits until what has ended is on record: a step whose work is committed for it,
// or merged, and whose worktree is gone, cannot run again.
func (g *Work) onRecord(ctx context.Context) error {
	return g.x.Recorder.Sync(context.WithoutCancel(ctx))
}

// runMessage is the message of a commit or merge of the run's work: the name of the
// workflow, or of its file if it has none.
func (g *Work) runMessage() string {
	path := filepath.Base(g.x.File.Path)
	return g.x.Values.Mask().String("bide: " + cmp.Or(g.x.File.Name, strings.TrimSuffix(path, filepath.Ext(path))))
}

// commitLeft commits what the steps of the run itself left uncommitted, unless the file
// says that nothing commits it.
func (g *Work) commitLeft(ctx context.Context) error {
	if !g.x.File.CommitsLeft() {
		return nil
	}
	left, err := g.Tree.CommitLeft(context.WithoutCancel(ctx), g.runMessage())
	g.Unmerged = len(left)
	return err
}

// MergeVariables gives the variables that a merge block reads about the merge. Without a
// conflict, conflicts is an empty list and commit an empty text.
func MergeVariables(run string, tree *worktree.Run, did worktree.GitContext) map[string]any {
	return map[string]any{
		"worktree": tree.Dir, "source_branch": tree.Branch, "target_branch": tree.Target, "session_id": run,
		"commits": step.Anys(did.Commits), "commit_ids": strings.Join(did.Commits, " "), "commit_count": int64(did.CommitCount),
		"modified_files": step.Anys(did.FilesChanged), "file_count": int64(len(did.FilesChanged)), "file_list": strings.Join(did.FilesChanged, ", "),
		"commit": "", "conflicts": []any{},
	}
}

// conflictVariables gives the variables for steps that resolve a conflict.
func conflictVariables(run string, c worktree.ConflictInfo) map[string]any {
	tree := &worktree.Run{Target: c.Into}
	tree.Dir, tree.Branch = c.Dir, c.Branch
	vars := MergeVariables(run, tree, worktree.GitContext{Commits: []string{c.Commit}, CommitCount: 1, FilesChanged: c.Files})
	vars["commit"], vars["conflicts"] = c.Commit, step.Anys(c.Files)
	return vars
}

// leaveRun removes the run's worktree if it has nothing that is not merged.
func (g *Work) leaveRun(ctx context.Context, items int) error {
	g.tellShared(ctx, "the steps of the run")
	if paths, err := g.Tree.Ignored(ctx); err != nil {
		return err
	} else if n := len(paths); n > 0 {
		g.x.Note("steps of the run left %s that git ignores in its worktree (%s), which no merge has and which %s with the worktree; what is to be kept is written elsewhere, or committed with git add --force",
			diag.Count(n, "path"), diag.First(paths, 3), diag.Plural(n, "goes", "go"))
	}
	k, err := g.Tree.Remove(ctx)
	g.tellLost()
	if err != nil {
		return err
	}
	files := max(g.Unmerged, len(k.Rescued))
	g.Unmerged = files + len(k.Repositories) + len(k.Submodules)
	if n := len(k.Repositories); n > 0 {
		g.x.Note("steps of the run made %s of their own below its worktree, whose files no commit of it can have: kept as %s",
			diag.Count(n, "git repository", "git repositories"), strings.Join(k.Repositories, ", "))
	}
	if n := len(k.Submodules); n > 0 {
		g.x.Note("steps of the run left what no other repository has in %s: kept as %s; fetch its commits from there", diag.Count(n, "submodule"), strings.Join(k.Submodules, ", "))
	}
	if k.Branch != "" && len(k.Rescued) == 0 {
		g.x.Note("%s", k)
	}
	return errors.Join(g.tellLeft(ctx, items, files), g.Repo.Sync(ctx))
}

// tellLeft reports the work that is left in branches and not merged: of items that
// succeeded, of items that failed, and of items that were killed; files are those of the run's
// own steps. It reports those too that the process could not report because it died.
func (g *Work) tellLeft(ctx context.Context, succeeded, files int) error {
	left, err := g.Repo.List(ctx, g.x.Run)
	if err != nil {
		return err
	}
	left = slices.DeleteFunc(left, func(i worktree.Info) bool { return i.Item == "" || i.Unmerged == 0 })
	again, err := g.doneAgain(ctx, left)
	if err != nil {
		return err
	}
	n := len(left) - again
	committed := g.x.File.CommitsLeft() && g.x.File.ItemsCommitLeft()
	if dir := g.Tree.SetAside(); g.Shared == nil && dir != "" && n == 0 && (committed || succeeded == 0 && files == 0) {
		_ = g.x.Recorder.Record(event.Event{Type: event.Note, Class: event.Unmerged, Message: "git repositories that steps made or changed below their worktrees are not merged, and kept in " + dir + ": take what you need from there, and remove them"})
		return nil
	}
	why := "left uncommitted (auto_commit: false)"
	if committed {
		if why = "left by a step that went to another commit"; g.Shared != nil {
			why = "left in the git stash, or by a step that went to another commit"
		}
	}
	switch own := diag.Count(files, "file") + " of the run's own steps"; {
	case succeeded > 0 && files > 0:
		g.tellUnmerged(ctx, "work of "+diag.Count(succeeded, "item")+" and "+own+" was "+why+", and is in branches, not merged")
	case succeeded > 0:
		g.tellUnmerged(ctx, "work of "+diag.Count(succeeded, "item")+" was "+why+", and is in branches, not merged")
	case files > 0:
		g.tellUnmerged(ctx, own+" "+diag.Plural(files, "was", "were")+" "+why+", and "+diag.Plural(files, "is", "are")+" in a branch, not merged")
	case n == 0 && again > 0:
		g.x.Note("what earlier attempts did is kept in %s, not merged, as later ones succeeded: see `bide worktree ls`", diag.Count(again, "branch", "branches"))
	case n > 0:
		_ = g.x.Recorder.Record(event.Event{Type: event.Note, Class: event.Unmerged, Message: fmt.Sprintf("work of items is left in %s, not merged: see `bide worktree ls`", diag.Count(n, "branch", "branches"))})
	}
	return nil
}

// doneAgain counts the branches of earlier attempts at items that have succeeded since.
func (g *Work) doneAgain(ctx context.Context, left []worktree.Info) (n int, err error) {
	if len(left) == 0 || g.Results == nil {
		return 0, nil
	}
	of := map[string]int{}
	for _, i := range left {
		of[i.Item]++
	}
	for res, err := range g.Results(ctx) {
		if err != nil {
			return 0, err
		}
		if res.Status == event.Succeeded {
			n += of[worktree.ItemName(res.ID)]
		}
	}
	return n, nil
}

// tellUnmerged reports what is not merged, and that a command of bide merges it.
func (g *Work) tellUnmerged(ctx context.Context, what string) {
	g.tellMerge(ctx, what, "bide worktree merge "+g.x.Run)
}

// tellMerge reports what is not merged, and the command that merges it.
func (g *Work) tellMerge(ctx context.Context, what, with string) {
	g.MergeWith = with
	note := event.Event{Type: event.Note, Class: event.Unmerged, Label: with, Message: what + "; merge it with: " + with}
	if work, err := g.waiting(context.WithoutCancel(ctx)); err == nil { // without it, the branches say the same as long as they exist
		note.Data = step.Data(work)
	}
	_ = g.x.Recorder.Record(note)
}
