package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/spf13/cobra"
)

// worktreeMergeOptions are the options of worktree merge.
type worktreeMergeOptions struct {
	*app
	dir      string
	name     string // of the run
	noVerify bool
}

func worktreeMergeCmd(a *app) *cobra.Command {
	o := &worktreeMergeOptions{app: a}
	cmd := &cobra.Command{
		Use:   "merge [RUN]",
		Short: "Merge the work of a run into the branch that it started from",
		Long: `Merges the branch of a run into the branch that it started from, as "git merge
--no-ff" does, in the repository's own working tree. Then it removes the worktree
and the branch of the run. It merges the branches of items that succeeded in the
same way, one after another; branches of failed items stay, and so does a branch
that meets a conflict. Where work of failed items stays, it says so and ends with
3. Without RUN, it is the newest run of this directory.

A running run is refused, and so is one that was interrupted, or has failed, in a
step of its own: "bide resume" continues it. Of one that was interrupted, or has
failed, in its map it merges what has ended, and ends with 3.

If the run has a merge queue (merge_queue), its verify runs first on the merge with
the branch as it is now, unless it passed on the same files before. If it fails,
nothing is merged and the exit status is 1. --no-verify merges anyway; the run then
counts as completed with failures.

Hooks of git do not run, and nothing is signed: bide computes the merge first and
then writes it into the working tree, so that a kill leaves all of it or nothing. If
you need pre-merge-commit, commit-msg or commit.gpgsign, merge by hand: "git merge
--no-ff bide/RUN", with the branch that "bide worktree ls" shows. bide sees that it
is merged.`,
		Example: `  bide worktree merge
  bide worktree merge 01KAJ3
  bide worktree merge 01KAJ3 --no-verify`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&o.dir, "path", "p", "", "a directory in the repository (default: that of the run)")
	cmd.Flags().BoolVar(&o.noVerify, "no-verify", false, "merge without the verify of the run's merge queue")
	return o.withJSON(cmd, "print one JSON object")
}

// merged is the result of a merge.
type merged struct {
	Run     string `json:"run"`
	Into    string `json:"into,omitempty"`
	Commits int    `json:"commits"`
	Commit  string `json:"commit,omitempty"`
	// Items are the items whose own branches were merged.
	Items []string `json:"items,omitempty"`
	Kept  []string `json:"kept,omitempty"` // branches that still exist
	// Lacks is the last merge of the run, if its branch no longer has it.
	Lacks string `json:"lacks,omitempty"`
	// Unverified says that the verify of the run's merge queue was skipped.
	Unverified bool `json:"unverified,omitempty"`
	// Locks are the lock files of a git that was killed, which were removed.
	Locks []string `json:"locks,omitempty"`
	// Aside are files and directories that were moved aside, because nobody knows who wrote them.
	Aside []string `json:"aside,omitempty"`
	// Remade says that the worktree of the run was gone: what was uncommitted in it is lost.
	Remade bool `json:"remade,omitempty"`
	// Interrupted says of a run that was interrupted, or has failed, what it has not done yet.
	Interrupted string `json:"interrupted,omitempty"`

	done []int // positions, from 1, of the items that have nothing left to merge
	// earlier are the branches of Kept from earlier attempts at items whose later work is
	// merged.
	earlier map[string]bool
}

