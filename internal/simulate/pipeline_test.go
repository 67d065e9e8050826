package simulate

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// planned reads a pipeline with its manifest.
func planned(t testing.TB, dir, manifest, src string) *dataflow.Pipeline {
	t.Helper()
	for name, text := range map[string]string{"modules.yml": "modules:\n" + manifest, "p.cst": src} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, problems := dataflow.Load(filepath.Join(dir, "p.cst"), "", os.ReadFile)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	return p
}

const remoteModules = `  - {name: Search, params: {query: String}, result: List<String>, shell: [search]}
  - {name: Fetch, params: {url: String}, result: {title: String, words: Int}, http: "http://example.test/{url}"}
  - {name: Ask, params: {titles: List<String>}, result: String, agent: "{titles}"}
`

const remotePipeline = `in query: String
hits = Search(query) with retry: 3, delay: 500ms, backoff: exponential, timeout: 5s
pages = map(hits, (h) => Fetch(h) with retry: 9, delay: 200ms, jitter: full, throttle: 20/1s, concurrency: 8)
text = Ask(map(pages, (p) => p.title)) with retry: 2, delay: 1s, jitter: equal, fallback: "none"
out text
`

const remoteModel = `
items: 40
steps:
  Search: {failures: {timeout: 0.3}, latency: 1s}
  Fetch:
    failures: {network: 0.2}
    latency: {lognormal: {p50: 100ms, p99: 1s}}
    outages: [{from: 3s, for: 2s}]
  Ask: {latency: 20s, cost: {usd: 0.02, tokens: 1500}, failures: {error: 0.1}}
`

// TestPipelineSameSeedSameBytes: the facts of a pipeline are the same in each
// simulation with a seed, on this machine and on any other.
func TestPipelineSameSeedSameBytes(t *testing.T) {
	t.Parallel()
	p := planned(t, t.TempDir(), remoteModules, remotePipeline)
	text := func(first uint64) string {
		h := map[int][]string{}
		var mu sync.Mutex
		list := samples(t, Options{Pipeline: p, Model: exactly(modelOf(t, remoteModel)), Seeds: 20, First: first, Facts: func(seed int, e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			h[seed] = append(h[seed], fmt.Sprint(e.Time.Sub(began), e.Type, e.Step, e.Attempt, e.DelayMS, e.Status, e.Class))
		}})
		b, err := json.Marshal(Summarize(list, true))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x %x", sha256.Sum256(b), sha256.Sum256([]byte(fmt.Sprint(h))))[:90]
	}
	a := text(1)
	if b := text(1); a != b {
		t.Errorf("twice with one seed: %s and %s", a, b)
	}
	if text(1000) == a {
		t.Error("another seed gives the same")
	}
	if want := "fa828734ab4e26bc3231ad55e60c751b8ce0cbe7fd13518cb25dba4c83bd66bd 8551327ecbd049b056af862aa"; a != want {
		t.Errorf("the seed 1 gives %s, and gave %s", a, want)
	}
}

// TestPipelineAnalytic: of an operation with p failures an attempt and N attempts
// 1-p^N succeed, of a list of k all do in (1-p^N)^k of the runs.
func TestPipelineAnalytic(t *testing.T) {
	t.Parallel()
	const p, n, k = 0.4, 3, 4
	seeds := 1000
	if long {
		seeds = 40_000
	}
	pipe := planned(t, t.TempDir(), remoteModules, "xs = map([1, 2, 3, 4], (i) => Fetch(\"u\") with retry: 2)\nout xs\n")
	list := samples(t, Options{Pipeline: pipe, Model: modelOf(t, "steps: {Fetch: {failures: {error: 0.4}}}"), Seeds: seeds})
	want := math.Pow(1-math.Pow(p, n), k)
	se := math.Sqrt(want * (1 - want) / float64(seeds))
	figure(t, "a list of 4 calls, p = 0.4, N = 3: runs that succeed", Summarize(list, false).Runs.Succeeded.P, want-3*se, want+3*se)
}

// TestPipelineThrottle: the load on a module is what its throttle lets through.
func TestPipelineThrottle(t *testing.T) {
	t.Parallel()
	pipe := planned(t, t.TempDir(), remoteModules, "in urls: List<String>\nxs = map(urls, (u) => Fetch(u) with throttle: 10/1s)\nout xs\n")
	s := samples(t, Options{Pipeline: pipe, Model: modelOf(t, "items: 110\nsteps: {Fetch: {latency: 300ms}}"), Seeds: 1})[0]
	// Ten begin at once and then one each 100 ms: the last after 10 s.
	if s.Attempts != 110 || s.Makespan.Milliseconds() != 10_300 || s.Peak != 10 {
		t.Errorf("%d attempts in %v, at most %d at once", s.Attempts, s.Makespan, s.Peak)
	}
}

