package engine_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// plan is a random workflow and what happens while it runs. It is data: the workflow file,
// the world in which its commands run and what the oracle expects are all made from it. A
// plan that fails is kept as JSON.
type plan struct {
	Items    int         `json:"items,omitempty"` // 0: a workflow without a map
	Parallel int         `json:"parallel,omitempty"`
	Strict   bool        `json:"strict,omitempty"`
	Secret   bool        `json:"secret,omitempty"`
	Setup    []*planStep `json:"setup,omitempty"`
	Steps    []*planStep `json:"steps"` // of the workflow, or of the template
	Reduce   []*planStep `json:"reduce,omitempty"`
	Sub      []*planStep `json:"sub,omitempty"` // those of the workflow "sub"

	OnItem      string      `json:"on_item,omitempty"` // on_item_failure; "custom" runs Handler
	Handler     []*planStep `json:"handler,omitempty"`
	ItemRetry   *planRetry  `json:"item_retry,omitempty"`
	MaxFailures int         `json:"max_failures,omitempty"`
	Threshold   float64     `json:"threshold,omitempty"`
	StopAtFirst bool        `json:"stop_at_first,omitempty"`
	BreakerAt   int         `json:"breaker_at,omitempty"`
	StartMS     int         `json:"start_delay_ms,omitempty"`
	AgentMS     int         `json:"agent_timeout_ms,omitempty"`
	TimeoutMS   int         `json:"timeout_ms,omitempty"`
	MaxCost     float64     `json:"max_cost,omitempty"`

	// Newer keys, which the oracle does not know: runs with them are replayed.
	Width     string `json:"width,omitempty"` // max_parallel, as JSON, in place of Parallel
	Canary    int    `json:"canary,omitempty"`
	SameError string `json:"same_error,omitempty"` // as JSON
	Chain     bool   `json:"chain,omitempty"`      // agents are asked as a chain
	Limited   bool   `json:"limited,omitempty"`    // the map, its steps and its agents hold limits of the machine
	Uneven    bool   `json:"uneven,omitempty"`     // no two commands take equally long, as on a real machine

	Faults []fault   `json:"faults,omitempty"`
	Asks   []planAsk `json:"asks,omitempty"`
}

// planAsk is a request of another process in each life: pause, continue, parallel or
// retry-now.
type planAsk struct {
	AfterMS  int    `json:"after_ms"`
	Do       string `json:"do"`
	Parallel int    `json:"parallel,omitempty"`
}

// fault ends a life of the run.
type fault struct {
	// Tick counts what the life does: each record and each effect of a command.
	Tick int `json:"tick"`
	// Lose is how many of the last records are lost because nothing had synced them.
	Lose int `json:"lose,omitempty"`
	// JumpMS is how far the clock jumps until the next life.
	JumpMS int64 `json:"jump_ms,omitempty"`
	// Interrupt stops the life as Ctrl-C does, instead of killing it.
	Interrupt bool `json:"interrupt,omitempty"`
}

