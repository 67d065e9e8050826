package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/bound"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/worst"
	"github.com/bide-dev/bide/retry"
)

// explainedPipeline is what explain prints for a pipeline, as JSON.
type explainedPipeline struct {
	Path     string            `json:"path"`
	Kind     string            `json:"kind"`
	Hash     string            `json:"hash"`
	Inputs   []explainedInput  `json:"inputs"`
	Calls    []explainedCall   `json:"calls"`
	Outputs  []explainedOutput `json:"outputs"`
	Critical []int             `json:"critical_path"` // indices in calls
	Worst    time.Duration     `json:"worst_case_ns"`
	Bounded  bool              `json:"bounded"` // false: a call on the way has no timeout
}

type explainedInput struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
}

type explainedOutput struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type explainedCall struct {
	Name     string          `json:"name"`
	Of       string          `json:"element_of,omitempty"` // pages[i]: the call is made for each element
	Module   string          `json:"module"`
	Line     int             `json:"line"`
	Column   int             `json:"column"`
	Options  []string        `json:"options,omitempty"` // in the order in which they apply, from the outside in
	Attempts bound.Count     `json:"attempts"`          // null: any number
	Timeout  time.Duration   `json:"timeout_ns,omitempty"`
	Delays   []time.Duration `json:"delays_ns,omitempty"` // at most, after each failed attempt
	Limits   []worst.Taken   `json:"limits,omitempty"`    // of the machine; each attempt holds them
	Priority *int            `json:"priority,omitempty"`  // of its requests for limits; nil: it uses none
	Worst    time.Duration   `json:"worst_case_ns"`
	Bounded  bool            `json:"bounded"`
	Element  bool            `json:"per_element,omitempty"`
	Maybe    bool            `json:"conditional,omitempty"`
	sum      string
}

// explainPipeline shows the calls of a pipeline, what each can cost, and the longest path
// through them.
func (s *streams) explainPipeline(p *dataflow.Pipeline) error {
	x := explain(p)
	if slices.ContainsFunc(x.Calls, func(c explainedCall) bool { return len(c.Limits) > 0 }) {
		c, err := machineLimits()
		if err != nil {
			return err
		}
		for i := range x.Calls {
			worst.OnMachine(x.Calls[i].Limits, c)
		}
	}
	if s.json {
		return printJSON(s.out, x)
	}
	w := planWriter{palette: s.palette(s.out), width: s.columns(s.out)}
	w.pipeline(x)
	return s.print(w.String())
}

func explain(p *dataflow.Pipeline) *explainedPipeline {
	est := worst.Calls(p.Plan)
	x := &explainedPipeline{Path: p.Path, Kind: "pipeline", Hash: p.Plan.Hash(), Worst: est.Worst.Time.D, Bounded: !est.Worst.Time.Open,
		Inputs: []explainedInput{}, Outputs: []explainedOutput{}, Calls: []explainedCall{}, Critical: []int{}}
	for _, in := range p.Plan.Inputs {
		x.Inputs = append(x.Inputs, explainedInput{in.Name, in.Type.String(), !in.Optional()})
	}
	for _, o := range p.Plan.Outputs {
		x.Outputs = append(x.Outputs, explainedOutput{o.Name, o.Type.String()})
	}
	order := make([]int, len(est.Calls)) // in the order of the source
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := est.Calls[i].Pos, est.Calls[j].Pos
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for _, i := range order {
		c := &est.Calls[i]
		n := &p.Plan.Funcs[c.Func].Nodes[c.Node]
		e := explainedCall{Name: c.Name, Module: c.Callee, Line: c.Pos.Line, Column: c.Pos.Column, Attempts: c.Retries.Attempts, Timeout: c.Timeout.D,
			Of: elements(p.Plan, c.Func), Element: c.PerElement, Maybe: c.Conditional, sum: c.Sum()}
		if e.Worst, e.Bounded = c.Worst.Time.D, !c.Worst.Time.Open; !e.Bounded {
			e.Worst = c.Worst.Waits.D
		}
		if o := n.Call.Options; o != nil {
			e.Options, e.Delays = ordered(o, n.Call.Fallback != plan.None), delaysOf(o)
			e.Limits = worst.TakenBy(value.Map(o.Named, func(l check.NamedLimit) string { return l.Name })...)
			if len(e.Limits) > 0 {
				e.Priority = &o.Priority
			}
		}
		x.Calls = append(x.Calls, e)
	}
	for _, i := range est.Critical {
		x.Critical = append(x.Critical, slices.Index(order, i))
	}
	return x
}

// mostDelays is how many delays are listed.
const mostDelays = 12

// delaysOf are the longest delays after the first failed attempts.
func delaysOf(o *check.Options) (ds []time.Duration) {
	var prev time.Duration
	unlimited := o.Retry.Attempts == retry.Unlimited
	for i := 1; (i < o.Retry.Attempts || unlimited) && i <= mostDelays; i++ {
		_, prev = o.Retry.Backoff.Range(i, prev)
		ds = append(ds, prev)
	}
	return ds
}

