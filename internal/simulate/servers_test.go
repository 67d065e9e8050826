package simulate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
)

// Twenty servers, each under three policies, in virtual time. A model is fitted to one run
// under the first policy and predicts runs under each. What servers do the tests know, as
// the servers do it themselves: some are models of a file, some are nothing that a model
// can be. What a run is like really is the median of many of them.

// server is something that work is done against.
type server struct {
	name  string
	model string // a model file, or
	// own gives how it answers in one run: what becomes of a request, by its item, how often
	// the item has asked, when it asks, and how many others there are.
	own func(l luck) func(item, n int, now time.Duration, busy int) (class string, takes time.Duration)
	// policies are those that are tried, the recorded one first.
	policies []policyAt
	items    int
	second   bool // there is a step after the one with a policy
	late     bool // waits end a moment after they are due, as they do on a machine
}

type policyAt struct {
	parallel int
	retry    string
}

var patient = []policyAt{{6, "attempts: 8, initial_delay: 200ms, backoff: exponential, max_delay: 3s, jitter: full"}, {6, "attempts: 12, initial_delay: 500ms, backoff: fixed, jitter: equal"}, {6, "attempts: 8, initial_delay: 50ms, backoff: exponential, max_delay: 800ms"}}

// hard is of runs that give items up.
var hard = []policyAt{{6, "attempts: 3, initial_delay: 200ms, backoff: fixed, jitter: full"}, {6, "attempts: 6, initial_delay: 100ms, jitter: full"}, {6, "attempts: 2, initial_delay: 400ms, backoff: fixed"}}