// planStep is a step. Its name is unique in the plan.
type planStep struct {
	Name    string    `json:"name"`
	Kind    string    `json:"kind,omitempty"` // "": shell; agent, foreach, call
	Args    []planArg `json:"args,omitempty"`
	Apart   bool      `json:"apart,omitempty"` // its first argument makes its files differ from those of another round
	Size    int       `json:"size,omitempty"`  // of the output
	Leak    bool      `json:"leak,omitempty"`  // the secret is in the output
	Bytes   bool      `json:"bytes,omitempty"` // what it prints is no UTF-8
	JSON    bool      `json:"json,omitempty"`  // it prints a value that is captured as JSON
	Needs   []string  `json:"needs,omitempty"` // steps whose files must exist
	Moves   string    `json:"moves,omitempty"` // the step whose file it moves
	Fail    planFail  `json:"fail,omitzero"`
	TakesMS int       `json:"takes_ms,omitempty"`
	LimitMS int       `json:"timeout_ms,omitempty"`
	USD     float64   `json:"usd,omitempty"`

	Retry    *planRetry  `json:"retry,omitempty"`
	Rounds   int         `json:"rounds,omitempty"` // max_attempts of its handler
	OnFail   []*planStep `json:"on_failure,omitempty"`
	Fatal    bool        `json:"fail_workflow,omitempty"` // applies if its handler has not repaired it
	MayFail  bool        `json:"continue_on_error,omitempty"`
	Capture  bool        `json:"capture,omitempty"` // as "c" and its name
	Sets     bool        `json:"sets,omitempty"`    // the variable "v" and its name, by BIDE_OUTPUT
	WhenOdd  bool        `json:"when_odd,omitempty"`
	Do       []*planStep `json:"do,omitempty"`
	Values   []string    `json:"values,omitempty"`
	Of       string      `json:"of,omitempty"`    // the values are the lines in the capture of this step
	Lists    bool        `json:"lists,omitempty"` // a command lists the values whose first step has not made its file yet
	Together int         `json:"together,omitempty"`
}

// planArg is an argument of a command.
type planArg struct {
	Kind string `json:"kind"` // word, item, index, capture, sets, secret, value, at, round, param, results, told
	Of   string `json:"of,omitempty"`
}

// planFail says how a command fails.
type planFail struct {
	Times  int    `json:"times,omitempty"`  // how many executions at the same place
	Before int    `json:"before,omitempty"` // how many attempts at the item before this one
	Broken bool   `json:"broken,omitempty"` // until the world is repaired
	Mod    int    `json:"mod,omitempty"`    // only each Mod-th item; 0: all
	Class  string `json:"class,omitempty"`  // exit, network, timeout, hang, rate_limit
}

// planRetry is a retry policy.
type planRetry struct {
	Attempts  int    `json:"attempts"`
	Backoff   string `json:"backoff"`
	InitialMS int    `json:"initial_ms"`
	MaxMS     int    `json:"max_ms,omitempty"`
	Jitter    string `json:"jitter,omitempty"`
	BudgetMS  int    `json:"budget_ms,omitempty"`
	Only      string `json:"retry_on,omitempty"`
	BreakerAt int    `json:"breaker_at,omitempty"`
}

// planSecret is the value of the secret S. It has no two equal pieces.
const planSecret = "qwertyuiopZXCVBNMLKJasdfghjk"

// maker makes plans.
type maker struct {
	*rand.Rand
	p    *plan
	last int // the number in the last name
}

func newPlan(seed uint64) *plan {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 21)), p: &plan{}}
	m.p.Secret = m.one(4)
	if m.one(3) {
		m.p.Sub = m.steps(1+m.IntN(2), scopeOf{sub: true})
	}
	if m.one(4) {
		m.p.Steps = m.steps(1+m.IntN(6), scopeOf{top: true})
	} else {
		m.mapped()
	}
	if m.one(12) {
		m.p.TimeoutMS = 1000 * (1 + m.IntN(200))
	}
	for range m.IntN(5) {
		m.p.Faults = append(m.p.Faults, m.fault())
	}
	m.Rand = rand.New(rand.NewPCG(seed, 22)) // the rest of the plan stays as it is
	m.texts()
	return m.p
}

// texts has steps print what a record cannot have as it is, and handlers read how their steps
// failed.
func (m *maker) texts() {
	lists := map[string]bool{}
	m.p.every(func(s *planStep) { lists[s.Of] = true })
	m.p.every(func(s *planStep) {
		if !s.leaf() {
			return
		}
		if s.Capture && s.Kind == "" && m.one(5) && !lists[s.Name] {
			s.JSON, s.Leak = true, false
		} else {
			s.Bytes = m.one(5)
		}
		for _, h := range s.OnFail {
			if m.one(2) {
				for _, part := range toldParts {
					h.Args = append(h.Args, planArg{Kind: "told", Of: part})
				}
			}
		}
	})
}

