package step

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/workflow"
)

// ItemAttempt is an attempt at a work item, as its steps see it.
type ItemAttempt struct {
	event.Item
	// Attempt is the number of the attempt at it, from 1; Recoveries is how often
	// it was in flight when its process died.
	Attempt, Recoveries int
	// Probe says that the map is held, and this attempt finds out whether it need be.
	Probe bool
	// Last is how the attempt before this one failed; nil: there was none.
	Last *failure.Failure
}

// ForItem has a place be that of an attempt at a work item inside it: with the item's
// variables, and BIDE_ITEM, BIDE_ATTEMPT and BIDE_RECOVERED in the environment.
func (x *Executor) ForItem(p *Place, it ItemAttempt, total int) (err error) {
	p.Item, p.Index, p.Attempt, p.Past = it.ID, it.Index, it.Attempt, nil
	if p.Scope, err = p.Scope.ForItem(it.Item, total, it.Attempt); err != nil {
		return err
	}
	id, _, _ := strings.Cut(it.ID, "\x00") // which would end the environment
	p.Tried = Tried{Before: max(it.Attempt-1, 0)}
	p.Env = p.Env.With("BIDE_ATTEMPT", strconv.Itoa(it.Attempt), "BIDE_ITEM", id)
	if it.Last != nil {
		p.Env = p.Env.With(TriedEnv(x.Values.Mask(), it.Attempt, it.Last)...)
	}
	if it.Probe {
		p.Env = p.Env.With("BIDE_PROBE", "1")
	}
	if it.Recoveries > 0 {
		p.Env = p.Env.With("BIDE_RECOVERED", strconv.Itoa(it.Recoveries))
	}
	return nil
}

// Within runs f with a time of d, 0 for any; what names what takes too long.
func (x *Executor) Within(ctx context.Context, d time.Duration, what string, f func(context.Context) error) error {
	return x.within(ctx, d, what, f)
}

// Template runs the steps of an agent on a work item, to which p belongs. They
// end although a budget of the run is spent. The error of an agent
// that took too long is the *TimeoutError. ended is that of [Executor.Block].
func (x *Executor) Template(ctx context.Context, p *Place, b *workflow.Block, ended func(i int, out *Outcome)) error {
	err := x.Block(Finish(ctx), p, b, "agent_template", ended)
	if err != nil && ctx.Err() != nil && !unrecorded(err) {
		var te *TimeoutError
		if cause := context.Cause(ctx); errors.As(cause, &te) && !errors.As(err, &te) {
			return cause
		}
	}
	return err
}
