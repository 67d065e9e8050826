package engine

import (
	"bytes"
	"cmp"
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

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// gitWork is what a run has to do with git: the repository, the run's worktree,
// and the way of the work of agents into it and of its work to the user's branch.
type gitWork struct {
	x       *step.Executor
	dir     string // where the run was started
	home    string // the run's directory
	mode    string // of isolation
	rounds  int    // iterations that the options ask for
	yes     bool   // merge without a question
	resumed bool
	// steps are those of the run itself that earlier lives have on record.
	steps map[string]journal.StepRecord

	repo *worktree.Repo // nil outside git, and where nobody wants to know
	tree *worktree.Run  // the run's worktree; nil without isolation
	made bool           // in this life of the run
	// context says that step.* and workflow.* of the git context are read
	// somewhere.
	context bool
	// unmerged is how many files the steps of the run itself left uncommitted that are
	// in no merge.
	unmerged int
	// lost are the steps that had ended and whose work is lost with the run's worktree.
	lost []string
	// verify, if not nil, is asked whether the final merge may be made.
	verify func(ctx context.Context, commit, tree string) error
	// mergeWith is the command that merges what the run left in branches; "" for nothing.
	mergeWith string
	// results are those of the items that have ended; nil where nobody keeps them.
	results func(context.Context) iter.Seq2[journal.Result, error]
}

// readsState finds the variables git.* in a file's text: where they are not
// read, git is not asked.
var readsState = pattern.Lazy(`\bgit\.(branch|commit|(staged|unstaged|untracked|modified|deleted|changed)_files)\b`)

// readsGit finds the variables of the git context in a file's text. It only
// decides whether git is asked around each step: one time too many does no
// harm.
var readsGit = pattern.Lazy(`\b(step|workflow)\.(files_|commit|insertions|deletions)|file_pattern`)

// mentions says whether a text has one of the words: most files have none, and then no
// expression has to be compiled.
func mentions(text []byte, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(text, []byte(w)) })
}

// asked is what the texts of the file ask of git.
func (g *gitWork) asked() *step.Git {
	asks := &step.Git{}
	for _, text := range append(slices.Collect(maps.Values(g.x.File.Others)), g.x.File.Source) {
		asks.Context = asks.Context || mentions(text, "step.", "workflow.", "file_pattern") && readsGit().Match(text)
		asks.State = asks.State || mentions(text, "git.") && readsState().Match(text)
	}
	g.context = asks.Context
	return asks
}

// open opens the repository and, where the file and the options ask for it, the
// run's own worktree. asks is what steps ask of git; nil where nobody wants to
// know.
func (g *gitWork) open(ctx context.Context) (asks *step.Git, err error) {
	asks = g.asked()
	own := g.mode == "worktree" || g.mode == "auto" && workflow.NeedsIsolation(g.x.File)
	if !own && g.unsafe() == nil && !asks.Context && !asks.State && !commits(g.x.File) && max(g.rounds, g.x.File.MaxIterations) <= 1 {
		return nil, nil // git is not asked where nobody wants to know
	}
	repo, err := worktree.Open(ctx, g.dir)
	switch {
	case err == nil:
		g.repo, asks.Repo = repo, repo
	case g.mode == "worktree":
		return nil, fmt.Errorf("isolation: worktree: %s: %w", g.dir, err)
	case g.mode == "none", errors.Is(err, worktree.ErrNotRepo), errors.Is(err, worktree.ErrBare), errors.Is(err, worktree.ErrNoGit):
		return nil, nil
	default:
		return nil, err
	}
	if head, err := repo.HeadInfo(ctx); err != nil || head.Commit == "" {
		if g.mode == "worktree" {
			return nil, fmt.Errorf("isolation: worktree: %w", worktree.ErrUnborn)
		}
		own = false
	}
	if own {
		if err := g.ownWorktree(ctx); err != nil {
			return nil, err
		}
	}
	if g.context {
		asks.Head, err = g.markHead(ctx)
	}
	return asks, err
}

// unsafe is a step of a map that writes with git in the working tree that all its
// items have in common; nil where there is none.
func (g *gitWork) unsafe() *workflow.Step {
	if g.mode != "none" {
		return nil
	}
	return workflow.MapWritesWithGit(g.x.File)
}

