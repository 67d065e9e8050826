package worst

import (
	"fmt"
	"github.com/bide-dev/bide/internal/bound"
	"maps"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/workflow"
)

// steps plans steps that run one after another. What they set is added to the
// scope.
func (b *builder) steps(list []*workflow.Step, at surroundings) ([]*Step, bound.Cost) {
	out := make([]*Step, 0, len(list))
	var total bound.Cost
	for _, s := range list {
		p := b.step(s, at)
		out = append(out, p)
		total = total.Plus(p.Worst)
	}
	return out, total
}

// inTime bounds steps by what they are inside of: none of them takes longer. 0
// is no bound.
func inTime(list []*Step, d time.Duration) {
	for _, s := range list {
		s.Worst = s.Worst.Within(d)
		for _, g := range s.Groups {
			inTime(g.Steps, d)
		}
	}
}

// stepPlan is a step in the making.
type stepPlan struct {
	*builder
	*Step
	of *workflow.Step
	at surroundings
	// once is what surrounds one execution of the action: the loops around the
	// step, its rounds and its attempts.
	once surroundings
}

func (b *builder) step(s *workflow.Step, at surroundings) *Step {
	p := stepPlan{builder: b, of: s, at: at}
	p.Step = &Step{Path: s.Path, Line: s.Pos.Line, Label: s.Label(), ID: s.ID, Action: s.Action.Kind(), Text: workflow.ActionText(s.Action),
		Rounds: 1, Afterwards: afterwards(s), Sets: sets(s)}
	if a, ok := s.Action.(*workflow.Claude); ok {
		if p.Agent = a.Provider; p.Agent == "" {
			p.Agent = "claude"
		}
	}
	if s.When != nil {
		p.When = s.When.String()
	}
	if s.WorkingDir != nil {
		p.Dir = s.WorkingDir.String()
	}
	here := at.scope.child()
	for _, v := range s.Env {
		here.set(v.Name)
	}
	p.Variables = here.list()
	p.takes()
	p.Retry = b.retryOf(s.Retry, called(s))
	p.Timeout = limit(s.Timeout)
	if p.Timeouts = s.Timeouts; len(s.Timeouts) > 0 {
		p.Timeout = Limit{D: slices.Max(s.Timeouts)} // which bounds each of them
	}
	p.Stall = limit(s.Stall)
	if s.Retry != nil {
		p.Timeout = least(p.Timeout, Limit{D: s.Retry.Timeout})
	}
	p.Rounds = s.Rounds()
	p.multiply()
	p.Worst = p.cost(here)
	if !p.Worst.Time.Open {
		for _, g := range p.Groups {
			inTime(g.Steps, p.Worst.Time.D)
		}
	}
	at.scope.join(p.after(), s.When != nil)
	return p.Step
}

// after are the variables that the step leaves.
func (p *stepPlan) after() scope {
	out := scope{}
	out.set(p.Sets...)
	out["step.*"] = true // in a git repository
	if p.Retry != nil && p.Retry.OnFailure == "fallback" {
		out["error.*"] = true
	}
	return out
}

// afterwards says what a failure for good of a step means, and what becomes of
// one that stays below the score that it has to reach.
func afterwards(s *workflow.Step) string {
	text := failedForGood(s)
	if h := s.OnFailure; h != nil && h.Timeout.Set {
		text += "; its handler has " + limit(h.Timeout).String()
	}
	v, isCheck := s.Action.(*workflow.Validate)
	if !isCheck {
		v = s.Validate
	}
	if v != nil {
		text += "; " + below(v)
	}
	if g, ok := s.Action.(*workflow.GoalSeek); ok {
		then := "it ends well all the same"
		if g.FailOnIncomplete {
			then = "it fails"
		}
		text += fmt.Sprintf("; below %g %% after %d attempts %s", g.Threshold, g.Rounds(), then)
	}
	return text
}

// below says what becomes of a step whose validation stays below its threshold.
func below(v *workflow.Validate) string {
	after, then := "", "the next step runs"
	if n := v.Completions(); n > 0 {
		after = fmt.Sprintf(" after %d completions", n)
	}
	if v.Required() {
		then = "it fails"
	}
	return fmt.Sprintf("below %g %%%s %s", v.Threshold, after, then)
}

func failedForGood(s *workflow.Step) string {
	h := s.OnFailure
	switch {
	case s.Unmended():
		return "tolerated: the next step runs, and the exit status is 3, as the file does not write fail_workflow"
	case s.Retry != nil && s.Retry.OnFailure == "continue", s.Tolerated():
		return "tolerated: the next step runs"
	case h != nil && h.Recovers():
		return "recovered if the handler ends well, else what is around it fails"
	}
	return "what is around it fails"
}

