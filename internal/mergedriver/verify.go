package mergedriver

import (
	"cmp"
	"context"
	"fmt"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/worktree"
)

// This file runs the verify of a merge queue.

// verdict is the result of a verify.
type verdict struct {
	green   bool
	failure *failure.Failure // why it is red
	runs    int              // how often it ran until the result was accepted; 0: its tree was verified before
	ms      int64
}

// verify runs the verify on a commit, which need not be on a branch. If it fails, it runs
// again, up to flaky times. The result is on the disk when verify returns.
func (q *Queue) verify(ctx context.Context, m worktree.Merged, onto string, items []int) (v verdict, err error) {
	start := q.Executor.Clock.Now()
	for v.runs <= q.Executor.File.Queue.Flaky && !v.green {
		runs := v.runs + 1
		if v, err = q.verifyOnce(ctx, m); err != nil {
			return v, err
		}
		v.runs = runs
	}
	v.ms = q.Executor.Clock.Now().Sub(start).Milliseconds()
	return v, q.record(ctx, m, onto, items, &v)
}

// record records the result of verifying a merge. It is on the disk when record returns.
func (q *Queue) record(ctx context.Context, m worktree.Merged, onto string, items []int, v *verdict) error {
	d := mapper.Verified{Commit: m.Commit, Tree: m.Tree, Base: onto, Runs: v.runs}
	for _, index := range items {
		d.Items = append(d.Items, q.items[index].item.ID)
	}
	for _, s := range q.steps {
		d.Verify = append(d.Verify, q.Executor.Values.Mask().String(s.Label()))
	}
	e := event.Event{Type: event.MergeVerified, Phase: "map", Status: event.Succeeded, Total: len(items), DurationMS: v.ms, Data: step.Data(d)}
	if !v.green {
		e.Status, e.Class, e.Message = event.Failed, v.failure.Class, v.failure.Message
	}
	if err := q.Executor.Recorder.Record(e); err != nil {
		return err
	}
	q.verified[m.Commit], q.failed[m.Tree] = v.green, v.failure
	return q.Executor.Recorder.Sync(ctx)
}

// verifyOnce runs the steps of the verify in a worktree that has a commit and nothing else
// except what git ignores.
func (q *Queue) verifyOnce(ctx context.Context, m worktree.Merged) (v verdict, err error) {
	if q.place == nil {
		if q.place, err = q.Git.Tree.Checkout(ctx); err != nil {
			return v, err
		}
	}
	if err := q.place.Reset(ctx, m.Commit); err != nil {
		return v, err
	}
	p := q.p
	q.ran++
	p.Rounds = fmt.Sprintf("@%.12s.%d", m.Tree, q.ran)
	p.Dir, p.Past = q.place.WorkDir, nil
	p.Scope = p.Scope.Child()
	for i, s := range q.steps {
		if q.Checks.RedBase(i) && len(q.Executor.File.Queue.Verify) == 0 {
			continue
		}
		out := q.Executor.Step(ctx, &p, s)
		switch {
		case out.Status == event.Interrupted || q.Executor.Life.Stopped(ctx, out.Err):
			return v, cmp.Or(out.Err, q.Executor.Life.Stopping(ctx))
		case out.Err != nil && !out.Tolerated:
			v.failure = failure.From(step.Cause(out.Err))
			v.failure.Message = fmt.Sprintf("%q fails: %s", s.Label(), v.failure.Message)
			return v, nil
		}
	}
	v.green = true
	return v, nil
}

// VerifyFinal verifies the merge into the user's branch if its tree differs from what was
// verified: the user's branch has moved, or steps committed after the map.
func (q *Queue) VerifyFinal(ctx context.Context, commit, tree string) error {
	if q.m.Green(tree) {
		return nil
	}
	defer q.leavePlace(ctx)
	v, err := q.verify(ctx, worktree.Merged{Commit: commit, Tree: tree}, "", nil)
	if err == nil && !v.green {
		err = &worktree.CannotMerge{Why: "merged into " + cmp.Or(q.Git.Tree.Target, "HEAD") + " as it is now, the work of the run fails the verify: " + v.failure.Message, Command: q.Git.Tree.MergeCommand()}
	}
	return err
}

// leavePlace removes the worktree of the verify.
func (q *Queue) leavePlace(ctx context.Context) {
	if q.place == nil {
		return
	}
	if err := q.place.Drop(context.WithoutCancel(ctx)); err != nil {
		q.Executor.Note("the worktree of the merge queue is left: %v", err)
	}
	q.place = nil
}
