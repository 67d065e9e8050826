package gitwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/worktree"
)

// lookAtStash records what is in the stash before a run begins, for all lives of the run,
// or reads what an earlier life has recorded. If the stash was empty, there is no file.
func (g *Work) lookAtStash() (err error) {
	if g.Shared != nil {
		return nil // the clone has no entry of the user's
	}
	name := filepath.Join(g.Home, "stash.json")
	g.stash = []worktree.StashEntry{}
	if g.Made {
		var list []worktree.StashEntry
		if list, err = g.Repo.Stash(); err == nil && len(list) > 0 {
			g.stash = list
			return files.Replace(name, 0o600, files.Synced(step.Data(list)))
		}
		return errors.Join(err, gone(os.Remove(name)))
	}
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &g.stash)
	}
	return gone(err)
}

// gone gives the error, or nil if it says that a file does not exist.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// mendStash puts back entries that were in the stash before the run and are gone, so that
// the user's work is there after the run. What a step has taken from the stash is reported,
// and the run is no success: it is in the work of the run.
func (g *Work) mendStash(ctx context.Context) {
	if g.stash == nil {
		return
	}
	now, err := g.Repo.Stash()
	for _, e := range g.stash {
		if err != nil || has(now, e) {
			continue
		}
		if err := g.Repo.Unstash(ctx, e); err != nil {
			g.x.Note("an entry of the git stash that was there before the run is gone (%s), and was not put back: %v; while git has it, get it with: git stash apply %s", e.Message, err, e.Commit)
			continue
		}
		if took, err := g.Tree.Took(ctx, e); err == nil && took {
			g.Stashed++
			g.tellStash("a step took from the git stash what was there before the run (%s), as all worktrees of a repository share one stash: it is put back, and it is in the work of the run too; look whether it belongs there", e.Message)
			continue
		}
		g.x.Note("an entry of the git stash that was there before the run is gone (%s): a step may have taken it, as all worktrees of a repository share one stash, so it is put back; if you took it yourself, remove it with: git stash drop", e.Message)
	}
	if err != nil {
		g.x.Note("the git stash cannot be read: %v", err)
	}
}

func has(list []worktree.StashEntry, e worktree.StashEntry) bool {
	return slices.ContainsFunc(list, func(o worktree.StashEntry) bool { return o.Commit == e.Commit })
}

// tellStashed reports work that steps have put into git's stash. Nobody can say which item
// it belongs to.
func (g *Work) tellStashed(ctx context.Context) error {
	if g.Shared != nil {
		return g.tellBeside(ctx)
	}
	g.mendStash(ctx)
	ids, err := g.Tree.Stashed(ctx)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return has(g.stash, worktree.StashEntry{Commit: id}) }) // mendStash has just put these back
	if n := len(ids); n > 0 {
		g.Stashed += n
		g.tellStash("%s of the run put work into git's stash, which all worktrees share, and did not take it back: no merge has it; see it with git stash list, take it with git stash apply %s",
			diag.Plural(n, "a step", "steps"), ids[n-1])
	}
	return nil
}

// tellStash reports something about the stash that makes the exit status 3.
func (g *Work) tellStash(format string, args ...any) {
	_ = g.x.Recorder.Record(event.Event{Type: event.Note, Class: event.Unmerged, Message: fmt.Sprintf(format, args...)})
}

// tellStashUse reports that the stash was used while items ran at the same time: nobody can
// know whether one of them took what another had put there.
func (g *Work) tellStashUse() {
	if g.stash != nil && g.stashStamp != "" && g.Repo.StashStamp() != g.stashStamp {
		g.x.NoteOnce("stash", "the git stash was used while the items ran, and all worktrees of a repository share one: items that use it at the same time may take each other's work; have them commit instead, or run with --max-parallel 1")
	}
	g.stashStamp = ""
}
