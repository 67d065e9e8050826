package cluster

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/policy"
)

// All lanes of a run share one budget for agents. What is left of it is handed out in
// shares, like the other limits, and a lane whose agents have used its share ends its
// lease. So the budget is exceeded by no more than the items in flight.

// Spent is the reason of a map whose agents have used their budget.
const Spent policy.StopReason = "budget"

func plus(a, b engine.Usage) engine.Usage {
	return engine.Usage{CostUSD: a.CostUSD + b.CostUSD, Tokens: a.Tokens + b.Tokens}
}

// reached reports whether one of the limits of a budget is reached.
func reached(used, budget engine.Usage) bool {
	return budget.CostUSD > 0 && used.CostUSD >= budget.CostUSD || budget.Tokens > 0 && used.Tokens >= budget.Tokens
}

// usageOf gives what agents have used, according to events.
func usageOf(facts []event.Event) (sum engine.Usage) {
	for i := range facts {
		if facts[i].Type != event.AgentUsage {
			continue
		}
		var u struct {
			Input  int64   `json:"input_tokens"`
			Output int64   `json:"output_tokens"`
			Cache  int64   `json:"cache_tokens"`
			Other  int64   `json:"other_tokens"`
			Cost   float64 `json:"cost_usd"`
		}
		if json.Unmarshal(facts[i].Data, &u) == nil { // bide wrote it
			sum = plus(sum, engine.Usage{CostUSD: u.Cost, Tokens: u.Input + u.Output + u.Cache + u.Other})
		}
	}
	return sum
}

// usage is what the agents of a log have used so far.
func (w *writer) usage() engine.Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// share gives the part of the budget that a new lease gets. ok is false if all that is left
// is handed out.
func (c *Coordinator) share() (s engine.Usage, ok bool) {
	taken := c.used
	for _, id := range slices.Sorted(maps.Keys(c.open)) { // sorted, because sums of fractions depend on the order
		taken = plus(taken, c.open[id].Budget)
	}
	if reached(taken, c.cfg.Budget) {
		return s, false
	}
	lanes := max(c.Lanes()-len(c.open), 1)
	if b := c.cfg.Budget; b.CostUSD > 0 {
		s.CostUSD = (b.CostUSD - taken.CostUSD) / float64(lanes)
	}
	if b := c.cfg.Budget; b.Tokens > 0 {
		s.Tokens = (b.Tokens - taken.Tokens + int64(lanes) - 1) / int64(lanes)
	}
	return s, true
}