// toldParts are the members of error that a handler reads, in the order of its arguments.
var toldParts = []string{"class", "message", "exit_code", "output", "stderr"}

// one is true once in n times.
func (m *maker) one(n int) bool { return m.IntN(n) == 0 }

func (m *maker) name() string {
	m.last++
	return fmt.Sprintf("s%d", m.last)
}

func (m *maker) mapped() {
	p := m.p
	p.Items, p.Parallel = 1+m.IntN(5), 1+m.IntN(3)
	if m.one(8) {
		p.Items = 8 + m.IntN(12)
	}
	p.Strict = m.one(4)
	if m.one(2) {
		p.Setup = m.steps(1+m.IntN(3), scopeOf{top: true})
	}
	known := capturing(p.Setup)
	p.Steps = m.steps(1+m.IntN(4), scopeOf{top: true, item: true, known: known})
	if !m.one(4) {
		p.Reduce = m.steps(1+m.IntN(2), scopeOf{top: true, known: known, again: true})
		p.Reduce[0].Args = append(p.Reduce[0].Args, planArg{Kind: "results"})
		p.Reduce[0].Kind, p.Reduce[0].Do, p.Reduce[0].Values, p.Reduce[0].Of = "", nil, nil, ""
	}
	p.OnItem = []string{"", "dlq", "skip", "retry", "stop", "custom"}[m.IntN(6)]
	if p.OnItem == "custom" {
		p.Handler = m.steps(1+m.IntN(2), scopeOf{item: true})
	}
	if m.one(2) {
		p.ItemRetry = m.retry()
	}
	switch m.IntN(6) {
	case 0:
		p.MaxFailures = 1 + m.IntN(3)
	case 1:
		p.Threshold = []float64{0.1, 0.5, 1}[m.IntN(3)]
	case 2:
		p.StopAtFirst = m.one(3)
	case 3:
		p.BreakerAt = 1 + m.IntN(3)
	}
	if m.one(8) {
		p.StartMS = 1 + m.IntN(900)
	}
	if m.one(8) {
		p.AgentMS = 1000 * (1 + m.IntN(100))
	}
	if m.one(20) {
		p.MaxCost = 0.5 + m.Float64()*3
	}
}

// scopeOf is the place of some steps, and what they can read there.
type scopeOf struct {
	top, item, loop, round, sub bool
	again                       bool     // it may run again after it has ended
	known                       []string // earlier steps with captures
}

func capturing(steps []*planStep) (names []string) {
	for _, s := range steps {
		if s.Capture && s.sure() {
			names = append(names, s.Name)
		}
	}
	return names
}

// leaf reports whether the step is a command.
func (s *planStep) leaf() bool { return s.Kind == "" || s.Kind == "agent" }

// sure reports whether what follows the step runs only if the step ended as intended.
func (s *planStep) sure() bool { return !s.MayFail && len(s.OnFail) == 0 && !s.WhenOdd }

func (m *maker) steps(n int, at scopeOf) (list []*planStep) {
	for range n {
		s := m.step(at, list)
		list = append(list, s)
		if s.Capture && s.sure() {
			at.known = append(at.known, s.Name)
		}
	}
	return list
}

