// Package mergedriver does what the machine of a merge queue decides (merge_queue): it
// merges the work of a map's items, several at a time, and verifies the result before it is
// in the run's branch. One goroutine does all of it, while agents continue.
//
// For an item that waits, the branch with its work is recorded, and a resume makes the item
// wait again. A merge is recorded as verified before the run's branch moves to it, and the
// end of its items after that. So nothing is merged that was not verified, and nothing is
// merged twice.
//
// This file takes in the items; loop.go is the goroutine, actions.go does what the machine
// asks for, and verify.go runs the verify.
package mergedriver

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/evidence"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/mergequeue"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// Options are what a queue needs from its run.
type Options struct {
	Executor *step.Executor
	Git      *gitwork.Work
	Checks   *evidence.Checks // of the items
	Total    int              // of items
	// Counted is called with each item that has ended well, and the item's name for a
	// person.
	Counted func(*mapper.Result, string)
	// Label gives the name by which a person knows an item; "" for none.
	Label func(event.Item) string
}

// Queue is the merge queue of a map.
type Queue struct {
	Options
	steps []*workflow.Step // of the verify
	of    *mapper.Map
	p     step.Place // where items run

	mu      sync.Mutex
	arrived []*queued // that the goroutine of the queue has not taken yet
	closed  bool
	wake    chan struct{}

	// The following fields belong to the goroutine of the queue.
	m        *mergequeue.Machine
	items    map[int]*queued             // that wait, by index
	names    map[string]string           // of items, by their landed merge
	tip      string                      // of the run's branch, when the machine got the base
	verified map[string]bool             // commits that are on record as green
	failed   map[string]*failure.Failure // why the last verify of a tree was red
	early    map[joint]worktree.Merged   // merges that were made in advance
	place    *worktree.Agent             // where merges are verified; nil until the first
	ran      int                         // verifies in this life of the run
}

// queued is an item whose work waits to be merged.
type queued struct {
	item    event.Item
	attempt int
	label   string // its name for a person
	data    mapper.Result
	commit  string // that is to be merged, which the branch holds
	branch  string
	p       step.Place // for the steps that resolve a conflict
}

// joint is a merge that may be made: of an item onto a commit.
type joint struct {
	onto string
	item int
}

// New gives the merge queue of a map; nil if the file has none, or if items have no
// worktrees.
func New(o Options) *Queue {
	f := o.Executor.File
	if f.Queue == nil || o.Git.Tree == nil {
		return nil
	}
	q := &Queue{
		Options: o, steps: f.Queue.Verify, wake: make(chan struct{}, 1),
		m:     mergequeue.New(mergequeue.Config{Batch: f.Queue.Batch, ByIndex: f.Queue.Order == "index"}),
		items: map[int]*queued{}, names: map[string]string{}, verified: map[string]bool{}, failed: map[string]*failure.Failure{},
	}
	if len(q.steps) == 0 {
		q.steps = f.Map.Evidence.Checks
	}
	return q
}

// Serve sets the map that the items belong to, and where its steps run.
func (q *Queue) Serve(m *mapper.Map, p step.Place) { q.of, q.p = m, p }

// Submit makes an item wait whose agent has ended. From then on, its work is in a branch
// and on record.
func (q *Queue) Submit(ctx context.Context, p step.Place, a *gitwork.Agent) error {
	g := q.Git
	ctx = context.WithoutCancel(ctx)
	a.Recorded = func(ctx context.Context) { g.Release(ctx, a) }
	text := g.LeftMessage(g.Label(a))
	at, err := a.Tree.Commit(ctx, text)
	if err != nil {
		return err
	}
	if len(at.Left) > 0 {
		return evidence.Uncommitted(at.Left, "what is merged is what is committed", text != "")
	}
	k, err := a.Tree.Keep(ctx)
	if err != nil {
		return fmt.Errorf("the work of item %s: %w", items.NameOf(q.Executor.Values.Mask(), a.Item), err)
	}
	a.Result.Worktree, a.Result.Branch = "", k.Branch
	if k.Branch == "" || k.Commit == "" || len(at.Commits) == 0 {
		return g.OnlyIgnored(ctx, a) // there is nothing to merge
	}
	if err := a.Tree.Submitted(ctx, at.Commit, k.Commit); err != nil {
		return fmt.Errorf("the work of item %s: %w", items.NameOf(q.Executor.Values.Mask(), a.Item), err)
	}
	a.Result.Commits, a.Result.Files, a.Result.Tip = at.Commits, at.Files, k.Commit
	if err := g.RecordMerge(ctx, a, k.Commit, k.Branch); err != nil {
		return err
	}
	w := &queued{item: a.Item, attempt: a.Attempt, label: cmp.Or(a.Label, items.NameOf(q.Executor.Values.Mask(), a.Item)), data: a.Result, commit: k.Commit, branch: k.Branch, p: p}
	a.Parked = func() { q.push(w) }
	return nil
}

// WaitsAgain makes an item wait that was waiting when the process before this one ended.
func (q *Queue) WaitsAgain(it event.Item, attempt int, m gitwork.MergeRecord) {
	p := q.p
	p.Item, p.Index, p.Attempt = it.ID, it.Index, attempt
	p.Scope, _ = p.Scope.ForItem(it, q.Total, 0) // which had no error before
	q.push(&queued{item: it, attempt: attempt, label: cmp.Or(q.Label(it), items.NameOf(q.Executor.Values.Mask(), it)), data: m.Result, commit: m.Commit, branch: m.Branch, p: p})
}

func (q *Queue) push(w *queued) {
	q.mu.Lock()
	q.arrived = append(q.arrived, w)
	q.mu.Unlock()
	q.Nudge()
}

// Nudge makes the queue look again.
func (q *Queue) Nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// arrive gives the machine the items that came. over says that no more will come.
func (q *Queue) arrive() (over bool) {
	q.mu.Lock()
	list := q.arrived
	q.arrived, over = nil, q.closed
	q.mu.Unlock()
	for _, w := range list {
		q.items[w.item.Index] = w
		q.believe(w)
		q.m.Add(w.item.Index)
	}
	return over && len(list) == 0
}

// believe takes the evidence of an item as a verify of its tree, if it is one.
func (q *Queue) believe(w *queued) {
	e := w.data.Evidence
	if e == nil || len(q.Executor.File.Queue.Verify) > 0 {
		return
	}
	for _, c := range e.Checks {
		if c.Status != event.Succeeded || c.RedBase {
			return
		}
	}
	q.m.Believe(e.Tree)
}