var twenty = []server{
	{name: "fails at random", model: "steps: {'*': {failures: {server_error: 0.2}, latency: {uniform: [40ms, 160ms]}}}"},
	{name: "fails often", model: "steps: {'*': {failures: {server_error: 0.3, network: 0.15}, latency: {lognormal: {p50: 80ms, p99: 300ms}}}}", policies: hard},
	{name: "has a long tail", model: "steps: {'*': {failures: {server_error: 0.05}, latency: {lognormal: {p50: 60ms, p99: 2s}}}}", items: 300},
	{name: "429 for 1s", model: "steps: {'*': {failures: {server_error: 0.05}, latency: {uniform: [20ms, 120ms]}, limit: {rate: 10/1s, burst: 10, retry_after: 1s}}}"},
	{name: "429 until a token", model: "steps: {'*': {latency: {uniform: [20ms, 120ms]}, limit: {rate: 20/1s, burst: 5}}}", late: true},
	{name: "429 that asks for nothing", model: "steps: {'*': {latency: {uniform: [20ms, 120ms]}, limit: {rate: 15/1s, burst: 20, retry_after: none}}}"},
	{name: "429 at the answer", model: "steps: {'*': {failures: {network: 0.05}, latency: {uniform: [20ms, 120ms]}, limit: {rate: 10/1s, burst: 10, retry_after: 1s, taken: answer}}}"},
	{name: "items have luck in common", model: "steps: {'*': {failures: {server_error: 0.2}, latency: {uniform: [40ms, 160ms]}}}\ncorrelation: {items: 0.6}", policies: hard},
	{name: "some items always fail", own: func(l luck) func(int, int, time.Duration, int) (string, time.Duration) {
		return func(item, n int, _ time.Duration, _ int) (string, time.Duration) {
			own, one := luck(mix(uint64(item))), l.with(uint64(item)).with(uint64(n)) // the same items each time
			takes := 40*time.Millisecond + time.Duration(one.unit()*float64(120*time.Millisecond))
			if own.unit() < 0.06 || one.unit() < 0.15 {
				return "exit", takes
			}
			return "", takes
		}
	}, policies: hard},
	{name: "is down once", model: "steps: {'*': {failures: {server_error: 0.03}, latency: {uniform: [40ms, 160ms]}, outages: [{from: 1s, for: 4s, class: network}]}}", late: true},
	{name: "is down for long", model: "steps: {'*': {latency: {uniform: [20ms, 80ms]}, outages: [{from: 1s, for: 30s, class: network}]}}",
		policies: []policyAt{{3, "attempts: 12, initial_delay: 6s, backoff: fixed, jitter: equal"}, {3, "attempts: 99, initial_delay: 500ms, backoff: fixed"}, {3, "attempts: 30, initial_delay: 1s, backoff: exponential, max_delay: 10s, jitter: full"}}},
	{name: "is down now and then", model: "steps: {'*': {latency: {uniform: [40ms, 160ms]}, outages: [{mean_up: 3s, mean_down: 600ms}]}}", items: 600},
	{name: "is a queue", model: "steps: {'*': {failures: {server_error: 0.05}, latency: {queue: {capacity: 4, service: 50ms}}}}", policies: []policyAt{{8, patient[0].retry}, {4, patient[0].retry}, {8, patient[1].retry}}},
	{name: "serves four at once, each as long", own: func(l luck) func(int, int, time.Duration, int) (string, time.Duration) {
		var free [4]time.Duration
		return func(item, n int, now time.Duration, _ int) (string, time.Duration) {
			first := 0
			for i := range free {
				if free[i] < free[first] {
					first = i
				}
			}
			free[first] = max(free[first], now) + 60*time.Millisecond
			one := l.with(uint64(item)).with(uint64(n))
			if one.unit() < 0.1 {
				return "server_error", free[first] - now
			}
			return "", free[first] - now
		}
	}, policies: []policyAt{{8, patient[0].retry}, {5, patient[0].retry}, {8, patient[1].retry}}},
	{name: "fails fast, succeeds slowly", own: func(l luck) func(int, int, time.Duration, int) (string, time.Duration) {
		return func(item, n int, _ time.Duration, _ int) (string, time.Duration) {
			one := l.with(uint64(item)).with(uint64(n))
			if one.unit() < 0.35 {
				return "network", 3 * time.Millisecond
			}
			return "", 300*time.Millisecond + one.exponential(200*time.Millisecond)
		}
	}},
	{name: "hangs now and then", model: "steps: {'*': {failures: {timeout: 0.1}, latency: {uniform: [40ms, 160ms]}}}",
		policies: []policyAt{{6, "timeout: 500ms, attempts: 8, initial_delay: 100ms, backoff: fixed"}, {6, "timeout: 300ms, attempts: 8, initial_delay: 100ms, backoff: fixed"}, {6, "timeout: 500ms, attempts: 4, initial_delay: 1s, backoff: fixed, jitter: full"}}},
	{name: "has slow items", own: func(l luck) func(int, int, time.Duration, int) (string, time.Duration) {
		return func(item, n int, _ time.Duration, _ int) (string, time.Duration) {
			own, one := luck(mix(uint64(item)+99)), l.with(uint64(item)).with(uint64(n))
			takes := 50 * time.Millisecond
			if own.unit() < 0.1 {
				takes = time.Second
			}
			if one.unit() < 0.2 {
				return "server_error", takes
			}
			return "", takes
		}
	}},
	{name: "fails when it is busy", own: func(l luck) func(int, int, time.Duration, int) (string, time.Duration) {
		return func(item, n int, _ time.Duration, busy int) (string, time.Duration) {
			one := l.with(uint64(item)).with(uint64(n))
			takes := 40*time.Millisecond + time.Duration(one.unit()*float64(120*time.Millisecond))
			if one.unit() < 0.08*float64(busy-1) {
				return "server_error", takes
			}
			return "", takes
		}
	}},
	{name: "is slow at first", own: func(l luck) func(int, int, time.Duration, int) (string, time.Duration) {
		return func(item, n int, now time.Duration, _ int) (string, time.Duration) {
			one := l.with(uint64(item)).with(uint64(n))
			takes := 40*time.Millisecond + time.Duration(one.unit()*float64(60*time.Millisecond))
			if now < time.Second {
				takes *= 6
			}
			if one.unit() < 0.1 {
				return "server_error", takes
			}
			return "", takes
		}
	}},
	{name: "two steps, one of which fails", model: "steps: {'*': {failures: {exit: 0.25}, latency: {lognormal: {p50: 30ms, p99: 120ms}}}}\nprocess: 3ms", second: true},
}

// file is the work that is done.
func (s *server) file(t testing.TB, p policyAt) *workflow.File {
	if !s.second {
		return mapped(t, p.parallel, p.retry)
	}
	return parsed(t, "w.yml", fmt.Sprintf("map:\n  input: [1]\n  max_parallel: %d\n  agent_template: [{shell: 'x ${item}', retry: {%s}}, {shell: 'y ${item}', retry: {attempts: 4}}]\n", p.parallel, p.retry))
}

// world is what runs against the server are simulated in.
func (s *server) world(t testing.TB) *Model {
	if s.model != "" {
		return exactly(modelOf(t, s.model))
	}
	return exactly(&Model{Steps: map[string]*Target{}})
}