func (m *maker) step(at scopeOf, before []*planStep) *planStep {
	s := &planStep{Name: m.name()}
	switch {
	case at.loop:
		s.Apart, s.Args = true, []planArg{{Kind: "at"}, {Kind: "value"}}
	case at.round:
		s.Apart, s.Args = true, []planArg{{Kind: "round"}}
	case at.sub:
		s.Apart, s.Args = true, []planArg{{Kind: "param"}}
	}
	if at.top && m.one(6) {
		m.loop(s, at)
	} else if at.top && len(m.p.Sub) > 0 && m.one(5) {
		s.Kind = "call"
	} else {
		m.leaf(s, at, before)
	}
	if s.Capture = m.one(3); s.Capture && s.Kind != "foreach" && s.Kind != "call" {
		s.Size = max(s.Size, 1)
	}
	s.MayFail = m.one(8)
	s.WhenOdd = at.item && at.top && m.one(8)
	if at.top && m.one(3) && !s.Lists {
		s.Retry = m.retry()
	}
	if at.top && m.one(6) && !s.Lists {
		s.Fatal = m.one(2)
		s.OnFail = m.steps(1+m.IntN(2), scopeOf{round: true})
		s.Rounds = 1 + m.IntN(3)
	}
	return s
}

func (m *maker) leaf(s *planStep, at scopeOf, before []*planStep) {
	if m.one(8) {
		s.Kind, s.USD = "agent", float64(m.IntN(3))/4
	}
	s.Args = append(s.Args, planArg{Kind: "word", Of: s.Name})
	if at.item && !at.loop {
		s.Args = append(s.Args, planArg{Kind: []string{"item", "index"}[m.IntN(2)]})
	}
	if m.p.Secret && m.one(4) {
		s.Args = append(s.Args, planArg{Kind: "secret"})
	}
	for _, name := range at.known {
		if m.one(2) {
			s.Args = append(s.Args, planArg{Kind: "capture", Of: name})
		}
	}
	for _, b := range before {
		if b.Kind != "" || !b.sure() || b.Apart != s.Apart {
			continue
		}
		if b.Sets && m.one(2) {
			s.Args = append(s.Args, planArg{Kind: "sets", Of: b.Name})
		}
		if m.one(3) {
			s.Needs = append(s.Needs, b.Name)
		} else if m.one(6) && s.Moves == "" && !m.moved(before, b.Name) {
			s.Moves = b.Name
		}
	}
	s.Sets = m.one(6) && s.Kind == ""
	s.Leak = m.p.Secret && m.one(4)
	s.Size = []int{0, 1, 40, 200}[m.IntN(4)]
	if m.one(12) {
		s.Size = []int{4095, 4096, 4097, 16383, 16384, 16385, 17000, 40000}[m.IntN(8)]
	}
	s.TakesMS = []int{0, 0, 1, 7, 300, 2000, 30000}[m.IntN(7)]
	if m.one(3) {
		s.Fail = planFail{Class: []string{"exit", "network", "timeout", "hang"}[m.IntN(4)]}
		if s.Kind == "agent" && m.one(2) {
			s.Fail.Class = "rate_limit"
		}
		switch m.IntN(6) {
		case 0:
			s.Fail.Broken = true
		case 1:
			s.Fail.Before = 1 + m.IntN(3)
		default:
			s.Fail.Times = 1 + m.IntN(3)
		}
		if s.Fail.Class == "rate_limit" {
			s.Fail.Broken, s.Fail.Before, s.Fail.Times = false, 0, 1+m.IntN(3)
		}
		s.Fail.Mod = []int{0, 0, 2, 3}[m.IntN(4)]
		if s.Fail.Class == "hang" {
			s.LimitMS = s.TakesMS + 1 + m.IntN(5000)
		}
	}
}

func (m *maker) moved(before []*planStep, name string) bool {
	for _, b := range before {
		if b.Moves == name {
			return true
		}
	}
	return false
}

func (m *maker) loop(s *planStep, at scopeOf) {
	s.Kind = "foreach"
	for i := range 1 + m.IntN(4) {
		s.Values = append(s.Values, fmt.Sprintf("w%d", i))
	}
	if len(at.known) > 0 && m.one(3) {
		s.Values, s.Of = nil, at.known[m.IntN(len(at.known))]
	} else if !at.item && !at.again {
		s.Lists = m.one(2)
	}
	s.Together = 1 + m.IntN(3)
	s.Do = m.steps(1+m.IntN(2), scopeOf{loop: true, item: at.item})
}