// multiply works out how often the action is executed.
func (p *stepPlan) multiply() {
	var own []Factor
	if n := p.Retry.attempts(); n != bound.Number(1) {
		own = append(own, Factor{n, "attempts"})
	}
	if p.Rounds > 1 {
		own = append(own, Factor{bound.Number(p.Rounds), "rounds with its handler"})
	}
	p.Factors = append(own, p.at.factors...)
	p.Executions = bound.Count{N: 1}
	for _, f := range p.Factors {
		p.Executions = p.Executions.Times(f.Times)
	}
	if p.Factors == nil {
		p.Factors = []Factor{}
	}
	p.once = p.at
	p.once.factors = p.Factors
}

// cost is the worst case of a step, from the inside outwards: the action, its
// check, the attempts with their waits, the fallback, the rounds with the
// handler, and what follows a good end.
func (p *stepPlan) cost(here scope) bound.Cost {
	s := p.of
	op := p.Retry.cost(p.action(here).Plus(p.check()))
	if s.Retry != nil && s.Retry.OnFailure == "fallback" {
		op = op.Plus(p.leaf(s, s.Retry.FallbackAction(), limit(s.Timeout)))
	}
	total := op
	if h, runs := s.OnFailure, s.Handlings(); runs > 0 && len(h.Steps) > 0 {
		handler := p.within(p.group("on_failure", h.Steps, bound.Number(runs), "runs of the handler", "error.*", "test.*"), limit(h.Timeout), h.Pos, "the on_failure of "+called(s))
		inTime(p.Groups[len(p.Groups)-1].Steps, limit(h.Timeout).D)
		total = op.Times(bound.Number(p.Rounds)).Plus(handler.Times(bound.Number(runs)))
	}
	var codes bound.Cost
	for _, code := range slices.Sorted(maps.Keys(s.OnExitCode)) {
		codes = bound.Larger(codes, p.group(fmt.Sprintf("on_exit_code %d", code), s.OnExitCode[code], bound.Number(1), "", "error.*"))
	}
	total = total.Plus(codes)
	if s.Validate != nil {
		total = total.Plus(p.validate(s.Validate, p.at))
	}
	if len(s.OnSuccess) > 0 {
		total = total.Plus(p.group("on_success", s.OnSuccess, bound.Number(1), ""))
	}
	return total
}

// group plans steps that belong to the step and run times times for each run
// of it. The cost is that of one time. What they set may be missing afterwards.
func (p *stepPlan) group(as string, steps []*workflow.Step, times bound.Count, of string, more ...string) bound.Cost {
	return p.groupIn(p.at, as, steps, times, of, more...)
}

func (p *stepPlan) groupIn(at surroundings, as string, steps []*workflow.Step, times bound.Count, of string, more ...string) bound.Cost {
	sc := at.scope.child(p.Sets...)
	sc.set(more...)
	in := at.inside(sc)
	if of != "" && times != bound.Number(1) {
		in = at.inside(sc, Factor{times, of})
	}
	list, c := p.steps(steps, in)
	p.Groups = append(p.Groups, Group{As: as, Times: times, Steps: list})
	at.scope.join(sc, true)
	p.at.scope.join(sc, true)
	return c
}

// leaf is the cost of one attempt of an action that is no step's own.
func (p *stepPlan) leaf(s *workflow.Step, a workflow.Action, own Limit) bound.Cost {
	l := least(own, workflow.CommandLimit(p.at.limits, s, a))
	return p.attempt(a, l)
}

// attempt is the cost of an attempt of an action that is not made of steps.
func (b *builder) attempt(a workflow.Action, l Limit) bound.Cost {
	if _, web := a.(*workflow.HTTP); web { // which is left alone
		return bound.Attempt(l.D, bound.Span{})
	}
	return bound.Attempt(l.D, b.grace)
}

// action is the cost of one attempt of the action.
func (p *stepPlan) action(here scope) bound.Cost {
	in := p.holding(p.once)
	in.scope = here
	switch a := p.of.Action.(type) {
	case *workflow.WriteFile, *workflow.Analyze:
		return bound.Cost{}
	case *workflow.Foreach:
		return p.capped(p.foreach(a, in))
	case *workflow.Validate:
		return p.capped(p.validate(a, in))
	case *workflow.GoalSeek:
		return p.capped(p.goalSeek(a, in))
	case *workflow.Call:
		return p.capped(p.call(a, in))
	case *workflow.Pipeline:
		return p.capped(bound.Unknown())
	}
	p.Timeout = least(p.Timeout, workflow.CommandLimit(p.at.limits, p.of, p.of.Action))
	return p.attempt(p.of.Action, p.Timeout)
}

// capped is a cost within the timeout of an attempt.
func (p *stepPlan) capped(c bound.Cost) bound.Cost {
	return p.within(c, p.Timeout, p.of.Pos, called(p.of))
}

