package worst

import (
	"cmp"
	"fmt"
	"github.com/bide-dev/bide/internal/bound"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/mergequeue"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

// builder makes a plan of a file.
type builder struct {
	plan *Plan
	// visited are the files whose steps are being planned, so that no circle of
	// calls goes round.
	visited []*workflow.File
	agents  map[string]*workflow.Agent
	asked   bool // servers ask for waits as long as they may
	// grace is how long a command that is told to end continues, until it is killed.
	grace bound.Span
}

// surroundings are what the step of a file has around it.
type surroundings struct {
	scope   scope
	factors []Factor         // innermost first
	limits  map[string]Limit // of commands, by kind
	held    []string         // limits of the machine
}

func (a surroundings) inside(sc scope, f ...Factor) surroundings {
	a.scope = sc
	a.factors = append(slices.Clone(f), a.factors...)
	return a
}

// Explain gives the effective plan of a file that has no errors. It is pure:
// nothing is read, run or looked up.
func Explain(f *workflow.File) *Plan {
	p := (&builder{}).explain(f)
	if asked := (&builder{asked: true}).explain(f).Worst; asked != p.Worst {
		p.Asked = &asked
	}
	killed := (&builder{grace: bound.Span{D: workflow.DefaultGrace}}).explain(f).Worst
	if !p.Worst.Time.Open && killed.Time != p.Worst.Time {
		p.Killed = &killed
	}
	return p
}

func (b *builder) explain(f *workflow.File) *Plan {
	p := &Plan{Path: f.Path, Name: f.Name, Description: f.Description, Kind: f.Kind.String(), Isolation: f.Isolation,
		Durability: f.Durability, Timeout: limit(f.Timeout), Iterations: max(f.MaxIterations, 1),
		Findings: diag.List{}}
	p.Where, p.Uncommitted = where(f), leftUncommitted(f)
	b.plan, b.visited, b.agents = p, []*workflow.File{f}, workflow.AllAgents(f)
	sc := initial(f)
	total := b.subWorkflows(f, sc)
	if f.Kind == workflow.MapReduce {
		total = total.Plus(b.mapReduce(f, sc))
	} else {
		at := surroundings{scope: sc}
		if p.Iterations > 1 {
			at = at.inside(sc, Factor{bound.Number(p.Iterations), "iterations"})
		}
		ph := b.phase("commands", &workflow.Block{Pos: f.Pos, Steps: f.Steps}, p.Where, at)
		total = total.Plus(ph.Worst.Times(bound.Number(p.Iterations)))
	}
	p.Worst = b.within(total, p.Timeout, f.Pos, "the workflow")
	for _, ph := range p.Phases {
		inTime(ph.Steps, p.Timeout.D)
	}
	if f.Merge != nil { // which the timeout of the workflow does not bound, nor what follows
		at := surroundings{scope: sc.child("merge.*")}
		times := bound.Number(1)
		if m := p.Map; m != nil && f.Queue == nil && f.Isolation != "none" {
			times = conflicts(m)
			at = at.inside(at.scope, Factor{times, "merges: of items in conflict, and of the run"})
		}
		p.Worst = p.Worst.Plus(b.phase("merge", f.Merge, "in the git worktree of the run", at).Worst.Times(times))
	}
	if f.Finally != nil {
		p.Worst = p.Worst.Plus(b.phase("finally", f.Finally, "in place, in the directory it is started in", surroundings{scope: sc}).Worst)
	}
	p.Findings.Sort()
	p.Findings = slices.CompactFunc(p.Findings, func(x, y diag.Problem) bool {
		return x.Pos == y.Pos && x.Message == y.Message // of a workflow that is called several times
	})
	return p
}

// conflicts is how often the steps of merge run at most: for each attempt at an item, whose
// work may be in conflict, and once at the end.
func conflicts(m *Map) bound.Count {
	n := m.Items
	if r := m.Retry; r != nil && r.Attempts > 0 {
		n = n.Times(bound.Number(r.Attempts))
	} else if r != nil {
		n.Open = true
	}
	n.N++
	return n
}

func where(f *workflow.File) string {
	const own, place = "in a git worktree of the run", "in place, in the directory it is started in"
	switch {
	case f.Isolation == "worktree":
		return own
	case f.Isolation == "none" || !workflow.NeedsIsolation(f):
		return place
	}
	return own + " where the directory is a git repository, else in place"
}

// leftUncommitted says what becomes of files that steps leave uncommitted; "" where all
// of them work in place.
func leftUncommitted(f *workflow.File) string {
	switch {
	case f.Isolation == "none" || f.Isolation == "auto" && !workflow.NeedsIsolation(f):
		return ""
	case f.CommitsLeft() && f.ItemsCommitLeft():
		return "is committed at the end, and merged"
	}
	return "is not merged (auto_commit: false); the exit status is 3 then"
}

func (b *builder) phase(name string, block *workflow.Block, where string, at surroundings) *Phase {
	return b.timed(name, block, limit(block.Timeout), where, at)
}

// timed is a phase with a timeout.
func (b *builder) timed(name string, block *workflow.Block, timeout Limit, where string, at surroundings) *Phase {
	ph := &Phase{Name: name, Where: where, Timeout: timeout, Variables: at.scope.list()}
	b.plan.Phases = append(b.plan.Phases, ph)
	var c bound.Cost
	ph.Steps, c = b.steps(block.Steps, at)
	ph.Worst = b.within(c, ph.Timeout, block.Pos, name)
	inTime(ph.Steps, ph.Timeout.D)
	return ph
}

// subWorkflows plans the `workflows:` that run before the steps.
func (b *builder) subWorkflows(f *workflow.File, sc scope) bound.Cost {
	var total bound.Cost
	batches, _ := workflow.Batches(f.Workflows)
	for _, list := range batches {
		var longest bound.Cost
		for _, w := range list {
			if w.File != nil {
				longest = bound.Larger(longest, b.subWorkflow(w, sc))
			}
		}
		for _, w := range list {
			sc.set(w.Outputs...)
			if len(w.Outputs) > 0 {
				sc.set(w.Name + ".*")
			}
		}
		total = total.Plus(longest)
	}
	return total
}

func (b *builder) subWorkflow(w *workflow.SubWorkflow, sc scope) bound.Cost {
	b.visited = append(b.visited, w.File)
	defer func() { b.visited = b.visited[:len(b.visited)-1] }()
	block := &workflow.Block{Pos: w.Pos, Steps: w.File.Steps}
	return b.timed("workflows."+w.Name, block, timeoutOf(w), b.plan.Where, surroundings{scope: parameters(sc, w)}).Worst
}

// parameters is the scope of the steps of another workflow.
func parameters(sc scope, w *workflow.SubWorkflow) scope {
	out := sc.child()
	for _, p := range w.File.Params {
		out[p.Name] = !p.HasValue && !p.Required
	}
	for _, a := range w.With {
		out.set(a.Name)
	}
	for name := range w.Inputs {
		out.set(name)
	}
	for _, v := range w.File.Env {
		out.set(v.Name)
	}
	return out
}

func (b *builder) mapReduce(f *workflow.File, sc scope) bound.Cost {
	var total bound.Cost
	if f.Setup != nil {
		total = b.phase("setup", f.Setup, b.plan.Where, surroundings{scope: sc}).Worst
		for _, o := range f.Setup.Outputs {
			sc.set(o.Name)
		}
	}
	if f.Map != nil {
		total = total.Plus(b.mapPhase(f, sc))
	}
	sc.set("map.*")
	if f.Reduce != nil {
		total = total.Plus(b.phase("reduce", f.Reduce, b.plan.Where, surroundings{scope: sc}).Worst)
	}
	return total
}

// mapPhase plans the agents of a map.
func (b *builder) mapPhase(f *workflow.File, sc scope) bound.Cost {
	m, ep := f.Map, f.Policy
	out := &Map{Input: inputText(m), Items: items(m), AgentTimeout: limit(m.AgentTimeout),
		Policy: cmp.Or(m.TimeoutPolicy, "per_agent"), OnFailure: onItemFailure(ep), Stops: stops(m, ep), Alone: alone(m.Canary), Held: held(m, ep), Breaker: breaker(ep.Breaker)}
	out.Parallel, out.Finds = atOnce(m)
	out.Limits = TakenBy(workflow.LimitNames(m.ItemLimits)...)
	b.plan.Map = out
	out.Select = selection(m)
	out.Retry = b.retryOf(ep.Retry, "the items' retry_config")
	if pol := ep.ItemRetry(); out.Retry == nil && pol != nil {
		out.Retry = describe(*pol)
		out.Retry.delays(*pol, bound.Asked{Servers: b.asked})
	}
	agents := out.Retry.attempts()

	at := surroundings{scope: sc.child("item", "item.*", "item_json", "item_id", "item_index", "item_total", "attempt", "BIDE_ATTEMPT", "BIDE_ITEM"), limits: commandLimits(m), held: workflow.LimitNames(m.ItemLimits)}
	at.scope["BIDE_RECOVERED"] = true
	if agents != bound.Number(1) {
		at = at.inside(at.scope, Factor{agents, "agents of an item"})
	}
	place := b.plan.Where
	if f.Isolation != "none" && (f.Isolation == "worktree" || workflow.NeedsIsolation(f)) {
		place = "each agent in a git worktree of its own, where the run has one"
	}
	if b.grace.D > 0 {
		before := b.grace
		b.grace = bound.Span{D: m.TimeoutGrace.D, Open: m.TimeoutGrace.Text != nil}
		defer func() { b.grace = before }()
	}
	ph := b.phase("map", m.Template, place, at)
	agent, _ := m.Limits()
	out.Agent = b.within(ph.Worst.Plus(b.evidence(m, place, at)), limit(agent), m.Pos, "the agent")
	inTime(ph.Steps, limit(agent).D)
	out.refusals(m.Template.Steps, ep.ItemRetry())
	out.Item = out.Retry.cost(out.Agent)
	if t := budgetTime(m); t > 0 {
		out.Item.Time, out.Agent.Time = running(out.Item, t), running(out.Agent, t)
	}
	var handling bound.Cost
	if h := f.Handlers[ep.Handler]; ep.OnItemFailure == "custom" && len(h) > 0 {
		hat := surroundings{scope: at.scope.child("error.*"), limits: at.limits}
		handler := b.phase("handlers."+ep.Handler, &workflow.Block{Pos: h[0].Pos, Steps: h}, place, hat)
		handling = handler.Worst
	}
	out.Item = out.Item.Plus(handling)
	out.Queue, out.Budget = queue(f), itemBudget(m, out.Items)
	return b.checkBase(m, sc).Plus(whole(out, m, handling, limit(f.StartDelay))).Plus(b.mergeQueue(f, out.Items, sc))
}

// evidence plans the checks of an agent's work, which run again where the handler of one
// mended something.
func (b *builder) evidence(m *workflow.Map, place string, at surroundings) bound.Cost {
	if m.Evidence == nil || len(m.Evidence.Checks) == 0 {
		return bound.Cost{}
	}
	rounds := 1
	for _, s := range m.Evidence.Checks {
		if s.OnFailure != nil {
			rounds = workflow.MaxCheckRounds
			at = at.inside(at.scope, Factor{bound.Number(rounds), "rounds of the checks"})
			break
		}
	}
	return b.phase("map.evidence", &workflow.Block{Pos: m.Pos, Steps: m.Evidence.Checks}, place, at).Worst.Times(bound.Number(rounds))
}

// checkBase is what the checks take before the first item.
func (b *builder) checkBase(m *workflow.Map, sc scope) bound.Cost {
	if m.Evidence == nil {
		return bound.Cost{}
	}
	_, c := b.steps(m.Evidence.Checks, surroundings{scope: sc.child("item", "item.*", "item_id")})
	return c
}

// mergeQueue plans the verifies of a merge queue, and the steps that resolve conflicts. They
// run while agents do; at worst all of them run after the last agent.
func (b *builder) mergeQueue(f *workflow.File, items bound.Count, sc scope) bound.Cost {
	q := f.Queue
	if q == nil {
		return bound.Cost{}
	}
	steps := q.Verify
	if len(steps) == 0 && f.Map.Evidence != nil {
		steps = f.Map.Evidence.Checks
	}
	most := bound.Count{N: int64(mergequeue.Most(int(min(items.N, 1<<24)), q.Batch)), Open: items.Open}
	runs := bound.Count{N: (most.N + 1) * int64(q.Flaky+1), Open: most.Open} // and the merge into the user's branch
	at := surroundings{scope: sc}
	total := b.phase("merge_queue", &workflow.Block{Pos: q.Pos, Steps: steps}, "in a git worktree that has the merge", at.inside(sc, Factor{runs, "verifies"})).Worst.Times(runs)
	if len(q.Resolve) > 0 {
		at = at.inside(sc.child("merge.*"), Factor{most, "merges"})
		total = total.Plus(b.phase("merge_queue.resolve", &workflow.Block{Pos: q.Pos, Steps: q.Resolve}, "in a git worktree that has the merge", at).Worst.Times(most))
	}
	return total
}

// queue says how a merge queue works; "" without one.
func queue(f *workflow.File) string {
	if f.Queue == nil {
		return ""
	}
	e := policy.SameError{}
	if f.Policy.SameError != nil {
		e = *f.Policy.SameError
	}
	e = e.Defaults()
	order := "those that ended first come first"
	if f.Queue.Order == "index" {
		order = "those that stand first in the list come first"
	}
	text := fmt.Sprintf("at most %s are verified together, %s; a verify that fails runs %s", diag.Count(f.Queue.Batch, "item"), order, diag.Count(f.Queue.Flaky, "time")+" more")
	if f.Queue.Flaky == 0 {
		text = strings.TrimSuffix(text, "runs 0 times more") + "is believed"
	}
	if e.Stop {
		return text + "; where what is merged so far fails it, the run stops"
	}
	return text + fmt.Sprintf("; while what is merged so far fails it, the queue is held, for at most %s each time, which the worst case does not count", duration.Format(e.MaxHold))
}

// refusals lengthens the waits of items by those for breakers of their steps.
func (m *Map) refusals(steps []*workflow.Step, pol *retry.Policy) {
	if m.Retry == nil {
		return
	}
	for _, s := range steps {
		if s.Retry != nil && s.Retry.Breaker != nil {
			m.Retry.refusals(*pol, breaker(s.Retry.Breaker).Timeout)
		}
	}
}

// whole bounds the time of a map. At every moment before its end the item that
// ends last is running or waiting, or else all workers are busy with others, or
// nothing may begin: so the map lasts no longer than the work of the others shared
// among the workers, plus that item, plus the holds. handling is what the handler
// of an item that failed takes, delay the time between the first starts.
// Canaries run alone before: at worst one by one, and where an agent that takes too
// long ends an item that is no canary then, all items do.
func whole(m *Map, src *workflow.Map, handling bound.Cost, delay Limit) bound.Cost {
	parallel := src.Parallel
	if parallel.Text != nil || delay.Text != "" || m.Items.Open && (m.Item.Time.Open || m.Item.Time.D > 0) {
		return bound.Cost{Waits: m.Item.Waits, Time: bound.Span{Open: true}, Ending: m.Item.Ending}
	}
	if m.Items.N == 0 {
		return bound.Cost{}
	}
	agents := m.Retry.attempts()
	starts := bound.Count{N: m.Items.N, Open: m.Items.Open}.Times(agents)
	workers := max(1, parallel.N)
	held := bound.Span{D: policy.Ramp(delay.D, workers, starts.N)}
	if a := src.Adaptive; a != nil {
		workers = a.Defaults().Min
	}
	if br := m.Breaker; br != nil {
		// It opens after an agent, and half-open it lets fewer in.
		held = held.Plus(bound.Span{D: br.Timeout}.Times(bound.Count{N: max(starts.N-1, 0), Open: starts.Open}))
		workers = min(workers, br.HalfOpenRequests)
	}
	if c := src.Canary; c != nil {
		if src.TimeoutAction == "skip" {
			workers = 1
		}
		held = held.Plus(m.Item.Time.Times(bound.Count{N: min(int64(c.Items), m.Items.N), Open: m.Items.Open}))
	}
	work := running(m.Agent.Times(agents), budgetTime(src)).Plus(handling.Time).Times(bound.Count{N: m.Items.N - 1, Open: m.Items.Open})
	work.D /= time.Duration(workers)
	return bound.Cost{Waits: m.Item.Waits, Time: work.Plus(m.Item.Time).Plus(held), Ending: m.Item.Ending}
}

// commandLimits are those of the commands of agents.
func commandLimits(m *workflow.Map) map[string]Limit {
	out := map[string]Limit{}
	_, commands := m.Limits()
	for name, d := range commands {
		out[name] = limit(d)
	}
	return out
}

func inputText(m *workflow.Map) string {
	switch {
	case m.Input == nil:
		return fmt.Sprintf("a list of %d in the file", len(m.List))
	case m.InputKind != "":
		return m.InputKind + " " + m.Input.String()
	}
	return m.Input.String()
}

// items is how many items a map has at most.
func items(m *workflow.Map) bound.Count {
	n, said := m.AtMost()
	return bound.Count{N: int64(n), Open: !said}
}

// atOnce says how many items run at once, and where the map finds that out, what it begins
// with.
func atOnce(m *workflow.Map) (parallel, finds string) {
	if m.Adaptive == nil {
		return number(m.Parallel), ""
	}
	a := m.Adaptive.Defaults()
	begins := "as many as there are processors"
	if m.Adaptive.Min > 0 {
		begins = fmt.Sprint(a.Initial)
	}
	return fmt.Sprintf("%d to %d", a.Min, a.Max), "; the map finds out how many, and begins with " + begins
}

func number(n workflow.Int) string {
	if n.Text != nil {
		return n.Text.String()
	}
	return fmt.Sprint(n.N)
}

// selection lists which items are taken, in the order in which that is decided.
func selection(m *workflow.Map) []Field {
	var out []Field
	add := func(key, value string) {
		if value != "" && value != "0" {
			out = append(out, Field{key, value})
		}
	}
	add("json_path", m.JSONPath)
	if m.Filter != nil {
		add("filter", m.Filter.String())
	}
	if m.SortBy != nil {
		add("sort_by", m.SortBy.String())
	}
	if m.Distinct != nil {
		add("distinct", m.Distinct.String())
	}
	add("offset", number(m.Offset))
	add("max_items", number(m.MaxItems))
	add("min_items", number(m.MinItems))
	if m.Unchanged != nil {
		add("left out", "what is unchanged since an earlier run (skip_unchanged), of which nothing is known here")
	}
	if e := m.Evidence; e != nil {
		add("may change", texts(e.Paths))
		add("must not", texts(e.Protect))
	}
	return out
}

func texts(list []*template.Text) string {
	return strings.Join(value.Map(list, (*template.Text).String), ", ")
}

func onItemFailure(ep workflow.ErrorPolicy) string {
	switch ep.OnItemFailure {
	case "custom":
		return "the handler " + ep.Handler
	case "retry", "dlq":
		return "dead letter"
	}
	return ep.OnItemFailure
}

// running is the time of something that runs no longer than limit (0 is none), and waits as
// long as it does.
func running(c bound.Cost, limit time.Duration) bound.Span {
	bounded := c.Time.Within(limit).Plus(c.Waits)
	if limit == 0 || !c.Time.Open && c.Time.D <= bounded.D {
		return c.Time
	}
	return bounded
}

// budgetTime is how long the attempts at an item may run together; 0: any time.
func budgetTime(m *workflow.Map) time.Duration {
	if m.Budget == nil {
		return 0
	}
	return m.Budget.Time
}

// itemBudget says what an item may use, and all of them together.
func itemBudget(m *workflow.Map, n bound.Count) string {
	b := m.Budget
	if b == nil {
		return ""
	}
	var each, all []string
	if b.Cost > 0 {
		each = append(each, fmt.Sprintf("$%.2f", b.Cost))
		all = append(all, fmt.Sprintf("$%.2f", b.Cost*float64(n.N)))
	}
	if b.Tokens > 0 {
		each = append(each, fmt.Sprintf("%d tokens", b.Tokens))
		all = append(all, fmt.Sprintf("%s tokens", bound.Count{N: b.Tokens}.Times(n)))
	}
	if b.Time > 0 {
		each = append(each, duration.Format(b.Time)+" of running")
	}
	text := "at most " + strings.Join(each, ", ")
	if len(all) > 0 && !n.Open {
		text += fmt.Sprintf("; %s: %s", diag.Count(int(n.N), "item"), strings.Join(all, ", "))
	}
	if len(all) > 0 {
		text += "; an agent that tells only at its end what it used may have used more by then"
	}
	return text
}

// alone says how many items run before all others.
func alone(c *policy.Canary) string {
	switch {
	case c == nil:
		return ""
	case c.Need > 0 && c.Need < c.Items:
		return fmt.Sprintf("%d items run alone; the others start when %d of them have succeeded", c.Items, c.Need)
	}
	return fmt.Sprintf("%d items run alone; the others start when all of them have succeeded", c.Items)
}

// held says when the map is held, and for how long.
func held(m *workflow.Map, ep workflow.ErrorPolicy) string {
	if ep.SameError == nil || ep.SameError.Stop {
		return ""
	}
	e := ep.SameError.Defaults()
	when := fmt.Sprintf("when %d items failed alike", e.Count)
	if m.Canary != nil {
		when += ", or too many of the first items"
	}
	return fmt.Sprintf("%s: for at most %s each time, which the worst case does not count", when, duration.Format(e.MaxHold))
}

// stops says what ends a map before its items are finished.
func stops(m *workflow.Map, ep workflow.ErrorPolicy) string {
	few := ""
	var out []string
	if m.Canary != nil && (ep.SameError == nil || ep.SameError.Stop) {
		out = append(out, "when too many of the first items have failed for good")
	}
	if e := ep.SameError; e != nil && e.Stop {
		out = append(out, fmt.Sprintf("when %d items failed alike", e.Defaults().Count))
	}
	switch {
	case ep.OnItemFailure == "stop" || !ep.ContinueOnFailure:
		out = append(out, "when the first item has failed for good")
	case ep.MaxFailures == 1:
		out = append(out, "when 1 item has failed for good")
	case ep.MaxFailures > 1:
		out = append(out, fmt.Sprintf("when %d items have failed for good", ep.MaxFailures))
	}
	if n, said := m.AtMost(); said && n < policy.MinFinishedForThreshold && ep.FailureThreshold >= 0 {
		few = fmt.Sprintf(" (failure_threshold counts once %d items are finished, and there are %d at most)", policy.MinFinishedForThreshold, n)
	} else if ep.FailureThreshold >= 0 {
		out = append(out, fmt.Sprintf("when %.4g %% of the finished items or more have failed for good, once %d are finished", 100*ep.FailureThreshold, policy.MinFinishedForThreshold))
	}
	if len(out) == 0 {
		return "never because of failed items" + few
	}
	return strings.Join(out, ", or ") + few
}

// called is what a step is called in a finding.
func called(s *workflow.Step) string { return fmt.Sprintf("%q", s.Label()) }
