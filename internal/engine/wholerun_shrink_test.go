package engine_test

import (
	"encoding/json"
	"slices"
)

// shrunk makes a plan smaller as long as wrong stays true for it: it leaves out, one after
// another, parts that are not needed.
func shrunk(p *plan, wrong func(*plan) bool) *plan {
	for again := true; again; {
		again = false
		for n := 0; ; n++ {
			q := p.copy()
			if !q.leaveOut(n) {
				break
			}
			if q.mendRefs(); q.text() != p.text() && wrong(q) {
				p, again = q, true
				n--
			}
		}
	}
	return p
}

func (p *plan) copy() *plan {
	q := &plan{}
	if err := json.Unmarshal(encoded(p), q); err != nil {
		panic(err)
	}
	return q
}

// leaveOut makes the n-th of all simple changes that make a plan smaller. It is false if
// there is no such change.
func (p *plan) leaveOut(n int) bool {
	try := func(change func()) bool {
		if n == 0 {
			change()
		}
		n--
		return n < 0
	}
	for i := range p.Faults {
		if try(func() { p.Faults = slices.Delete(p.Faults, i, i+1) }) {
			return true
		}
	}
	for _, list := range p.lists() {
		for i := range *list {
			if try(func() { *list = slices.Delete(*list, i, i+1) }) {
				return true
			}
		}
	}
	for _, change := range []func(){
		func() { p.Items = (p.Items + 1) / 2 }, func() { p.Items = max(p.Items-1, min(p.Items, 1)) }, func() { p.Parallel = min(p.Parallel, 1) },
		func() { p.Strict = false }, func() { p.OnItem, p.Handler = "", nil }, func() { p.ItemRetry = nil }, func() { p.MaxFailures = 0 }, func() { p.Threshold = 0 },
		func() { p.StopAtFirst = false }, func() { p.BreakerAt = 0 }, func() { p.StartMS = 0 }, func() { p.AgentMS = 0 }, func() { p.TimeoutMS = 0 }, func() { p.MaxCost = 0 },
	} {
		if try(change) {
			return true
		}
	}
	for i := range p.Faults {
		f := &p.Faults[i]
		for _, change := range []func(){func() { f.Lose = 0 }, func() { f.Lose /= 2 }, func() { f.JumpMS = 0 }, func() { f.Interrupt = false }, func() { f.Tick = (f.Tick + 1) / 2 }, func() { f.Tick = max(f.Tick-1, 1) }} {
			if try(change) {
				return true
			}
		}
	}
	done := false
	p.every(func(s *planStep) {
		for _, change := range []func(){
			func() { s.Retry = nil }, func() { s.OnFail, s.Rounds = nil, 0 }, func() { s.Rounds = min(s.Rounds, 1) }, func() { s.Fail = planFail{} }, func() { s.Fail.Mod = 0 }, func() { s.MayFail = false },
			func() { s.Capture = false }, func() { s.Sets = false }, func() { s.WhenOdd = false }, func() { s.Moves = "" }, func() { s.Needs = nil },
			func() { s.Size = min(s.Size, 1) }, func() { s.Leak = false }, func() { s.Bytes = false }, func() { s.JSON = false }, func() { s.TakesMS = 0 }, func() { s.LimitMS = 0 }, func() { s.USD = 0 }, func() { s.Together = min(s.Together, 1) },
			func() { s.Values = s.Values[:min(len(s.Values), max(len(s.Values)-1, 1))] },
			func() {
				if len(s.Args) > 1 && s.Args[len(s.Args)-1].Kind != "results" {
					s.Args = s.Args[:len(s.Args)-1]
				}
			},
			func() {
				if s.Kind == "agent" {
					s.Kind = ""
				}
			},
		} {
			if !done && try(change) {
				done = true
			}
		}
		if r := s.Retry; r != nil {
			for _, change := range []func(){func() { r.Jitter = "" }, func() { r.BudgetMS = 0 }, func() { r.Only = "" }, func() { r.BreakerAt = 0 }, func() { r.MaxMS = 0 }, func() { r.Backoff = "fixed" }, func() { r.InitialMS = 0 }, func() { r.Attempts = max(r.Attempts-1, 1) }} {
				if !done && try(change) {
					done = true
				}
			}
		}
	})
	return done
}

// lists gives all lists of steps of a plan.
func (p *plan) lists() []*[]*planStep {
	lists := []*[]*planStep{&p.Setup, &p.Steps, &p.Reduce, &p.Sub, &p.Handler}
	p.every(func(s *planStep) { lists = append(lists, &s.Do, &s.OnFail) })
	return lists
}

// mendRefs removes references to a step that is no longer there, or that the referring step
// can no longer read.
func (p *plan) mendRefs() {
	if len(p.Steps) == 0 {
		p.Steps = []*planStep{{Name: "none"}}
	}
	there := map[string]*planStep{}
	p.every(func(s *planStep) { there[s.Name] = s })
	captures := func(name string) bool { s := there[name]; return s != nil && s.Capture && s.sure() }
	p.every(func(s *planStep) {
		s.Args = slices.DeleteFunc(s.Args, func(a planArg) bool {
			b := there[a.Of]
			return a.Kind == "capture" && !captures(a.Of) || a.Kind == "sets" && (b == nil || !b.Sets || !b.sure()) || p.Items == 0 && (a.Kind == "item" || a.Kind == "index" || a.Kind == "results")
		})
		s.Needs = slices.DeleteFunc(s.Needs, func(name string) bool { return there[name] == nil || !there[name].sure() })
		if s.Moves != "" && (there[s.Moves] == nil || !there[s.Moves].sure()) {
			s.Moves = ""
		}
		if s.Of != "" && !captures(s.Of) {
			s.Of, s.Values = "", []string{"w0"}
		}
		if s.Kind == "foreach" && len(s.Do) == 0 {
			s.Kind, s.Values, s.Of = "", nil, ""
		}
		if s.Kind == "call" && len(p.Sub) == 0 {
			s.Kind = ""
		}
		if len(s.OnFail) == 0 {
			s.Rounds = 0
		}
		s.JSON = s.JSON && s.Capture
	})
	if p.OnItem == "custom" && len(p.Handler) == 0 {
		p.OnItem = ""
	}
}
