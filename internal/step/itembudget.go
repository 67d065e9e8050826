package step

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/workflow"
)

// ItemBudget counts what the agents of an item use against what they may use in all its
// attempts. It is safe for concurrent use.
type ItemBudget struct {
	max workflow.ItemBudget

	mu    sync.Mutex
	used  event.Used           // of calls that have ended
	calls map[*Call]event.Used // that run
}

// NewItemBudget is the budget of an item of which attempts before have used something.
func NewItemBudget(max *workflow.ItemBudget, used event.Used) *ItemBudget {
	return &ItemBudget{max: *max, used: used, calls: map[*Call]event.Used{}}
}

// Used is what has been used; its time is that of the attempts before.
func (b *ItemBudget) Used() event.Used {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// sum is what has been used, and is being used. The lock is held.
func (b *ItemBudget) sum() event.Used {
	u := b.used
	for _, c := range b.calls {
		u.CostUSD, u.Tokens = u.CostUSD+c.CostUSD, u.Tokens+c.Tokens
	}
	return u
}

// spent is a *SpentError once the budget is used up, else nil. The lock is held.
func (b *ItemBudget) spent() error {
	u := b.sum()
	switch {
	case b.max.Cost > 0 && u.CostUSD >= b.max.Cost:
		return &SpentError{What: fmt.Sprintf("the agents of the item have cost $%.2f of its item_budget.cost $%.2f", u.CostUSD, b.max.Cost)}
	case b.max.Tokens > 0 && u.Tokens >= b.max.Tokens:
		return &SpentError{What: fmt.Sprintf("the agents of the item have used %d of its item_budget.tokens %d", u.Tokens, b.max.Tokens)}
	}
	return nil
}

// uses notes what a call that runs has used so far.
func (b *ItemBudget) uses(c *Call, u action.Usage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls[c] = event.Used{CostUSD: u.CostUSD, Tokens: u.Tokens()}
	return b.spent()
}

// ended notes what a call has used that has ended.
func (b *ItemBudget) ended(c *Call, res action.Result) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.calls, c)
	if u := res.Usage; u != nil {
		b.used.CostUSD, b.used.Tokens = b.used.CostUSD+u.CostUSD, b.used.Tokens+u.Tokens()
	}
	b.used.Tokens += res.Tokens
	return b.spent()
}

// begins is an error where nothing is left for a call. left are the dollars that are; 0:
// any number.
func (b *ItemBudget) begins() (left float64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.spent(); err != nil {
		return 0, err
	}
	if b.max.Cost > 0 {
		left = b.max.Cost - b.sum().CostUSD
	}
	return left, nil
}

// SpentError is an agent that was ended, or not asked, because its item has used up its
// budget.
type SpentError struct {
	What string
	Err  error // how the agent ended; nil where it was not asked, or was ended
}

func (e *SpentError) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap gives how the agent ended.
func (e *SpentError) Unwrap() error { return e.Err }

// Class is "budget".
func (e *SpentError) Class() string { return "budget" }

// Spent reports whether an item has failed because its budget is used up.
func Spent(err error) bool {
	if errors.As(err, new(*SpentError)) {
		return true
	}
	te, is := errors.AsType[*TimeoutError](err)
	return is && te.Budget
}

// ask asks an agent, and counts what it uses. Where that exceeds the budget of the item, the
// agent is ended; one that had answered by then has answered.
func (x *Executor) ask(ctx context.Context, p Place, c *Call) (action.Result, error) {
	if p.Budget == nil {
		res, err := x.Actions.Run(ctx, c)
		x.asked(p, c, res, err)
		return res, err
	}
	left, err := p.Budget.begins()
	if err != nil {
		return action.Result{Start: x.Clock.Now()}, err
	}
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bounded := *c
	bounded.MaxCost = left
	bounded.Used = func(u action.Usage) {
		if err := p.Budget.uses(&bounded, u); err != nil {
			cancel(err)
		}
	}
	res, err := x.Actions.Run(own, &bounded)
	x.asked(p, c, res, err)
	spent := p.Budget.ended(&bounded, res)
	switch cause, ended := errors.AsType[*SpentError](context.Cause(own)); {
	case err == nil || ctx.Err() != nil:
	case ended:
		err = cause
	case spent != nil && !failure.From(err).RateLimited:
		err = &SpentError{What: spent.(*SpentError).What, Err: err}
	}
	return res, err
}

// asked counts what an agent used that was asked.
func (x *Executor) asked(p Place, c *Call, res action.Result, err error) {
	if res.Usage != nil || !IsInput(err) {
		x.count(p, c.Path, res)
	}
}
