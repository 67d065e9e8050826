package workflow

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
)

// itemBudget reads what an item may use.
func (d *decoder) itemBudget(n *node) *ItemBudget {
	o, ok := d.object(n, budgetTable)
	if !ok {
		return nil
	}
	defer o.close()
	b := &ItemBudget{Pos: n.pos, OnExceeded: "dlq"}
	budgetTable.read(o, b)
	bounds := budgetBounds{ItemBudget: b}
	budgetTable.read(o, &bounds)
	d.itemCost = o.keyOf(&bounds, &b.Cost)
	if !o.any(&bounds) && !d.full() {
		d.errorf(n, "missing-key", "item_budget bounds nothing: it needs cost, tokens or time").Suggest("for example: item_budget: {cost: 0.50, tokens: 200k, time: 20m}")
	}
	return b
}

// budgetBounds are the bounds of an item's budget, of which there is one at least.
type budgetBounds struct{ *ItemBudget }

// uncountedOfItems warns about a budget of items that what they use cannot exceed, as
// nobody tells it.
func (d *decoder) uncountedOfItems() {
	if d.itemCost == nil && d.itemTokens == nil {
		return
	}
	asked, silent := false, map[string]bool{}
	d.eachAgent(func(c *Claude) {
		asked = true
		names := []string{cmp.Or(c.Provider, "claude")}
		if cfg := d.file.Agents[c.Provider]; cfg != nil && len(cfg.FirstOf) > 0 {
			names = nil
			for _, r := range cfg.FirstOf {
				names = append(names, r.Name)
			}
		}
		for _, name := range names {
			if cfg := d.file.Agents[name]; cfg != nil && !silent[name] && (cfg.Output != "stream-json" || cfg.BuiltIn) {
				silent[name] = true
				d.untold(name, cfg)
			}
		}
	})
	if !asked && len(d.calls) == 0 && !d.runsPipeline() {
		d.warnf(cmp.Or(d.itemTokens, d.itemCost), "no-effect", "no step asks an agent: nothing is counted for the cost and the tokens of item_budget").Suggest("remove it, or bound the time of items: item_budget: {time: 20m}")
	}
}

// untold warns about a budget of items for an agent that does not tell what it uses.
func (d *decoder) untold(name string, a *Agent) {
	switch {
	case a.BuiltIn && d.itemCost != nil:
		d.warnf(d.itemCost, "no-effect", "the agent %s does not tell what it costs, so that item_budget.cost does not see it", name).
			Suggest("bound its tokens: item_budget: {tokens: 200k}")
	case a.BuiltIn:
	default:
		d.warnf(cmp.Or(d.itemTokens, d.itemCost), "no-effect", "what the agent %s uses is not counted: its output is text, so that item_budget.cost does not see it, and item_budget.tokens only what it prints as \"tokens used\"", name).
			Suggest("give it output: stream-json where it can, or bound the time of items: item_budget: {time: 20m}")
	}
}

// runsPipeline reports whether a step runs a pipeline, which may ask agents.
func (d *decoder) runsPipeline() (found bool) {
	Walk(d.file, func(s *Step) {
		_, is := s.Action.(*Pipeline)
		found = found || is
	})
	return found
}

// tokens reads a number of tokens: 200000, 200k, 1.5M.
func (d *decoder) tokens(n *node, key string) int64 {
	n = d.resolved(n)
	if n.kind == strNode {
		for suffix, unit := range map[string]float64{"k": 1e3, "M": 1e6} {
			text, found := strings.CutSuffix(n.text, suffix)
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if !found || err != nil {
				continue
			}
			if v = math.Round(v * unit); !(v >= 1 && v <= math.MaxInt32) {
				d.errorf(n, "out-of-range", "%s is %s; it must be between 1 and %d", key, short(n.text), math.MaxInt32)
				return 0
			}
			return int64(v)
		}
	}
	v, p := d.integer(n, key, 1)
	if p != nil {
		p.Or("write a whole number, or as in 200k or 1.5M")
	}
	return int64(v)
}

// budgetTime reads how long the attempts at an item may run.
func (d *decoder) budgetTime(n *node, key string) time.Duration {
	v, ok := d.span(n, key, time.Second)
	if ok && v == 0 {
		d.boundOfZero(n, key, "none")
	}
	return v
}
