// Package mergedriver does what the machine of a merge queue decides (merge_queue): it merges
// the work of the items of a map, several at a time, and verifies it as merged before the
// run's branch has it. One goroutine does all of it, while agents continue.
//
// What is recorded of an item that waits is the branch that has its work; a resume has it
// wait again. A merge is recorded as verified before the run's branch moves to it, and the
// end of its items after: so nothing is merged that was not verified, and what is merged
// is not merged again.
//
// This file has items wait; loop.go is the goroutine, actions.go does what the machine asks
// for, verify.go runs the verify.
package mergedriver

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/bide-dev/bide/internal/diag"
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

// Options are what a queue has of its run.
type Options struct {
	Executor *step.Executor
	Git      *gitwork.Work
	Checks   *evidence.Checks // of the items
	Total    int              // of items
	// Counted is told of each item that has ended well, and its name for a person.
	Counted func(mapper.Result, string)
	// Label is what a person knows an item by; "" for none.
	Label func(event.Item) string
}

// Queue is the merge queue of a map.
type Queue struct {
	Options
	steps []*workflow.Step // of the verify
	of    *mapper.Map
	p     step.Place // where items run

	mu      sync.Mutex
	arrived []*queued // that the goroutine of the queue has not met yet
	closed  bool
	wake    chan struct{}

	// These belong to the goroutine of the queue.
	m        *mergequeue.Machine
	items    map[int]*queued             // that wait, by index
	names    map[string]string           // of items, by their landed merge
	tip      string                      // of the run's branch, when the machine was told of the base
	verified map[string]bool             // commits of which it is on record, and green
	failed   map[string]*failure.Failure // why the last verify of a tree was red
	early    map[joint]worktree.Merged   // merges that were made ahead
	place    *worktree.Agent             // where merges are verified; nil until the first
	ran      int                         // verifies of this life of the run
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

// joint is a merge that may be made: of an item upon a commit.
type joint struct {
	onto string
	item int
}

// New gives the merge queue of a map; nil where the file has none, or items have no worktrees.
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

// Serve says which map the items are of, and where its steps run.
func (q *Queue) Serve(m *mapper.Map, p step.Place) { q.of, q.p = m, p }

// Submit has an item wait whose agent has ended: its work is in a branch and on record
// from then on.
func (q *Queue) Submit(ctx context.Context, p step.Place, a *gitwork.Agent) error {
	g := q.Git
	ctx = context.WithoutCancel(ctx)
	a.Recorded = func(ctx context.Context) { g.Release(ctx, a) }
	at, err := a.Tree.Commit(ctx, g.LeftMessage(g.Label(a)))
	if err != nil {
		return err
	}
	if n := len(at.Left); n > 0 {
		return evidence.Unshown("%s uncommitted (%s), and what is merged is what is committed: commit them in a step, or leave auto_commit: false out",
			diag.Count(n, "file")+" "+diag.Plural(n, "is", "are"), diag.First(at.Left, 3))
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

// WaitsAgain has an item wait that waited when the process before this one went down.
func (q *Queue) WaitsAgain(it event.Item, attempt int, m gitwork.MergeRecord) {
	p := q.p
	p.Item, p.Index, p.Attempt = it.ID, it.Index, attempt
	p.Scope = p.Scope.Child()
	_ = p.Scope.SetItem(it, q.Total) // it was set once before
	q.push(&queued{item: it, attempt: attempt, label: cmp.Or(q.Label(it), items.NameOf(q.Executor.Values.Mask(), it)), data: m.Result, commit: m.Commit, branch: m.Branch, p: p})
}

func (q *Queue) push(w *queued) {
	q.mu.Lock()
	q.arrived = append(q.arrived, w)
	q.mu.Unlock()
	q.Nudge()
}

// Nudge has the queue look again.
func (q *Queue) Nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// arrive tells the machine of the items that came. over says that no more will.
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

// believe takes the evidence of an item for a verify of its tree, where it is one.
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
