package step

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/workflow"
)

// ItemBudget counts what an item uses against what it may use in all its attempts: what its
// agents cost, the tokens they take, and the time in which at least one of its commands,
// requests and agents runs. What an item waits for, a slot, a pause, its turn, a merge, is none
// of that time. It is safe for concurrent use.
type ItemBudget struct {
	max workflow.ItemBudget
	end context.CancelCauseFunc // of the attempt, once the time is used up
	who string

	mu      sync.Mutex
	used    event.Used // of calls that have ended, and the time up to since
	calls   map[*Call]*call
	running int
	since   time.Time     // while something runs: when it began
	told    time.Duration // of the time, what is on record
}

// call is an agent that is being asked.
type call struct {
	used action.Usage
	told action.Usage // of that, what is on record
	made bool         // that it was asked is on record
}

// NewItemBudget is the budget of an item of which attempts before have used something. end
// ends the attempt that begins, when its time is used up.
func NewItemBudget(max *workflow.ItemBudget, used event.Used, who string, end context.CancelCauseFunc) *ItemBudget {
	return &ItemBudget{max: *max, end: end, who: who, used: used, calls: map[*Call]*call{}, told: used.Time}
}

// Used is what has been used, by all that has ended.
func (b *ItemBudget) Used() event.Used {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.used
	u.Time = u.Time.Truncate(time.Millisecond) // as it is recorded
	return u
}

// sum is what has been used, and is being used. The lock is held.
func (b *ItemBudget) sum() event.Used {
	u := b.used
	for _, c := range b.calls {
		u.CostUSD, u.Tokens = u.CostUSD+c.used.CostUSD, u.Tokens+c.used.Tokens()
	}
	return u
}

