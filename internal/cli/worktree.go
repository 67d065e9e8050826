package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/spf13/cobra"
)

func worktreeCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worktree",
		Short: "Look at the worktrees and branches of runs, merge and remove them",
		Long: `Runs whose work is isolated have a git worktree and a branch of their own, and so has
each agent of a map. Work is never removed before it is merged.`,
		Example: `  bide worktree ls
  bide worktree merge 01KAJ3
  bide worktree clean --dry-run`,
	}
	cmd.AddCommand(worktreeLsCmd(a), worktreeMergeCmd(a), worktreeCleanCmd(a))
	return cmd
}

// runID gives the id that a run's name means. A run whose state is gone may
// still have branches: then the name is taken as it is.
func runID(st *journal.Store, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	id, err := st.Find(name)
	if missing, ok := errors.AsType[*journal.NotFoundError](err); ok && !missing.Ambiguous && len(missing.Near) == 0 {
		return name, nil
	}
	return id, err
}

// worktreeLsOptions are what worktree ls was asked to do.
type worktreeLsOptions struct {
	*app
	dir string
	id  string // of the run; "": all runs
}

func worktreeLsCmd(a *app) *cobra.Command {
	o := &worktreeLsOptions{app: a}
	cmd := &cobra.Command{
		Use:     "ls [RUN]",
		Aliases: []string{"list"},
		Short:   "List the worktrees and branches of runs",
		Long: `Lists the branches of runs in the repository of the directory, and the worktrees that they have.
"replaced" is the work of an earlier attempt at an item, of which a later one succeeded
and is merged: it is not to be merged.`,
		Example: `  bide worktree ls
  bide worktree ls 01KAJ3 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = first(args)
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&o.dir, "path", "p", "", "a directory in the repository (default: here)")
	return o.withJSON(cmd, "print a JSON array")
}

// treeInfo is a branch or a worktree in the list.
type treeInfo struct {
	worktree.Info
	Merged bool `json:"merged"`
	// Replaced says that it is the work of an earlier attempt, of which a later one is merged.
	Replaced bool   `json:"replaced,omitempty"`
	Status   string `json:"status,omitempty"` // of the run; "" where its state is gone
}

func (o *worktreeLsOptions) run(ctx context.Context) error {
	st, err := o.openStore()
	if err != nil {
		return err
	}
	if o.id, err = runID(st, o.id); err != nil {
		return err
	}
	repo, err := worktree.Open(ctx, cmp.Or(o.dir, "."))
	if err != nil {
		return usageError{err}
	}
	infos, err := repo.List(ctx, o.id)
	if err != nil {
		return err
	}
	list := []treeInfo{}
	known, replaced := map[string]string{}, replacedIn(ctx, st)
	for _, i := range infos {
		if _, ok := known[i.Run]; !ok {
			known[i.Run] = statusOfRun(ctx, st, i.Run)
		}
		list = append(list, treeInfo{i, i.Merged(), !i.Merged() && replaced(i), known[i.Run]})
	}
	if o.json {
		return printJSON(o.out, list)
	}
	if len(list) == 0 {
		fmt.Fprintf(o.err, "bide: no branch of a run in %s\n", repo.Dir())
		return nil
	}
	t := table{head: []string{"RUN", "STATUS", "ITEM", "NOT MERGED", "UNCOMMITTED", "SIZE", "BRANCH", "WORKTREE"},
		right: map[int]bool{3: true, 4: true, 5: true}, flex: 7}
	t.paint = paintStatus(o.palette(o.out), 1)
	for _, i := range list {
		bytes := ""
		if i.Path != "" {
			bytes = diag.Bytes(i.Bytes)
		}
		unmerged := strconv.Itoa(i.Unmerged)
		if i.Replaced {
			unmerged += ", replaced"
		}
		t.add(i.Run, words(i.Status), i.Item, unmerged, strconv.Itoa(i.Uncommitted), bytes, i.Branch, i.Path)
	}
	return t.print(o.out, o.columns(o.out))
}

// replacedIn gives a function that says whether a branch is of an earlier attempt at an
// item that has succeeded since, and whose work is merged.
func replacedIn(ctx context.Context, st *journal.Store) func(worktree.Info) bool {
	merged := map[string]map[string]bool{} // by run, the names of the items
	return func(i worktree.Info) bool {
		if i.Item == "" {
			return false
		}
		done, ok := merged[i.Run]
		if !ok {
			err := readRun(st, i.Run, func(r *journal.Reader) (err error) {
				_, done, err = unmergedItems(ctx, r)
				return err
			})
			if err != nil {
				done = nil // what cannot be read is not known to be merged
			}
			merged[i.Run] = done
		}
		return done[i.Item]
	}
}

// statusOfRun is a run's status; "" where its state is gone.
func statusOfRun(ctx context.Context, st *journal.Store, run string) string {
	r, err := st.Read(run)
	if errors.As(err, new(*journal.NotFoundError)) {
		return ""
	}
	if err != nil {
		return unreadable
	}
	sum, err := r.Summary(ctx)
	if errors.Join(err, r.Close()) != nil {
		return unreadable
	}
	return sum.Status
}

// worktreeMergeOptions are what worktree merge was asked to do.
type worktreeMergeOptions struct {
	*app
	dir  string
	name string // of the run
}

func worktreeMergeCmd(a *app) *cobra.Command {
	o := &worktreeMergeOptions{app: a}
	cmd := &cobra.Command{
		Use:   "merge [RUN]",
		Short: "Merge the work of a run into the branch that it started from",
		Long: `Merges the branch of a run into the branch that it started from, with "git merge
--no-ff", in the repository's own working tree, and then removes the worktree and the
branch; so it does with the branches of items that succeeded and whose work is not
merged, one after another. Those of items that failed stay. A running run is
refused. What meets a conflict stays in its branch. Without RUN, it is the newest
run of this directory.`,
		Example: `  bide worktree merge
  bide worktree merge 01KAJ3`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&o.dir, "path", "p", "", "a directory in the repository (default: that of the run)")
	return o.withJSON(cmd, "print one JSON object")
}

// merged is what merge did.
type merged struct {
	Run     string `json:"run"`
	Into    string `json:"into,omitempty"`
	Commits int    `json:"commits"`
	Commit  string `json:"commit,omitempty"`
	// Items are those whose own branches were merged.
	Items []string `json:"items,omitempty"`
	Kept  []string `json:"kept,omitempty"` // branches that are left

	done []int // the places of the items of which nothing is left to be merged, plus one
	// earlier are those of Kept that are of earlier attempts at items that have succeeded
	// since, and whose work is merged.
	earlier map[string]bool
}

func (o *worktreeMergeOptions) run(ctx context.Context) error {
	st, err := o.openStore()
	if err != nil {
		return err
	}
	id, err := runID(st, o.name)
	if err != nil {
		return err
	}
	record := func(*merged, error) error { return nil }
	var items []journal.Result
	var done map[string]bool
	if r, err := st.Read(id); err == nil {
		o.dir = cmp.Or(o.dir, r.Header().Dir)
		items, done, err = unmergedItems(ctx, r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		// Having the run keeps it from continuing meanwhile.
		j, err := st.Open(id)
		if err != nil {
			return err
		}
		record = func(out *merged, wrong error) error { return errors.Join(out.record(j, wrong), j.Close()) }
	}
	out, err := mergeRun(ctx, cmp.Or(o.dir, "."), id, items, done)
	if err = errors.Join(err, record(out, err)); err != nil && out == nil {
		return err
	}
	if o.json {
		return errors.Join(err, printJSON(o.out, out))
	}
	switch {
	case out.Commits > 0:
		fmt.Fprintf(o.out, "merged %s of run %s into %s\n", diag.Count(out.Commits, "commit"), id, out.Into)
	case len(out.Kept) == 0:
		fmt.Fprintf(o.out, "everything of run %s is merged already\n", id)
	}
	for _, branch := range out.Kept {
		if out.earlier[branch] {
			fmt.Fprintf(o.err, "bide: branch %s stays: it has what an earlier attempt did, and the item has succeeded since; remove it with: bide worktree clean %s --force\n", branch, shortRun(id))
			continue
		}
		fmt.Fprintf(o.err, "bide: branch %[1]s stays: it has work that is not merged; merge it with: git merge --no-ff %[1]s; or give it up with: bide worktree clean %[2]s --force\n", branch, shortRun(id))
	}
	return err
}

// record notes in the run what was merged, so that who looks at the run finds it, and no
// longer what its last life left. wrong is why the rest could not be.
func (m *merged) record(j *journal.Journal, wrong error) error {
	if m == nil || m.Commits == 0 && len(m.done) == 0 {
		return nil
	}
	data, err := json.Marshal(event.MergedItems{Items: m.done})
	if err != nil {
		return err
	}
	note := event.Event{Type: event.Note, Class: event.Merged, Message: "what was left is merged: " + diag.Count(m.Commits, "commit") + " into " + m.Into, Data: data}
	if wrong != nil {
		with := "bide worktree merge " + m.Run
		note.Class, note.Label, note.Message = event.Unmerged, with, "not all work could be merged: "+wrong.Error()+"; when that is mended: "+with
	}
	return j.Append(note)
}

// unmergedItems gives how the items ended that succeeded and whose work is in a branch, and
// what those are called in branches whose work is not.
func unmergedItems(ctx context.Context, r *journal.Reader) (list []journal.Result, merged map[string]bool, err error) {
	merged = map[string]bool{}
	for res, err := range r.Results(ctx) {
		switch {
		case err != nil:
			return nil, nil, err
		case res.Status != event.Succeeded:
		case branchOf(res) != "":
			list = append(list, res)
		default:
			merged[worktree.ItemName(res.ID)] = true
		}
	}
	return list, merged, nil
}

// branchOf is the branch in which an item's work was left; "" for none.
func branchOf(res journal.Result) string {
	var d mapper.Result
	if json.Unmarshal(res.Data, &d) != nil {
		return ""
	}
	return d.Branch
}

// mergeRun merges the branch of a run, and those of items. An item that cannot be merged
// does not keep the others from it. done are the items whose work is in the run's branch.
func mergeRun(ctx context.Context, dir, id string, items []journal.Result, done map[string]bool) (*merged, error) {
	repo, err := worktree.Open(ctx, dir)
	if err != nil {
		return nil, err // it names the directory
	}
	run, err := repo.FindRun(ctx, id)
	if err != nil {
		return nil, usageError{err}
	}
	out := &merged{Run: id, Into: run.Target, earlier: map[string]bool{}}
	if !run.Gone {
		if run.Dir != "" { // the run ended without it, for its branch was not to be merged yet
			if _, err := run.CommitLeft(ctx, "bide: what the steps of the run left"); err != nil {
				return nil, err
			}
		}
		res, err := run.FinalMerge(ctx, worktree.MergeOptions{})
		if err != nil {
			return nil, err
		}
		out.Commits, out.Commit = res.Commits, res.Commit
	}
	var errs []error
	for _, item := range items {
		res, err := run.FinalMergeItem(ctx, branchOf(item), worktree.MergeOptions{Message: "bide: item " + worktree.Subject(cmp.Or(item.Label, item.ID))})
		if err != nil {
			errs = append(errs, fmt.Errorf("item %s: %w", cmp.Or(item.Label, item.ID), err))
			continue
		}
		out.done = append(out.done, item.Index)
		if res.Commits > 0 {
			out.Commits, out.Commit, out.Items = out.Commits+res.Commits, cmp.Or(res.Commit, out.Commit), append(out.Items, item.ID)
		}
	}
	if _, err := run.Remove(ctx); err != nil {
		return out, errors.Join(append(errs, err)...)
	}
	left, err := repo.List(ctx, id)
	for _, i := range left {
		out.Kept = append(out.Kept, i.Branch)
		out.earlier[i.Branch] = i.Item != "" && done[i.Item]
	}
	return out, errors.Join(append(errs, err)...)
}

// worktreeCleanOptions are what worktree clean was asked to do.
type worktreeCleanOptions struct {
	*app
	worktree.CleanOptions
	dir string
	id  string // of the run; "": all runs
	yes bool
}

func worktreeCleanCmd(a *app) *cobra.Command {
	o := &worktreeCleanOptions{app: a}
	cmd := &cobra.Command{
		Use:   "clean [RUN]",
		Short: "Remove worktrees and branches whose work is merged",
		Long: `Removes the worktrees and branches of runs that are merged and have nothing
uncommitted. Those of runs that are running, or could be resumed, are left alone. --force
also removes what is not merged: that work is lost.`,
		Example: `  bide worktree clean --dry-run
  bide worktree clean 01KAJ3 -y`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = first(args)
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.dir, "path", "p", "", "a directory in the repository (default: here)")
	fs.BoolVar(&o.DryRun, "dry-run", false, "show what would be removed, and remove nothing")
	fs.BoolVar(&o.Force, "force", false, "also what is not merged or not committed, and of runs that could be resumed")
	fs.BoolVarP(&o.yes, "yes", "y", false, "do it without asking")
	return o.withJSON(cmd, "print a JSON array")
}

func (o *worktreeCleanOptions) run(ctx context.Context) error {
	st, err := o.openStore()
	if err != nil {
		return err
	}
	if o.Run, err = runID(st, o.id); err != nil {
		return err
	}
	repo, err := worktree.Open(ctx, cmp.Or(o.dir, "."))
	if err != nil {
		return usageError{err}
	}
	o.Busy = func(run string) bool {
		goesOn, err := o.goesOn(run) // an error where its state is gone
		return err == nil && goesOn || !o.Force && statusOfRun(ctx, st, run) == event.Interrupted
	}
	o.Replaced = replacedIn(ctx, st)
	dry := o.CleanOptions
	dry.DryRun = true
	list, err := repo.Clean(ctx, dry)
	if err != nil {
		return err
	}
	n := len(value.Filter(list, func(c worktree.Cleaned) bool { return c.Removed }))
	if n > 0 && !o.DryRun {
		if err := o.confirm(o.yes, "Remove "+diag.Count(n, "branch and its worktree", "branches and their worktrees")+"?"); err != nil {
			return err
		}
		list, err = repo.Clean(ctx, o.CleanOptions)
	}
	return errors.Join(err, o.printTrees(list))
}

func (o *worktreeCleanOptions) printTrees(list []worktree.Cleaned) error {
	if list == nil {
		list = []worktree.Cleaned{}
	}
	if o.json {
		return printJSON(o.out, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(o.err, "bide: there is nothing to clean")
		return nil
	}
	t := table{head: []string{"BRANCH", "SIZE", "WHAT"}, right: map[int]bool{1: true}, flex: 2}
	for _, c := range list {
		t.add(cmp.Or(c.Branch, c.Path), diag.Bytes(c.Bytes), fate(c.Removed, o.DryRun, c.Why))
	}
	return t.print(o.out, o.columns(o.out))
}
