package gitwork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// Agent is one attempt at one item, in a worktree of its own.
type Agent struct {
	Item    event.Item
	Attempt int
	Label   string // its name for a person; "": its id
	Start   time.Time
	Tree    *worktree.Agent // nil where items have none
	Result  mapper.Result
	// Parked, if not nil, is called when the map knows that the work is waiting to be
	// merged.
	Parked func()
	// Recorded is called once the end of the attempt is on the disk.
	Recorded func(context.Context)

	ignored bool // it was reported that the item left only what git ignores
}

// MergeRecord is recorded before an agent's work is merged. If the process is killed
// between the merge and the record of the item's end, the item is not lost, and the next
// life does not run it again on a tree that has its work.
type MergeRecord struct {
	Commit     string        `json:"commit"` // that will be in the run's branch
	Result     mapper.Result `json:"result"` // of the item, once it is merged
	DurationMS int64         `json:"duration_ms"`
	// Branch has the commit while the commit waits in the merge queue; "" without a queue.
	Branch string `json:"branch,omitempty"`
}

// RecordMerge records that an agent's work is about to be merged, or is waiting for that in
// a branch. The record is on the disk before git begins.
func (g *Work) RecordMerge(ctx context.Context, a *Agent, commit, branch string) error {
	m := MergeRecord{Commit: commit, Branch: branch, Result: a.Result, DurationMS: time.Since(a.Start).Milliseconds()}
	m.Result.Worktree, m.Result.Branch = "", branch
	fact := event.Event{Type: event.ItemMerging, Phase: "map", Item: a.Item.ID, Index: a.Item.Index, Attempt: a.Attempt, Data: step.Data(m)}
	if branch != "" {
		fact.Status = event.Pending
	}
	if err := g.x.Recorder.Record(fact); err != nil {
		return err
	}
	return g.x.Recorder.Sync(ctx)
}

// Leave merges an agent's commits into the run. Work that is not merged stays in its
// branch.
func (g *Work) Leave(ctx context.Context, p step.Place, a *Agent, err error) error {
	ctx = context.WithoutCancel(ctx) // finished work is taken over, also when the run stops
	var k worktree.Kept
	var ended error
	a.Recorded = func(ctx context.Context) { g.Release(ctx, a) }
	if err != nil {
		k, ended = a.Tree.Keep(ctx)
	} else {
		trailers := ""
		if a.Result.Evidence != nil {
			trailers = g.Trailers(a.Item.ID, a.Result.Evidence)
		}
		var res worktree.MergeResult
		o := worktree.MergeOptions{
			Message: g.Message(g.Label(a)), Trailers: trailers, Resolve: g.Resolver(p), Left: g.LeftMessage(g.Label(a)),
			Before: func(commit string, work worktree.MergeResult) error {
				a.Result.Commits, a.Result.Files = work.CommitIDs, work.Files
				if a.unmerged(len(work.Uncommitted)); a.Result.Evidence != nil {
					a.Result.Tip = commit
				}
				return g.RecordMerge(ctx, a, commit, "")
			}}
		if g.Shared != nil {
			o.Publish = func(ctx context.Context, m worktree.Move) error {
				checked := ""
				if a.Result.Evidence != nil {
					checked = a.Result.Evidence.Commit
				}
				return g.Shared.Merge(ctx, a.Item.Index, a.Attempt, m, checked)
			}
		}
		res, k, ended = a.Tree.Finish(ctx, o)
		if res.Left != nil {
			g.x.Note("the work of item %s is merged, but not all is cleared away: %v", items.NameOf(g.x.Values.Mask(), a.Item), res.Left)
		}
		if a.Result.Evidence != nil {
			a.Result.Merge = res.Commit
		}
		if ended == nil && res.Commits == 0 {
			a.Result.Commits, a.Result.Files = nil, nil
		}
		if n := len(res.Uncommitted); ended == nil {
			if k.Branch != "" {
				n = max(n, 1) // a step switched away from what it had committed
			}
			a.unmerged(n)
			if res.Commits == 0 && k.Branch == "" {
				ended = g.OnlyIgnored(ctx, a)
			}
			g.TellAside(&a.Result, items.NameOf(g.x.Values.Mask(), a.Item), res.Aside)
		}
	}
	a.Result.Worktree, a.Result.Branch = "", k.Branch
	if k.Branch != "" && err != nil { // otherwise it is counted, and reported once for all
		_ = g.x.Recorder.Record(event.Event{Type: event.Note, Phase: "map", Item: a.Item.ID, Index: a.Item.Index, Message: k.String()})
	}
	if ended != nil && !errors.As(ended, new(*worktree.Conflict)) {
		ended = fmt.Errorf("its work is not merged: %w", ended)
	}
	return errors.Join(err, ended, g.keep(ctx, a.Item.Index, k))
}

// LeftMessage is the message of the commit of what the steps of an item leave uncommitted;
// "" if the file says that nothing commits it.
func (g *Work) LeftMessage(label string) string {
	if !g.x.File.ItemsCommitLeft() {
		return ""
	}
	return g.Message(label)
}

// Label gives the name by which a person knows the agent's item.
func (g *Work) Label(a *Agent) string {
	return cmp.Or(a.Label, items.NameOf(g.x.Values.Mask(), a.Item))
}

// Message is the message of a commit or merge of an item's work. name is the item's name
// for a person.
func (g *Work) Message(name string) string {
	return "bide: item " + worktree.Subject(g.x.Values.Mask().String(name))
}

