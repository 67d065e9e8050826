package simulate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// What one run cannot tell makes the answer wide. So beside the model that does on the
// average what the run has met there are some that it could be fitted to as well: each
// counts every work item more or less (a Bayesian bootstrap), takes a limit that is as
// likely as it is, and lets an outage end at a time at which nobody has seen it end.
// Simulated runs take them in turn.

// fitDraws is how many models there are beside the average one.
const fitDraws = 25

// Fit gives a model that does on the average what the recording met, with those that it
// could be fitted to as well: classes of errors by their share, latencies as they were,
// times in which everything failed as outages, answers 429 as a token bucket, and items
// that fail more often than others.
func (r *Recording) Fit() *Model {
	steps, units := r.evidence()
	m := r.average(steps)
	for i := range fitDraws {
		l := luck(mix(hash("fitted") + uint64(i)))
		weights := make([]float64, units)
		for k := range weights {
			weights[k] = -math.Log(1 - l.unit())
		}
		d := *m
		d.Steps = map[string]*Target{}
		for path, e := range steps {
			of := l.with(hash(path))
			t := e.fit(weights, &of)
			t.lags, t.Output, t.value = m.Steps[path].lags, m.Steps[path].Output, m.Steps[path].value
			d.Steps[path] = t
		}
		for path, t := range m.Steps {
			if strings.HasSuffix(path, fallbackOf) {
				d.Steps[path] = t
			}
		}
		switch i % 5 { // of three fifths it makes no difference how many there are at once
		case 3:
			d.stretch = 1
		case 4:
			d.stretch = l.unit()
		}
		m.draws = append(m.draws, &d)
	}
	return m
}

// average is the model without those that it could also be.
func (r *Recording) average(steps map[string]*evidence) *Model {
	m := &Model{Steps: map[string]*Target{}, Items: max(len(r.Items), 1), Guessed: true, Late: &Latency{}, width: r.width(), parallel: r.parallel()}
	for path, e := range steps {
		t := e.fit(nil, nil)
		t.lags = r.lags[path]
		m.Steps[path] = t
	}
	names := r.names()
	for _, path := range slices.Sorted(maps.Keys(steps)) {
		m.Assumed = append(m.Assumed, steps[path].assumes(names.label(path))...)
	}
	r.fitFallbacks(m, names)
	r.fitValues(m)
	return m
}

// fitFallbacks has the fallback of each step fail as often as it did. How long it took is not
// recorded.
func (r *Recording) fitFallbacks(m *Model, names *stepNames) {
	made, failed := map[string]int{}, map[string]int{}
	for k, helped := range r.fellBack {
		path := r.static(k.path)
		if s := names.paths[path]; s == nil || s.Retry.FallbackAction() == nil {
			continue
		}
		path += fallbackOf
		made[path]++
		if !helped {
			failed[path]++
		}
	}
	for path, n := range made {
		m.Steps[path] = &Target{}
		if failed[path] > 0 {
			m.Steps[path].Failures = []Failure{{"exit", float64(failed[path]) / float64(n)}}
		}
	}
}

// names are those of the steps of the run.
func (r *Recording) names() *stepNames {
	if p, err := r.Program(nil); err == nil && p.File != nil {
		return namesOf(p.File)
	}
	return &stepNames{}
}

// fewAttempts is of how many attempts their spread says something.
const fewAttempts = 5