func (o *worktreeMergeOptions) run(ctx context.Context) (err error) {
	st, err := o.openStore()
	if err != nil {
		return err
	}
	id, err := runID(st, o.name)
	if err != nil {
		return err
	}
	record := func(*merged, error) error { return nil }
	already := func() (bool, error) { return false, nil }
	letters := false      // the run has dead letters
	interrupted := ""     // what a run that is not at its end has not done yet
	var left journal.Left // with a command, work of the run still has to be merged
	var items []journal.Result
	var done map[string]bool
	var check *lateVerify // of the merge queue; a run on many machines has none
	tree := worktree.RunOptions{ID: id}
	if r, err := st.Read(id); err == nil && r.IsElsewhere() {
		if items, done, err = unmergedItems(ctx, r); err == nil && o.dir == "" {
			o.dir = r.Header().Dir
		}
		busy, berr := r.InUse()
		sum, serr := r.Summary(ctx)
		left, letters = sum.Left, sum.Items.DeadLettered > 0
		state, terr := r.State(ctx)
		if err := errors.Join(err, berr, serr, terr, r.Close()); err != nil {
			return err
		}
		if busy {
			return fmt.Errorf("run %s is running: its work is merged when it has ended", id)
		}
		if _, err := bring(ctx, st, id, o.dir); err != nil {
			return err
		}
		if interrupted, err = o.mayMerge(ctx, id, state, left); err != nil {
			return err
		}
		record = func(out *merged, wrong error) error {
			if note := out.note(left.Command != "", wrong); note != nil {
				return noteOn(st, id, *note)
			}
			return nil
		}
	} else if err == nil {
		o.dir = cmp.Or(o.dir, r.Header().Dir)
		items, done, err = unmergedItems(ctx, r)
		sum, serr := r.Summary(ctx)
		left, letters = sum.Left, sum.Items.DeadLettered > 0
		if err := errors.Join(err, serr, r.Close()); err != nil {
			return err
		}
		// While we have the run, nobody else can continue it.
		j, err := st.Open(id)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, j.Close()) }()
		record = func(out *merged, wrong error) error {
			if note := out.note(left.Command != "", wrong); note != nil {
				return errors.Join(j.Append(*note), j.Sync(ctx))
			}
			return nil
		}
		already = func() (bool, error) { return mergedAlready(ctx, j, left) }
		state, err := j.State(ctx)
		if err != nil {
			return err
		}
		if state.Finished.IsZero() {
			if _, err := proc.ReapOrphans(j.ProcDir()); err != nil {
				return fmt.Errorf("processes of the run's former life: %w", err)
			}
		}
		if interrupted, err = o.mayMerge(ctx, id, state, left); err != nil {
			return err
		}
		tree.Root, tree.Began = gitwork.Root(st.RunDir(id), id), j.Header().Started
		if check, err = o.lateVerify(ctx, st, j); err != nil {
			return err
		}
	}
	if o.noVerify && check == nil {
		o.tell("--no-verify has no effect: the run has no merge queue, whose verify it would leave out")
	}
	out, err := mergeRun(ctx, cmp.Or(o.dir, "."), tree, items, done, check, record)
	if errors.As(err, new(*worktree.NoBranchError)) {
		err = usageError{err}
		if is, aerr := already(); is || aerr != nil {
			out, err = &merged{Run: id}, aerr
		}
	}
	if with := worktree.ByHand(err); with != "" {
		err = fmt.Errorf("%w; merge it by hand with: %s", err, with)
	}
	if out != nil && !o.json {
		for _, name := range out.Locks {
			o.tell("a git that was killed left %s, which is removed", name)
		}
		if out.Remade {
			o.tell("the worktree of the run was gone, and was made again from its branch: what was uncommitted in it is lost, so the exit status is 3")
		}
		for _, name := range out.Aside {
			o.tell("nobody knows who wrote what is now in %s; take what you need from there, then remove it", name)
		}
	}
	if err != nil && (out == nil || out.Commits == 0 && len(out.Kept) == 0) {
		return err
	}
	if out != nil {
		out.Interrupted = interrupted
	}
	if interrupted != "" && !o.json {
		o.tell("%s, so the exit status is 3; bide resume %s continues it", interrupted, shortRun(id))
	}
	if err == nil && (out.Remade || interrupted != "") {
		defer func() { err = cmp.Or(err, error(exitError(3))) }()
	}
	unmerged := slices.DeleteFunc(slices.Clone(out.Kept), func(branch string) bool { return out.earlier[branch] }) // work of items that failed
	if o.json {
		if err = errors.Join(err, printJSON(o.out, out)); err == nil && len(unmerged) > 0 {
			err = exitError(3)
		}
		return err
	}
	switch {
	case out.Commits > 0:
		fmt.Fprintf(o.out, "merged %s of run %s into %s\n", diag.Count(out.Commits, "commit"), shortRun(id), out.Into)
	case len(out.Kept) == 0:
		fmt.Fprintf(o.out, "everything of run %s is merged already\n", shortRun(id))
	}
	if out.Unverified {
		o.tell("the merge is not verified, as --no-verify asks for, and the run has %s", words(event.CompletedWithFailures))
	}
	if out.Lacks != "" {
		o.tell("branch bide/%s was moved since the run, and does not have all that the run merged into it; see what it lacks with: git log %s..%s", id, cmp.Or(out.Into, "HEAD"), out.Lacks)
	}
	for _, branch := range out.Kept {
		if out.earlier[branch] {
			o.tell("branch %s stays: it has what an earlier attempt did, and the item has succeeded since; remove it with: bide worktree clean %s --force", branch, shortRun(id))
		}
	}
	if len(unmerged) > 0 {
		left := o.tellFailed(id, unmerged, letters, out.Commits > 0)
		if err == nil {
			err = left
		}
	}
	return err
}