// Trailers are the trailers of the merge of an item, for people who read the history later.
func (g *Work) Trailers(id string, e *mapper.Evidence) string {
	pairs := []string{"Bide-Run", g.x.Run, "Bide-Item", g.x.Values.Mask().String(id)}
	if e != nil {
		pairs = append(pairs, "Bide-Evidence", e.Sum())
	}
	return worktree.Trailers(pairs...)
}

// unmerged records how many files of an item that succeeded are in no merge: the item did
// less than it was meant to.
func (a *Agent) unmerged(files int) {
	if a.Result.Unmerged = files; files > 0 {
		degrade(&a.Result)
	}
}

func degrade(res *mapper.Result) {
	if slices.Index(event.Kinds, event.Degraded) > slices.Index(event.Kinds, res.Kind) {
		res.Kind = event.Degraded
	}
}

// tellShared reports changes of the configuration that the user's checkout shares with all
// worktrees. who names what ended when they were found.
func (g *Work) tellShared(ctx context.Context, who string) {
	changed, err := g.Repo.SharedChanges(ctx)
	if err != nil {
		g.x.Note("when %s ended, the configuration of the repository could not be read: %v", who, err)
		return
	}
	tell := func(list []string, then string) {
		if len(list) > 0 {
			g.x.Note("when %s ended, what your checkout and all worktrees share had changed: %s; %s", who, strings.Join(list, ", "), then)
		}
	}
	isFile := slices.IndexFunc(changed, filepath.IsAbs)
	if isFile < 0 {
		isFile = len(changed)
	}
	tell(changed[:isFile], "bide's own git calls go by what was set before; where a step has set it, git config --unset undoes it")
	tell(changed[isFile:], "it holds for the items that follow; where a step has written it, undo it there")
}

// OnlyIgnored checks whether an item that succeeded left only files that git ignores. No
// merge has these, so the item is degraded.
func (g *Work) OnlyIgnored(ctx context.Context, a *Agent) error {
	paths, err := a.Tree.OnlyIgnored(ctx)
	if err != nil || len(paths) == 0 {
		return err
	}
	a.ignored = true
	degrade(&a.Result)
	if n := g.onlyIgnored.Add(1); n <= mostTold {
		g.x.Note("item %s left nothing in its worktree but %s that git ignores (%s), which no merge has: the item is degraded; what is to be kept is written elsewhere, or committed with git add --force",
			items.NameOf(g.x.Values.Mask(), a.Item), diag.Count(len(paths), "path"), diag.First(paths, 3))
	}
	return nil
}

// mostTold is how many items are reported that left only what git ignores. If there are
// more, only their number is reported.
const mostTold = 3

// TellAside reports which repositories were moved aside that the resolver of an item's
// conflict made or changed: no merge has what is in them.
func (g *Work) TellAside(res *mapper.Result, label string, aside []string) {
	if len(aside) == 0 {
		return
	}
	res.Unmerged += len(aside)
	degrade(res)
	g.x.Note("resolving the conflict of item %s made or changed %s; the merge has only the commit of each. The files are kept as %s; take what you need from there",
		label, diag.Count(len(aside), "git repository", "git repositories"), strings.Join(aside, ", "))
}

// Release puts an agent's worktree back, once the end of the agent is on the disk. If it
// did so before, a next life of the run would not know of the end. It would take the
// recorded steps for done, in a worktree without what they did.
func (g *Work) Release(ctx context.Context, a *Agent) {
	k, err := a.Tree.Release(context.WithoutCancel(ctx))
	if err != nil {
		g.x.Note("the worktree of item %s is left: %v", items.NameOf(g.x.Values.Mask(), a.Item), err)
	}
	g.tellShared(ctx, "item "+items.NameOf(g.x.Values.Mask(), a.Item))
	if n := len(k.Repositories); n > 0 {
		g.x.Note("item %s made %s of its own below its worktree, whose files no commit of it can have: %s", items.NameOf(g.x.Values.Mask(), a.Item),
			diag.Count(n, "git repository", "git repositories"), g.keptAs(k.Repositories, ""))
	}
	if n := len(k.Submodules); n > 0 {
		g.x.Note("item %s left what no other repository has in %s: %s", items.NameOf(g.x.Values.Mask(), a.Item),
			diag.Count(n, "submodule"), g.keptAs(k.Submodules, "; fetch its commits from there"))
	}
	if n := len(k.Ignored); n > 0 && !a.ignored {
		g.x.NoteOnce("ignored", fmt.Sprintf("item %s left %s that git ignores (%s): such files go when the next item takes the worktree; what is to be kept is written elsewhere, or committed",
			items.NameOf(g.x.Values.Mask(), a.Item), diag.Count(n, "path"), diag.First(k.Ignored, 3)))
	}
}

// Resolver resolves a conflict with the merge block, or with the agent that is configured
// under the name merge; nil if there is neither.
func (g *Work) Resolver(p step.Place) worktree.Resolver {
	steps := []*workflow.Step(nil)
	switch {
	case g.x.File.Queue != nil && len(g.x.File.Queue.Resolve) > 0:
		steps = g.x.File.Queue.Resolve
	case g.x.File.Merge != nil:
		steps = g.x.File.Merge.Steps
	case g.x.File.Agents["merge"] != nil:
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
		q.Dir, q.Phase, q.Rounds = c.Dir, "merge", p.Rounds+"@"+p.Item
		q.Past, q.Keep = nil, false // each conflict is resolved for itself
		q.Scope = p.Scope.Child()
		q.Scope.Set("merge", conflictVariables(g.x.Run, c))
		return g.x.Sequence(ctx, &q, steps)
	}
}
