package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/bound"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/worst"
)

// planWriter writes a plan for a person.
type planWriter struct {
	bytes.Buffer
	palette
	width int
	per   string // what executions are counted per, if not per run
}

const keyWidth = 12

// field writes a key and its value. It wraps a value that is longer than the terminal is wide.
func (w *planWriter) field(indent int, key, value string) {
	if value == "" {
		return
	}
	margin, room := w.margin(indent), 0
	if w.width > 0 {
		room = max(w.width-len(margin)-keyWidth, 1)
	}
	for line := range strings.SplitSeq(fold(visible(value), room, ""), "\n") {
		fmt.Fprintf(w, "%s%s%s\n", margin, w.dim(padded(key, keyWidth)), line)
		key = ""
	}
}

// leastRoom is how many columns the value of a field has at least, if the terminal is wide
// enough for that.
const leastRoom = 20

// margin are the blanks before a line. On a narrow terminal deep steps share a margin.
func (w *planWriter) margin(indent int) string {
	if w.width > 0 {
		indent = min(indent, max(w.width-keyWidth-leastRoom, 0))
	}
	return strings.Repeat(" ", indent)
}

// line writes a line with the margin of a step, or of what is inside one.
func (w *planWriter) line(indent int, text string) {
	margin := w.margin(indent)
	fmt.Fprintln(w, fold(margin+text, w.width, margin+"   "))
}

func (w *planWriter) plan(p *worst.Plan) {
	title := p.Path + ": " + p.Kind
	if p.Name != "" {
		title += " " + p.Name
	}
	w.line(0, w.bold(visible(title)))
	w.field(2, "about", p.Description)
	w.field(2, "runs", p.Where)
	if p.Uncommitted != "" {
		w.field(2, "", "what the steps leave uncommitted there "+p.Uncommitted)
	}
	w.field(2, "durability", p.Durability)
	if p.Iterations > 1 {
		w.field(2, "iterations", fmt.Sprintf("up to %d, until one changes nothing", p.Iterations))
	}
	w.field(2, "timeout", p.Timeout.String())
	w.field(2, "worst case", cost(p.Worst))
	if p.Asked != nil {
		longest := "waits " + spanText(p.Asked.Waits)
		if !p.Asked.Time.Open {
			longest = spanText(p.Asked.Time)
		}
		w.field(2, "", longest+" "+askedFor)
	}
	if p.Killed != nil {
		w.field(2, "", spanText(p.Killed.Time)+" "+killedLate)
	}
	for _, ph := range p.Phases {
		w.phase(p, ph)
	}
	w.findings(p)
}

func (w *planWriter) phase(p *worst.Plan, ph *worst.Phase) {
	fmt.Fprintf(w, "\n%s\n", w.bold(visible(ph.Name)))
	if ph.Name == "map" && p.Map != nil {
		w.mapPhase(p.Map)
	}
	if ph.Where != p.Where {
		w.field(2, "runs", ph.Where)
	}
	if ph.Timeout != (worst.Limit{}) {
		w.field(2, "timeout", ph.Timeout.String())
	}
	w.field(2, "in scope", strings.Join(ph.Variables, ", "))
	if len(p.Phases) > 1 {
		w.field(2, "worst case", cost(ph.Worst))
	}
	w.per = ""
	if ph.Name == "map" || ph.Name == "map.evidence" {
		w.per = ", for each item"
	}
	for i, s := range ph.Steps {
		w.step(2, fmt.Sprint(i+1), s, ph.Variables)
	}
}

func (w *planWriter) mapPhase(m *worst.Map) {
	w.field(2, "items", m.Input)
	for _, f := range m.Select {
		w.field(2, f.Key, f.Value)
	}
	w.field(2, "parallel", m.Parallel+" at once"+m.Finds)
	w.limits(2, m.Limits, "each item", nil)
	w.field(2, "timeout", m.AgentTimeout.String()+" ("+m.Policy+")")
	if m.Retry == nil {
		w.field(2, "attempts", "1 for each item")
	} else {
		w.retry(2, m.Retry, "for each item")
	}
	w.field(2, "failed item", m.OnFailure)
	w.field(2, "stops", m.Stops)
	w.field(2, "first", m.Alone)
	w.field(2, "held", m.Held)
	w.field(2, "budget", m.Budget)
	w.field(2, "merges", m.Queue)
	if m.Breaker != nil {
		w.field(2, "breaker", m.Breaker.String())
	}
	w.field(2, "an agent", cost(m.Agent))
	w.field(2, "an item", cost(m.Item))
	if m.OnFailure == "dead letter" {
		w.field(2, "", "and as much again with each `bide dlq retry` of it")
	}
}

