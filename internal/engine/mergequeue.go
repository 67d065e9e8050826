package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/mergequeue"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// mergeQueue merges the work of the items of a map, several at a time, and verifies it as
// merged before the run's branch has it (merge_queue). What it does next is decided by
// [mergequeue.Machine]; one goroutine does all of it, while agents continue. This file has
// items wait and begins and ends the queue; mergeactions.go does what the machine asks for,
// mergeverify.go runs the verify.
//
// What is recorded of an item that waits is the branch that has its work; a resume has it
// wait again. A merge is recorded as verified before the run's branch moves to it, and the
// end of its items after: so nothing is merged that was not verified, and what is merged
// is not merged again.
type mergeQueue struct {
	x     *mapRun
	steps []*workflow.Step // of the verify

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
	data    itemData
	commit  string // that is to be merged, which the branch holds
	branch  string
	p       step.Site // for the steps that resolve a conflict
}

// newQueue gives the merge queue of a map; nil where the file has none, or items have no worktrees.
func (x *mapRun) newQueue() *mergeQueue {
	f := x.r.file
	if f.Queue == nil || x.r.gitWork.Tree == nil {
		return nil
	}
	q := &mergeQueue{
		x: x, steps: f.Queue.Verify, wake: make(chan struct{}, 1),
		m:     mergequeue.New(mergequeue.Config{Batch: f.Queue.Batch, ByIndex: f.Queue.Order == "index"}),
		items: map[int]*queued{}, names: map[string]string{}, verified: map[string]bool{}, failed: map[string]*failure.Failure{},
	}
	if len(q.steps) == 0 {
		q.steps = f.Map.Evidence.Checks
	}
	return q
}

// submit has an item wait whose agent has ended: its work is in a branch and on record
// from then on.
func (q *mergeQueue) submit(ctx context.Context, p step.Site, a *agentRun) error {
	g := q.x.r.gitWork
	ctx = context.WithoutCancel(ctx)
	a.Recorded = func(ctx context.Context) { g.Release(ctx, &a.Agent) }
	at, err := a.Tree.Commit(ctx, g.LeftMessage(&a.Agent))
	if err != nil {
		return err
	}
	if n := len(at.Left); n > 0 {
		return unshown("%s uncommitted (%s), and what is merged is what is committed: commit them in a step, or leave auto_commit: false out",
			diag.Count(n, "file")+" "+diag.Plural(n, "is", "are"), diag.First(at.Left, 3))
	}
	k, err := a.Tree.Keep(ctx)
	if err != nil {
		return fmt.Errorf("the work of item %s: %w", items.NameOf(q.x.r.env.Mask(), a.Item), err)
	}
	a.Result.Worktree, a.Result.Branch = "", k.Branch
	if k.Branch == "" || k.Commit == "" || len(at.Commits) == 0 {
		return nil // there is nothing to merge
	}
	if err := a.Tree.Submitted(ctx, at.Commit, k.Commit); err != nil {
		return fmt.Errorf("the work of item %s: %w", items.NameOf(q.x.r.env.Mask(), a.Item), err)
	}
	a.Result.Commits, a.Result.Files, a.Result.Tip = at.Commits, at.Files, k.Commit
	if err := g.RecordMerge(ctx, &a.Agent, k.Commit, k.Branch); err != nil {
		return err
	}
	w := &queued{item: a.Item, attempt: a.Attempt, label: cmp.Or(a.Label, items.NameOf(q.x.r.env.Mask(), a.Item)), data: a.Result, commit: k.Commit, branch: k.Branch, p: p}
	a.Parked = func() { q.push(w) }
	return nil
}

// waitsAgain has an item wait that waited when the process before this one went down.
func (q *mergeQueue) waitsAgain(it event.Item, attempt int, m gitwork.MergeRecord) {
	p := q.x.p
	p.Item, p.Index, p.Attempt = it.ID, it.Index, attempt
	p.Scope = p.Scope.Child()
	_ = p.Scope.SetItem(it, q.x.r.tally.items.Total) // it was set once before
	q.push(&queued{item: it, attempt: attempt, label: cmp.Or(q.x.Label(it), items.NameOf(q.x.r.env.Mask(), it)), data: m.Result, commit: m.Commit, branch: m.Branch, p: p})
}

func (q *mergeQueue) push(w *queued) {
	q.mu.Lock()
	q.arrived = append(q.arrived, w)
	q.mu.Unlock()
	q.nudge()
}

func (q *mergeQueue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// arrive tells the machine of the items that came. over says that no more will.
func (q *mergeQueue) arrive() (over bool) {
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
func (q *mergeQueue) believe(w *queued) {
	e := w.data.Evidence
	if e == nil || len(q.x.r.file.Queue.Verify) > 0 {
		return
	}
	for _, c := range e.Checks {
		if c.Status != event.Succeeded || c.RedBase {
			return
		}
	}
	q.m.Believe(e.Tree)
}

// run merges until it is closed, and gives the function that closes it and waits.
func (q *mergeQueue) run(ctx context.Context) (end func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.loop(ctx)
	}()
	return func() {
		q.mu.Lock()
		q.closed = true
		q.mu.Unlock()
		q.nudge()
		<-done
	}
}

func (q *mergeQueue) loop(ctx context.Context) {
	life := q.x.r.x.Life
	until, stop := life.Until(ctx)
	defer stop()
	defer q.leavePlace(ctx)
	begun := false
	for {
		over := q.arrive()
		if until.Err() != nil {
			// Items still come whose agents end.
			q.leave()
			if over {
				return
			}
			_ = q.x.r.x.Clock.Wait(context.WithoutCancel(ctx), -1, q.wake)
			continue
		}
		err := error(nil)
		if !begun && len(q.items) > 0 {
			err, begun = q.begin(ctx), true
		}
		if err == nil {
			a := q.m.Next()
			if a.Kind == mergequeue.Idle {
				if over {
					return
				}
				_ = q.x.r.x.Clock.Wait(until, -1, q.wake)
				continue
			}
			if err = q.do(ctx, a); err == nil {
				continue
			}
		}
		if life.Stopping(ctx) == nil {
			life.Halt(fmt.Errorf("the merge queue: %w; what waits in it is in branches: mend the cause, then `bide resume %s`", err, q.x.r.x.Run))
		}
		q.leave()
	}
}

// leave has the items that wait do so for the next life of the run.
func (q *mergeQueue) leave() {
	for _, index := range q.m.Leave() {
		q.x.m.Settle(index, mapper.Ending{Interrupted: true})
		delete(q.items, index)
	}
}

// begin tells the machine what earlier lives of the run have merged, and whether the queue
// was held.
func (q *mergeQueue) begin(ctx context.Context) error {
	g := q.x.r.gitWork
	tip, err := g.Tree.Tip(ctx)
	if err != nil {
		return err
	}
	list, err := g.Repo.ItemMerges(ctx, q.x.r.x.Run, tip)
	if err != nil {
		return err
	}
	landed := make([]string, len(list))
	for i, m := range list {
		landed[len(list)-1-i] = m.Commit
		q.names[m.Commit] = m.Item
	}
	q.m.Recall(g.Tree.Base, landed)
	if at, held := q.x.m.QueueHeld(); held {
		q.m.Held()
		q.x.r.note("the merge queue is still held: what is merged so far is verified again at %s; bide control %s probe verifies it now", at.Local().Format(time.TimeOnly), q.x.r.x.Run)
	}
	return nil
}