func (m *maker) retry() *planRetry {
	r := &planRetry{Attempts: 1 + m.IntN(5), InitialMS: []int{0, 1, 50, 1000, 20000}[m.IntN(5)],
		Backoff: []string{"fixed", "linear", "exponential", "fibonacci"}[m.IntN(4)]}
	if m.one(2) {
		r.MaxMS = 1 + m.IntN(60000)
	}
	if m.one(3) {
		r.Jitter = []string{"factor", "full", "equal", "decorrelated"}[m.IntN(4)]
	}
	if m.one(4) {
		r.BudgetMS = 1 + m.IntN(100000)
	}
	if m.one(6) {
		r.Only = []string{"network", "timeout"}[m.IntN(2)]
	}
	if m.one(10) {
		r.BreakerAt = 1 + m.IntN(4)
	}
	return r
}

func (m *maker) fault() fault {
	f := fault{Tick: 1 + m.IntN(12)}
	if m.one(2) {
		f.Tick = 1 + m.IntN(150)
	}
	switch m.IntN(8) {
	case 0:
		f.Interrupt = true
	case 1:
		f.Lose = m.IntN(40)
	case 2, 3, 4:
		f.Lose = m.IntN(5)
	}
	f.JumpMS = []int64{0, 0, 1, 3, 40, 999, 60_000, 3_600_000, 86_400_000, 400 * 86_400_000, -1, -5000, -3_600_000, -86_400_000}[m.IntN(14)]
	return f
}

// every calls f with each step of the plan, an outer step before those inside it.
func (p *plan) every(f func(*planStep)) {
	var all func([]*planStep)
	all = func(list []*planStep) {
		for _, s := range list {
			f(s)
			all(s.Do)
			all(s.OnFail)
		}
	}
	for _, list := range [][]*planStep{p.Setup, p.Steps, p.Reduce, p.Sub, p.Handler} {
		all(list)
	}
}

// file gives the workflow file of a plan, as JSON.
func (p *plan) file() []byte {
	f := map[string]any{"name": "whole", "agents": map[string]any{"claude": map[string]any{"command": []string{"true"}}}}
	if p.Chain {
		agents := f["agents"].(map[string]any)
		agents["other"] = map[string]any{"command": []string{"true"}}
		agents["coder"] = map[string]any{"first_of": []string{"claude", "other"}}
		if p.Limited {
			agents["other"].(map[string]any)["limits"] = []string{"c-agent"}
		}
	}
	if p.Secret {
		f["secrets"] = map[string]any{"S": planSecret}
	}
	if p.TimeoutMS > 0 {
		f["timeout"] = millis(p.TimeoutMS)
	}
	if p.MaxCost > 0 {
		f["max_cost"] = p.MaxCost
	}
	if p.calls() {
		f["imports"] = []any{map[string]any{"path": "sub.yml", "alias": "sub"}}
	}
	if p.Items == 0 {
		f["commands"] = p.yamlSteps(p.Steps)
		return encoded(f)
	}
	f["mode"] = "mapreduce"
	if p.Strict {
		f["durability"] = "strict"
	}
	if len(p.Setup) > 0 {
		f["setup"] = p.yamlSteps(p.Setup)
	}
	var items []any
	for i := range p.Items {
		items = append(items, map[string]any{"id": fmt.Sprintf("i%d", i+1), "v": itemValue(i + 1), "n": i + 1, "odd": i%2 == 0})
	}
	m := map[string]any{"input": items, "max_parallel": p.Parallel, "agent_template": p.yamlSteps(p.Steps)}
	if p.Width != "" {
		m["max_parallel"] = json.RawMessage(p.Width)
	}
	if p.Canary > 0 {
		m["canary"] = p.Canary
	}
	if p.Limited {
		m["limits"] = []string{"a-item"}
	}
	if p.AgentMS > 0 {
		m["agent_timeout"] = millis(p.AgentMS)
	}
	f["map"] = m
	if p.StartMS > 0 {
		f["start_delay"] = millis(p.StartMS)
	}
	if len(p.Reduce) > 0 {
		f["reduce"] = p.yamlSteps(p.Reduce)
	}
	f["error_policy"] = p.policy(f)
	return encoded(f)
}

