package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/workflow"
)

// Agents is what the agents of a run have in common: the pause after a rate
// limit, what they have used, and what they may use. It is safe for concurrent
// use. The zero Agents has no budget.
type Agents struct {
	// MaxWait bounds the pauses for one rate limit; 0 means 6 hours, longer than
	// the windows in which agent providers count usage.
	MaxWait time.Duration
	// MaxCost in US dollars and MaxTokens bound what all agents use; 0: nothing.
	MaxCost   float64
	MaxTokens int64

	mu    sync.Mutex
	limit *policy.RateLimit // made when it is first needed: MaxWait is set late
	used  Usage

	members map[string]*member // agents of chains, by name
}

// Pauses holds back all agents of a run while a rate limit lasts. A map has its
// own, inside its machine ([Place].Pauses); outside a map they are those of
// [Agents]. Both decide by policy.RateLimit.
type Pauses interface {
	// Ask gives the round of an agent that is to be asked, to be given back with
	// its answer, and until when it has to wait first; the zero time for not at
	// all. Where that is beyond MaxWait, nobody waits for it.
	Ask(ctx context.Context, now time.Time) (round int, until time.Time, beyond bool)
	// Limited records the pause after a rate-limit answer to an agent that was
	// asked in a round. after is how long it is to be left alone, 0 if it did
	// not say, and met what happened. ok is false where the limit lasts longer
	// than MaxWait.
	Limited(ctx context.Context, round int, after time.Duration, met Met, now time.Time) (ok bool)
	// Answered records the end of a series of pauses, if another answer is one.
	Answered(round int)
}

// Usage is what agents used in all.
type Usage struct {
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CacheTokens  int64   `json:"cache_tokens,omitempty"`
	OtherTokens  int64   `json:"other_tokens,omitempty"` // of which nobody said which they are
	CostUSD      float64 `json:"cost_usd"`
	Calls        int     `json:"calls"`
}

// Restore takes over what an earlier life of the run recorded.
func (g *Agents) Restore(used Usage, p event.Pause) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used = used
	g.rateLimit().Restore(p)
}

// Pause is the pause that lasts, to be recorded or handed to a map.
func (g *Agents) Pause() event.Pause {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rateLimit().Pause()
}

// Waiting gives how long the pause lasts from now on, and whether agents wait for its end.
func (g *Agents) Waiting(now time.Time) (left time.Duration, wait bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.rateLimit().Pause().Until.Sub(now), 0), !g.rateLimit().TooLong(now)
}

// SetPause takes over the pause from a map that is over.
func (g *Agents) SetPause(p event.Pause) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = nil
	g.rateLimit().Restore(p)
}

// Lift ends the pause that lasts.
func (g *Agents) Lift(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rateLimit().Lift(now)
	for _, m := range g.members {
		m.limit.Lift(now)
		m.until = now
	}
}

// rateLimit is the machine of the pauses. The lock is held.
func (g *Agents) rateLimit() *policy.RateLimit {
	if g.limit == nil {
		l := policy.NewRateLimit(max(g.MaxWait, 0))
		g.limit = &l
	}
	g.limit.SetMaxWait(max(g.MaxWait, 0))
	return g.limit
}

// Used gives what was used so far; nil where no agent was asked.
func (g *Agents) Used() *Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used.Calls == 0 {
		return nil
	}
	used := g.used
	return &used
}

// Spent is a *BudgetError once a budget is spent, else nil.
func (g *Agents) Spent() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	tokens := g.used.InputTokens + g.used.OutputTokens + g.used.CacheTokens + g.used.OtherTokens
	switch {
	case g.MaxCost > 0 && g.used.CostUSD >= g.MaxCost:
		return &BudgetError{fmt.Sprintf("the agents have cost $%.2f of max_cost $%.2f", g.used.CostUSD, g.MaxCost)}
	case g.MaxTokens > 0 && tokens >= g.MaxTokens:
		return &BudgetError{fmt.Sprintf("the agents have used %d of max_tokens %d", tokens, g.MaxTokens)}
	}
	return nil
}

// runPauses is the pauses of a run outside its map.
type runPauses struct{ x *Executor }

