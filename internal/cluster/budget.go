package cluster

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/policy"
)

// The budget of a run's agents is one of all lanes: what is left of it is handed out
// in shares, as the other bounds are, and a lane whose agents have used its share
// ends its lease. So it is overstepped by no more than the items in flight.

// Spent is the reason of a map whose agents have used their budget.
const Spent policy.StopReason = "budget"

func plus(a, b engine.Usage) engine.Usage {
	return engine.Usage{CostUSD: a.CostUSD + b.CostUSD, Tokens: a.Tokens + b.Tokens}
}

// reached reports whether a bound of a budget is.
func reached(used, budget engine.Usage) bool {
	return budget.CostUSD > 0 && used.CostUSD >= budget.CostUSD || budget.Tokens > 0 && used.Tokens >= budget.Tokens
}

// usageOf is what agents have used, as events tell.
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
		if json.Unmarshal(facts[i].Data, &u) == nil { // it is our own
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

// share is the part of the budget that a new lease gets; ok is false where all that
// is left is handed out.
func (c *Coordinator) share() (s engine.Usage, ok bool) {
	taken := c.used
	for _, id := range slices.Sorted(maps.Keys(c.open)) { // in one order: sums of fractions depend on it
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