// assumes is what a model of a step rests on that one run cannot tell.
func (e *evidence) assumes(path string) (list []string) {
	if n := len(e.list); n == 1 {
		list = append(list, fmt.Sprintf("other attempts at %s are as its only one in the recorded run", path))
	} else if n < fewAttempts {
		list = append(list, fmt.Sprintf("other attempts at %s are as its %d in the recorded run", path, n))
	}
	if e.limit != nil && e.limit.strange > 0.1 {
		list = append(list, fmt.Sprintf("the answers 429 of %s are those of a token bucket, which %.0f %% of them are not", path, 100*e.limit.strange))
	}
	if n := len(e.outages); n > 0 && n < manyOutages {
		o, clause := e.outages[0], "%s is down again at %s for %s, as it was"
		if e.brieflyDown() {
			clause += ", or now and then"
		}
		clause += " (one run does not tell how often it is down, or for how long; more runs would)"
		list = append(list, fmt.Sprintf(clause, path, Span(int64(o.From)), Span(int64(o.For))))
	}
	return list
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

// mostLatencies bounds how many latencies a model keeps of a step; drawnLatencies, of
// one that it could also be.
const mostLatencies, drawnLatencies = 1000, 400

// fit fits what the attempts at a step have met, those of each unit counted as often as
// it weighs; nil: once. l draws what does not depend on the units; without it the target
// is the average.
func (e *evidence) fit(weights []float64, l *luck) *Target {
	t := &Target{limit: e.stopped, tries: e.tries}
	most := mostLatencies
	if l != nil {
		most = drawnLatencies
	}
	stands, beyond, left := e.uncut(weights)
	counts, total := map[string]float64{}, 0.0
	var took []weighed
	spans := map[string][]weighed{}
	for _, i := range e.order {
		a, n := e.list[i], stands[i]
		if a.cut || n == 0 {
			continue
		}
		class := classOf(a)
		if class != "rate_limit" && !e.inside[i] {
			total += n
			if class != "" {
				counts[class] += n
			}
		}
		if class == "" {
			took = append(took, weighed{a.took, n})
		} else {
			spans[class] = append(spans[class], weighed{a.took, n})
		}
	}
	for class, n := range counts {
		t.Failures = append(t.Failures, Failure{class, n / total})
	}
	sortFailures(t.Failures)
	for _, i := range beyond {
		took = append(took, weighed{e.list[i].longer(), left / float64(len(beyond))})
	}
	t.Latency.Empirical = quantiles(took, most)
	if e.queue != nil {
		t.Latency, spans = e.queue.latency(e, weights, most), nil
	}
	for class, list := range spans {
		if t.spans == nil {
			t.spans = map[string][]time.Duration{}
		}
		t.spans[class] = quantiles(list, most)
	}
	e.fitItems(t, weights, l)
	e.fitOutages(t, l)
	switch {
	case e.limit != nil && l == nil:
		t.Limit = e.limit.best()
	case e.limit != nil:
		t.Limit = e.limit.drawn(l)
	}
	if t.limit > 0 && l != nil && l.unit() < 0.5 {
		t.hang = math.Pow(4, l.unit())
	}
	return t
}

// fitItems tells items apart that fail more often than others: on the average where that
// is more likely than not, and as often as it is likely.
func (e *evidence) fitItems(t *Target, weights []float64, l *luck) {
	if e.items == nil {
		return
	}
	least := 0.5
	if l != nil {
		least = l.unit()
	}
	if e.items.differ <= least {
		return
	}
	t.split(e.items, e.items.fit(weights))
}

// manyOutages is how many outages there are of which it is not taken that they come again
// at the same times. Of one nobody knows: where it was short beside the run, there was time
// for more, or for none.
const (
	manyOutages  = 2
	shortOutages = 0.1 // of the run
	mayBeRandom  = 0.6 // of the models
)

// updown is for how long a target was up, and down. The time after its last outage counts,
// as it says as much of outages as that between two.
func (e *evidence) updown() (up, down time.Duration) {
	for _, o := range e.outages {
		down += o.For + (o.longer+o.sooner)/2
	}
	for _, a := range e.list {
		up = max(up, a.from+a.took)
	}
	return max(up-down, 0), down
}

// brieflyDown reports whether the outages were short beside the run.
func (e *evidence) brieflyDown() bool {
	up, down := e.updown()
	return down > 0 && float64(down) < shortOutages*float64(up+down)
}

// fitOutages takes the outages over, each at a time at which it may have been, or takes
// it that they come at random.
func (e *evidence) fitOutages(t *Target, l *luck) {
	n := len(e.outages)
	if n >= manyOutages || l != nil && e.brieflyDown() && l.unit() < mayBeRandom {
		up, down := e.updown()
		mean := func(sum time.Duration) time.Duration {
			of := float64(n)
			if l != nil {
				of = 0
				for range n {
					of -= math.Log(1 - l.unit())
				}
			}
			return max(span(float64(sum)/of), leastMean)
		}
		t.Outages = []Outage{{MeanUp: mean(up), MeanDown: mean(down), Class: e.outages[0].Class}}
		return
	}
	for _, o := range e.outages {
		if l != nil {
			sooner := time.Duration(l.unit() * float64(o.sooner))
			o.From, o.For = o.From-sooner, o.For+sooner+time.Duration(l.unit()*float64(o.longer))
			if o.open {
				o.For += l.exponential(o.For)
			}
			o.sooner, o.longer = 0, 0
		}
		t.Outages = append(t.Outages, o)
	}
}

// fewestFailures are how many failures in a row an outage has at least, and
// fewestUnits of how many items.
const fewestFailures, fewestUnits = 5, 3

// findOutages finds times in which so many attempts failed one after another
// that chance does not explain it. inside are the attempts in them.
func findOutages(list []*recorded, units []int, items bool) (found []Outage, inside []bool) {
	inside = make([]bool, len(list))
	failed, within := 0, 0
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
		if j-i >= fewestFailures && unlikely(len(list), failed, j-i) && (!items || several(units[i:j])) {
			o := Outage{From: list[i].from, For: list[j-1].from - list[i].from + 1, Class: classOf(list[i])}
			if o.longer = list[j-1].took; j < len(list) {
				o.longer = list[j].from - list[j-1].from
			}
			o.open = j == len(list)
			if i > 0 {
				o.sooner = list[i].from - list[i-1].from
			}
			found = append(found, o)
			for k := i; k < j; k++ {
				inside[k] = true
				within++
			}
		}
		i = max(j, i+1)
	}
	if within == len(list) { // it has always failed: that is its rate
		return nil, make([]bool, len(list))
	}
	return found, inside
}