func (r runPauses) Ask(_ context.Context, now time.Time) (round int, until time.Time, beyond bool) {
	g := &r.x.Agents
	g.mu.Lock()
	defer g.mu.Unlock()
	round, until = g.rateLimit().Ask(now)
	return round, until, g.rateLimit().TooLong(now)
}

func (r runPauses) Limited(_ context.Context, round int, after time.Duration, met Met, now time.Time) (ok bool) {
	g := &r.x.Agents
	g.mu.Lock()
	defer g.mu.Unlock()
	ok = g.rateLimit().Limited(round, after, now)
	r.x.record(PausedFact(g.rateLimit().Pause(), ok, met, now))
	return ok
}

func (r runPauses) Answered(round int) {
	g := &r.x.Agents
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rateLimit().Answered(round) {
		r.x.record(event.Event{Type: event.PauseEnded})
	}
}

// LimitError is an agent that is not asked, or not again, because the provider's
// limit lasts longer than the file allows to wait, or because others decide how long all
// wait. It says nothing about its item, which is to be tried again when the limit is over.
type LimitError struct {
	Lasts   time.Duration
	MaxWait time.Duration // 0: others decide
	Err     error         // the agent's; nil where it was not asked
}

func (e *LimitError) Error() string {
	if e.MaxWait == 0 {
		return e.Err.Error()
	}
	what := "the rate limit lasts"
	if errors.Is(e.Err, errAllDown) {
		what = "the first of them is asked again in"
	}
	text := fmt.Sprintf("%s %s, longer than max_wait (%s)", what, duration.Format(e.Lasts.Round(time.Second)), duration.Format(e.MaxWait))
	if e.Err == nil {
		return text
	}
	return e.Err.Error() + "; " + text
}

// Unwrap gives what the agent said.
func (e *LimitError) Unwrap() error { return e.Err }

// Class is "rate_limit".
func (e *LimitError) Class() string { return "rate_limit" }

// RateLimited is true.
func (e *LimitError) RateLimited() bool { return true }

// RetryAfter is when the limit ends.
func (e *LimitError) RetryAfter() (time.Duration, bool) { return e.Lasts, true }

// limited reports whether a rate limit lasts longer than anybody waits for it.
func limited(err error) bool {
	_, is := errors.AsType[*LimitError](err)
	return is
}

// beyond is the error of an agent that a limit turns away, or would, that ends after so
// long; err is what it said, nil where it was not asked.
func (g *Agents) beyond(lasts time.Duration, err error) error {
	return &LimitError{Lasts: lasts, MaxWait: cmp.Or(g.MaxWait, policy.DefaultRateLimitMaxWait), Err: err}
}

// Met is what has all agents wait.
type Met struct {
	What string
	Down bool // it is no limit: they failed again and again
}

// MetLimit says that an agent met a rate limit.
func MetLimit(who string) Met { return Met{What: who + " met a rate limit"} }

// PausedFact is the record of a pause, and of what led to it; waited says whether
// somebody waits for its end.
func PausedFact(p event.Pause, waited bool, met Met, now time.Time) event.Event {
	p.Down = met.Down
	d := max(p.Until.Sub(now), 0)
	text := "%s: all agents wait %s"
	if !waited {
		text = "%s: the wait would be %s, longer than max_wait"
	}
	return event.Event{Type: event.RunPaused, Time: now, DelayMS: d.Milliseconds(), Data: Data(p),
		Message: fmt.Sprintf(text, met.What, duration.Format(d.Round(time.Second)))}
}