// step writes one step and its inner steps. known are the variables that are already listed
// above.
func (w *planWriter) step(indent int, number string, s *worst.Step, known []string) {
	text, more, _ := strings.Cut(strings.TrimSpace(s.Text), "\n")
	kind, title := cmp.Or(s.Agent, s.Action), s.Label
	if strings.HasPrefix(text, strings.TrimSuffix(title, "...")) {
		title = kind // it has no name
	}
	if more != "" {
		text += " …"
	}
	fmt.Fprintln(w)
	w.line(indent, fmt.Sprintf("%s. %s %s", number, w.bold(visible(title)), w.dim(fmt.Sprintf("line %d", s.Line))))
	indent += 3
	if text != kind {
		w.field(indent, kind, text)
	} else if title != kind {
		w.field(indent, "action", kind)
	}
	w.field(indent, "when", s.When)
	w.field(indent, "in", s.Dir)
	w.field(indent, "timeout", attemptTimeout(s))
	if s.Stall != (worst.Limit{}) {
		w.field(indent, "silence", "at most "+s.Stall.String()+" without output (stall_timeout)")
	}
	if s.Retry == nil {
		w.field(indent, "attempts", "1")
	} else {
		w.retry(indent, s.Retry, "")
	}
	w.limits(indent, s.Limits, "each attempt", s.Priority)
	w.field(indent, "when failed", s.Afterwards)
	w.field(indent, "executed", executed(s)+w.per)
	w.field(indent, "worst case", cost(s.Worst))
	w.field(indent, "sets", strings.Join(s.Sets, ", "))
	more = strings.Join(slices.DeleteFunc(slices.Clone(s.Variables), func(v string) bool { return slices.Contains(known, v) }), ", ")
	if more != "" {
		w.field(indent, "in scope", "as above, and "+more)
	}
	for _, g := range s.Groups {
		title := g.As
		switch {
		case g.Times.Open:
			title += ", for each value"
		case g.Times.N != 1:
			title += fmt.Sprintf(", up to %d times", g.Times.N)
		}
		w.line(indent, title)
		for i, inner := range g.Steps {
			w.step(indent+2, fmt.Sprint(i+1), inner, s.Variables)
		}
	}
}

// limits writes which limits of the machine are used, and with which priority; nil if there is
// none.
func (w *planWriter) limits(indent int, list []worst.Taken, who string, priority *int) {
	for i, t := range list {
		key := ""
		if i == 0 {
			key = "limits"
		}
		w.field(indent, key, t.Text(who))
	}
	if priority != nil {
		w.field(indent, "priority", fmt.Sprintf("%d (normal is %d)", *priority, option.NormalPriority))
	}
}

func attemptTimeout(s *worst.Step) string {
	if s.Timeout == (worst.Limit{}) {
		return "none"
	}
	if len(s.Timeouts) > 0 {
		return strings.Join(value.Map(s.Timeouts, duration.Format), ", then ") + " an attempt"
	}
	return s.Timeout.String() + " an attempt"
}

// executed says how often an action is executed, as a product.
func executed(s *worst.Step) string {
	if s.Executions.Open {
		return "up to " + product(s.Factors)
	}
	switch n := s.Executions.N; {
	case len(s.Factors) == 0:
		return "once"
	case len(s.Factors) == 1:
		return fmt.Sprintf("up to %d times (%s)", n, product(s.Factors))
	default:
		return fmt.Sprintf("up to %d times = %s", n, product(s.Factors))
	}
}

func product(factors []worst.Factor) string {
	return strings.Join(value.Map(factors, func(f worst.Factor) string { return f.Times.String() + " " + f.Of }), " × ")
}