// calls reports whether a step runs the other file. If none does, the file must not be
// imported: its steps would become steps of the workflow.
func (p *plan) calls() (does bool) {
	p.every(func(s *planStep) { does = does || s.Kind == "call" })
	return does
}

// subFile gives the file that steps of kind call run.
func (p *plan) subFile() []byte {
	return encoded(map[string]any{"parameters": map[string]any{"optional": []any{map[string]any{"name": "p", "default": "none"}}}, "commands": p.yamlSteps(p.Sub)})
}

// policy gives the error policy of the map.
func (p *plan) policy(f map[string]any) map[string]any {
	e := map[string]any{"max_recoveries": 1000}
	switch p.OnItem {
	case "":
	case "custom":
		e["on_item_failure"] = map[string]any{"custom": "mend"}
		f["handlers"] = map[string]any{"mend": p.yamlSteps(p.Handler)}
	default:
		e["on_item_failure"] = p.OnItem
	}
	if p.ItemRetry != nil {
		r := p.ItemRetry.yaml()
		r["max_attempts"] = r["attempts"]
		delete(r, "attempts")
		delete(r, "circuit_breaker")
		e["retry_config"] = r
	}
	if p.MaxFailures > 0 {
		e["max_failures"] = p.MaxFailures
	}
	if p.Threshold > 0 {
		e["failure_threshold"] = p.Threshold
	}
	if p.StopAtFirst {
		e["continue_on_failure"] = false
	}
	if p.SameError != "" {
		e["same_error"] = json.RawMessage(p.SameError)
	}
	if p.BreakerAt > 0 {
		e["circuit_breaker"] = map[string]any{"failure_threshold": p.BreakerAt, "timeout": "20s"}
	}
	return e
}

// itemValue gives the value in an item.
func itemValue(i int) string { return fmt.Sprintf("val%d", i*i) }

func millis(n int) string { return fmt.Sprintf("%dms", n) }

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func (p *plan) yamlSteps(list []*planStep) (out []any) {
	for _, s := range list {
		out = append(out, p.yaml(s))
	}
	return out
}

func (p *plan) yaml(s *planStep) map[string]any {
	y := map[string]any{"name": s.Name}
	switch s.Kind {
	case "foreach":
		y["foreach"] = any(s.Values)
		if s.Of != "" {
			y["foreach"] = "${c" + s.Of + "}"
		}
		if s.Lists {
			y["foreach"] = "list|" + s.Name
		}
		y["do"], y["parallel"] = p.yamlSteps(s.Do), s.Together
	case "call":
		y["workflow"], y["with"] = "sub", map[string]any{"p": s.Name}
	case "agent":
		name := "claude"
		if p.Chain {
			name = "coder"
		}
		y[name] = s.text()
	default:
		if y["shell"] = s.text(); p.Limited {
			y["limits"] = []string{"b-step"}
		}
	}
	if s.Retry != nil {
		y["retry"] = s.Retry.yaml()
	}
	if len(s.OnFail) > 0 {
		h := map[string]any{"commands": p.yamlSteps(s.OnFail)}
		if s.Rounds > 1 {
			h["max_attempts"] = s.Rounds
		}
		if s.Fatal {
			h["fail_workflow"] = true
		}
		y["on_failure"] = h
	}
	if s.MayFail {
		y["continue_on_error"] = true
	}
	if s.Capture {
		y["capture"] = "c" + s.Name
		if s.JSON {
			y["capture_format"] = "json"
		}
	}
	if s.WhenOdd {
		y["when"] = "item.odd"
	}
	if s.LimitMS > 0 {
		y["timeout"] = millis(s.LimitMS)
	}
	return y
}