// AskAgent asks an agent, again after each rate limit: an answer that says "later"
// pauses all agents of the run and uses up no attempt. Other runs wait as well that use
// the same limits of the machine, and what is held of these is free meanwhile.
func (x *Executor) AskAgent(ctx context.Context, p Place, c *Call) (action.Result, error) {
	pauses := p.Pauses
	if pauses == nil {
		pauses = runPauses{x}
	}
	if cfg := x.AgentConfigs[agentName(c.Action)]; cfg != nil && len(cfg.FirstOf) > 0 {
		return x.askChain(ctx, p, c, cfg)
	}
	wanted := x.wantedBy(p, c, workflow.LimitNames(x.agentLimits(c.Action)))
	own, err := x.Hold(ctx, p, wanted)
	if err != nil {
		return action.Result{Start: x.Clock.Now()}, err
	}
	defer func() { own.Release() }()
	// mine is what is held for this agent alone, and not while it only waits.
	mine := own
	if mine == nil && p.Holding != nil && p.Holding.leaf {
		mine = p.Holding
	}
	for {
		now := x.Clock.Now()
		_, ends := x.Life.pausing()
		round, until, beyond := pauses.Ask(ctx, now)
		if beyond {
			return action.Result{Start: now}, x.Agents.beyond(until.Sub(now), nil)
		}
		if !until.IsZero() {
			mine.Release()
			if err := x.Life.pause(ctx, until.Sub(now), ends); err != nil {
				return action.Result{Start: x.Clock.Now()}, err
			}
			continue
		}
		if err := x.retake(ctx, p, mine, wanted); err != nil {
			return action.Result{Start: x.Clock.Now()}, err
		}
		res, err := x.ask(ctx, p.inside(own), c)
		f := failure.From(err)
		if f == nil || !f.RateLimited {
			pauses.Answered(round)
			return res, err
		}
		ok := pauses.Limited(ctx, round, f.RetryAfter, MetLimit(agentName(c.Action)), x.Clock.Now())
		if h := cmp.Or(own, p.Holding); h != nil && x.Machine != nil {
			now := x.Clock.Now()
			if _, until, _ := pauses.Ask(ctx, now); until.After(now) {
				x.pauseLimits(h, until, err)
			}
		}
		if ok {
			x.turnedAway(p, c.Path, res, f)
		} else {
			x.Life.EndPauses() // who waits for less has nothing to wait for
			now := x.Clock.Now()
			_, until, beyond := pauses.Ask(ctx, now)
			if !beyond {
				return res, &LimitError{Lasts: f.RetryAfter, Err: err}
			}
			return res, x.Agents.beyond(until.Sub(now), err)
		}
	}
}

// turnedAway records what an agent printed in a call that is made again without a new
// attempt, and whose log the next call begins anew. What a stream of messages says is
// recorded already.
func (x *Executor) turnedAway(p Place, path string, res action.Result, f *failure.Failure) {
	text := res.Stderr
	if res.Usage == nil {
		text = res.Output + res.Ending + text
	}
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	e := p.Event(event.AgentMessage, path)
	e.Class, e.Message = f.Class, x.Values.Mask().Text(text).Ends(Inline)
	x.record(e)
}

// wantedBy is what a question to an agent wants of some limits.
func (x *Executor) wantedBy(p Place, c *Call, names []string) Wanted {
	return Wanted{Names: names, Path: c.Path, Number: c.Number, Priority: c.Priority, Waits: func(b *limits.Block) { x.ShowWait(p, c.Path, c.Number, b) }}
}

// count records what an agent used in a call, or in a part of one: calls is 1 for the first
// part and 0 for the others. When a budget of the run is spent, no new work begins. Of an
// agent that answers with a text only the call is known, and how many tokens it took where
// its text says so.
func (x *Executor) count(p Place, path string, res action.Result, calls int) {
	u := res.Usage
	if u == nil {
		u = &action.Usage{}
	}
	g := &x.Agents
	g.mu.Lock()
	g.used.InputTokens += u.InputTokens
	g.used.OutputTokens += u.OutputTokens
	g.used.CacheTokens += u.CacheRead + u.CacheCreation
	g.used.OtherTokens += res.Tokens
	g.used.CostUSD += u.CostUSD
	g.used.Calls += calls
	g.mu.Unlock()
	e := p.Event(event.AgentUsage, path)
	used := map[string]any{"input_tokens": u.InputTokens, "output_tokens": u.OutputTokens,
		"cache_tokens": u.CacheRead + u.CacheCreation, "cost_usd": u.CostUSD, "calls": calls}
	if res.Tokens > 0 {
		used["other_tokens"] = res.Tokens
	}
	e.Data = Data(used)
	x.record(e)
	if spent := g.Spent(); spent != nil {
		x.Life.Halt(spent)
	}
}

// BudgetError is a run that stopped because a budget of it is spent.
type BudgetError struct{ What string }

func (e *BudgetError) Error() string {
	return e.What + ": nothing new is started; raise the budget in the file and resume the run with --force"
}

// Class is "budget".
func (e *BudgetError) Class() string { return "budget" }
