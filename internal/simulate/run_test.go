package simulate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/workflow"
)

func parse(t testing.TB, text string) *workflow.File {
	t.Helper()
	f, problems := workflow.Parse("w.yml", []byte(text), workflow.Options{})
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	return f
}

func model(t testing.TB, text string) *simulate.Model {
	t.Helper()
	m, problems := simulate.Parse("model.yml", []byte(text), nil)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	return m
}

func run(t testing.TB, o simulate.Options) []*simulate.Sample {
	t.Helper()
	list, err := simulate.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

const threeSteps = `
name: three
commands:
  - shell: fetch
    name: fetch
    retry: {attempts: 5, initial_delay: 1s, backoff: exponential, jitter: full}
  - shell: build
    name: build
  - shell: send
    name: send
    retry: {attempts: 3, initial_delay: 100ms, backoff: fixed}
    on_failure: {shell: cleanup}
`

const threeModel = `
steps:
  fetch: {failures: {network: 0.3}, latency: 50ms}
  send: {failures: {timeout: 0.1, exit: 0.2}, latency: {lognormal: {p50: 100ms, p99: 1s}}, cost: {usd: 0.02, tokens: 1500}}
  "*": {latency: 10ms}
process: 3ms
`

// TestSameSeedSameBytes: two simulations of the same seeds give the same text,
// other seeds another one.
func TestSameSeedSameBytes(t *testing.T) {
	t.Parallel()
	text := func(first uint64) []byte {
		list := run(t, simulate.Options{File: parse(t, threeSteps), Model: model(t, threeModel), Seeds: 200, First: first})
		b, err := json.Marshal(simulate.Summarize(list, false))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if a, b := text(1), text(1); !bytes.Equal(a, b) {
		t.Errorf("%s\n%s", a, b)
	}
	if bytes.Equal(text(1), text(1000)) {
		t.Error("another seed gives the same")
	}
}

// BenchmarkAttempts is attempts through the executor.
func BenchmarkAttempts(b *testing.B) {
	f := parse(b, "commands: [{shell: x, retry: {attempts: 1000, initial_delay: 10ms, backoff: fixed, jitter: full}}]")
	m := model(b, "steps: {'*': {failures: {error: 1}, latency: 5ms}}")
	b.ReportAllocs()
	for b.Loop() {
		run(b, simulate.Options{File: f, Model: m, Seeds: 1})
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "attempts/s")
}

// BenchmarkMap is the attempts at the items of a map, of which three in ten fail, with
// retries by the step and by the item.
func BenchmarkMap(b *testing.B) {
	const head = "map: {input: [1], max_parallel: 50, agent_template: [{shell: 'x ${item}'"
	const retry = "retry: {attempts: 5, initial_delay: 10ms, jitter: full}"
	m := model(b, "steps: {'*': {failures: {error: 0.3}, latency: 5ms}}")
	for _, of := range []struct{ name, text string }{{"step", head + ", " + retry + "}]}"}, {"item", head + "}], " + retry + "}"}} {
		for _, n := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", of.name, n), func(b *testing.B) {
				f, items, attempts := parse(b, of.text), simulate.Items(n), 0
				b.ReportAllocs()
				for b.Loop() {
					s := run(b, simulate.Options{File: f, Model: m, Seeds: 1, Items: items})
					attempts += s[0].Attempts
				}
				b.ReportMetric(float64(attempts)/b.Elapsed().Seconds(), "attempts/s")
			})
		}
	}
}

// TestDeadlineOfTheCaller: that the caller has little time changes nothing but how
// many runs there are.
func TestDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	o := simulate.Options{File: parse(t, threeSteps), Model: model(t, threeModel), Seeds: 50}
	list, err := simulate.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	got, want := simulate.Summarize(list, false), simulate.Summarize(run(t, o), false)
	if got.Attempts.Mean != want.Attempts.Mean || got.Retries.Mean == 0 {
		t.Errorf("%v attempts with a deadline, %v without", got.Attempts.Mean, want.Attempts.Mean)
	}
}