// actions answer as the server does.
func (s *server) actions(w *world, drawn step.Actions) step.Actions {
	if s.own == nil {
		return drawn
	}
	acts := drawn.(*virtual.Actions)
	answer := s.own(w.seed)
	busy, asked := 0, map[int]int{}
	acts.Model = func(c *step.Call) (a virtual.Answer) {
		now := w.clock.Now().Sub(w.began)
		busy++
		asked[c.Index]++
		w.seen.attempt(static(c.Path), c, now, 0, 0)
		class, takes := answer(c.Index, asked[c.Index], now, busy)
		a.Takes = takes
		a.Last = func() *failure.Failure {
			busy--
			if class == "" {
				return nil
			}
			return failed(class, 0)
		}
		return a
	}
	return acts
}

// figures are how well runs were predicted.
type predictions struct {
	medians, inMedian int // predictions, and medians inside the bounds of a median
	runs, inRun       int // real runs, and those inside the 90 % band
	sure, close       int // predictions that say that they know, and of them those within 5 %
	inAttempts        int // real runs of which the number of attempts is inside the 90 % band
	inShare           int // predictions of which the bounds have the share of real runs that succeed
	off               []float64
	last              Range
}

// TestForesightServers: what one run tells of runs against twenty servers, under its own
// policy and under two others. The short form has the one whose answers at another width
// depend most on what is found out about it.
func TestForesightServers(t *testing.T) {
	t.Parallel()
	withoutDetector(t)
	var same, other predictions
	if !long {
		at := slices.IndexFunc(twenty, func(s server) bool { return strings.HasPrefix(s.name, "serves four at once") })
		twenty[at].predicted(t, &same, &other, 3, 25, 50)
		figure(t, "the same policy: real medians inside their 90 % interval", float64(same.inMedian), 2, 3)
		figure(t, "another policy: real medians inside their 90 % interval", float64(other.inMedian), 5, 6)
		figure(t, "another policy: medians are off by, in the mean, %", 100*mean(other.off), -5, 5)
		return
	}
	for _, s := range twenty {
		t.Run(s.name, func(t *testing.T) { s.predicted(t, &same, &other, 5, 200, 75) })
	}
	for _, x := range []struct {
		name string
		of   predictions
	}{{"the same policy", same}, {"another policy", other}} {
		figure(t, x.name+": real medians inside their 90 % interval, %", 100*float64(x.of.inMedian)/float64(x.of.medians), 85, 95)
		figure(t, x.name+": real runs inside the 90 % band, %", 100*float64(x.of.inRun)/float64(x.of.runs), 85, 97)
		figure(t, x.name+": attempts of real runs inside the 90 % band, %", 100*float64(x.of.inAttempts)/float64(x.of.runs), 85, 97)
		figure(t, x.name+": shares that succeed inside their interval, %", 100*float64(x.of.inShare)/float64(x.of.medians), 85, 100)
		figure(t, x.name+": answers that say that they know, %", 100*float64(x.of.sure)/float64(x.of.medians), 1, 100)
		figure(t, x.name+": of them within 5 %, %", 100*float64(x.of.close)/float64(max(x.of.sure, 1)), 90, 100)
	}
}

// predicted predicts runs against a server from each of some that were recorded, by a number
// of simulated ones, and holds them against real ones.
func (s *server) predicted(t *testing.T, same, other *predictions, recorded, real, seeds int) {
	policies := s.policies
	if policies == nil {
		policies = patient
	}
	items := max(s.items, 150)
	world := s.world(t)
	var lines []string
	var recs []*Recording
	var models []*Model
	for seed := range recorded {
		rec := s.recording(t, policies[0], world, items, uint64(seed))
		recs, models = append(recs, rec), append(models, rec.FitChecked(t.Context()))
	}
	for i, p := range policies {
		truth := s.truth(t, p, world, items, real)
		took := make([]float64, len(truth))
		for k, x := range truth {
			took[k] = float64(x.Makespan)
		}
		slices.Sort(took)
		median := took[len(took)/2]
		of := same
		if i > 0 {
			of = other
		}
		here := predictions{}
		for k, rec := range recs {
			says, _, err := rec.simulate(t.Context(), models[k], Program{File: s.file(t, p)}, seeds)
			if err != nil {
				t.Fatal(err)
			}
			here.add(says, median, took, truth)
			of.add(says, median, took, truth)
		}
		lines = append(lines, fmt.Sprintf("%d of %d medians inside, %d of %d runs, %d of them by attempts, %d shares, off by %+.1f %% (sure: %d, of them %d within 5 %%), %s to %s", here.inMedian, here.medians, here.inRun, here.runs, here.inAttempts, here.inShare, 100*mean(here.off), here.sure, here.close, Span(here.last.Low), Span(here.last.High)))
	}
	t.Log("\n\t" + strings.Join(lines, "\n\t"))
}

