package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/bide-dev/bide/retry"
)

// mergeQueue merges the work of the items of a map, several at a time, and verifies it as
// merged before the run's branch has it (merge_queue). One goroutine does all of it, while
// agents go on.
//
//	agent ended ── branch, item_merging ──▶ waiting ── batch ──▶ merges that no branch has
//	                                          ▲                        │ verify
//	           a conflict upon others of it ──┘          green: the run's branch moves there
//	                                                     red: half of it, and so on, to the one
//
// What is recorded of an item that waits is the branch that has its work; a resume has it
// wait again. A merge is recorded as verified before the run's branch moves to it, and the
// end of its items after: so nothing is merged that was not verified, and what is merged
// is not merged again.
type mergeQueue struct {
	x     *mapRun
	steps []*workflow.Step // of the verify

	mu      sync.Mutex
	waiting []*queued
	closed  bool
	wake    chan struct{}

	// These belong to the goroutine of the queue.
	results map[string]bool // of verifies, by tree
	landed  []landed        // since the queue began, oldest first
	start   string          // the commit from which they began
	place   *worktree.Agent // where merges are verified; nil until the first
	ran     int             // verifies of this life of the run
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

// landed is a merge that the run's branch has.
type landed struct {
	commit, label string
}

// built is a merge of an item upon those before it.
type built struct {
	worktree.Merged
	item *queued
}

// newQueue gives the merge queue of a map; nil where the file has none, or items have no worktrees.
func (x *mapRun) newQueue() *mergeQueue {
	f := x.r.file
	if f.Queue == nil || x.r.gitWork.tree == nil {
		return nil
	}
	q := &mergeQueue{x: x, steps: f.Queue.Verify, wake: make(chan struct{}, 1), results: map[string]bool{}}
	if len(q.steps) == 0 {
		q.steps = f.Map.Evidence.Checks
	}
	return q
}

// submit has an item wait whose agent has ended: its work is in a branch and on record
// from then on.
func (q *mergeQueue) submit(ctx context.Context, p step.Site, a *agentRun) error {
	g := &q.x.r.gitWork
	ctx = context.WithoutCancel(ctx)
	a.recorded = func(ctx context.Context) { g.release(ctx, a) }
	at, err := a.tree.Commit(ctx, g.leftMessage(a))
	if err != nil {
		return err
	}
	if n := len(at.Left); n > 0 {
		return unshown("%s uncommitted (%s), and what is merged is what is committed: commit them in a step, or leave auto_commit: false out",
			diag.Count(n, "file")+" "+diag.Plural(n, "is", "are"), sampleOf(at.Left))
	}
	k, err := a.tree.Keep(ctx)
	if err != nil {
		return fmt.Errorf("the work of item %s: %w", nameOf(q.x.r.env.Mask(), a.item), err)
	}
	a.data.Worktree, a.data.Branch = "", k.Branch
	if k.Branch == "" || k.Commit == "" || len(at.Commits) == 0 {
		return nil // there is nothing to merge
	}
	if err := a.tree.Submitted(ctx, at.Commit, k.Commit); err != nil {
		return fmt.Errorf("the work of item %s: %w", nameOf(q.x.r.env.Mask(), a.item), err)
	}
	a.data.Commits, a.data.Files, a.data.Tip = at.Commits, at.Files, k.Commit
	m := merging{Commit: k.Commit, Branch: k.Branch, Result: a.data, DurationMS: time.Since(a.start).Milliseconds()}
	fact := event.Event{Type: event.ItemMerging, Phase: "map", Item: a.item.ID, Index: a.item.Index, Attempt: a.attempt, Status: event.Pending, Data: data(m)}
	if err := q.x.r.x.Recorder.Record(fact); err != nil {
		return err
	}
	if err := q.x.r.x.Recorder.Sync(ctx); err != nil {
		return err
	}
	w := &queued{item: a.item, attempt: a.attempt, label: cmp.Or(a.label, nameOf(q.x.r.env.Mask(), a.item)), data: a.data, commit: k.Commit, branch: k.Branch, p: p}
	a.parked = func() { q.push(w) }
	return nil
}

// waitsAgain has an item wait that waited when the process before this one went down.
func (q *mergeQueue) waitsAgain(it event.Item, attempt int, m merging) {
	p := q.x.p
	p.Item, p.Index, p.Attempt = it.ID, it.Index, attempt
	p.Scope = p.Scope.Child()
	_ = step.SetItem(p.Scope, it, q.x.r.tally.items.Total) // it was set once before
	q.push(&queued{item: it, attempt: attempt, label: cmp.Or(q.x.Label(it), nameOf(q.x.r.env.Mask(), it)), data: m.Result, commit: m.Commit, branch: m.Branch, p: p})
}

func (q *mergeQueue) push(list ...*queued) {
	q.mu.Lock()
	q.waiting = append(q.waiting, list...)
	q.mu.Unlock()
	q.nudge()
}

func (q *mergeQueue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take gives the items that are merged next, at most a batch; none where no item waits.
func (q *mergeQueue) take() []*queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.x.r.file.Queue.Order == "index" {
		slices.SortStableFunc(q.waiting, func(a, b *queued) int { return cmp.Compare(a.item.Index, b.item.Index) })
	}
	n := min(q.x.r.file.Queue.Batch, len(q.waiting))
	list := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return list
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
	until, stop := q.x.r.x.Life.Until(ctx)
	defer stop()
	defer q.leavePlace(ctx)
	for {
		list := q.take()
		if len(list) == 0 {
			q.mu.Lock()
			closed := q.closed
			q.mu.Unlock()
			if closed {
				return
			}
			// Where the run stops, items still come whose agents end.
			wait := until
			if until.Err() != nil {
				wait = context.WithoutCancel(ctx)
			}
			_ = q.x.r.x.Clock.Wait(wait, -1, q.wake)
			continue
		}
		if until.Err() == nil {
			if err := q.batch(ctx, list); err != nil && q.x.r.x.Life.Stopping(ctx) == nil {
				q.x.r.x.Life.Halt(fmt.Errorf("the merge queue: %w; what waits in it is in branches: mend the cause, then `bide resume %s`", err, q.x.r.x.Run))
			}
		}
		for _, w := range list { // those that have not ended wait for the next life of the run
			q.x.m.Settle(w.item.Index, mapper.Ending{Interrupted: true})
		}
	}
}

// batch merges items, and refuses those that break the merge. Its error says that it
// cannot go on; items that are not settled by then wait on.
func (q *mergeQueue) batch(ctx context.Context, list []*queued) error {
	for len(list) > 0 {
		base, err := q.x.r.gitWork.tree.Tip(ctx)
		if err != nil {
			return err
		}
		if q.start == "" {
			if err := q.recall(ctx, base); err != nil {
				return err
			}
		}
		for _, w := range list {
			q.believe(w)
		}
		chain, later, err := q.build(ctx, base, list)
		if err != nil {
			return err
		}
		if len(chain) > 0 {
			if err := q.pass(ctx, base, chain); err != nil {
				return err
			}
		}
		list = later
	}
	return nil
}

// build merges items one upon the other. One that is in conflict is refused where it
// stands upon what is merged for good, else it comes later: what it is in conflict with
// may not be merged.
func (q *mergeQueue) build(ctx context.Context, base string, list []*queued) (chain []built, later []*queued, err error) {
	for _, w := range list {
		onto := base
		if len(chain) > 0 {
			onto = chain[len(chain)-1].Commit
		}
		m, err := q.merge(ctx, onto, w)
		switch conflict := (*worktree.Conflict)(nil); {
		case errors.As(err, &conflict) && len(chain) > 0 && q.x.r.x.Life.Stopping(ctx) == nil:
			later = append(later, w)
		case errors.As(err, &conflict) && q.x.r.x.Life.Stopping(ctx) == nil:
			q.refuse(ctx, w, err)
		case err != nil:
			return nil, nil, fmt.Errorf("merge the work of item %s: %w", w.label, err)
		case m.Commit == "":
			q.end(ctx, w, "")
		default:
			chain = append(chain, built{m, w})
		}
	}
	return chain, later, nil
}

// merge makes the merge of an item upon a commit, in no branch.
func (q *mergeQueue) merge(ctx context.Context, onto string, w *queued) (worktree.Merged, error) {
	g := &q.x.r.gitWork
	text := "bide: item " + worktree.Subject(g.x.Values.Mask().String(w.label))
	pairs := []string{"Bide-Run", g.x.Run, "Bide-Item", g.x.Values.Mask().String(w.item.ID)}
	if w.data.Evidence != nil {
		pairs = append(pairs, "Bide-Evidence", w.data.Evidence.Sum())
	}
	o := worktree.MergeOptions{Message: text, Trailers: worktree.Trailers(pairs...), Resolve: g.resolver(w.p)}
	return g.tree.MergeUpon(ctx, onto, w.commit, w.branch, o)
}

// pass verifies a batch upon base, and merges what is good of it.
func (q *mergeQueue) pass(ctx context.Context, base string, chain []built) error {
	last := chain[len(chain)-1]
	v, err := q.verify(ctx, last.Merged, base, items(chain), q.x.r.file.Queue.Flaky)
	if err != nil {
		return err
	}
	if v.green {
		return q.land(ctx, base, chain)
	}
	if err := q.greenBase(ctx, base); err != nil {
		return err
	}
	return q.split(ctx, items(chain))
}

// split merges what is good of items of which one or more break the merge: half of them,
// and then the other half upon it.
func (q *mergeQueue) split(ctx context.Context, list []*queued) error {
	if len(list) == 1 {
		return q.single(ctx, list[0])
	}
	for half := range slices.Chunk(list, (len(list)+1)/2) {
		for len(half) > 0 {
			if len(half) == 1 {
				if err := q.single(ctx, half[0]); err != nil {
					return err
				}
				break
			}
			base, err := q.x.r.gitWork.tree.Tip(ctx)
			if err != nil {
				return err
			}
			chain, later, err := q.build(ctx, base, half)
			if err != nil {
				return err
			}
			half = later
			if len(chain) == 0 {
				continue
			}
			last := chain[len(chain)-1]
			green, known := q.results[last.Tree]
			if !known {
				v, err := q.verify(ctx, last.Merged, base, items(chain), q.x.r.file.Queue.Flaky)
				if err != nil {
					return err
				}
				green = v.green
			}
			if green {
				err = q.land(ctx, base, chain)
			} else {
				err = q.split(ctx, items(chain))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// single judges one item alone, upon what is merged by now: before it is refused, the
// verify runs once more for it, so that nobody is refused for what was red by chance in
// other company.
func (q *mergeQueue) single(ctx context.Context, w *queued) error {
	base, err := q.x.r.gitWork.tree.Tip(ctx)
	if err != nil {
		return err
	}
	chain, _, err := q.build(ctx, base, []*queued{w})
	if err != nil || len(chain) == 0 {
		return err
	}
	v, err := q.verify(ctx, chain[0].Merged, base, []*queued{w}, q.x.r.file.Queue.Flaky)
	if err != nil {
		return err
	}
	if v.green {
		return q.land(ctx, base, chain)
	}
	with, err := q.company(ctx, w)
	if err != nil {
		return err
	}
	f := *v.failure
	f.Class, f.Permanent = classMergeCheck, true
	f.Message = fmt.Sprintf("it breaks the merge upon %.12s: %s", base, v.failure.Message)
	if with != "" {
		f.Message = fmt.Sprintf("it is good without item %s, and breaks the merge with it: %s", with, v.failure.Message)
	}
	q.refuse(ctx, w, &f)
	return nil
}

// classMergeCheck is the class of an item that breaks the merge.
const classMergeCheck = "merge_check"

// company finds the merged item without which another one would be good: the first upon
// which it is red. "": it is red by itself, or no merge of it can be made.
func (q *mergeQueue) company(ctx context.Context, w *queued) (label string, err error) {
	red := func(onto string) (bool, error) {
		m, err := q.merge(ctx, onto, w)
		if conflict := (*worktree.Conflict)(nil); errors.As(err, &conflict) || err == nil && m.Commit == "" {
			return true, nil // nothing can be said of it there
		}
		if err != nil {
			return false, err
		}
		if green, known := q.results[m.Tree]; known {
			return !green, nil
		}
		v, err := q.verify(ctx, m, onto, []*queued{w}, q.x.r.file.Queue.Flaky)
		return err == nil && !v.green, err
	}
	if len(q.landed) == 0 {
		return "", nil
	}
	if alone, err := red(q.start); err != nil || alone {
		return "", err
	}
	lo, hi := 0, len(q.landed)-1 // it is red upon the last
	for lo < hi {
		mid := (lo + hi) / 2
		is, err := red(q.landed[mid].commit)
		if err != nil {
			return "", err
		}
		if is {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return q.landed[hi].label, nil
}

// recall finds what earlier lives of the run have merged.
func (q *mergeQueue) recall(ctx context.Context, tip string) error {
	list, err := q.x.r.gitWork.repo.ItemMerges(ctx, q.x.r.x.Run, tip)
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(list) {
		q.landed = append(q.landed, landed{m.Commit, m.Item})
	}
	q.start = q.x.r.gitWork.tree.Base
	return nil
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
	q.results[e.Tree] = true
}

func items(chain []built) []*queued {
	list := make([]*queued, len(chain))
	for i, b := range chain {
		list[i] = b.item
	}
	return list
}

// land moves the run's branch to merges that were verified, and ends their items.
func (q *mergeQueue) land(ctx context.Context, base string, chain []built) error {
	g := &q.x.r.gitWork
	if err := g.tree.Land(ctx, base, chain[len(chain)-1].Commit); err != nil {
		return err
	}
	for _, b := range chain {
		q.landed = append(q.landed, landed{b.Commit, b.item.label})
		q.end(ctx, b.item, b.Commit)
	}
	return nil
}

// end ends an item whose work the run's branch has, by a merge; "" where there was nothing
// to merge. Its branch goes when that is on the disk.
func (q *mergeQueue) end(ctx context.Context, w *queued, merge string) {
	w.data.Branch, w.data.Merge = "", merge
	q.x.m.Settle(w.item.Index, mapper.Ending{Result: w.data})
	q.x.counted(w.data, w.label)
	if err := q.x.r.x.Recorder.Sync(context.WithoutCancel(ctx)); err != nil {
		return // the next life of the run finds it merged
	}
	if err := q.x.r.gitWork.tree.Landed(context.WithoutCancel(ctx), w.branch, w.commit); err != nil {
		q.x.r.note("item %s is merged, but its branch %s is left: %v", w.label, w.branch, err)
	}
}

// refuse ends an item that is not merged. Its branch stays.
func (q *mergeQueue) refuse(ctx context.Context, w *queued, err error) {
	e := mapper.Ending{Result: w.data, Err: err, Failure: *failure.From(err)}
	e.Failure.Stdout, e.Failure.Stderr = q.x.r.x.Tail(e.Failure.Stdout), q.x.r.x.Tail(e.Failure.Stderr)
	if e.Failure.Class == "conflict" {
		e.Err = retry.Permanent(err)
	}
	q.x.m.Settle(w.item.Index, e)
}

// verdict is how a verify went.
type verdict struct {
	green   bool
	failure *failure.Failure // why it is red
}

// verify runs the verify on a commit that no branch need have, again up to so many times
// where it fails. The result is on the disk when it returns.
func (q *mergeQueue) verify(ctx context.Context, m worktree.Merged, base string, list []*queued, again int) (v verdict, err error) {
	start := q.x.r.x.Clock.Now()
	runs := 0
	for runs <= again && !v.green {
		if v, err = q.verifyOnce(ctx, m); err != nil {
			return v, err
		}
		runs++
	}
	d := mapper.Verified{Commit: m.Commit, Tree: m.Tree, Base: base, Runs: runs}
	for _, w := range list {
		d.Items = append(d.Items, w.item.ID)
	}
	for _, s := range q.steps {
		d.Verify = append(d.Verify, q.x.r.env.Mask().String(s.Label()))
	}
	e := event.Event{Type: event.MergeVerified, Phase: "map", Status: event.Succeeded, Total: len(list), DurationMS: q.x.r.x.Clock.Now().Sub(start).Milliseconds(), Data: data(d)}
	if !v.green {
		e.Status, e.Class, e.Message = event.Failed, v.failure.Class, v.failure.Message
	}
	if err := q.x.r.x.Recorder.Record(e); err != nil {
		return v, err
	}
	q.results[m.Tree] = v.green
	return v, q.x.r.x.Recorder.Sync(ctx)
}

// verifyOnce runs the steps of the verify in a worktree that has a commit and nothing
// else, but for what git ignores.
func (q *mergeQueue) verifyOnce(ctx context.Context, m worktree.Merged) (v verdict, err error) {
	r := q.x.r
	if q.place == nil {
		if q.place, err = r.gitWork.tree.Checkout(ctx); err != nil {
			return v, err
		}
	}
	if err := q.place.Reset(ctx, m.Commit); err != nil {
		return v, err
	}
	p := q.x.p
	q.ran++
	p.Rounds = fmt.Sprintf("@%.12s.%d", m.Tree, q.ran)
	p.Dir, p.Past = q.place.WorkDir, nil
	p.Scope = p.Scope.Child()
	for i, s := range q.steps {
		if q.x.redBase[i] && len(r.file.Queue.Verify) == 0 {
			continue
		}
		out := r.x.Step(ctx, p, s)
		switch {
		case out.Status == event.Interrupted || q.x.interrupted(ctx, out.Err):
			return v, cmp.Or(out.Err, r.x.Life.Stopping(ctx))
		case out.Err != nil && !out.Tolerated:
			v.failure = failure.From(step.Cause(out.Err))
			v.failure.Message = fmt.Sprintf("%q fails: %s", s.Label(), v.failure.Message)
			return v, nil
		}
	}
	v.green = true
	return v, nil
}

// greenBase returns when what is merged by now passes the verify. While it does not,
// nobody is to blame, and the queue holds: agents go on, and the verify is tried again
// after growing waits.
func (q *mergeQueue) greenBase(ctx context.Context, base string) error {
	tree, err := q.x.r.gitWork.repo.Tree(ctx, base)
	if err != nil {
		return err
	}
	if q.results[tree] {
		return nil
	}
	probe := policy.DefaultProbe()
	since := q.x.r.x.Clock.Now()
	for n := 1; ; n++ {
		v, err := q.verify(ctx, worktree.Merged{Commit: base, Tree: tree}, base, nil, q.x.r.file.Queue.Flaky)
		if err != nil {
			return err
		}
		if v.green {
			if n > 1 {
				q.x.r.note("the merge queue goes on: what is merged so far passes the verify")
			}
			return nil
		}
		if q.x.r.x.Clock.Now().Sub(since) > policy.DefaultMaxHold {
			return fmt.Errorf("what is merged so far fails the verify for %s: %s", duration.Format(policy.DefaultMaxHold), v.failure.Message)
		}
		d := probe.Delay(n, 0, nil)
		q.x.r.note("the merge queue holds: what is merged so far, %.12s, fails the verify as well, and no item is to blame: %s; it is tried again in %s",
			base, strings.TrimSpace(v.failure.Message), duration.Format(d))
		if err := q.x.r.x.Life.Sleep(ctx, d); err != nil {
			return err
		}
	}
}

// verifyFinal verifies the merge into the user's branch, where it is another tree than
// what was verified: the user's branch has moved, or steps committed after the map.
func (q *mergeQueue) verifyFinal(ctx context.Context, commit, tree string) error {
	if q.results[tree] {
		return nil
	}
	defer q.leavePlace(ctx)
	v, err := q.verify(ctx, worktree.Merged{Commit: commit, Tree: tree}, "", nil, q.x.r.file.Queue.Flaky)
	if err == nil && !v.green {
		err = &worktree.CannotMerge{Why: "merged into " + cmp.Or(q.x.r.gitWork.tree.Target, "HEAD") + " as it is now, the work of the run fails the verify: " + v.failure.Message, Command: q.x.r.gitWork.tree.MergeCommand()}
	}
	return err
}

// leavePlace gives the worktree of the verify back.
func (q *mergeQueue) leavePlace(ctx context.Context) {
	if q.place == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	err := q.place.Reset(ctx, q.place.Base)
	if err == nil {
		_, err = q.place.Release(ctx)
	}
	if err != nil {
		q.x.r.note("the worktree of the merge queue is left: %v", err)
	}
	q.place = nil
}
