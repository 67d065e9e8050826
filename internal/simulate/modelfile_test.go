package simulate_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/simulate"
)

// TestModelProblems: all problems of a model are told at once, each with its
// place and what to do.
func TestModelProblems(t *testing.T) {
	t.Parallel()
	_, problems := simulate.Parse("m.yml", []byte(`steps:
  fetsh:
    failures: {network: 0.8, netwrok: 0.4}
  fetch:
    latency: {lognormal: {p50: 1s, p99: 100ms}}
    outages: [{from: 10s, mean_up: 1h}]
    limit: {rate: many}
    latencey: 3
process: fast
correlation: {items: 2}
failures: {network: 0.1}
`), []string{"fetch", "commands[0]"})
	text := problems.Error()
	for _, want := range []string{
		`m.yml:2:3: error: the file has no step "fetsh" [unknown-step]; did you mean "fetch"?`,
		`m.yml:11:1: error: the model has no key "failures" [unknown-key]; it stands with a step: steps: {"*": {failures: …}}`,
		`m.yml:3:15: error: the probabilities add up to 1.2`,
		`m.yml:3:30: error: "netwrok" is no class of errors [unknown-class]; did you mean "network"?`,
		`m.yml:5:`, `m.yml:6:15: error: an outage is`, `m.yml:7:19: error: the rate "many"`,
		`m.yml:8:5: error: a step of the model has no key "latencey" [unknown-key]; did you mean "latency"?`,
		`m.yml:9:10: error: "fast" is no span of time`, `m.yml:10:22: error: "2" is no number from 0 to 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
}

// TestHostileModels: what cannot be meant is refused, and what is drawn stays within
// time.
func TestHostileModels(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"steps: {a: {failures: {network: 0.2, network: 0.3}}}":         `"network" is there twice`,
		"steps: {a: {failures: {network: .nan}}}":                      "no number from 0 to 1",
		"steps: {a: {failures: {network: -0.1}}}":                      "no number from 0 to 1",
		"steps: {a: {latency: 99999999999999h}}":                       "is too long",
		"steps: {a: {outages: {mean_up: 1ns, mean_down: 1ns}}}":        "at least 1ms",
		"steps: {a: {latency: {queue: {capacity: 2.5, service: 1s}}}}": "no whole number",
		"steps: {a: {limit: {rate: 99999999999999999999/1s}}}":         "a limit has a rate",
		"late: {queue: {capacity: 8, service: 50ms}}":                  "late is no queue",
		"items: 3.7":   "no whole number",
		"items: 1e300": "no number from 0",
		"steps: {a: {failures: {exit: 0.6, network: 0.6}}}": "add up to 1.2",
	} {
		if _, problems := simulate.Parse("m.yml", []byte(text), nil); !problems.HasErrors() || !strings.Contains(problems.Error(), want) {
			t.Errorf("%s: %v, want %q", text, problems, want)
		}
	}
	const patient = "commands: [{shell: x, retry: {attempts: 5, initial_delay: 3000d, max_delay: 3000d}}]"
	for _, text := range []string{
		"steps: {'*': {outages: {mean_up: 1ms, mean_down: 1ms}, latency: 3650d}}",
		"steps: {'*': {outages: {mean_up: 3650d, mean_down: 3650d}, latency: 3650d}}",
		"steps: {'*': {latency: {lognormal: {p50: 1ns, p99: 3650d}}, failures: {exit: 0.5}}}",
	} {
		for _, s := range run(t, simulate.Options{File: parse(t, patient), Model: model(t, text), Seeds: 50}) {
			if s.Makespan < 0 || s.Attempts < 1 {
				t.Errorf("%s: %+v", text, s)
			}
		}
	}
}

// FuzzModel: no text ends the reader.
func FuzzModel(f *testing.F) {
	f.Add([]byte(threeModel))
	f.Add([]byte("steps: {a: {latency: {empirical: [1s]}, limit: {rate: 1/1s}}}"))
	f.Add([]byte("steps: &a {x: *a}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, problems := simulate.Parse("m.yml", text, nil)
		if (m == nil) != problems.HasErrors() {
			t.Errorf("%v, %v", m, problems)
		}
	})
}

func TestSet(t *testing.T) {
	t.Parallel()
	src := "name: x\ncommands:\n  - shell: a\n    name: fetch\n    retry: 3\n  - shell: b\n    id: two\n"
	got, err := simulate.Set([]byte(src), []string{"fetch.retry.jitter=full", "commands[1].retry.attempts=4", "timeout=10m"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"attempts: 3\n", "jitter: full\n", "attempts: 4\n", "timeout: 10m\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	_, err = simulate.Set([]byte(src), []string{"fetsh.retry.attempts=2", "commands[7].timeout=1s", "x"})
	for _, want := range []string{"neither a key nor a step fetsh", "there is no [7]", "write it as PATH=VALUE"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
