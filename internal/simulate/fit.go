package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// Fit gives a model that does on the average what the recording met: classes of
// errors by their share, latencies as they were, times in which everything
// failed as outages, answers 429 as a rate, and what the attempts of an item have
// in common.
func (r *Recording) Fit() *Model {
	m := &Model{Steps: map[string]*Target{}, Items: max(len(r.Items), 1), Guessed: true, width: r.width(), parallel: r.parallel()}
	for path, list := range r.byStep() {
		m.Steps[path] = fit(list)
	}
	r.fitValues(m)
	if !slices.ContainsFunc(slices.Collect(maps.Values(m.Steps)), func(t *Target) bool { return len(t.Outages) > 0 }) {
		m.Correlation = r.fitCorrelation() // failures of an outage come together, and say nothing of items
	}
	if m.Correlation > 0 {
		r.fitFirst(m)
	}
	return m
}

// fitFirst takes the rates of failure from first attempts alone. Where attempts of an item
// have their luck in common, all others are those of items without it, which have more
// attempts than the rest; and that they fail more often the correlation says already.
func (r *Recording) fitFirst(m *Model) {
	first := &Recording{attempts: map[attemptKey]*recorded{}, static: r.static}
	for k, a := range r.attempts {
		if k.n <= 1 && k.round <= 1 {
			first.attempts[k] = a
		}
	}
	for path, list := range first.byStep() {
		m.Steps[path].Failures = fit(list).Failures
	}
}

// fitValues has each call give what its first did that ended well.
func (r *Recording) fitValues(m *Model) {
	if r.Header.Kind != workflow.Dataflow.String() {
		return
	}
	for _, k := range slices.SortedFunc(maps.Keys(r.outputs), attemptKey.compare) {
		if t := m.Steps[r.static(k.path)]; t != nil && t.Output == nil && r.outputs[k].text != "" {
			text := r.outputs[k].text
			t.Output, t.value = &text, true
		}
	}
}

// byStep are the attempts of each step by their beginning.
func (r *Recording) byStep() map[string][]*recorded {
	keys := slices.SortedFunc(maps.Keys(r.attempts), func(a, b attemptKey) int {
		return cmp.Or(cmp.Compare(r.attempts[a].from, r.attempts[b].from), a.compare(b))
	})
	steps := map[string][]*recorded{}
	for _, k := range keys {
		p := r.static(k.path)
		steps[p] = append(steps[p], r.attempts[k])
	}
	return steps
}

// mostLatencies bounds how many latencies a model keeps of a step.
const mostLatencies = 1000

func fit(list []*recorded) *Target {
	t := &Target{}
	known, weight, beyond, left := uncut(list)
	inside := t.fitOutages(known)
	counts, total := map[string]float64{}, 0.0
	var limited []*recorded
	var took []weighed
	for i, a := range known {
		switch {
		case classOf(a) == "rate_limit":
			limited = append(limited, a)
		case !inside[i]:
			total += weight[i]
			if a.failure != nil {
				counts[a.failure.Class] += weight[i]
			}
		}
		if a.failure == nil || !a.failure.Timeout {
			took = append(took, weighed{a.took, weight[i]})
		}
	}
	for class, n := range counts {
		t.Failures = append(t.Failures, Failure{class, n / total})
	}
	sortFailures(t.Failures)
	for _, a := range beyond {
		took = append(took, weighed{a.longer(), left / float64(len(beyond))})
	}
	t.Latency.Empirical = quantiles(took, mostLatencies)
	if c, s := fitQueue(list); c > 0 {
		t.Latency = Latency{Capacity: c, Service: s}
	}
	t.fitLimit(known, limited)
	return t
}