// retry writes a policy and its delays.
func (w *planWriter) retry(indent int, r *worst.Retry, of string) {
	w.field(indent, "attempts", policyText(r, of))
	of = cmp.Or(of, "attempts")
	w.field(indent, "delays", delays(r))
	for _, rule := range r.Rules {
		w.field(indent, "of these", strings.Join(rule.On, ", ")+": "+policyText(rule.Retry, of)+"; "+delays(rule.Retry))
	}
	if r.Budget > 0 {
		budget := duration.Format(r.Budget) + " of delays"
		if r.BudgetExpires {
			budget += "; for a resumed run it ends that long after the first failure"
		}
		w.field(indent, "budget", budget)
	}
	if r.Deadline > 0 {
		w.field(indent, "deadline", duration.Format(r.Deadline)+" from the first attempt to the end")
	}
	w.field(indent, "until", r.Until)
	retryOn := "every error"
	if len(r.RetryOn) > 0 {
		retryOn = strings.Join(r.RetryOn, ", ")
	}
	if len(r.AbortOn) > 0 {
		retryOn += "; never " + strings.Join(r.AbortOn, ", ")
	}
	w.field(indent, "retried", retryOn+"; a server's Retry-After up to "+duration.Format(r.RetryAfterMax))
	if r.Breaker != nil {
		w.field(indent, "breaker", r.Breaker.String())
	}
	switch r.OnFailure {
	case "fallback":
		w.field(indent, "exhausted", "fallback: "+r.Fallback)
	case "continue":
		w.field(indent, "exhausted", "the next step runs")
	}
}

// policyText says how often a policy retries, and with what delays. of follows the number;
// "" if the number stands behind the word.
func policyText(r *worst.Retry, of string) string {
	attempts := fmt.Sprint(r.Attempts)
	if r.Unlimited() {
		attempts = "any number"
		if of == "attempts" {
			attempts += " of"
		}
	}
	text := fmt.Sprintf("%s, %s from %s, at most %s, ", strings.TrimSpace(attempts+" "+of), r.Backoff, duration.Format(r.Initial), duration.Format(r.Max))
	switch r.Jitter {
	case "none":
		return text + "no jitter"
	case "factor":
		return text + fmt.Sprintf("jitter ±%v %%", round(100*r.JitterFactor))
	}
	return text + r.Jitter + " jitter"
}

// round removes the noise of floating point from a percentage.
func round(f float64) float64 { return float64(int64(f*1000+0.5)) / 1000 }

const shownDelays = 12

func delays(r *worst.Retry) string {
	if len(r.Waits) == 0 {
		return "none"
	}
	parts := value.Map(r.Waits[:min(len(r.Waits), shownDelays)], func(d worst.Delay) string { return span(d.Least, d.Greatest) })
	if n := r.MostAttempts; n.Open {
		parts = append(parts, "…")
	} else if n.N-1 > shownDelays {
		parts = append(parts, fmt.Sprintf("… (%d in all)", n.N-1))
	}
	most := "in all "
	if r.Jitter != "none" {
		most = "in all at most "
	}
	return strings.Join(parts, ", ") + "; " + most + spanText(bound.Span{D: brief(r.MostWaits.D), Open: r.MostWaits.Open})
}

const noBound = "no bound: something in it has no timeout, or no known number of rounds"

const killedLate = "if commands ignore SIGTERM and have to be killed"

const askedFor = "where servers ask for longer waits (Retry-After)"

// cost describes a worst case.
func cost(c bound.Cost) string {
	waits := spanText(c.Waits)
	switch {
	case c.Time.Open && c.Waits == (bound.Span{}):
		return noBound
	case c.Time.Open:
		return noBound + "; waits " + waits
	case c.Time.D == 0:
		return "at once"
	case c.Waits.D == 0:
		return spanText(c.Time)
	}
	return spanText(c.Time) + ", of which waits " + waits
}

func spanText(b bound.Span) string {
	switch {
	case b.Open:
		return "without a bound"
	case b.D > 100*365*24*time.Hour:
		return "more than a lifetime"
	}
	return duration.Format(brief(b.D))
}

func (w *planWriter) findings(p *worst.Plan) {
	if len(p.Findings) > 0 {
		fmt.Fprintf(w, "\n%s\n", w.bold("findings"))
	}
	for _, f := range p.Findings {
		w.field(2, fmt.Sprintf("line %d", f.Line), f.Message)
		w.field(2, "", f.Suggestion)
	}
}
