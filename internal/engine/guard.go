package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/step"
)

// guard waits for reasons to stop a run, and for what other processes ask of it.
type guard struct {
	soft    context.Context // done: nothing new is started
	grace   time.Duration   // of what runs, from then on
	j       *journal.Journal
	x       *step.Executor
	control *letters.Control
	kill    func() // ends all processes of the run
}

// watch gives the context of everything that the run starts. It ends some time
// after soft is done or somebody asked for a stop, when running steps had their
// grace, and soon when the journal can no longer be written.
func (g *guard) watch(ctx context.Context) (context.Context, func()) {
	hard := ctx.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.wait(hard, done, cancel)
	}()
	return ctx, func() {
		close(done)
		<-ended
		cancel(nil)
	}
}

// atOnce is how long processes have to end that were told to end at once, which
// what ignores SIGTERM does not.
const atOnce = time.Second

// wait waits for reasons to stop, until done.
func (g *guard) wait(hard, done <-chan struct{}, cancel context.CancelCauseFunc) {
	look := time.NewTicker(letters.LookEvery)
	defer look.Stop()
	soft, failed := g.soft.Done(), g.j.Failed()
	var grace, kill <-chan time.Time
	begin := func() {
		if grace == nil {
			grace = time.After(g.grace)
		}
	}
	for {
		select {
		case <-soft:
			soft = nil
			begin()
		case <-failed:
			failed = nil
			g.x.Life.Halt(fmt.Errorf("the journal cannot be written: %w", g.j.Err()))
			begin()
		case <-look.C:
			q, err := g.j.TakeStop()
			if err != nil {
				g.x.NoteOnce("stop", fmt.Sprintf("a request to stop: %v", err))
			}
			if q == nil {
				g.control.Take(g.x, g.j)
				continue
			}
			g.tell(stopNote(q))
			g.x.Life.Halt(ErrInterrupted)
			if q.Now {
				cancel(ErrInterrupted)
				kill = time.After(atOnce)
			}
			begin()
		case <-hard:
			hard, kill = nil, time.After(atOnce)
		case <-kill:
			g.kill()
		case <-grace:
			cancel(ErrInterrupted)
		case <-done:
			return
		}
	}
}

// stopNote says who ended the run.
func stopNote(q *journal.StopRequest) string {
	if q.Now {
		return "another process asked this run to stop at once"
	}
	return "another process asked this run to stop"
}

// tell records a note of what another process asked for. A journal that cannot be
// written ends the run by itself.
func (g *guard) tell(text string) {
	_ = g.x.Recorder.Record(event.Event{Type: event.Note, Message: text})
}