// fitOutages finds times in which so many attempts failed one after another
// that chance does not explain it. inside are the attempts in them.
func (t *Target) fitOutages(list []*recorded) (inside map[int]bool) {
	inside = map[int]bool{}
	failed := 0
	for _, a := range list {
		if a.failure != nil {
			failed++
		}
	}
	for i := 0; i < len(list); {
		j := i
		for j < len(list) && list[j].failure != nil && list[j].failure.Class == classOf(list[i]) && classOf(list[i]) != "rate_limit" {
			j++
		}
		if j-i >= 10 && unlikely(len(list), failed, j-i) {
			o := Outage{From: list[i].from, For: list[j-1].from - list[i].from + 1, Class: classOf(list[i])}
			if o.longer = list[j-1].took; j < len(list) {
				o.longer = list[j].from - list[j-1].from
			}
			if i > 0 {
				o.sooner = list[i].from - list[i-1].from
			}
			t.Outages = append(t.Outages, o)
			for k := i; k < j; k++ {
				inside[k] = true
			}
		}
		i = max(j, i+1)
	}
	if len(inside) == len(list) { // it has always failed: that is its rate
		t.Outages = nil
		return map[int]bool{}
	}
	return inside
}

func classOf(a *recorded) string {
	if a.failure == nil {
		return ""
	}
	return a.failure.Class
}

// unlikely reports whether n failures in a row are less likely than one in a
// hundred, at the rate of the other attempts.
func unlikely(attempts, failed, n int) bool {
	p := max(float64(failed-n), 1) / max(float64(attempts-n), 2)
	chance := float64(attempts)
	for range n {
		chance *= p
	}
	return chance < 0.01
}

// fitLimit takes a rate from answers 429: what got through while there were
// any, and what got through before the first of them.
func (t *Target) fitLimit(list, limited []*recorded) {
	if len(limited) == 0 {
		return
	}
	first, last := limited[0].from, limited[len(limited)-1].from
	before, during := 0, 0
	var hints []time.Duration
	for _, a := range list {
		switch {
		case a.failure != nil && a.failure.Class == "rate_limit":
			if a.failure.RetryAfter > 0 {
				hints = append(hints, a.failure.RetryAfter)
			}
		case a.from < first:
			before++
		case a.from <= last:
			during++
		}
	}
	t.Limit = &Limited{Count: max(during, 1), Per: max(last-first, time.Second), Burst: max(before, 1)}
	if len(hints) > 0 {
		slices.Sort(hints)
		t.Limit.RetryAfter = hints[len(hints)/2]
	}
}

// Warnings are what the recording cannot say.
func (r *Recording) Warnings() []string {
	var list []string
	edges := map[time.Duration]int{}
	for _, a := range r.attempts {
		edges[a.from]++
		edges[a.from+a.took]--
	}
	var times []time.Duration
	for t := range edges {
		times = append(times, t)
	}
	slices.Sort(times)
	now, most := 0, 0
	for _, t := range times {
		now += edges[t]
		most = max(most, now)
	}
	if len(r.attempts) == 0 {
		return []string{"the run has recorded no attempt: nothing is known of failures and latencies"}
	}
	unknown := false
	for path, steps := range r.byStep() {
		if c, s := fitQueue(steps); c > 0 {
			list = append(list, fmt.Sprintf("latencies of %s grow with the number at once, as those of a queue that serves %d of them, each in about %s", path, c, Span(int64(s))))
		} else {
			unknown = true
		}
		if text := cutWarning(path, steps); text != "" {
			list = append(list, text)
		}
		if len(steps) < 20 {
			list = append(list, fmt.Sprintf("%s made only %s: its rates of failure are rough", path, diag.Count(len(steps), "attempt")))
		}
	}
	slices.Sort(list)
	if unknown {
		list = slices.Insert(list, 0, fmt.Sprintf("latencies were recorded with at most %d attempts at once: whether more would make them longer, or fewer shorter, one run cannot say", most))
	}
	if len(list) > 6 {
		list = append(list[:5], fmt.Sprintf("and of %d more steps there are less than 20 attempts", len(list)-5))
	}
	return list
}