// ordered describes the options in the order in which they apply, from the outside in.
func ordered(o *check.Options, fallback bool) []string {
	var out parts
	out.add(o.Deadline > 0, "deadline %s", duration.Format(o.Deadline))
	out.add(o.Cache > 0, "cache %s (%s)", duration.Format(o.Cache), o.Backend)
	out.add(o.OnError != check.Propagate, "on_error %s", o.OnError)
	out.add(fallback, "fallback")
	out.add(o.Retry.Attempts == retry.Unlimited, "retry unlimited")
	out.add(o.Retry.Attempts > 1, "retry %d", o.Retry.Attempts-1)
	for i, r := range o.Retry.Rules {
		out.add(true, "rule %d: %s", i+1, ruleText(r))
	}
	out.add(o.Until != nil, "until")
	out.add(o.Retry.Budget > 0, "budget %s", duration.Format(o.Retry.Budget))
	out.add(o.Throttle.Count > 0, "throttle %s", o.Throttle)
	out.add(o.Limit > 0, "concurrency %d", o.Limit)
	if o.Breaker != nil {
		out.add(true, "breaker %s", option.BreakerText(o.Breaker))
	}
	out.add(o.Retry.Timeout > 0, "timeout %s", duration.Format(o.Retry.Timeout))
	out.add(o.Priority != option.NormalPriority, "priority %d", o.Priority)
	out.add(o.Lazy, "lazy")
	return out
}

// ruleText says how often a rule retries, and after what first delay.
func ruleText(r retry.Rule) string {
	text := "as often as the policy"
	if r.Attempts > 0 {
		text = fmt.Sprintf("retry %d", r.Attempts-1)
	}
	_, first := r.Backoff.Range(1, 0)
	return text + ", delay " + duration.Format(first)
}

func (w *planWriter) pipeline(x *explainedPipeline) {
	w.line(0, w.bold(visible(x.Path+": pipeline")))
	var in, out []string
	for _, p := range x.Inputs {
		s := p.Name + ": " + p.Type
		if !p.Required {
			s += " (optional)"
		}
		in = append(in, s)
	}
	for _, o := range x.Outputs {
		out = append(out, o.Name+": "+o.Type)
	}
	w.field(2, "inputs", strings.Join(in, ", "))
	w.field(2, "outputs", strings.Join(out, ", "))
	worst := duration.Format(x.Worst)
	if !x.Bounded {
		worst = "unbounded: a call without a timeout"
		if x.Worst > 0 {
			worst += fmt.Sprintf("; %s of delays and timeouts beside it", duration.Format(x.Worst))
		}
	}
	w.field(2, "worst case", worst)
	if slices.ContainsFunc(x.Calls, func(c explainedCall) bool { return c.Attempts != bound.Number(1) }) {
		w.field(2, "", "longer "+askedFor)
	}
	if slices.ContainsFunc(x.Calls, func(c explainedCall) bool { return c.Timeout > 0 }) {
		w.field(2, "", "longer "+killedLate)
	}
	way := value.Map(x.Critical, func(i int) string { return x.Calls[i].called() })
	w.field(2, "longest way", strings.Join(way, " → "))
	for _, c := range x.Calls {
		fmt.Fprintln(w)
		w.line(2, w.bold(visible(fmt.Sprintf("%d:%d  %s", c.Line, c.Column, c.title()))))
		w.field(4, "made", made(c))
		w.field(4, "order", strings.Join(c.Options, " → "))
		w.field(4, "attempts", attemptsText(c))
		w.limits(4, c.Limits, "each attempt", c.Priority)
		w.field(4, "worst case", c.sum)
	}
}

// called is the name of a call in a run.
func (c *explainedCall) called() string {
	switch {
	case c.Of == "":
		return c.Name
	case c.Name == c.Module:
		return c.Of
	}
	return c.Of + "." + c.Name
}

func (c *explainedCall) title() string {
	if name := c.called(); name != c.Module {
		return name + " = " + c.Module
	}
	return c.Module
}

// elements names what a function of a plan is applied to: "pages[i]".
func elements(p *plan.Plan, function int) string {
	for outer := range function { // it precedes the lambdas in it
		for i := range p.Funcs[outer].Nodes {
			n := &p.Funcs[outer].Nodes[i]
			if n.Op != plan.Apply || n.Call.Fn != function {
				continue
			}
			name := n.Call.Name + "[i]"
			if prefix := elements(p, outer); prefix != "" {
				name = prefix + "." + name
			}
			return name
		}
	}
	return ""
}

func made(c explainedCall) string {
	switch {
	case c.Element && c.Maybe:
		return "for each element, if its value is needed"
	case c.Element:
		return "for each element of a list"
	case c.Maybe:
		return "only if its value is needed"
	}
	return ""
}

func attemptsText(c explainedCall) string {
	if c.Attempts == bound.Number(1) {
		return ""
	}
	ds := value.Map(c.Delays, duration.Format)
	text := "any number"
	if !c.Attempts.Open {
		text = c.Attempts.String() + ", at most"
	}
	if len(ds) > 0 && strings.Trim(strings.Join(ds, ""), "0s") != "" {
		text += ", with delays of " + strings.Join(ds, ", ")
		if c.Attempts.Open || c.Attempts.N-1 > int64(len(ds)) {
			text += ", …"
		}
	}
	return text
}
