package mergedriver

import (
	"context"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/mergequeue"
)

// Run merges until it is closed. It gives the function that closes it and waits for its
// end.
func (q *Queue) Run(ctx context.Context) (end func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.loop(ctx)
	}()
	return func() {
		q.mu.Lock()
		q.closed = true
		q.mu.Unlock()
		q.Nudge()
		<-done
	}
}

func (q *Queue) loop(ctx context.Context) {
	life := q.Executor.Life
	until, stop := life.Until(ctx)
	defer stop()
	defer q.leavePlace(ctx)
	begun := false
	for {
		over := q.arrive()
		if until.Err() != nil {
			// Items of agents that end may still arrive.
			q.leave()
			if over {
				return
			}
			_ = q.Executor.Clock.Wait(context.WithoutCancel(ctx), -1, q.wake)
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
				_ = q.Executor.Clock.Wait(until, -1, q.wake)
				continue
			}
			if err = q.do(ctx, a); err == nil {
				continue
			}
		}
		if life.Stopping(ctx) == nil {
			life.Halt(fmt.Errorf("the merge queue: %w; what waits in it is in branches: mend the cause, then `bide resume %s`", err, q.Executor.Run))
		}
		q.leave()
	}
}

// leave makes the items that wait do so until the next life of the run.
func (q *Queue) leave() {
	for _, index := range q.m.Leave() {
		q.of.Settle(index, mapper.Ending{Interrupted: true})
		delete(q.items, index)
	}
}

// begin tells the machine what earlier lives of the run have merged, and whether the queue
// was on hold.
func (q *Queue) begin(ctx context.Context) error {
	g := q.Git
	tip, err := g.Tree.Tip(ctx)
	if err != nil {
		return err
	}
	list, err := g.Repo.ItemMerges(ctx, q.Executor.Run, tip)
	if err != nil {
		return err
	}
	landed := make([]string, len(list))
	for i, m := range list {
		landed[len(list)-1-i] = m.Commit
		q.names[m.Commit] = m.Item
	}
	q.m.Recall(g.Tree.Base, landed)
	if at, held := q.of.QueueHeld(); held {
		q.m.Held()
		q.Executor.NotePassing("the merge queue is still held: what is merged so far is verified again at %s; bide control %s probe verifies it now", at.Local().Format(time.TimeOnly), q.Executor.Run)
	}
	return nil
}