// text gives the command for the model of a shell: the step's name and its arguments.
func (s *planStep) text() string {
	words := []string{"do", s.Name}
	for _, a := range s.Args {
		words = append(words, a.yaml())
	}
	return strings.Join(words, "|")
}

func (a planArg) yaml() string {
	switch a.Kind {
	case "item":
		return "${item.v}"
	case "index":
		return "${item_index}"
	case "capture":
		return "${c" + a.Of + "}"
	case "sets":
		return "${v" + a.Of + "}"
	case "secret":
		return "${S}"
	case "value":
		return "${foreach.item}"
	case "at":
		return "${foreach.index}"
	case "round":
		return "${test.attempt}"
	case "param":
		return "${p}"
	case "results":
		return "${map.results_json}"
	case "told":
		return "${error." + a.Of + "}"
	}
	return a.Of
}

func (r *planRetry) yaml() map[string]any {
	y := map[string]any{"attempts": r.Attempts, "backoff": r.Backoff, "initial_delay": millis(r.InitialMS)}
	if r.MaxMS > 0 {
		y["max_delay"] = millis(r.MaxMS)
	}
	if r.Jitter != "" {
		y["jitter"] = r.Jitter
	}
	if r.BudgetMS > 0 {
		y["retry_budget"] = millis(r.BudgetMS)
	}
	if r.Only != "" {
		y["retry_on"] = []any{r.Only}
	}
	if r.BreakerAt > 0 {
		y["circuit_breaker"] = map[string]any{"failure_threshold": r.BreakerAt, "timeout": "10s"}
	}
	return y
}

// produced gives the output of a step that succeeds. args are all of its arguments except
// the results of a map, and item is its item, 0 outside of the map.
func produced(s *planStep, item int, args []string) string {
	if s.JSON { // which no reader and no writer changes
		return fmt.Sprintf(`{"n":12345678901234567890.50,"t":%q}`, content(s, item, args))
	}
	if s.Size == 0 {
		return ""
	}
	b := []byte(content(s, item, args))
	for i := len(b); i < s.Size; i++ {
		b = append(b, "0123456789abcdef"[i%16])
	}
	if s.Leak {
		end := 100 // the end of the piece before: pieces do not overlap
		for _, at := range []int{2040, len(b) - 2050, 8180, len(b) - 8200} {
			if at > end && at+len(planSecret) < len(b) {
				end = at + copy(b[at:], planSecret)
			}
		}
		b = append(append(b, planSecret...), '.')
	}
	if s.Bytes {
		b = append(b, wildBytes...)
	}
	return string(b)
}

// wildBytes are no UTF-8: a byte that is none, and a rune that is cut.
const wildBytes = "\xff.\xe2\x82"

// printed gives what a step that fails has printed, and its message.
func (s *planStep) printed() (output, message string) {
	output, message = "printed by "+s.Name, s.Name+" failed"
	if s.Leak {
		output += planSecret
		message += strings.Repeat("x", 4080) + planSecret
	}
	if s.Bytes {
		output += wildBytes
		message += wildBytes
	}
	return output, message
}

// content gives what a step writes into its file.
func content(s *planStep, item int, args []string) string {
	h := fnv.New32a()
	for _, a := range args {
		h.Write([]byte(a + "\x00"))
	}
	return fmt.Sprintf("%s.%d.%08x", s.Name, item, h.Sum32())
}

// set gives the value of the variable that a step sets.
func set(s *planStep, item int, args []string) string { return "set." + content(s, item, args) }

// fileFor gives the name of a step's file: for an item, and for a round of a loop or of a
// handler.
func fileFor(s *planStep, item int, args []string) string {
	name := fmt.Sprintf("%d/%s", item, s.Name)
	if s.Apart && len(args) > 0 {
		name += "@" + args[0]
	}
	return name
}