// TestPipelineReplay: recorded runs of pipelines, replayed under their own
// options, make the same decisions.
func TestPipelineReplay(t *testing.T) {
	t.Parallel()
	// Fails until it was called three times with the same input.
	const flaky = `  - {name: Ids, result: List<String>, shell: "echo '[\"a\",\"b\",\"c\",\"d\"]'"}
  - {name: Flaky, params: {id: String}, result: String, shell: "echo x >> n-$INPUT_ID; [ $(wc -l < n-$INPUT_ID) -ge 3 ] && echo '\"ok\"'"}
  - {name: Never, params: {id: String}, result: {n: Int}, shell: "exit 4"}
  - {name: Slow, params: {id: String}, result: String, shell: "sleep 5"}
  - {name: Plain, params: {id: String}, result: String, shell: "echo '12 monkeys'", output: text}
`
	same, all := 0, 0
	sources := map[string]string{
		"retry":    `out x = Flaky("a") with retry: 4, delay: 5ms, jitter: full`,
		"elements": "ids = Ids()\nxs = map(ids, (i) => Flaky(i) with retry: 4, delay: 5ms, jitter: decorrelated, backoff: exponential, concurrency: 2)\nout xs",
		"fallback": `out x = Never("a") with retry: 1, fallback: {n: 1}`,
		"skip":     `out x = Never("a") with on_error: skip, retry_on: exit_code(5)`,
		"breaker":  "ids = Ids()\nxs = map(ids, (i) => Never(i) with breaker: 2/1h, concurrency: 1, on_error: skip)\nout xs",
		"timeout":  `out x = Slow("a") with timeout: 30ms, retry: 1, delay: 1ms, fallback: "late"`,
		"cache":    "a = Plain(\"a\") with cache: 1h\nb = Plain(\"a\") with cache: 1h\nout a\nout b",
		"failed":   "x = Never(\"a\")\nout y = Flaky(\"${x.n}\")",
	}
	for name, src := range sources {
		dir := t.TempDir()
		p := planned(t, dir, flaky, src+"\n")
		rec := reallyPipeline(t, dir, p)
		got, err := rec.Replay(t.Context(), Program{Pipeline: p}, 1)
		if err != nil {
			t.Fatal(name, err)
		}
		same, all = same+got.Same, all+got.Decisions
		if got.Status != rec.Status || len(got.Different) > 0 || got.Decisions == 0 || got.Beyond > 0 {
			t.Errorf("%s: recorded %s, replayed %s: %d of %d decisions, %d beyond, %q", name, rec.Status, got.Status, got.Same, got.Decisions, got.Beyond, got.Different)
		}
	}
	figure(t, fmt.Sprintf("replay of %d pipelines: decisions that are the same", len(sources)), float64(same), float64(all), float64(all))
}

// reallyPipeline runs a pipeline on this machine and gives its recording.
func reallyPipeline(t *testing.T, dir string, p *dataflow.Pipeline) *Recording {
	t.Helper()
	store, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sum, err := engine.Run(t.Context(), engine.Options{Settings: engine.Settings{Dir: dir}, Store: store, Pipeline: p})
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
	return rec
}

// TestSetCalls: an option of a call is changed or added, by variable, module and
// policy; what cannot be changed is named.
func TestSetCalls(t *testing.T) {
	t.Parallel()
	const src = "policy calm = delay: 1s\nhits = Search(q) with retry: 3, delay: 5ms\nout pages = map(hits, (h) => Fetch(h))\nz = Fetch(\"z\") with policy: calm\n"
	for _, c := range []struct{ set, want string }{
		{"hits.retry=9", strings.Replace(src, "retry: 3", "retry: 9", 1)},
		{"Search.jitter=full", strings.Replace(src, "delay: 5ms", "delay: 5ms, jitter: full", 1)},
		{"Fetch.retry=2", strings.Replace(strings.Replace(src, "=> Fetch(h)", "=> Fetch(h) with retry: 2", 1), "policy: calm", "policy: calm, retry: 2", 1)},
		{"calm.delay=2s", strings.Replace(src, "delay: 1s", "delay: 2s", 1)},
		{"z.timeout=5s", strings.Replace(src, "policy: calm", "policy: calm, timeout: 5s", 1)},
	} {
		got, err := SetCalls([]byte(src), []string{c.set})
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s", c.set, err, got)
		}
	}
	for set, want := range map[string]string{"hits.retri=2": `did you mean "retry"`, "hitz.retry=2": `did you mean "hits"`, "retry=2": "NAME.OPTION=VALUE", "hits.retry": "NAME.OPTION=VALUE"} {
		if _, err := SetCalls([]byte(src), []string{set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// BenchmarkPipeline is the calls of a pipeline for the elements of a list.
func BenchmarkPipeline(b *testing.B) {
	p := planned(b, b.TempDir(), remoteModules, "in urls: List<String>\nxs = map(urls, (u) => Fetch(u) with retry: 4, delay: 10ms, jitter: full, concurrency: 50)\nout xs\n")
	const n = 5000
	m := modelOf(b, "items: 5000\nsteps: {Fetch: {failures: {error: 0.2}, latency: 5ms}}")
	b.ReportAllocs()
	for b.Loop() {
		if s := samples(b, Options{Pipeline: p, Model: m, Seeds: 1}); s[0].Attempts < n {
			b.Fatal(s[0])
		}
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
