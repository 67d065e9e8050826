package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/workflow"
)

// Goals are what a policy can be tuned for.
var Goals = []string{"makespan", "load", "cost", "success"}

// Proposal is a change of a file, with what it gains.
type Proposal struct {
	Set    []string `json:"set"`
	Report *Report  `json:"report"`
	// Gain is how much better the goal is met, as a part of what it is now; of
	// success, the difference.
	Gain float64 `json:"gain"`
	// Least is what is gained at the pessimistic end of what the record does not tell.
	Least float64 `json:"gain_least"`
	// Unsaid is what the record cannot say about it; "" for nothing.
	Unsaid string `json:"unsaid,omitempty"`
}

// Tuning is what tune has tried.
type Tuning struct {
	Goal      string     `json:"goal"`
	Now       *Report    `json:"now"`
	Proposals []Proposal `json:"proposals"` // the best first; those without a gain are left out
	Tried     int        `json:"tried"`
	Warnings  []string   `json:"warnings"`
}

// Tune tries changes of the recorded file under the luck that the recording
// fits, one by one, and the best of different keys together.
func (r *Recording) Tune(ctx context.Context, goal string, seeds int, load func([]string) (Program, error)) (*Tuning, error) {
	model := r.FitChecked(ctx)
	simulate := func(set []string) (*Report, []*Sample, error) {
		p, err := load(set)
		if err != nil {
			return nil, nil, err
		}
		return r.simulate(ctx, model, p, seeds)
	}
	now, base, err := simulate(nil)
	if err != nil {
		return nil, err
	}
	tried := func(c *Proposal) bool {
		rep, list, err := simulate(c.Set)
		if err != nil || rep.Seeds == 0 { // what the file refuses is no proposal
			return false
		}
		c.Report, c.Gain, c.Least = rep, gain(goal, now, rep), leastGained(goal, base, list)
		return true
	}
	p, err := load(nil)
	if err != nil {
		return nil, err
	}
	t := &Tuning{Goal: goal, Now: now, Warnings: r.Warnings()}
	changes := r.callChanges
	if p.File != nil {
		changes = r.changes
	}
	for _, c := range changes(p, model) {
		if ctx.Err() != nil {
			break
		}
		if tried(&c) {
			t.Tried++
			t.Proposals = append(t.Proposals, c)
		}
	}
	sort.SliceStable(t.Proposals, func(i, j int) bool { return t.Proposals[i].Gain > t.Proposals[j].Gain })
	t.Proposals = slices.DeleteFunc(t.Proposals, func(p Proposal) bool { return min(p.Gain, p.Least) <= leastGain })
	if both, ok := joined(t.Proposals); ok && ctx.Err() == nil && tried(&both) {
		if t.Tried++; both.Gain > t.Proposals[0].Gain && both.Least > leastGain {
			t.Proposals = slices.Insert(t.Proposals, 0, both)
		}
	}
	t.Proposals = t.Proposals[:min(len(t.Proposals), 5)]
	return t, nil
}

// changes are those that may help: of the steps that failed, and of the map.
func (r *Recording) changes(p Program, m *Model) (list []Proposal) {
	f := p.File
	var steps []*workflow.Step
	workflow.Walk(f, func(s *workflow.Step) {
		if t := m.Steps[s.Path]; t != nil && (len(t.Failures) > 0 || len(t.Outages) > 0 || t.Limit != nil) {
			steps = append(steps, s)
		}
	})
	for _, s := range steps {
		at := settable(f, s)
		now := 1
		if s.Retry != nil {
			now = s.Retry.Attempts
		}
		for _, n := range []int{1, 2, 3, 5, 8, 12} {
			if n == now {
				continue
			}
			list = append(list, attempts(fmt.Sprintf("%s.retry.attempts=%d", at, n), n > now))
		}
		if s.Retry == nil {
			continue
		}
		for _, j := range jitters {
			list = append(list, Proposal{Set: []string{at + ".retry.jitter=" + j}})
		}
		for _, b := range []string{"fixed", "exponential", "fibonacci"} {
			list = append(list, Proposal{Set: []string{at + ".retry.backoff=" + b}})
		}
		if d := s.Retry.Backoff.Initial; d > 0 {
			for _, factor := range []float64{0.25, 0.5, 2, 4} {
				list = append(list, Proposal{Set: []string{fmt.Sprintf("%s.retry.initial_delay=%dms", at, int64(float64(d.Milliseconds())*factor))}})
			}
		}
	}
	if f.Map != nil && f.Map.Parallel.Text == nil && f.Map.Adaptive == nil {
		for _, factor := range []float64{0.5, 2, 4} {
			if n := int(float64(f.Map.Parallel.N) * factor); n >= 1 {
				if factor > 1 && !m.queues() { // it may be that each attempt takes longer by as much
					continue
				}
				p := Proposal{Set: []string{fmt.Sprintf("map.max_parallel=%d", n)}}
				if !m.queues() {
					p.Unsaid = "whether latencies change with the number at once, one run cannot say"
				}
				list = append(list, p)
			}
		}
	}
	return list
}

// jitters are those that are tried.
var jitters = []string{"none", "full", "equal", "decorrelated"}

// settable is how a change names a step: by its name, as people do, where that names no
// other one.
func settable(f *workflow.File, s *workflow.Step) string {
	for _, name := range []string{s.Name, s.ID} {
		if name != "" && canSet(f.Source, name+".retry.attempts=2") {
			return name
		}
	}
	if !strings.Contains(string(f.Source), "commands:") {
		return strings.TrimPrefix(s.Path, "commands")
	}
	return s.Path
}