func mean(list []float64) (sum float64) {
	for _, v := range list {
		sum += v / float64(len(list))
	}
	return sum
}

func (p *predictions) add(says *Report, median float64, took []float64, truth []*Sample) {
	good := shareOf(truth)
	for _, s := range truth {
		if n := int64(s.Attempts); says.Attempts.P5 <= n && n <= says.Attempts.P95 {
			p.inAttempts++
		}
	}
	if share := says.Runs.Succeeded; share.Low <= good && good <= share.High {
		p.inShare++
	}
	p.medians++
	if b := says.Median; b != nil {
		p.last = *b
	}
	if b := says.Median; b != nil && float64(b.Low) <= median && median <= float64(b.High) {
		p.inMedian++
	}
	off := float64(says.Makespan.P50)/median - 1
	p.off = append(p.off, off)
	if says.Sure() {
		if p.sure++; math.Abs(off) <= 0.05 {
			p.close++
		}
	}
	for _, v := range took {
		if p.runs++; v >= float64(says.Makespan.P5) && v <= float64(says.Makespan.P95) {
			p.inRun++
		}
	}
}

// against has runs meet the server.
func (s *server) against(o Options) Options {
	o.actions = s.actions
	if s.late {
		o.clock = late
	}
	return o
}

// truth is many runs under a policy.
func (s *server) truth(t testing.TB, p policyAt, world *Model, items, n int) []*Sample {
	return samples(t, s.against(Options{File: s.file(t, p), Model: world, Seeds: n, First: 5000, Items: Items(items)}))
}

// recording is one run that was recorded.
func (s *server) recording(t testing.TB, p policyAt, world *Model, items int, seed uint64) *Recording {
	return madeRunOn(t, s.against(Options{File: s.file(t, p), Model: world}), items, seed)
}

// TestForesightTune: what is proposed for runs against the servers is better against the
// servers themselves, by no less than was said, and succeeds as often as was said. The short
// form has the one of which items have luck in common.
func TestForesightTune(t *testing.T) {
	t.Parallel()
	withoutDetector(t)
	servers, goals, real, seeds, least := twenty[7:8], []string{"success"}, 50, 50, 40
	if long {
		servers, goals, real, seeds, least = twenty, []string{"success", "makespan"}, 100, 50, 100
	}
	n, better, enough, shares := 0, 0, 0, 0
	for _, s := range servers {
		policies := s.policies
		if policies == nil {
			policies = patient
		}
		world, items := s.world(t), max(s.items, least)
		was := s.truth(t, policies[0], world, items, real)
		rec := s.recording(t, policies[0], world, items, 0)
		for _, goal := range goals {
			got, err := rec.Tune(t.Context(), goal, seeds, rec.Program)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Proposals) == 0 {
				t.Logf("%s, for %s: nothing is proposed", s.name, goal)
				continue
			}
			p := got.Proposals[0]
			program, err := rec.Program(p.Set)
			if err != nil {
				t.Fatal(err)
			}
			is := samples(t, s.against(Options{File: program.File, Model: world, Seeds: real, First: 5000, Items: Items(items)}))
			gained, good := gainedReally(goal, was, is), shareOf(is)
			n++
			if gained > 0 {
				better++
			}
			if gained >= p.Least-0.01 { // of what 100 runs cannot tell
				enough++
			}
			share := p.Report.Runs.Succeeded
			inside := share.Low <= good && good <= share.High
			if inside {
				shares++
			}
			t.Logf("%s, for %s: %v gains %.1f %% (said: %.1f %%, at least %.1f %%); %.0f %% succeed (%.0f to %.0f %%)",
				s.name, goal, p.Set, 100*gained, 100*p.Gain, 100*p.Least, 100*good, 100*share.Low, 100*share.High)
		}
	}
	all := float64(max(n, 1))
	figure(t, fmt.Sprintf("tune: of %d proposals those that are better, %%", n), 100*float64(better)/all, 90, 100)
	figure(t, "tune: those that gain what they do at least, %", 100*float64(enough)/all, 85, 100)
	figure(t, "tune: shares that succeed inside their interval, %", 100*float64(shares)/all, 85, 100)
}

func shareOf(list []*Sample) float64 {
	good := 0.0
	for _, s := range list {
		good += succeeded(s)
	}
	return good / float64(len(list))
}

// gainedReally is how much better a goal is met in real runs.
func gainedReally(goal string, was, is []*Sample) float64 {
	if goal == "success" {
		return gain(goal, Summarize(was, false), Summarize(is, false))
	}
	return 1 - float64(Summarize(is, false).Makespan.P50)/float64(Summarize(was, false).Makespan.P50)
}
