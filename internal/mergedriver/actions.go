package mergedriver

import (
	"context"
	"errors"
	"fmt"

	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/mergequeue"
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/bide-dev/bide/retry"
)

// This file does what the machine of a merge queue asks for.

// do does one action and tells the machine how it went. After an error the queue cannot
// continue; items that are not settled by then keep waiting.
func (q *Queue) do(ctx context.Context, a mergequeue.Action) error {
	switch a.Kind {
	case mergequeue.Base:
		return q.base(ctx)
	case mergequeue.Join:
		return q.join(ctx, a)
	case mergequeue.Verify:
		return q.judge(ctx, a)
	case mergequeue.Hold:
		return q.wait(ctx, a.Commit)
	case mergequeue.Land:
		return q.land(ctx, a)
	case mergequeue.Refuse:
		q.refuse(a)
		return nil
	}
	panic(fmt.Sprintf("merge queue: action %d", a.Kind))
}

// base tells the machine which commit items are merged onto: the run's branch, with the
// user's branch merged into it if that has moved.
func (q *Queue) base(ctx context.Context) error {
	at, err := q.upon(ctx)
	if err == nil {
		q.m.OnBase(commitOf(at))
	}
	return err
}

// upon gives the commit onto which items are merged now.
func (q *Queue) upon(ctx context.Context) (at worktree.Merged, err error) {
	g := q.Git
	if q.tip, err = g.Tree.Tip(ctx); err != nil {
		return at, err
	}
	at.Commit = q.tip
	moved, err := g.Tree.UponTarget(ctx, q.tip)
	switch {
	case errors.As(err, new(*worktree.Conflict)): // it is reported when the run is merged
	case err != nil:
		return at, err
	case moved.Commit != "":
		at = moved
	}
	if at.Tree == "" {
		at.Tree, err = g.Repo.Tree(ctx, at.Commit)
	}
	return at, err
}

func commitOf(m worktree.Merged) mergequeue.Commit {
	return mergequeue.Commit{ID: m.Commit, Tree: m.Tree}
}

// join merges an item onto a commit, on no branch.
func (q *Queue) join(ctx context.Context, a mergequeue.Action) error {
	w := q.items[a.Item]
	m, made := q.early[joint{a.Onto, a.Item}]
	err := error(nil)
	if !made {
		m, err = q.merge(ctx, a.Onto, w, q.Git.Resolver(w.p))
		q.Git.TellAside(&w.data, w.label, m.Aside)
	}
	switch {
	case err == nil && m.Commit != "":
		q.m.Merged(commitOf(m))
	case err == nil:
		if q.m.Nothing() {
			q.end(ctx, w, "")
		}
	case errors.As(err, new(*worktree.Conflict)) && q.Executor.Life.Stopping(ctx) == nil:
		if q.m.Conflicted() {
			q.refused(w, retry.Permanent(err), *failure.From(err))
		}
	default:
		return fmt.Errorf("merge the work of item %s: %w", w.label, err)
	}
	return nil
}

// merge makes the merge of an item onto a commit.
func (q *Queue) merge(ctx context.Context, onto string, w *queued, resolve worktree.Resolver) (worktree.Merged, error) {
	g := q.Git
	o := worktree.MergeOptions{Message: g.Message(w.label), Trailers: g.Trailers(w.item.ID, w.data.Evidence), Resolve: resolve, Left: g.LeftMessage(w.label)}
	return g.Tree.MergeUpon(ctx, onto, w.commit, w.branch, o)
}

// judge verifies the base or the merges so far. Meanwhile the next batch is merged, as if
// the verify were green.
func (q *Queue) judge(ctx context.Context, a mergequeue.Action) error {
	onto, next := q.m.Ahead()
	early, cancel := context.WithCancel(ctx)
	made := make(chan map[joint]worktree.Merged, 1)
	go func() { made <- q.ahead(early, onto, next) }()
	v, err := q.verify(ctx, worktree.Merged{Commit: a.Commit.ID, Tree: a.Commit.Tree}, a.Onto, a.Items)
	cancel()
	q.early = <-made
	if err != nil {
		return err
	}
	if len(a.Items) == 0 {
		switch {
		case v.green:
			q.of.QueueGreen()
		case !q.of.QueueRed(v.failure, q.steps[0].Path):
			return fmt.Errorf("what is merged so far, %.12s, fails the verify, and no item is to blame: %s", a.Commit.ID, v.failure.Message)
		}
	}
	q.m.Verified(v.green)
	return nil
}