// attempts is a change of how often something is tried.
func attempts(set string, more bool) Proposal {
	p := Proposal{Set: []string{set}}
	if more {
		p.Unsaid = "the record has no such attempts: their outcomes are drawn at the rate of the others"
	}
	return p
}

// callChanges are those that may help a pipeline: of the modules of calls that
// failed, in their one call.
func (r *Recording) callChanges(p Program, m *Model) (list []Proposal) {
	f, err := flow.New(p.Pipeline.Plan, flow.NewShared(flow.SharedOptions{Volatile: true, Named: true}))
	if err != nil {
		return nil // which the run says
	}
	calls := f.Calls()
	of := map[string]int{}
	for _, c := range calls {
		of[c.Callee]++
	}
	for _, c := range calls {
		t := m.Steps[c.Path]
		if t == nil || of[c.Callee] > 1 || len(t.Failures) == 0 && len(t.Outages) == 0 && t.Limit == nil {
			continue
		}
		for _, n := range []int{0, 1, 2, 4, 7, 11} {
			if now := c.Attempts - 1; n != now {
				list = append(list, attempts(fmt.Sprintf("%s.retry=%d", c.Callee, n), n > now))
			}
		}
		if c.Attempts < 2 {
			continue
		}
		for _, j := range jitters {
			list = append(list, Proposal{Set: []string{c.Callee + ".jitter=" + j}})
		}
		for _, b := range []string{"fixed", "exponential", "fibonacci"} {
			list = append(list, Proposal{Set: []string{c.Callee + ".backoff=" + b}})
		}
		for _, d := range []string{"100ms", "500ms", "2s", "10s"} {
			list = append(list, Proposal{Set: []string{c.Callee + ".delay=" + d}})
		}
	}
	return list
}

// joined is the best proposals for different keys, together.
func joined(list []Proposal) (both Proposal, ok bool) {
	seen := map[string]bool{}
	var unsaid []string
	for _, p := range list {
		key, _, _ := strings.Cut(p.Set[0], "=")
		if seen[key] || len(both.Set) == 3 {
			continue
		}
		seen[key] = true
		both.Set = append(both.Set, p.Set...)
		if p.Unsaid != "" && !slices.Contains(unsaid, p.Unsaid) {
			unsaid = append(unsaid, p.Unsaid)
		}
	}
	both.Unsaid = strings.Join(unsaid, "; ")
	return both, len(both.Set) > 1
}

// leastGain is the least gain that is spoken of.
const leastGain = 0.005

// leastGained is how much better a goal is met at the pessimistic end of what the record does
// not tell, where runs of the same seed met the same: the mean is better by no less in 95
// of 100 of the models that the record could be fitted to.
func leastGained(goal string, now, then []*Sample) float64 {
	of := map[uint64]*Sample{}
	for _, s := range now {
		of[s.seed] = s
	}
	pessimistic := func(f func(was, is *Sample) float64) float64 {
		groups := map[int][]float64{}
		for _, s := range then {
			if was := of[s.seed]; was != nil {
				groups[s.draw] = append(groups[s.draw], f(was, s))
			}
		}
		mean, low, _, known := acrossModels(groups)
		if !known { // so few runs tell nothing of the models, and the worst of them has to do
			for _, list := range groups {
				mean = min(mean, slices.Min(list))
			}
			return mean
		}
		return mean - low
	}
	better := func(was, is *Sample) float64 {
		more := succeeded(is) - succeeded(was)
		if n := was.Letters + is.Letters; n > 0 && goal == "success" {
			more += float64(was.Letters-is.Letters) / float64(n)
		}
		return more
	}
	if goal == "success" {
		return pessimistic(better)
	}
	const most = 0.02 // of the runs that may succeed no more, where all is well on the average
	if pessimistic(better) < -most {
		return -1
	}
	shorter := pessimistic(func(was, is *Sample) float64 {
		of := func(s *Sample) float64 {
			switch {
			case goal == "load":
				return float64(s.Peak)
			case goal == "cost" && was.USD > 0:
				return s.USD
			case goal == "cost":
				return float64(s.Attempts)
			}
			return float64(s.Makespan)
		}
		if of(was) <= 0 || of(is) <= 0 {
			return 0
		}
		return math.Log(of(was) / of(is))
	})
	return 1 - math.Exp(-shorter)
}

// gain is how much better a goal is met. What succeeds less often, under the same
// luck, is no gain for any goal.
func gain(goal string, now, then *Report) float64 {
	more := then.Runs.Succeeded.P - now.Runs.Succeeded.P
	if total := now.Letters.Mean + then.Letters.Mean; total > 0 && goal == "success" {
		more += (now.Letters.Mean - then.Letters.Mean) / total
	}
	if goal == "success" {
		return more
	}
	if then.Runs.Succeeded.P < now.Runs.Succeeded.P || then.Letters.Mean > now.Letters.Mean*1.02+0.01 {
		return -1
	}
	part := func(a, b float64) float64 {
		if a <= 0 {
			return 0
		}
		return 1 - b/a
	}
	switch goal {
	case "load":
		return part(float64(now.Load.PeakP50), float64(then.Load.PeakP50))
	case "cost":
		if now.Cost.USD.Mean > 0 {
			return part(now.Cost.USD.Mean, then.Cost.USD.Mean)
		}
		return part(now.Attempts.Mean, then.Attempts.Mean)
	}
	return part(float64(now.Makespan.P50), float64(then.Makespan.P50))
}