func (p *stepPlan) foreach(a *workflow.Foreach, in surroundings) bound.Cost {
	n := bound.Count{N: int64(len(a.List)), Open: a.Text != nil || a.Input != nil}
	if a.MaxItems.Text == nil && a.MaxItems.N > 0 && (n.Open || int64(a.MaxItems.N) < n.N) {
		n = bound.Number(a.MaxItems.N)
	}
	before := in.scope
	in.scope = in.scope.child() // each round has variables of its own
	one := p.loop(in, "do", a.Do, n, "values of the foreach", "item", "index", "total", "foreach.*")
	in.scope = before
	rounds := n
	par := a.Parallel
	if a.Adaptive != nil { // which may keep to its least
		par.N = a.Adaptive.Defaults().Min
	}
	if par.Text == nil && par.N > 1 && !n.Open {
		rounds.N = (n.N + int64(par.N) - 1) / int64(par.N)
	}
	c := p.within(one.Times(rounds), limit(a.Timeout), p.of.Pos, "the foreach "+called(p.of))
	if a.Command() { // which gives the values before their time begins
		c = c.Plus(p.leaf(&workflow.Step{}, &workflow.Shell{}, Limit{}))
	}
	return c
}

// loop plans steps in rounds that have variables of their own.
func (p *stepPlan) loop(in surroundings, as string, steps []*workflow.Step, times bound.Count, of string, more ...string) bound.Cost {
	sc := in.scope.child(more...)
	list, c := p.steps(steps, in.inside(sc, Factor{times, of}))
	p.Groups = append(p.Groups, Group{As: as, Times: times, Steps: list})
	in.scope.join(sc, true)
	return c
}

// validate is the validation, and below its threshold what completes it, each
// time followed by another validation.
func (p *stepPlan) validate(v *workflow.Validate, in surroundings) bound.Cost {
	again := v.Completions()
	c := p.groupIn(in, "validate", v.Steps, bound.Number(again+1), "validations")
	c = p.within(c, limit(v.Timeout), v.Pos, "the validation of "+called(p.of)).Times(bound.Number(again + 1))
	if inc := v.OnIncomplete; inc != nil {
		c = c.Plus(totalWaits(inc.RetryDelay.D, again))
		if len(inc.Steps) > 0 {
			c = c.Plus(p.groupIn(in, "on_incomplete", inc.Steps, bound.Number(again), "completions", "validation.*").Times(bound.Number(again)))
		}
	}
	return c
}

func (p *stepPlan) goalSeek(g *workflow.GoalSeek, in surroundings) bound.Cost {
	n := bound.Number(g.Rounds())
	c := p.loop(in, "do", g.Do, n, "attempts at the goal", "goal.*", "validation.*")
	c = c.Plus(p.loop(in, "validate", g.Validate, n, "attempts at the goal", "goal.*", "validation.*", "last.*"))
	return p.within(c.Times(n), limit(g.Timeout), p.of.Pos, "the goal_seek "+called(p.of))
}

// call is the steps of another workflow.
func (p *stepPlan) call(a *workflow.Call, in surroundings) bound.Cost {
	t := a.Target
	if t == nil || t.File == nil || slices.Contains(p.visited, t.File) {
		return bound.Unknown()
	}
	p.visited = append(p.visited, t.File)
	defer func() { p.visited = p.visited[:len(p.visited)-1] }()
	sc := parameters(in.scope, t)
	for _, arg := range a.With {
		sc.set(arg.Name)
	}
	list, c := p.steps(t.File.Steps, in.inside(sc))
	p.Groups = append(p.Groups, Group{As: "workflow " + a.Workflow, Times: bound.Number(1), Steps: list})
	return p.within(c, timeoutOf(t), t.Pos, "workflow "+a.Workflow)
}

// timeoutOf is what bounds a call of another workflow.
func timeoutOf(w *workflow.SubWorkflow) Limit {
	var out Limit
	for _, d := range w.Timeouts() {
		out = least(out, limit(d))
	}
	return out
}

// check is the cost of step_validate, which follows each attempt.
func (p *stepPlan) check() bound.Cost {
	c := p.of.Check
	if c == nil {
		return bound.Cost{}
	}
	var once bound.Cost
	n := c.Rounds()
	in := p.once.inside(p.at.scope.child(p.Sets...))
	if n > 1 {
		in = p.once.inside(in.scope, Factor{bound.Number(n), "checks"})
	}
	var list []*Step
	for _, cmd := range c.Commands {
		s := p.step(cmd.Step, in)
		list = append(list, s)
		once = once.Plus(s.Worst)
	}
	p.Groups = append(p.Groups, Group{As: "step_validate", Times: bound.Number(n), Steps: list})
	total := once.Times(bound.Number(n)).Plus(totalWaits(c.RetryDelay.D, n-1))
	return p.within(total, limit(c.Timeout), c.Pos, "the step_validate of "+called(p.of))
}