// ahead merges items, each on top of the one before, until ctx ends or an item is in
// conflict.
func (q *Queue) ahead(ctx context.Context, onto string, items []int) map[joint]worktree.Merged {
	made := map[joint]worktree.Merged{}
	for _, index := range items {
		m, err := q.merge(ctx, onto, q.items[index], nil)
		if err != nil {
			break // the queue will find the conflict again, and report it
		}
		made[joint{onto, index}] = m
		if m.Commit != "" {
			onto = m.Commit
		}
	}
	return made
}

// wait waits until the red base is to be verified again, with the commits that others have
// added to the user's branch meanwhile.
func (q *Queue) wait(ctx context.Context, red mergequeue.Commit) error {
	life, clock := q.Executor.Life, q.Executor.Clock
	for {
		at, held := q.of.QueueHeld()
		d := at.Sub(clock.Now())
		if !held || d <= 0 {
			now, err := q.upon(ctx)
			switch {
			case err != nil:
				return err
			case now.Tree != red.Tree:
				q.m.Moved()
			default:
				q.m.Probe()
			}
			return nil
		}
		until, stop := life.Until(ctx)
		err := clock.Wait(until, d, q.wake)
		stop()
		if why := life.Stopping(ctx); why != nil {
			return why
		}
		if err != nil {
			return err
		}
		q.arrive()
	}
}

// land moves the run's branch to merges that were verified, and ends their items.
func (q *Queue) land(ctx context.Context, a mergequeue.Action) error {
	if !q.verified[a.Commit.ID] { // the same tree was verified, in another commit
		items := make([]int, len(a.Merges))
		for i, m := range a.Merges {
			items[i] = m.Item
		}
		if err := q.record(ctx, worktree.Merged{Commit: a.Commit.ID, Tree: a.Commit.Tree}, a.Onto, items, &verdict{green: true}); err != nil {
			return err
		}
	}
	if err := q.Git.Tree.Land(ctx, q.tip, a.Commit.ID); err != nil {
		return err
	}
	q.m.Landed()
	for _, b := range a.Merges {
		w := q.items[b.Item]
		q.names[b.ID] = w.label
		q.end(ctx, w, b.ID)
	}
	return nil
}

// end ends an item whose work is in the run's branch, by a merge; "" if there was nothing
// to merge. The item's branch is deleted when the end is on the disk.
func (q *Queue) end(ctx context.Context, w *queued, merge string) {
	w.data.Branch, w.data.Merge = "", merge
	delete(q.items, w.item.Index)
	q.of.Settle(w.item.Index, mapper.Ending{Result: w.data})
	q.Counted(&w.data, w.label)
	if err := q.Executor.Recorder.Sync(context.WithoutCancel(ctx)); err != nil {
		return // the next life of the run finds that it is merged
	}
	if err := q.Git.Tree.Landed(context.WithoutCancel(ctx), w.branch, w.commit); err != nil {
		q.Executor.Note("item %s is merged, but its branch %s is left: %v", w.label, w.branch, err)
	}
}

// refuse ends an item that breaks the merge.
func (q *Queue) refuse(a mergequeue.Action) {
	q.m.Refused()
	why := q.failed[a.Commit.Tree]
	f := *why
	f.Class, f.Permanent = mapper.ClassMergeCheck, true
	f.Message = fmt.Sprintf("it breaks the merge upon %.12s: %s", a.Onto, why.Message)
	if a.With != "" {
		f.Message = fmt.Sprintf("it is good without item %s, and breaks the merge with it: %s", q.names[a.With], why.Message)
	}
	q.refused(q.items[a.Item], &f, f)
}

// refused ends an item that is not merged. Its branch stays.
func (q *Queue) refused(w *queued, err error, f failure.Failure) {
	f.Stdout, f.Stderr = q.Executor.Tail(f.Stdout), q.Executor.Tail(f.Stderr)
	delete(q.items, w.item.Index)
	q.of.Settle(w.item.Index, mapper.Ending{Result: w.data, Err: err, Failure: f})
}
