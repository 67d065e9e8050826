package simulate

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// onTime are models that are written by hand, in which all happens when it is due, with
// policies without jitter: on a machine some of it happens a moment later.
var onTime = []struct {
	name, takes, model, policy string
	parallel                   int
	matters                    bool // that moment
}{
	{"a bucket and fixed delays", "50ms", "limit: {rate: 20/1s, burst: 5, retry_after: none}", "attempts: 60, initial_delay: 200ms, backoff: fixed", 8, true},
	{"a bucket that says when", "20ms", "limit: {rate: 20/1s, burst: 10}", "attempts: 90, initial_delay: 50ms, backoff: fixed", 8, true},
	{"a bucket that asks for 100 ms", "100ms", "limit: {rate: 10/1s, burst: 3, retry_after: 100ms}", "attempts: 90, initial_delay: 100ms, backoff: fixed", 4, true},
	{"an outage and fixed delays", "50ms", "outages: [{from: 1s, for: 2s}]", "attempts: 30, initial_delay: 50ms, backoff: fixed", 8, false},
	{"nothing that depends on it", "50ms", "failures: {exit: 0}", "attempts: 3, initial_delay: 50ms, backoff: fixed", 8, false},
}

// TestForesightLate: a model that is written by hand says nothing of how late things happen
// on a machine. Where that decides how many attempts there are, the answer is as wide as it
// makes them, and where it decides nothing, no wider.
func TestForesightLate(t *testing.T) {
	t.Parallel()
	withoutDetector(t)
	for _, s := range onTime {
		world := func(takes string) *Model {
			return modelOf(t, fmt.Sprintf("steps: {'*': {latency: %s, %s}}", takes, s.model))
		}
		f, items := mapped(t, s.parallel, s.policy), Items(200)
		takes, err := time.ParseDuration(s.takes)
		if err != nil {
			t.Fatal(err)
		}
		says := Summarize(samples(t, Options{File: f, Model: world(s.takes), Seeds: 100, Items: items}), false)
		real := samples(t, Options{File: f, Model: exactly(world(fmt.Sprintf("{uniform: [%s, %s]}", takes, takes+2*time.Millisecond))), Seeds: 100, First: 1000, Items: items, clock: late})
		inside := 0
		for _, r := range real {
			if n := int64(r.Attempts); says.Attempts.P5 <= n && n <= says.Attempts.P95 {
				inside++
			}
		}
		is := Summarize(real, false)
		t.Logf("%s: %d to %d attempts are said, really %d to %d; %s to %s, really %s to %s", s.name, says.Attempts.P5, says.Attempts.P95, is.Attempts.P5, is.Attempts.P95,
			Span(says.Makespan.P5), Span(says.Makespan.P95), Span(is.Makespan.P5), Span(is.Makespan.P95))
		figure(t, s.name+": attempts of real runs inside the 90 % band, %", float64(inside), 85, 100)
		if wide := float64(says.Attempts.P95-says.Attempts.P5) / float64(says.Attempts.P50); !s.matters {
			figure(t, s.name+": the band is as wide as, % of the median", 100*wide, 0, 2)
		}
	}
}

// TestForesightLateReally: real runs against such servers make as many attempts as are said
// where the model has how late the machine is, as measured in these runs.
func TestForesightLateReally(t *testing.T) {
	if !long {
		t.Skip("the long form: make foresight")
	}
	const runs, items = 5, 60
	inside, all := 0, 0
	for _, s := range onTime {
		model := modelOf(t, fmt.Sprintf("steps: {'*': {latency: %s, %s}}", s.takes, s.model))
		target := model.Steps["*"]
		var mu sync.Mutex
		var x *live
		var began time.Time
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			arrived := time.Now()
			mu.Lock()
			class, hint := x.fails(arrived.Sub(began), x.Failures, 1)
			mu.Unlock()
			time.Sleep(time.Until(arrived.Add(target.Latency.Constant))) // of the server
			switch class {
			case "":
			case "rate_limit":
				if hint > 0 {
					w.Header().Set("Retry-After", strings.TrimRight(fmt.Sprintf("%.6f", hint.Seconds()), "0"))
				}
				w.WriteHeader(429)
			default:
				w.WriteHeader(503)
			}
		}))
		f := parsed(t, "w.yml", fmt.Sprintf("map:\n  input: [%s]\n  max_parallel: %d\n  agent_template: [{http: '%s/${item}', retry: {%s}}]\n", list(items), s.parallel, server.URL, s.policy))
		var got []int
		measured := &Latency{}
		for range runs {
			mu.Lock()
			x, began = &live{Target: target}, time.Now()
			x.begin(1)
			mu.Unlock()
			rec, _ := really(t, f)
			got = append(got, rec.Attempts())
			for _, a := range rec.attempts {
				measured.Empirical = append(measured.Empirical, max(a.took-target.Latency.Constant, 0))
			}
		}
		server.Close()
		unsaid := Summarize(samples(t, Options{File: f, Model: model, Seeds: 200}), false).Attempts
		slices.Sort(measured.Empirical)
		model.Late = measured
		says := Summarize(samples(t, Options{File: f, Model: model, Seeds: 200}), false).Attempts
		for _, n := range got {
			if all++; says.P5 <= int64(n) && int64(n) <= says.P95 || unsaid.P5 <= int64(n) && int64(n) <= unsaid.P95 {
				inside++
			}
		}
		t.Logf("%s: %d to %d attempts are said, and where it is known that they are %v late, %d to %d; really %d", s.name, unsaid.P5, unsaid.P95, measured.Empirical[len(measured.Empirical)/2], says.P5, says.P95, got)
	}
	figure(t, "real servers: runs whose attempts are inside a 90 % band", float64(inside), 0.8*float64(all), float64(all))
}