// exceeded is a *SpentError once more than the budget is used, else nil: an agent that uses
// all of it has an answer still to give. The lock is held.
func (b *ItemBudget) exceeded() error {
	if u := b.sum(); (b.max.Cost <= 0 || u.CostUSD <= b.max.Cost) && (b.max.Tokens <= 0 || u.Tokens <= b.max.Tokens) {
		return nil
	}
	return b.spent()
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

// uses notes what a call that runs has used so far. part is what of it is to be recorded now,
// nil for nothing: a tenth of the budget is used that is not on record. first says that
// nothing of the call is.
func (b *ItemBudget) uses(c *Call, u action.Usage) (part *action.Usage, first bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.calls[c]
	if k == nil {
		k = &call{}
		b.calls[c] = k
	}
	k.used = u
	more := u.Minus(k.told)
	if n := more.Tokens(); b.max.Tokens > 0 && n > 0 && n >= b.max.Tokens/10 || b.max.Cost > 0 && more.CostUSD >= b.max.Cost/10 {
		part, first = &more, !k.made
		k.told, k.made = k.told.Plus(more), true
	}
	return part, first, b.exceeded()
}

// ended notes what a call has used that has ended. rest is what of it is not on record;
// first says that nothing of it is.
func (b *ItemBudget) ended(c *Call, res action.Result) (rest action.Result, first bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.calls[c]
	if k == nil {
		k = &call{}
	}
	delete(b.calls, c)
	all := k.told
	if rest = res; res.Usage != nil {
		more := res.Usage.Minus(k.told)
		rest.Usage, all = &more, all.Plus(more)
	}
	b.used.CostUSD, b.used.Tokens = b.used.CostUSD+all.CostUSD, b.used.Tokens+all.Tokens()+res.Tokens
	return rest, !k.made, b.spent()
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

// Over is the error of an item that has used up its time.
func (b *ItemBudget) Over() error {
	return &TimeoutError{What: "item " + b.who, After: b.max.Time, Budget: true}
}

// runs notes that something of the item begins to run. It is an error where no time is left.
func (b *ItemBudget) runs(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ran(now) >= b.max.Time {
		b.end(b.Over())
		return b.Over()
	}
	if b.running++; b.running == 1 {
		b.since = now
	}
	return nil
}

// rests notes that something of the item has ended, and reports whether no time is left.
func (b *ItemBudget) rests(now time.Time) (over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.Time = b.ran(now)
	b.since = now
	b.running--
	return b.used.Time >= b.max.Time
}

// ran is how long something of the item has run. The lock is held.
func (b *ItemBudget) ran(now time.Time) time.Duration {
	if b.running == 0 {
		return b.used.Time
	}
	return b.used.Time + max(now.Sub(b.since), 0)
}

// leastTold bounds how often the time of an item is recorded.
const leastTold = 100 * time.Millisecond

// tick looks at the time while something runs: next is how long from now on nothing is to be
// done, 0 where the time is used up, which ends the attempt. record is called with what has
// run each time that another tenth of the budget has.
func (b *ItemBudget) tick(now time.Time, record func(time.Duration)) (next time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ran := b.ran(now)
	if ran >= b.max.Time {
		b.end(b.Over())
		return 0
	}
	tenth := max(b.max.Time/10, leastTold)
	if ran-b.told >= tenth {
		b.told = ran
		record(ran)
	}
	return min(b.told+tenth, b.max.Time) - ran
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
	if _, is := errors.AsType[*SpentError](err); is {
		return true
	}
	te, is := errors.AsType[*TimeoutError](err)
	return is && te.Budget
}

// Attempt makes one attempt of a leaf action. That it runs counts in the time of its item,
// which ends it when it is used up; one that had succeeded by then has.
func (x *Executor) Attempt(ctx context.Context, p *Place, c *Call) (action.Result, error) {
	if p.Holding != nil {
		c = x.tell(p, c)
	}
	if b := p.Budget; b != nil && b.max.Time > 0 {
		return x.timed(ctx, p, c)
	}
	return x.Actions.Run(ctx, c)
}

// timed makes an attempt in the time that its item has left.
func (x *Executor) timed(ctx context.Context, p *Place, c *Call) (res action.Result, err error) {
	b := p.Budget
	if err := b.runs(x.Clock.Now()); err != nil {
		return action.Result{Start: x.Clock.Now()}, err
	}
	until, over := context.WithCancel(ctx)
	watched := make(chan struct{}, 1)
	x.Clock.Go(func() { x.watch(until, *p); watched <- struct{}{} })
	defer func() {
		over()
		_ = x.Clock.Wait(context.WithoutCancel(ctx), -1, watched) // which over ends
		if b.rests(x.Clock.Now()) && err != nil && ctx.Err() == nil {
			err = b.Over()
			b.end(err)
		}
	}()
	return x.Actions.Run(ctx, c)
}

// watch records how long an item has run, and ends its attempt when its time is used up, until
// ctx ends.
func (x *Executor) watch(ctx context.Context, p Place) {
	record := func(ran time.Duration) { x.record(UsedFact(p.Address, ran)) }
	for ctx.Err() == nil {
		next := p.Budget.tick(x.Clock.Now(), record)
		if next == 0 || x.Clock.Wait(ctx, next, nil) != nil {
			return
		}
	}
}

// UsedFact is the record of how long something of an item has run, in all its attempts.
func UsedFact(a Address, ran time.Duration) event.Event {
	e := a.Event(event.ItemUsed, "")
	e.DurationMS = ran.Milliseconds()
	return e
}

// ask asks an agent, and counts what it uses. Where that exceeds the budget of the item, the
// agent is ended; one that had answered by then has answered.
func (x *Executor) ask(ctx context.Context, p Place, c *Call) (action.Result, error) {
	if p.Budget == nil {
		res, err := x.Attempt(ctx, &p, c)
		if res.Usage != nil || !IsInput(err) {
			x.count(p, c.Path, res, 1)
		}
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
		part, first, err := p.Budget.uses(&bounded, u)
		if part != nil {
			x.count(p, c.Path, action.Result{Usage: part}, calls(first))
		}
		if err != nil {
			cancel(err)
		}
	}
	res, err := x.Attempt(own, &p, &bounded)
	rest, first, spent := p.Budget.ended(&bounded, res)
	if first && (res.Usage != nil || !IsInput(err)) || !first && (rest.Tokens > 0 || rest.Usage != nil && *rest.Usage != (action.Usage{})) {
		x.count(p, c.Path, rest, calls(first))
	}
	switch cause, ended := errors.AsType[*SpentError](context.Cause(own)); {
	case err == nil || ctx.Err() != nil:
	case ended:
		err = cause
	case spent != nil && !failure.From(err).RateLimited:
		err = &SpentError{What: spent.(*SpentError).What, Err: err}
	}
	return res, err
}

// calls is how many calls a record of usage counts: the first of a call counts it.
func calls(first bool) int {
	if first {
		return 1
	}
	return 0
}