// several reports whether attempts are of so many units that none of them alone is what
// fails.
func several(units []int) bool {
	seen := map[int]bool{}
	for _, u := range units {
		if seen[u] = true; len(seen) >= fewestUnits {
			return true
		}
	}
	return false
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
	all, _ := r.evidence()
	for path, e := range all {
		steps := e.list
		if e.limit != nil {
			l, when := e.limit.best(), "arrive"
			if l.AtAnswer {
				when = "are answered"
			}
			list = append(list, fmt.Sprintf("answers 429 of %s are those of a token bucket of %d that gets %s a second; a token is taken when requests %s", path, l.Burst, Figure(l.rate()*1e9), when))
		}
		if q := e.queue; q != nil {
			list = append(list, fmt.Sprintf("latencies of %s grow with the number at once, as those of a queue that serves %d of them, each in about %s", path, q.capacity, Span(int64(q.mean))))
		} else {
			unknown = true
		}
		if text := cutWarning(path, e); text != "" {
			list = append(list, text)
		}
		if len(steps) < 20 {
			list = append(list, fmt.Sprintf("%s made only %s: its rates of failure are rough", path, diag.Count(len(steps), "attempt")))
		}
	}
	slices.Sort(list)
	if unknown {
		list = slices.Insert(list, 0, fmt.Sprintf("latencies were recorded with at most %s at once: whether more would make them longer, or fewer shorter, one run cannot say", diag.Count(most, "attempt")))
	}
	if len(list) > 6 {
		list = append(list[:5], fmt.Sprintf("and of %d more steps there are less than 20 attempts", len(list)-5))
	}
	return list
}
