package simulate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// The checks of the simulator against theory and against the world. `make
// foresight` runs their long form, and prints each figure beside its bound.

func TestMain(m *testing.M) {
	if proc.CompanionMain() {
		return
	}
	os.Exit(m.Run())
}

// long says that there is time.
var long = os.Getenv("BIDE_FORESIGHT") != ""

// withoutDetector leaves a test of figures, which has no goroutines that others do not
// have, to the run of the tests without the race detector (make bounds): it takes eight
// times as long with it.
func withoutDetector(t *testing.T) {
	t.Helper()
	if raceEnabled && !long {
		t.Skip("make bounds runs it, without the race detector")
	}
}

// figure checks that a figure is within its bound, and prints both.
func figure(t *testing.T, what string, got, least, most float64) {
	t.Helper()
	text := fmt.Sprintf("%-52s %12.5g   from %.5g to %.5g", what, got, least, most)
	if !(got >= least && got <= most) {
		t.Errorf("%s: out of bounds", text)
		return
	}
	t.Log(text)
}

func parsed(t testing.TB, name, text string) *workflow.File {
	t.Helper()
	f, problems := workflow.Parse(name, []byte(text), workflow.Options{ReadFile: func(path string) ([]byte, error) {
		if text, ok := others[filepath.Base(path)]; ok {
			return []byte(text), nil
		}
		return nil, os.ErrNotExist
	}})
	if problems.HasErrors() {
		t.Fatalf("%s: %v", text, problems)
	}
	return f
}

func modelOf(t testing.TB, text string) *Model {
	t.Helper()
	m, problems := Parse("model.yml", []byte(text), nil)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	return m
}

// exactly is a model under which nothing begins later than it is due.
func exactly(m *Model) *Model {
	m.Late = &Latency{}
	return m
}