// where is where the steps of the run itself are.
func (g *gitWork) where() string {
	if g.tree != nil {
		return g.tree.WorkDir
	}
	return g.dir
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
func (g *gitWork) ownWorktree(ctx context.Context) error {
	o := worktree.RunOptions{ID: g.x.Run, Root: filepath.Join(filepath.Dir(filepath.Dir(g.home)), "worktrees", g.x.Run)}
	tree, err := g.repo.OpenRun(ctx, o)
	if g.made = errors.Is(err, fs.ErrNotExist) || err != nil && !g.resumed; g.made {
		tree, err = g.repo.NewRun(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("the run's worktree: %w", err)
	}
	g.tree = tree
	if tree.Remade {
		if err := errors.Join(g.tellRemade(), g.x.Recorder.Sync(ctx)); err != nil {
			return err
		}
		if err := tree.Told(ctx); err != nil {
			return err
		}
	} else if n := len(g.lost); n > 0 {
		g.x.Note("what %s may have left uncommitted was lost with the run's worktree, so the exit status is 3, until %s run again: bide rerun %s --step %s",
			diag.Count(n, "step"), diag.Plural(n, "it has", "they have"), g.x.Run, g.lost[0])
	}
	for _, name := range tree.Locks {
		g.x.Note("a git that was killed left %s, which is removed", name)
	}
	g.tellLost()
	if n := len(tree.LeftOut); n > 0 {
		g.x.Note("%s of your working tree %s not in the run's worktree (%s): commit what is to be there, or run with --isolation none",
			diag.Count(n, "uncommitted file"), diag.Plural(n, "is", "are"), diag.First(tree.LeftOut, 3))
	}
	return nil
}

// tellRemade says that the run's worktree was gone, and what is lost with it: what steps
// left uncommitted that have ended, and do not run again.
func (g *gitWork) tellRemade() error {
	back := ""
	if n := g.tree.Restored; n > 0 {
		back = fmt.Sprintf("; %s that %s uncommitted when the items started %s back", diag.Count(n, "file"), diag.Plural(n, "was", "were"), diag.Plural(n, "is", "are"))
	}
	var ended []string
	for path, rec := range g.steps {
		if step.TakenOver(rec) && rec.Status != event.Skipped && !checks(path) && !(g.tree.Frozen() && strings.HasPrefix(path, "setup")) {
			ended = append(ended, path)
		}
	}
	what := fmt.Sprintf("the run's worktree was gone and is made anew from branch %s%s", g.tree.Branch, back)
	if len(ended) == 0 {
		g.x.Note("%s", what)
		return nil
	}
	slices.Sort(ended)
	g.lost = ended
	return g.x.Recorder.Record(event.Event{Type: event.Note, Class: event.LostWork, Data: data(event.LostSteps{Steps: ended}), Message: fmt.Sprintf("%s; what %s that %s ended (%s) may have left uncommitted is lost, so the exit status is 3 until %s run again: bide rerun %s --step %s",
		what, diag.Count(len(ended), "step"), diag.Plural(len(ended), "has", "have"), diag.First(ended, 3), diag.Plural(len(ended), "it has", "they have"), g.x.Run, ended[0])})
}

// safe has on the disk what a step did in a worktree of the run, and marks in the run's
// own where it stood then.
func (g *gitWork) safe(ctx context.Context, p step.Site, path string) error {
	if p.Index == 0 && !checks(path) {
		if err := g.tree.Mark(ctx, path); err != nil {
			return err
		}
	}
	return g.repo.Sync(ctx)
}

// rewind takes back what a step of the run itself committed that was cut short: it runs
// again, and shall find what it changed as if it had not committed.
func (g *gitWork) rewind(ctx context.Context, steps map[string]journal.StepRecord) error {
	for path, rec := range steps {
		if !over(rec) && !checks(path) {
			return g.tree.Rewind(ctx, func(path string) bool { rec, ok := steps[path]; return ok && over(rec) })
		}
	}
	return nil
}

// checks says of the path of a step that is no item's whether it checks something in a
// worktree that is nobody's.
func checks(path string) bool {
	return strings.HasPrefix(path, "map.evidence.") || strings.HasPrefix(path, "merge_queue.verify")
}

// markHead notes where the git context of the workflow begins; a resumed run
// finds it in a file of the run.
func (g *gitWork) markHead(ctx context.Context) (*worktree.Point, error) {
	name := filepath.Join(g.home, "git-start.json")
	var p worktree.Point
	if b, err := os.ReadFile(name); err == nil && json.Unmarshal(b, &p) == nil {
		return &p, nil
	}
	p, err := g.repo.Mark(ctx, g.where())
	if err != nil {
		return nil, err
	}
	return &p, os.WriteFile(name, data(p), 0o600)
}

// freeze takes the state of the run's worktree from which agents start.
func (g *gitWork) freeze(ctx context.Context) error {
	if g.tree == nil {
		return nil
	}
	return g.tree.Freeze(ctx)
}

// drain removes the worktrees of agents that nobody needs any more, and brings the
// run's own to what they were merged into.
func (g *gitWork) drain(ctx context.Context) error {
	if g.tree == nil {
		return nil
	}
	if err := g.tree.Drain(context.WithoutCancel(ctx)); err != nil {
		g.x.Note("worktrees of agents are left: %v", err)
	}
	err := g.tree.Follow(context.WithoutCancel(ctx))
	g.tellLost()
	return err
}

// tellLost tells of files of the run's worktree that were moved aside.
func (g *gitWork) tellLost() {
	for _, name := range g.tree.Lost {
		g.x.Note("a file of the run's worktree that is of no commit that is known was in the way of merged work, and is kept as %s", name)
	}
	g.tree.Lost = nil
}

// leave merges an agent's commits into the run. Work that is not merged stays
// in its branch.
func (g *gitWork) leave(ctx context.Context, p step.Site, a *agentRun, err error) error {
	ctx = context.WithoutCancel(ctx) // what is done is taken over, also when the run stops
	var k worktree.Kept
	var ended error
	a.recorded = func(ctx context.Context) { g.release(ctx, a) }
	if err != nil {
		k, ended = a.tree.Keep(ctx)
	} else {
		var res worktree.MergeResult
		res, k, ended = a.tree.Finish(ctx, worktree.MergeOptions{
			Message: g.itemMessage(a), Trailers: g.trailers(a), Resolve: g.resolver(p), Left: g.leftMessage(a),
			Before: func(commit string, work worktree.MergeResult) error {
				a.data.Commits, a.data.Files = work.CommitIDs, work.Files
				if a.unmerged(len(work.Uncommitted)); a.data.Evidence != nil {
					a.data.Tip = commit
				}
				return g.recordMerge(ctx, a, commit)
			}})
		if res.Left != nil {
			g.x.Note("the work of item %s is merged, but not all is cleared away: %v", nameOf(g.x.Values.Mask(), a.item), res.Left)
		}
		if a.data.Evidence != nil {
			a.data.Merge = res.Commit
		}
		if ended == nil && res.Commits == 0 {
			a.data.Commits, a.data.Files = nil, nil
		}
		if n := len(res.Uncommitted); ended == nil {
			if k.Branch != "" {
				n = max(n, 1) // it went away from what it had committed
			}
			a.unmerged(n)
		}
	}
	a.data.Worktree, a.data.Branch = "", k.Branch
	if k.Branch != "" && err != nil { // else it is counted, and told once
		_ = g.x.Recorder.Record(event.Event{Type: event.Note, Phase: "map", Item: a.item.ID, Index: a.item.Index, Message: k.String()})
	}
	if ended != nil && !errors.As(ended, new(*worktree.Conflict)) {
		ended = fmt.Errorf("its work is not merged: %w", ended)
	}
	return errors.Join(err, ended)
}

// leftMessage is the message of the commit of what the steps of an item leave
// uncommitted; "" where the file says that nobody commits it.
func (g *gitWork) leftMessage(a *agentRun) string {
	if !g.x.File.ItemsCommitLeft() {
		return ""
	}
	return g.itemMessage(a)
}

// itemMessage is the message of a commit or merge of an item's work: what a person knows
// the item by.
func (g *gitWork) itemMessage(a *agentRun) string {
	return "bide: item " + worktree.Subject(g.x.Values.Mask().String(cmp.Or(a.label, a.item.Name())))
}

// trailers are those of the merge of an item that has shown what it was asked for, for
// who looks at the history later.
func (g *gitWork) trailers(a *agentRun) string {
	if a.data.Evidence == nil {
		return ""
	}
	return worktree.Trailers("Bide-Run", g.x.Run, "Bide-Item", g.x.Values.Mask().String(a.item.ID), "Bide-Evidence", a.data.Evidence.Sum())
}

// unmerged notes how many files of an item that succeeded are in no merge: it did less
// than it was meant to.
func (a *agentRun) unmerged(files int) {
	if a.data.Unmerged = files; files > 0 && slices.Index(event.Kinds, event.Degraded) > slices.Index(event.Kinds, a.data.Kind) {
		a.data.Kind = event.Degraded
	}
}

// release puts an agent's worktree back, once it is on the disk how the agent ended.
// Before, a next life of the run that does not know of the end would take the steps on
// record for done, in a worktree without what they did.
func (g *gitWork) release(ctx context.Context, a *agentRun) {
	k, err := a.tree.Release(context.WithoutCancel(ctx))
	if err != nil {
		g.x.Note("the worktree of item %s is left: %v", nameOf(g.x.Values.Mask(), a.item), err)
	}
	if n := len(k.Repositories); n > 0 {
		g.x.Note("item %s made %s of its own below its worktree, whose files no commit of it can have: kept as %s", nameOf(g.x.Values.Mask(), a.item),
			diag.Count(n, "git repository", "git repositories"), strings.Join(k.Repositories, ", "))
	}
	if n := len(k.Ignored); n > 0 {
		g.x.NoteOnce("ignored", fmt.Sprintf("item %s left %s that git ignores (%s): such files go when the next item takes the worktree; what is to be kept is written elsewhere, or committed",
			nameOf(g.x.Values.Mask(), a.item), diag.Count(n, "path"), diag.First(k.Ignored, 3)))
	}
}

// resolver resolves a conflict with the merge block, or with the agent that is
// configured under the name merge; nil where there is neither.
func (g *gitWork) resolver(p step.Site) worktree.Resolver {
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
		q.Past, q.Keep = nil, false // each conflict is one of its own
		q.Scope = p.Scope.Child()
		q.Scope.Set("merge", map[string]any{
			"worktree": c.Dir, "source_branch": c.Branch, "target_branch": c.Into, "session_id": g.x.Run,
			"commit": c.Commit, "modified_files": step.Anys(c.Files), "file_list": strings.Join(c.Files, ", "), "file_count": int64(len(c.Files)),
			"conflicts": step.Anys(c.Files),
		})
		return g.x.Sequence(ctx, q, steps)
	}
}

// mergeBack takes the run's work to the user's branch: with the merge block,
// with -y, or after a person said yes. Otherwise it stays where it is, and the
// message says how to get it.
// items is how many items succeeded and left work that is in no merge.
func (g *gitWork) mergeBack(ctx context.Context, block func(context.Context, map[string]any) error, items int) error {
	if err := g.commitLeft(ctx); err != nil {
		return err
	}
	did, err := g.tree.Committed(ctx)
	if err != nil {
		return err
	}
	ahead, err := g.repo.HasNewCommits(ctx, g.tree.Dir, g.tree.Base)
	if err != nil {
		return err
	}
	if !ahead {
		if g.x.File.Merge != nil {
			g.x.Note("the merge block is left out: nothing was committed")
		}
		return g.leaveRun(ctx, items)
	}
	if g.x.File.Merge != nil {
		if err := block(ctx, mergeVariables(g.x.Run, g.tree, did)); err != nil {
			return fmt.Errorf("%w; the work is in branch %s: %s", err, g.tree.Branch, g.tree.MergeCommand())
		}
	}
	if !g.yes && (g.x.Ask == nil || !g.x.Ask(fmt.Sprintf("Merge %s into %s?", g.tree.Branch, g.tree.Target))) {
		g.tellUnmerged("the work is in branch " + g.tree.Branch + " and is not merged yet")
		return nil
	}
	res, err := g.tree.FinalMerge(ctx, worktree.MergeOptions{Message: g.runMessage(), Verify: g.verify})
	if err != nil {
		with := "bide worktree merge " + g.x.Run
		if errors.As(err, new(*worktree.Conflict)) {
			with = g.tree.MergeCommand() // a person resolves it
		}
		g.tellMerge("the work stays in branch "+g.tree.Branch, with)
		return err
	}
	if res.Commits > 0 {
		_ = g.x.Recorder.Record(event.Event{Type: event.Note, Class: event.Landed, Data: data(event.LandedMerge{Commit: res.Commit}),
			Message: fmt.Sprintf("merged %s of %s into %s", diag.Count(res.Commits, "commit"), g.tree.Branch, g.tree.Target)})
	}
	return g.leaveRun(ctx, items)
}

// runMessage is the message of a commit or merge of the run's work: the name of the
// workflow, or of its file where it has none.
func (g *gitWork) runMessage() string {
	path := filepath.Base(g.x.File.Path)
	return g.x.Values.Mask().String("bide: " + cmp.Or(g.x.File.Name, strings.TrimSuffix(path, filepath.Ext(path))))
}

// commitLeft commits what the steps of the run itself left uncommitted, unless the file
// says that nobody does.
func (g *gitWork) commitLeft(ctx context.Context) error {
	if !g.x.File.CommitsLeft() {
		return nil
	}
	left, err := g.tree.CommitLeft(context.WithoutCancel(ctx), g.runMessage())
	g.unmerged = len(left)
	return err
}

// mergeVariables are what a merge block reads of what is to be merged.
func mergeVariables(run string, tree *worktree.Run, did worktree.GitContext) map[string]any {
	return map[string]any{
		"worktree": tree.Dir, "source_branch": tree.Branch, "target_branch": tree.Target, "session_id": run,
		"commits": step.Anys(did.Commits), "commit_ids": strings.Join(did.Commits, " "), "commit_count": int64(did.CommitCount),
		"modified_files": step.Anys(did.FilesChanged), "file_count": int64(len(did.FilesChanged)), "file_list": strings.Join(did.FilesChanged, ", "),
	}
}

// leaveRun removes the run's worktree when nothing is in it that is not merged.
func (g *gitWork) leaveRun(ctx context.Context, items int) error {
	k, err := g.tree.Remove(ctx)
	if err != nil {
		return err
	}
	g.unmerged = max(g.unmerged, len(k.Rescued)+len(k.Repositories))
	if n := len(k.Repositories); n > 0 {
		g.x.Note("steps of the run made %s of their own below its worktree, whose files no commit of it can have: kept as %s",
			diag.Count(n, "git repository", "git repositories"), strings.Join(k.Repositories, ", "))
	}
	if k.Branch != "" && len(k.Rescued) == 0 {
		g.x.Note("%s", k)
	}
	return errors.Join(g.tellLeft(ctx, items), g.repo.Sync(ctx))
}

// tellLeft says what is left in branches and not merged: of items that succeeded, of
// those that failed, and of those that were killed, also where the process died before it
// could tell of each.
func (g *gitWork) tellLeft(ctx context.Context, succeeded int) error {
	left, err := g.repo.List(ctx, g.x.Run)
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
	if dir := g.tree.SetAside(); dir != "" && n == 0 && (committed || succeeded == 0 && g.unmerged == 0) {
		_ = g.x.Recorder.Record(event.Event{Type: event.Note, Class: event.Unmerged, Message: "git repositories that steps made below their worktrees are not merged, and kept in " + dir + ": take what you need from there, and remove them"})
		return nil
	}
	why := "left uncommitted (auto_commit: false)"
	if committed {
		why = "left by a step that went to another commit"
	}
	switch own := diag.Count(g.unmerged, "file") + " of the run's own steps"; {
	case succeeded > 0 && g.unmerged > 0:
		g.tellUnmerged("work of " + diag.Count(succeeded, "item") + " and " + own + " was " + why + ", and is in branches, not merged")
	case succeeded > 0:
		g.tellUnmerged("work of " + diag.Count(succeeded, "item") + " was " + why + ", and is in branches, not merged")
	case g.unmerged > 0:
		g.tellUnmerged(own + " " + diag.Plural(g.unmerged, "was", "were") + " " + why + ", and " + diag.Plural(g.unmerged, "is", "are") + " in a branch, not merged")
	case n == 0 && again > 0:
		g.x.Note("what earlier attempts did is kept in %s, not merged, as later ones succeeded: see `bide worktree ls`", diag.Count(again, "branch", "branches"))
	case n > 0:
		_ = g.x.Recorder.Record(event.Event{Type: event.Note, Class: event.Unmerged, Message: fmt.Sprintf("work of items is left in %s, not merged: see `bide worktree ls`", diag.Count(n, "branch", "branches"))})
	}
	return nil
}

// doneAgain is how many of the branches are of earlier attempts at items that have
// succeeded since.
func (g *gitWork) doneAgain(ctx context.Context, left []worktree.Info) (n int, err error) {
	if len(left) == 0 || g.results == nil {
		return 0, nil
	}
	of := map[string]int{}
	for _, i := range left {
		of[i.Item]++
	}
	for res, err := range g.results(ctx) {
		if err != nil {
			return 0, err
		}
		if res.Status == event.Succeeded {
			n += of[worktree.ItemName(res.ID)]
		}
	}
	return n, nil
}

// tellUnmerged says what is not merged, and that a command of ours merges it.
func (g *gitWork) tellUnmerged(what string) { g.tellMerge(what, "bide worktree merge "+g.x.Run) }

// tellMerge says what is not merged, and the command that merges it.
func (g *gitWork) tellMerge(what, with string) {
	g.mergeWith = with
	_ = g.x.Recorder.Record(event.Event{Type: event.Note, Class: event.Unmerged, Label: with, Message: what + "; merge it with: " + with})
}