// tellFailed says what can be done about the branches of failed items, and returns the exit
// status.
func (o *worktreeMergeOptions) tellFailed(id string, branches []string, letters, merged bool) error {
	run, width := shortRun(id), o.columns(o.err)
	of, in := "an item that failed", "branch "+branches[0]
	if n := len(branches); n > 1 {
		of, in = "items that failed", fmt.Sprintf("%d branches", n)
	}
	head := fmt.Sprintf("nothing is merged: the work of run %s that is left is of %s, in %s", run, of, in)
	if merged {
		head = fmt.Sprintf("the work of %s is not merged, and stays in %s", of, in)
	}
	o.tell("%s", head)
	if len(branches) > 1 {
		hint(o.err, width, "which", "bide worktree ls "+run)
	}
	if letters {
		hint(o.err, width, "after the cause is mended", "bide dlq retry "+run)
	}
	if len(branches) == 1 {
		hint(o.err, width, "to merge it as it is", "git merge --no-ff "+branches[0])
	} else {
		hint(o.err, width, "to merge one as it is", "git merge --no-ff BRANCH")
	}
	hint(o.err, width, diag.Plural(len(branches), "to give it up", "to give them up"), "bide worktree clean "+run+" --force")
	return exitError(3)
}

// mergedAlready reports whether the work of a run without branches is merged, according to the
// run or its repository. If only the repository knows, it records that in the run.
func mergedAlready(ctx context.Context, j *journal.Journal, left journal.Left) (is bool, err error) {
	if left.Command != "" {
		return gitwork.NoteMerged(ctx, j, left)
	}
	for e, err := range j.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.Note}}) {
		if err != nil {
			return false, err
		}
		switch e.Class {
		case event.Merged, event.Landed:
			is = true
		case event.Unmerged:
			is = false
		}
	}
	return is, nil
}

// note is an event that records what was merged. It replaces the note of what the run left
// unmerged; nil if nothing was merged. wrong is why the rest was not.
func (m *merged) note(waited bool, wrong error) *event.Event {
	byHand := worktree.ByHand(wrong)
	if m == nil || m.Commits == 0 && len(m.done) == 0 && (!waited || wrong != nil && byHand == "") {
		return nil
	}
	what := "what was left is merged already"
	if m.Commits > 0 {
		what = "what was left is merged: " + diag.Count(m.Commits, "commit") + " into " + m.Into
	}
	if m.Unverified {
		what += ", without the verify of the merge queue (--no-verify)"
	}
	note := gitwork.MergedNote(what, event.MergedItems{Items: m.done, Commit: m.Commit, Unverified: m.Unverified})
	if wrong != nil {
		with := cmp.Or(byHand, "bide worktree merge "+m.Run)
		note.Class, note.Label, note.Data, note.Message = event.Unmerged, with, nil, "not all work could be merged: "+wrong.Error()+"; merge it with: "+with
	}
	return &note
}

// mayMerge is [cutShort] of a run that has a branch in the repository; others are told so elsewhere.
func (o *worktreeMergeOptions) mayMerge(ctx context.Context, id string, state *journal.State, left journal.Left) (lacks string, err error) {
	lacks, refused := cutShort(id, state, left)
	if refused == nil {
		return lacks, nil
	}
	repo, err := worktree.Open(ctx, cmp.Or(o.dir, "."))
	if err != nil {
		return "", err // the error names the directory
	}
	if branch, err := repo.Branch(ctx, "bide/"+id); err != nil || branch == "" {
		return "", err
	}
	return "", refused
}

// cutShort says what a run that was interrupted, or has failed, has not done yet; "" of another, and of one
// that only lacks its merge. It refuses such a run where a step of its own has not ended well: its branch may
// have half of what that step does, and without the worktree no resume takes that back. Of a run that was
// killed, a step may have begun whose start is not on record.
func cutShort(id string, state *journal.State, left journal.Left) (lacks string, err error) {
	what, killed := "was interrupted", state.Finished.IsZero()
	switch {
	case left.OnlyMerge():
		return "", nil
	case killed:
	case state.Status == event.Failed:
		what = "has failed"
	case state.Status != event.Interrupted:
		return "", nil
	}
	at := ""
	for _, path := range slices.Sorted(maps.Keys(state.Steps)) {
		if !gitwork.IsCheck(path) && !step.TakenOver(state.Steps[path]) && (at == "" || len(path) < len(at)) {
			at = path
		}
	}
	_, mapped := state.Phases["map"]
	switch n := state.Items.Counts().Pending; {
	case at != "":
		at = "in its step " + at
	case killed && state.Phase != "map":
		at = "between its steps"
	case mapped && n > 0:
		return fmt.Sprintf("run %s %s: %s %s no end yet", shortRun(id), what, diag.Count(n, "item"), diag.Plural(n, "has", "have")), nil
	default:
		return fmt.Sprintf("run %s %s: what its steps have done is merged, and it is not at its end", shortRun(id), what), nil
	}
	return "", fmt.Errorf("run %s %s %s: nothing is merged\n  to continue it, and merge its work at its end: bide resume %[1]s\n"+
		"  to merge the commits that it has, as they are: git merge --no-ff bide/%[4]s", shortRun(id), what, at, id)
}

