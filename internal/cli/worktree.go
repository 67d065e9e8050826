package cli

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/journal"
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

// runID returns the id for a run's name. A run whose state is gone may still have branches:
// then the name is used as it is.
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

// worktreeLsOptions are the options of worktree ls.
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
"replaced" marks the work of an earlier attempt at an item whose later attempt is
merged: do not merge it.`,
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
	// Label is what a person knows the item by, if the state of the run has it.
	Label  string `json:"label,omitempty"`
	Merged bool   `json:"merged"`
	// Replaced says that a later attempt at the item is merged in place of this one.
	Replaced bool   `json:"replaced,omitempty"`
	Status   string `json:"status,omitempty"` // of the run; "" if its state is gone

	word string // the status as a person reads it
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
	type state struct{ status, word string }
	known, itemOf := map[string]state{}, branchItems(ctx, st, infos)
	for _, i := range infos {
		if _, ok := known[i.Run]; !ok {
			status, word := statusOfRun(ctx, st, i.Run)
			known[i.Run] = state{status, word}
		}
		item, of := itemOf(i), known[i.Run]
		list = append(list, treeInfo{i, item.label, i.Merged(), !i.Merged() && item.merged, of.status, of.word})
	}
	if o.json {
		return printJSON(o.out, list)
	}
	if len(list) == 0 {
		o.tell("no branch of a run in %s", repo.Dir())
		return nil
	}
	t := table{head: []string{"RUN", "STATUS", "ITEM", "NOT MERGED", "UNCOMMITTED", "SIZE", "BRANCH", "WORKTREE"},
		right: map[int]bool{3: true, 4: true, 5: true}, flex: 7, block: true, most: map[int]int{2: 32}}
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
		t.add(shortRun(i.Run), i.word, oneLine(cmp.Or(i.Label, i.Item)), unmerged, strconv.Itoa(i.Uncommitted), bytes, i.Branch, i.Path)
	}
	return t.print(o.out, o.columns(o.out))
}

// branchItem is what a run knows of an item that has a branch.
type branchItem struct {
	label  string // what a person knows it by, as progress and show say
	merged bool   // the last attempt at it has succeeded, and its work is merged
}

// branchItems returns a function that finds the item of one of these branches in its run. It
// reads the events of no other item.
func branchItems(ctx context.Context, st *journal.Store, infos []worktree.Info) func(worktree.Info) branchItem {
	names := map[string][]string{} // by run
	for _, i := range infos {
		if i.Item != "" {
			names[i.Run] = append(names[i.Run], i.Item)
		}
	}
	known := map[string]map[string]branchItem{} // by run, then by the item's name in a branch
	return func(i worktree.Info) branchItem {
		if i.Item == "" {
			return branchItem{}
		}
		items, ok := known[i.Run]
		if !ok {
			err := readRun(st, i.Run, func(r *journal.Reader) (err error) {
				items, err = itemsNamed(ctx, r, names[i.Run])
				return err
			})
			if err != nil {
				items = nil // the branch still names the item, and counts as not merged
			}
			known[i.Run] = items
		}
		return items[i.Item]
	}
}

// itemsNamed finds items by their names in branches.
func itemsNamed(ctx context.Context, r *journal.Reader, names []string) (map[string]branchItem, error) {
	indexes, err := indexesNamed(ctx, r, names)
	if err != nil {
		return nil, err
	}
	last, ended := map[int]int64{}, map[int]int64{} // by index, the numbers of events
	for _, index := range indexes {
		last[index] = 0
	}
	_, err = r.Scan(ctx, 1, func(f *journal.Fact) error {
		if _, ok := last[f.Index()]; !ok {
			return nil
		}
		switch f.Type() {
		case event.ItemStarted:
			last[f.Index()] = f.Seq()
		case event.ItemFinished:
			last[f.Index()], ended[f.Index()] = f.Seq(), f.Seq()
		case event.ItemRequeued:
			delete(ended, f.Index())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out, labels := map[string]branchItem{}, namesIn(ctx, r)
	for name, index := range indexes {
		var i branchItem
		for _, seq := range []int64{last[index], ended[index]} {
			if seq == 0 {
				continue
			}
			e, err := r.Event(ctx, seq)
			if err != nil {
				return nil, err
			}
			i.label = labels.of(e)
			i.merged = seq == ended[index] && e.Status == event.Succeeded && gitwork.BranchOf(journal.ResultOf(e)) == ""
		}
		out[name] = i
	}
	return out, nil
}

// fewNames is how many items are looked up one by one; for more, the whole list is read.
const fewNames = 8

// indexesNamed finds the places of items in the list by their names in branches.
func indexesNamed(ctx context.Context, r *journal.Reader, names []string) (map[string]int, error) {
	out := map[string]int{}
	if len(names) <= fewNames && !slices.ContainsFunc(names, func(name string) bool { _, whole := worktree.ItemID(name); return !whole }) {
		for _, name := range names {
			id, _ := worktree.ItemID(name)
			index, err := r.IndexOf(ctx, id)
			if err != nil {
				return nil, err
			}
			if index > 0 {
				out[name] = index
			}
		}
		return out, nil
	}
	for _, name := range names {
		out[name] = 0
	}
	for from := 1; ; {
		list, err := r.Items(ctx, from, itemPage)
		if err != nil {
			return nil, err
		}
		for _, it := range list {
			name := worktree.ItemName(cmp.Or(it.ID, strconv.Itoa(it.Index-1)))
			if _, wanted := out[name]; wanted {
				out[name] = it.Index
			}
		}
		if len(list) == 0 {
			break
		}
		from = list[len(list)-1].Index + 1
	}
	maps.DeleteFunc(out, func(_ string, index int) bool { return index == 0 })
	return out, nil
}

// replacedIn returns a function that reports whether a branch is from an earlier attempt at an
// item whose later work is merged.
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
				done = nil // what cannot be read counts as not merged
			}
			merged[i.Run] = done
		}
		return done[i.Item]
	}
}

// statusOfRun is a run's status, and as a person reads it; "" if its state is gone.
func statusOfRun(ctx context.Context, st *journal.Store, run string) (status, word string) {
	r, err := st.Read(run)
	if errors.As(err, new(*journal.NotFoundError)) {
		return "", ""
	}
	if err != nil {
		return unreadable, words(unreadable)
	}
	sum, err := r.Summary(ctx)
	if errors.Join(err, r.Close()) != nil {
		return unreadable, words(unreadable)
	}
	return sum.Status, unmergedOf(sum.Status, sum.Left).title(sum.Status)
}

// worktreeCleanOptions are the options of worktree clean.
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
		inUse, err := o.inUse(run) // fails if its state is gone
		status, _ := statusOfRun(ctx, st, run)
		return err == nil && inUse || !o.Force && status == event.Interrupted
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
		o.tell("there is nothing to clean")
		return nil
	}
	t := table{head: []string{"BRANCH", "SIZE", "WHAT"}, right: map[int]bool{1: true}, flex: 2, block: true, keep: map[int]int{2: 1 << 10}}
	for _, c := range list {
		t.add(cmp.Or(c.Branch, c.Path), diag.Bytes(c.Bytes), fate(c.Removed, o.DryRun, c.Why))
	}
	return t.print(o.out, o.columns(o.out))
}
