package worst

import (
	"fmt"
	"slices"

	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/workflow"
)

// Taken is a limit of the machine of which an item, an attempt or a call holds one slot.
type Taken struct {
	Name   string `json:"name"`
	Agent  string `json:"agent,omitempty"`       // whose questions hold it; "": whatever the plan says it of
	Around bool   `json:"held_around,omitempty"` // what this is in holds it already
	// Machine is the limit as this machine has it; nil: it has none with this name.
	Machine *Capacity `json:"machine"`
}

// Capacity is what a machine allows.
type Capacity struct {
	Slots  int    `json:"slots,omitempty"` // 0: any number
	Rate   string `json:"rate,omitempty"`  // "": any
	Shared bool   `json:"pauses_shared,omitempty"`
}

// on fills in what a machine allows of the limit.
func (t *Taken) on(c *limits.Config) {
	l, ok := c.Limits[t.Name]
	if !ok {
		return
	}
	t.Machine = &Capacity{Slots: l.Slots, Shared: l.Shared}
	if l.Rate > 0 {
		t.Machine.Rate = l.RateText()
	}
}

// Text says what is held by who, as "each item".
func (t Taken) Text(who string) string {
	of := t.Name
	if t.Agent != "" {
		of, who = of+", of the agent "+t.Agent, "each question"
	}
	m := t.Machine
	switch {
	case m == nil:
		return fmt.Sprintf("%s: not defined on this machine; write: bide limits set %s slots=4", of, t.Name)
	case t.Around:
		return of + ": held around the step already"
	}
	text := fmt.Sprintf("%s: %s holds 1 of %d slots", of, who, m.Slots)
	switch m.Slots {
	case 0:
		text = fmt.Sprintf("%s: %s is counted, any number at once", of, who)
	case 1:
		text = fmt.Sprintf("%s: %s holds the one slot", of, who)
	}
	if m.Rate != "" {
		text += ", at most " + m.Rate
	}
	if m.Shared {
		text += "; pauses are shared"
	}
	return text
}

// TakenBy are the limits that names name.
func TakenBy(names ...string) (list []Taken) {
	for _, name := range names {
		list = append(list, Taken{Name: name})
	}
	return list
}

// OnMachine fills in what a machine allows of limits.
func OnMachine(list []Taken, c *limits.Config) {
	for i := range list {
		list[i].on(c)
	}
}

// takes gives the limits that each attempt of a step takes, and those of its agent.
func (p *stepPlan) takes() {
	p.Limits = TakenBy(workflow.LimitNames(p.of.Limits)...)
	if _, asks := p.of.Action.(*workflow.Claude); asks {
		p.ofAgent(p.Agent)
		if a := p.agents[p.Agent]; a != nil {
			for _, member := range a.FirstOf {
				p.ofAgent(member.Name)
			}
		}
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		if l.Around = slices.Contains(p.at.held, l.Name); !l.Around {
			p.Priority = new(p.of.Priority + option.NormalPriority)
		}
	}
}

// ofAgent adds the limits that an agent names.
func (p *stepPlan) ofAgent(name string) {
	a := p.agents[name]
	if a == nil {
		return
	}
	for _, l := range a.Limits {
		if !slices.ContainsFunc(p.Limits, func(t Taken) bool { return t.Name == l.Name }) {
			p.Limits = append(p.Limits, Taken{Name: l.Name, Agent: name})
		}
	}
}

// holding is the place of what runs while the limits of a step are held.
func (p *stepPlan) holding(in surroundings) surroundings {
	in.held = slices.Concat(in.held, workflow.LimitNames(p.of.Limits))
	return in
}

// NamesLimits reports whether the plan has limits of the machine.
func (p *Plan) NamesLimits() bool {
	found := false
	p.eachTaken(func(list []Taken) { found = found || len(list) > 0 })
	return found
}

// OnMachine fills in what a machine allows of the limits that the plan names.
func (p *Plan) OnMachine(c *limits.Config) {
	p.eachTaken(func(list []Taken) { OnMachine(list, c) })
}

func (p *Plan) eachTaken(f func([]Taken)) {
	if p.Map != nil {
		f(p.Map.Limits)
	}
	var steps func([]*Step)
	steps = func(list []*Step) {
		for _, s := range list {
			f(s.Limits)
			for _, g := range s.Groups {
				steps(g.Steps)
			}
		}
	}
	for _, ph := range p.Phases {
		steps(ph.Steps)
	}
}