// unmergedItems returns the results of items that succeeded and have their work in a branch,
// and the names of the items whose work is merged.
func unmergedItems(ctx context.Context, r *journal.Reader) (list []journal.Result, merged map[string]bool, err error) {
	merged = map[string]bool{}
	for res, err := range r.Results(ctx) {
		switch {
		case err != nil:
			return nil, nil, err
		case res.Status != event.Succeeded:
		case gitwork.BranchOf(res) != "":
			list = append(list, res)
		default:
			merged[worktree.ItemName(res.ID)] = true
		}
	}
	return list, merged, nil
}

// mergeRun merges the branch of a run, and those of items. An item that cannot be merged does
// not stop the others. done are the items whose work is in the run's branch. The merge is
// recorded before its branches are removed: until then they are the evidence. check, if not
// nil, checks each merge as the merge queue of the run would.
func mergeRun(ctx context.Context, dir string, o worktree.RunOptions, items []journal.Result, done map[string]bool, check *lateVerify, record func(*merged, error) error) (*merged, error) {
	repo, err := worktree.Open(ctx, dir)
	if err != nil {
		return nil, err // the error names the directory
	}
	run, err := check.find(ctx, repo, o)
	if errors.As(err, new(*worktree.NoBranchError)) {
		return nil, err
	}
	if err != nil {
		return nil, usageError{err}
	}
	verify := check.of(repo, run)
	out := &merged{Run: o.ID, Into: run.Target, earlier: map[string]bool{}, Locks: run.Locks, Aside: append(run.Lost, run.InTheWay()...), Remade: run.Remade}
	if err := out.mergeOwn(ctx, run, verify); err != nil {
		return out, errors.Join(err, record(out, err))
	}
	wrong := out.mergeItems(ctx, run, items, verify)
	out.Unverified = check != nil && check.left && out.Commits > 0
	if err := errors.Join(record(out, wrong), run.Told(ctx)); err != nil {
		return out, errors.Join(wrong, err)
	}
	if _, err := run.Remove(ctx); err != nil {
		return out, errors.Join(wrong, err)
	}
	left, err := repo.List(ctx, o.ID)
	for _, i := range left {
		out.Kept = append(out.Kept, i.Branch)
		out.earlier[i.Branch] = i.Item != "" && done[i.Item]
	}
	return out, errors.Join(wrong, err)
}

// mergeOwn merges the branch of the run itself.
func (m *merged) mergeOwn(ctx context.Context, run *worktree.Run, verify worktree.Verify) error {
	if run.Gone {
		return nil
	}
	if run.Dir != "" { // the run ended before this branch could be merged
		if _, err := run.CommitLeft(ctx, "bide: what the steps of the run left"); err != nil {
			return err
		}
	}
	res, err := run.FinalMerge(ctx, worktree.MergeOptions{Verify: verify})
	if err == nil {
		m.Commits, m.Commit, m.Lacks = res.Commits, res.Commit, run.Lacks
	}
	return err
}

// mergeItems merges the branches of items that succeeded.
func (m *merged) mergeItems(ctx context.Context, run *worktree.Run, items []journal.Result, verify worktree.Verify) error {
	var errs []error
	for _, item := range items {
		res, err := run.FinalMergeItem(ctx, gitwork.BranchOf(item), worktree.MergeOptions{Message: "bide: item " + worktree.Subject(cmp.Or(item.Label, item.ID)), Verify: verify})
		if err != nil {
			errs = append(errs, fmt.Errorf("item %s: %w", cmp.Or(item.Label, item.ID), err))
			continue
		}
		m.done = append(m.done, item.Index)
		if res.Commits > 0 {
			m.Commits, m.Commit, m.Items = m.Commits+res.Commits, cmp.Or(res.Commit, m.Commit), append(m.Items, item.ID)
		}
	}
	return errors.Join(errs...)
}
