package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
)

// gate holds back all agents of a run while a rate limit lasts.
type gate struct {
	mu    sync.Mutex
	until time.Time
	since time.Time // when the present chain of pauses began
	tries int
}

// firstPause is the pause after a rate-limit answer that does not say how long
// it lasts; it doubles while the limit goes on.
const firstPause = 30 * time.Second

// defaultMaxWait bounds the pauses for one rate limit: longer than the windows
// in which agent providers count usage.
const defaultMaxWait = 6 * time.Hour

// limited notes a rate-limit answer and gives the end of the pause; ok is
// false where it would go beyond maxWait.
func (g *gate) limited(after time.Duration, known bool, maxWait time.Duration, now time.Time) (until time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if maxWait <= 0 {
		maxWait = defaultMaxWait
	}
	if g.since.IsZero() {
		g.since = now
	}
	pause := after
	if !known {
		pause = firstPause << min(g.tries, 10)
	}
	until = now.Add(pause)
	if until.Before(g.until) {
		until = g.until
	}
	if until.Sub(g.since) > maxWait {
		return until, false
	}
	if now.After(g.until) {
		g.tries++
	}
	g.until = until
	return until, true
}

// passed notes an answer that was not a rate limit.
func (g *gate) passed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tries, g.since = 0, time.Time{}
}

func (g *gate) rest(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until.Sub(now)
}

// await waits until agents may start.
func (r *run) await(ctx context.Context) error {
	for {
		d := r.agents.rest(time.Now())
		if d <= 0 {
			return nil
		}
		if err := r.sleep(ctx, d); err != nil {
			return err
		}
	}
}

// pauseFor begins or prolongs the pause of all agents; false where the limit
// lasts longer than the file allows, so that the answer is a failure.
func (r *run) pauseFor(e *action.AgentError) bool {
	now := time.Now()
	until, ok := r.agents.limited(e.Until, e.HasTime, r.file.MaxWait.D, now)
	if !ok {
		return false
	}
	d := until.Sub(now)
	r.emit(event.Event{Type: event.RunPaused, DelayMS: d.Milliseconds(),
		Message: fmt.Sprintf("%s met a rate limit: all agents wait %s", e.Agent, duration.Format(d.Round(time.Second)))})
	return true
}

// sleep waits, unless the run stops.
func (r *run) sleep(ctx context.Context, d time.Duration) error {
	if err := r.stopping(ctx); err != nil {
		return err
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	for halted := r.halted.Done(); ; halted = nil {
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
		case <-r.soft.Done():
		case <-halted:
		}
		if err := r.stopping(ctx); err != nil {
			return err
		}
	}
}

// Usage is what the agents of a run used in all.
type Usage struct {
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CacheTokens  int64   `json:"cache_tokens,omitempty"`
	CostUSD      float64 `json:"cost_usd"`
	Calls        int     `json:"calls"`
}

type usage struct {
	mu sync.Mutex
	u  Usage
}

func (u *usage) add(x *action.Usage) Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.u.InputTokens += x.InputTokens
	u.u.OutputTokens += x.OutputTokens
	u.u.CacheTokens += x.CacheRead + x.CacheCreation
	u.u.CostUSD += x.CostUSD
	u.u.Calls++
	return u.u
}

func (u *usage) total() *Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.u.Calls == 0 {
		return nil
	}
	t := u.u
	return &t
}

// used tells what an agent used, and ends the start of new work when a budget
// of the run is spent.
func (r *run) used(p place, path string, x *action.Usage) {
	if x == nil {
		return
	}
	t := r.usage.add(x)
	r.emit(event.Event{Type: event.AgentUsage, Phase: p.phase, Step: path, Item: p.item, Index: p.index, Data: data(map[string]any{
		"input_tokens": x.InputTokens, "output_tokens": x.OutputTokens, "cache_tokens": x.CacheRead + x.CacheCreation, "cost_usd": x.CostUSD, "calls": 1})})
	r.overBudget(t)
}

func (r *run) overBudget(t Usage) {
	tokens := t.InputTokens + t.OutputTokens + t.CacheTokens
	switch f := r.file; {
	case f.MaxCost > 0 && t.CostUSD >= f.MaxCost:
		r.halt(&BudgetError{fmt.Sprintf("the agents have cost $%.2f of max_cost $%.2f", t.CostUSD, f.MaxCost)})
	case f.MaxTokens > 0 && tokens >= f.MaxTokens:
		r.halt(&BudgetError{fmt.Sprintf("the agents have used %d of max_tokens %d", tokens, f.MaxTokens)})
	}
}

// BudgetError is a run that stopped because a budget of it is spent.
type BudgetError struct{ What string }

func (e *BudgetError) Error() string {
	return e.What + ": nothing new is started; raise the budget in the file and resume the run with --force"
}

// Class is "budget".
func (e *BudgetError) Class() string { return "budget" }