func samples(t testing.TB, o Options) []*Sample {
	t.Helper()
	list, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestForesightAttempts: with p failures an attempt and N attempts, 1-p^N of the
// runs succeed, in (1-p^N)/(1-p) attempts.
func TestForesightAttempts(t *testing.T) {
	t.Parallel()
	const p, n = 0.3, 5
	seeds := 5_000
	if long {
		seeds = 100_000
	}
	f := parsed(t, "w.yml", "commands: [{shell: x, retry: {attempts: 5, initial_delay: 10ms, jitter: full}}]")
	r := Summarize(samples(t, Options{File: f, Model: modelOf(t, "steps: {'*': {failures: {error: 0.3}}}"), Seeds: seeds}), false)
	q := math.Pow(p, n)
	se := math.Sqrt(q * (1 - q) / float64(seeds))
	figure(t, fmt.Sprintf("p=0.3 N=5, %d seeds: share that succeeds", seeds), r.Runs.Succeeded.P, 1-q-3*se, 1-q+3*se)
	square := 0.0
	for k := 1; k <= n; k++ {
		pk := math.Pow(p, float64(k-1)) * (1 - p)
		if k == n {
			pk = math.Pow(p, n-1)
		}
		square += float64(k*k) * pk
	}
	mean := (1 - q) / (1 - p)
	se = math.Sqrt((square - mean*mean) / float64(seeds))
	figure(t, "p=0.3 N=5: mean attempts", r.Attempts.Mean, mean-3*se, mean+3*se)
}

// TestForesightQueue: who comes to an M/M/c queue waits as long as Erlang's
// formula says.
func TestForesightQueue(t *testing.T) {
	t.Parallel()
	const c, batch = 4, 10_000 // long enough for means that do not depend on each other
	const service, rho = 50 * time.Millisecond, 0.8
	n := 200_000
	if long {
		n = 2_000_000
	}
	a := float64(c) * rho // erlangs
	sum, term := 0.0, 1.0
	for k := range c {
		if k > 0 {
			term *= a / float64(k)
		}
		sum += term
	}
	last := term * a / c / (1 - rho)
	want := last / (sum + last) * float64(service) / (c * (1 - rho))
	x := &live{Target: &Target{Latency: Latency{Capacity: c, Service: service}}}
	x.begin(1)
	l, now := luck(7), time.Duration(0)
	var means []float64
	for range n / batch {
		total := 0.0
		for range batch {
			now += l.exponential(time.Duration(float64(service) / (c * rho)))
			before := l
			d := x.Latency.draw(&before)
			total += float64(x.takes(now, &l) - d)
		}
		means = append(means, total/batch)
	}
	mean, se := meanOf(means)

	figure(t, fmt.Sprintf("M/M/4 at 0.8, %d calls: mean wait in ms", n), mean/1e6, (want-3*se)/1e6, (want+3*se)/1e6)
}

func meanOf(list []float64) (mean, se float64) {
	for _, v := range list {
		mean += v
	}
	mean /= float64(len(list))
	for _, v := range list {
		se += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(se/float64(len(list)-1)) / math.Sqrt(float64(len(list)))
}

// served is a server on loopback that answers by what is asked for and how
// often it was asked for it.
type served struct {
	*httptest.Server
	mu    sync.Mutex
	count map[string]int
}

func serve(t *testing.T, answer func(item string, n int) (status int, after time.Duration)) *served {
	s := &served{count: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.count[r.URL.Path]++
		n := s.count[r.URL.Path]
		s.mu.Unlock()
		status, after := answer(strings.TrimPrefix(r.URL.Path, "/"), n)
		if after > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int(after.Seconds())))
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s
}

// really runs a file on this machine and gives its recording.
func really(t *testing.T, f *workflow.File) (*Recording, *engine.Summary) {
	t.Helper()
	store, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sum, err := engine.Run(t.Context(), engine.Options{Settings: engine.Settings{Dir: t.TempDir(), Isolation: "none"}, Store: store, File: f})
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Read(sum.Run)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rec, err := Record(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return rec, sum
}

// TestForesightScripted: the real engine against a real server, and the
// simulator against the same answers, make the same attempts and decisions.
func TestForesightScripted(t *testing.T) {
	t.Parallel()
	n := 20
	if long {
		n = 300
	}
	answer := func(item string, k int) (int, time.Duration) {
		h := mix(hash(item)) % 7
		switch {
		case uint64(k) > h%5:
			return 200, 0
		case h == 6:
			return 404, 0
		}
		return 503, 0
	}
	s := serve(t, answer)
	text := fmt.Sprintf(`
name: scripted
error_policy: {on_item_failure: retry, retry_config: {attempts: 2, initial_delay: 2ms, backoff: fixed}}
map:
  input: [%s]
  max_parallel: 4
  agent_template:
    - http: "%s/${item}"
      retry: {attempts: 3, initial_delay: 1ms, backoff: fixed, retry_on: [server_error]}
`, list(n), s.URL)
	f := parsed(t, "w.yml", text)
	rec, sum := really(t, f)
	count := map[int]int{}
	made := decisions{}
	rounds := map[int]int{}
	got := samples(t, Options{File: f, Model: &Model{Steps: map[string]*Target{}}, Seeds: 1, Facts: func(_ int, e event.Event) { made.take(e, rounds) },
		actions: func(w *world, drawn step.Actions) step.Actions {
			acts := drawn.(*virtual.Actions)
			acts.Model = func(c *step.Call) (a virtual.Answer) {
				w.seen.attempt(static(c.Path), c, w.clock.Now().Sub(w.began), 0, 0)
				count[c.Index]++
				status, _ := answer(fmt.Sprint(c.Index), count[c.Index])
				if a.Result.Status = status; status != 200 {
					a.Failure = failed("server_error", 0)
					if status == 404 {
						a.Failure.Class, a.Failure.Status = "http", 404
					}
				}
				return a
			}
			return acts
		}})[0]
	if got.Status != sum.Status || got.Attempts != rec.Attempts() {
		t.Errorf("simulated %s with %d attempts, really %s with %d", got.Status, got.Attempts, sum.Status, rec.Attempts())
	}
	for i := range n {
		if real := s.count[fmt.Sprintf("/%d", i+1)]; real != count[i+1] {
			t.Errorf("item %d: %d attempts simulated, %d real", i+1, count[i+1], real)
		}
	}
	same, all := 0, 0
	for at, was := range rec.lives[0].decisions {
		all++
		if slices.Equal(classless(was), classless(made[at])) {
			same++
		} else {
			t.Errorf("%s: really %q, simulated %q", at, was, made[at])
		}
	}
	figure(t, fmt.Sprintf("scripted, %d attempts: steps and items decided alike", got.Attempts), float64(same), float64(all), float64(all))
}

// classless leaves out how an HTTP answer is called.
func classless(list []string) (out []string) {
	for _, d := range list {
		d, _, _ = strings.Cut(d, " (")
		out = append(out, d)
	}
	return out
}

func list(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d,", i+1)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// TestForesightReplay: runs of every kind, replayed under their own policies,
// make the same decisions.
func TestForesightReplay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	once := func(name string) string { // fails until it was called three times
		return fmt.Sprintf(`'f=%s/%s; echo x >> $f; [ $(wc -l < $f) -ge 3 ]'`, dir, name)
	}
	files := map[string]string{
		"jitter": "commands: [{shell: " + once("a") + ", retry: {attempts: 5, initial_delay: 5ms, jitter: full}}]",
		"equal":  "commands: [{shell: " + once("b") + ", retry: {attempts: 5, initial_delay: 5ms, jitter: equal}}]",
		"deco":   "commands: [{shell: " + once("c") + ", retry: {attempts: 5, initial_delay: 5ms, jitter: decorrelated}}]",
		"given":  "commands: [{shell: exit 4, retry: {attempts: 3, initial_delay: 1ms}}, {shell: 'true'}]",
		"handle": "commands: [{shell: exit 3, on_failure: {shell: 'true'}}, {shell: 'exit 5', continue_on_error: true}, {shell: echo hi, capture: x}, {shell: 'false', when: \"x == 'ho'\"}]",
		"break":  "commands: [{shell: exit 4, retry: {attempts: 6, initial_delay: 1ms, circuit_breaker: {failure_threshold: 3, timeout: 1h}}}]",
		"late":   "commands: [{shell: sleep 5, timeout: 30ms, retry: {attempts: 2, initial_delay: 1ms}}]",
		"loop":   "commands: [{foreach: [a, b, c, d], parallel: 2, do: [{shell: 'test ${item} != c', retry: {attempts: 2, initial_delay: 1ms}, continue_on_error: true}]}]",
		"map": "error_policy: {on_item_failure: retry, retry_config: {attempts: 3, initial_delay: 4ms, jitter: full}}\nmap: {input: [1, 2, 3, 4, 5, 6, 7, 8], max_parallel: 3, agent_template: [" +
			"{shell: 'test $((${item} % 3)) != 0', retry: {attempts: 2, initial_delay: 2ms, jitter: full}}, {shell: 'true'}]}",
	}
	limited := serve(t, func(_ string, n int) (int, time.Duration) {
		if n < 3 {
			return 429, time.Second
		}
		return 200, 0
	})
	for _, jitter := range []string{"full", "equal", "factor", "decorrelated"} {
		files["asked "+jitter] = fmt.Sprintf("commands: [{http: '%s/%s', retry: {attempts: 4, initial_delay: 1500ms, max_delay: 2s, jitter: %s}}]", limited.URL, jitter, jitter)
	}
	files["asked map"] = fmt.Sprintf("error_policy: {on_item_failure: retry, retry_config: {attempts: 4, initial_delay: 400ms, jitter: full}}\n"+
		"map: {input: [m1, m2, m3, m4, m5, m6], max_parallel: 6, agent_template: [{http: '%s/${item}', retry: {attempts: 2, initial_delay: 300ms, jitter: equal}}]}", limited.URL)
	files["rules"] = "commands: [{shell: " + once("r") + ", retry: {attempts: 5, initial_delay: 5ms, jitter: full, rules: [{on: {exit_code: 1}, initial_delay: 40ms, jitter: full}]}}]"
	files["cut"] = "timeout: 100ms\ncommands: [{shell: sleep 3}]"
	files["cut within"] = "commands: [{foreach: [1, 2], timeout: 100ms, do: [{shell: sleep 3}], continue_on_error: true}, {shell: 'true'}]"
	files["cut agent"] = "map: {input: [1, 2, 3, 4], max_parallel: 2, agent_timeout: 1s, agent_template: [{shell: 'test ${item} != 2 || sleep 9'}]}"
	files["breaker"] = "error_policy: {on_item_failure: retry, circuit_breaker: {failure_threshold: 2, timeout: 40ms}, retry_config: {attempts: 4, initial_delay: 4ms, jitter: full}}\nmap: {input: [" + list(24) + "], max_parallel: 3, agent_template: [" +
		"{shell: 'sleep 0.00${item}; test $((${item} % 3)) != 0', retry: {attempts: 2, initial_delay: 2ms, jitter: full}}]}"
	var mu sync.Mutex
	var each sync.WaitGroup
	same, all := 0, 0
	for name, text := range files {
		f := parsed(t, name+".yml", text)
		each.Go(func() { // most of them wait
			rec, _ := really(t, f)
			got, err := rec.Replay(t.Context(), Program{File: f}, 1)
			if err != nil {
				t.Error(name, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			same, all = same+got.Same, all+got.Decisions
			if got.Status != rec.Status || len(got.Different) > 0 || got.Decisions == 0 {
				t.Errorf("%s: recorded %s, replayed %s: %d of %d decisions, %q", name, rec.Status, got.Status, got.Same, got.Decisions, got.Different)
			}
		})
	}
	each.Wait()
	figure(t, fmt.Sprintf("replay of %d runs: decisions that are the same", len(files)), float64(same), float64(all), float64(all))
}

// TestForesightStochastic: real runs against a server that is down for a while,
// fails now and then and answers 429, beside what was simulated of them. For each of them
// as many are simulated, whose server takes for its answers what it took in that one: other
// work of the machine makes a whole run slow, not one answer here and there.
func TestForesightStochastic(t *testing.T) {
	if !long {
		t.Skip("the long form: make foresight")
	}
	const items, runs = 500, 30
	const m = `
steps:
  "*":
    failures: {server_error: 0.1}
    latency: 20ms
    outages: [{from: 500ms, for: 700ms, class: server_error}]
    limit: {rate: 300/1s, burst: 60, retry_after: 1s}
`
	model := modelOf(t, m)
	target := model.Steps["*"]
	nominal := target.Latency.Constant
	var began time.Time
	var mu sync.Mutex
	var slept [runs][]time.Duration // how long the server took for each answer: on a busy machine, longer
	var x *live
	var l luck
	var run int
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		class, hint := x.fails(time.Since(began), x.Failures, l.unit())
		mu.Unlock()
		arrived := time.Now()
		time.Sleep(nominal) // of the server
		mu.Lock()
		slept[run] = append(slept[run], time.Since(arrived))
		mu.Unlock()
		switch class {
		case "":
		case "rate_limit":
			w.Header().Set("Retry-After", fmt.Sprint(hint.Seconds()))
			w.WriteHeader(429)
		default:
			w.WriteHeader(503)
		}
	})
	s := httptest.NewServer(handler)
	defer s.Close()
	f := parsed(t, "w.yml", fmt.Sprintf("map:\n  input: [%s]\n  max_parallel: 16\n  agent_template: [{http: '%s/${item}', retry: {attempts: 12, initial_delay: 50ms, max_delay: 800ms, jitter: full}}]\n", list(items), s.URL))
	var took, peaks []float64
	for i := range runs {
		x, run = &live{Target: target}, i
		x.begin(luck(i))
		l, began = luck(i+1000), time.Now()
		rec, _ := really(t, f)
		took = append(took, rec.Took.Seconds())
		peaks = append(peaks, float64(rec.peak()))
	}
	var made []*Sample
	for i, list := range slept {
		slices.Sort(list)
		target.Latency = Latency{Empirical: list}
		made = append(made, samples(t, Options{File: f, Model: model, Seeds: 10, First: uint64(10 * i)})...)
	}
	all := slices.Sorted(slices.Values(slices.Concat(slept[:]...)))
	t.Logf("the server took %v for an answer of %v, and in one of ten cases more than %v", all[len(all)/2], nominal, all[len(all)*9/10])
	r := Summarize(made, true)
	slices.Sort(took)
	slices.Sort(peaks)
	sec := func(ns int64) float64 { return float64(ns) / 1e9 }
	mid := sec(r.Makespan.P50)
	figure(t, "stochastic: median makespan of 30 real runs, s", took[runs/2], mid*0.95, mid*1.05)
	least, most := drawn(made, runs, runs*9/10)
	figure(t, "stochastic: their 90th percentile, s", took[runs*9/10], least*0.95, most*1.05)
	peak := float64(r.Load.PeakP50)
	figure(t, "stochastic: their median peak in 100 ms", peaks[runs/2], peak*0.85, peak*1.15)
	inside := 0
	for _, v := range took {
		if v >= sec(r.Makespan.P5) && v <= sec(r.Makespan.P95) {
			inside++
		}
	}
	figure(t, "stochastic: real runs inside the 90 % band", float64(inside), 24, 30)
}

// drawn gives between what the run at a place, from the fastest, is when as many of the
// simulated runs are drawn: in seconds, in all but one of a thousand such draws.
func drawn(made []*Sample, runs, place int) (least, most float64) {
	random := rand.New(rand.NewPCG(1, 2))
	var at []float64
	for range 20_000 {
		var took []float64
		for range runs {
			took = append(took, made[random.IntN(len(made))].Makespan.Seconds())
		}
		slices.Sort(took)
		at = append(at, took[place])
	}
	slices.Sort(at)
	return at[len(at)/2000], at[len(at)-1-len(at)/2000]
}

// peak is the most attempts that began within a bucket.
func (r *Recording) peak() (most int) {
	count := map[time.Duration]int{}
	for _, a := range r.attempts {
		count[a.from/Bucket]++
		most = max(most, count[a.from/Bucket])
	}
	return most
}

// TestForesightFitted: what is fitted to a run under one policy with 4 workers
// predicts one under another with 8.
func TestForesightFitted(t *testing.T) {
	if !long {
		t.Skip("the long form: make foresight")
	}
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		takes, fails := time.Duration(10+random.ExpFloat64()*40)*time.Millisecond, random.Float64() < 0.25
		mu.Unlock()
		time.Sleep(takes)
		if fails {
			w.WriteHeader(503)
		}
	}))
	defer s.Close()
	text := func(workers int, policy string) string {
		return fmt.Sprintf("map:\n  input: [%s]\n  max_parallel: %d\n  agent_template: [{http: '%s/${item}', retry: {%s}}]\n", list(300), workers, s.URL, policy)
	}
	rec, _ := really(t, parsed(t, "a.yml", text(4, "attempts: 3, initial_delay: 100ms, backoff: fixed")))
	f := parsed(t, "b.yml", text(8, "attempts: 6, initial_delay: 30ms, jitter: full"))
	var took []float64
	for range 9 {
		b, _ := really(t, f)
		took = append(took, b.Took.Seconds())
	}
	slices.Sort(took)
	r := Summarize(samples(t, Options{File: f, Model: rec.Fit(), Seeds: 200, Items: rec.Items}), false)
	want := float64(r.Makespan.P50) / 1e9
	figure(t, "fitted under A and 4, B and 8 workers: median, s", took[len(took)/2], want*0.85, want*1.15)
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestForesightSpeed: attempts through the executor, a large map, and a policy
// alone, by the processor time that they take.
func TestForesightSpeed(t *testing.T) {
	if !long {
		t.Skip("the long form: make foresight")
	}
	f := parsed(t, "w.yml", "commands: [{shell: x, retry: {attempts: 20000, initial_delay: 10ms, backoff: fixed, jitter: full}}]")
	m := modelOf(t, "steps: {'*': {failures: {error: 1}, latency: 5ms}}")
	start := cpu()
	samples(t, Options{File: f, Model: m, Seeds: 20})
	figure(t, "attempts a second and core, through the executor", 400_000/(cpu()-start).Seconds(), 300_000, math.Inf(1))

	pol := retry.Policy{Attempts: 1000, Backoff: backoff.Default()}
	start = cpu()
	const rounds = 5000
	failing := fmt.Errorf("down")
	for range rounds {
		mach := driver.NewMachine(&pol, began)
		now := began
		for range 999 {
			d := mach.Next(failing, now)
			now = now.Add(d.Delay)
		}
	}
	figure(t, "decisions a second and core, of a policy alone", rounds*999/(cpu()-start).Seconds(), 5_000_000, math.Inf(1))

	big := parsed(t, "w.yml", "map: {input: [1], max_parallel: 50, agent_template: [{shell: 'x ${item}', retry: {attempts: 3, initial_delay: 10ms, jitter: full}}]}")
	start = cpu()
	samples(t, Options{File: big, Model: modelOf(t, "steps: {'*': {failures: {error: 0.2}, latency: 5ms}}"), Seeds: 20, Items: Items(100_000)})
	figure(t, "100,000 items × 20 seeds, s of two processors", (cpu()-start).Seconds()/2, 0, 30)
}
