package simulate_test

import (
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/simulate"
)

// TestFallback: a fallback does not fail because its step does. It meets what the model says
// of it, or of all others, and is no attempt.
func TestFallback(t *testing.T) {
	t.Parallel()
	f := parse(t, `
name: f
commands:
  - {id: get, name: fetch it, shell: fetch, retry: {attempts: 3, initial_delay: 1s, backoff: fixed, on_failure: {fallback: {command: cached}}}}
  - {name: use, shell: use}
`)
	const down = `fetch it: {failures: {network: 1.0}, outages: [{from: 0s, for: 1h, class: network}], latency: 50ms, cost: {usd: 1}}`
	for name, c := range map[string]struct {
		model     string
		succeeded float64
		attempts  int
		usd       float64
	}{
		"nothing is said of it":  {down, 1, 4, 3},
		"it fails, by its name":  {down + "\n  fetch it.fallback: {failures: {exit: 1.0}}", 0, 3, 3},
		"it fails, by its id":    {down + "\n  get.fallback: {failures: {exit: 1.0}}", 0, 3, 3},
		"it fails, by its path":  {down + "\n  commands[0].fallback: {failures: {exit: 1.0}, cost: {usd: 5}}", 0, 3, 8},
		"all others fail":        {down + "\n  use: {latency: 1ms}\n  \"*\": {failures: {exit: 1.0}}", 0, 3, 3},
		"all others do not fail": {down + "\n  \"*\": {latency: 1ms}", 1, 4, 3},
	} {
		text := "steps:\n  " + c.model + "\n"
		m, problems := simulate.Parse("model.yml", []byte(text), simulate.Known(f))
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		list := run(t, simulate.Options{File: f, Model: m, Seeds: 3})
		r := simulate.Summarize(list, false)
		if r.Runs.Succeeded.P != c.succeeded || list[0].Attempts != c.attempts || list[0].USD != c.usd {
			t.Errorf("%s: %v of the runs succeed, with %d attempts for $%v; want %v, %d, $%v", name, r.Runs.Succeeded.P, list[0].Attempts, list[0].USD, c.succeeded, c.attempts, c.usd)
		}
	}
	if _, problems := simulate.Parse("model.yml", []byte("steps: {use.fallback: {latency: 1s}}"), simulate.Known(f)); len(problems) == 0 || !strings.Contains(problems.Error(), "use.fallback") {
		t.Errorf("a step without a fallback: %v", problems)
	}
}
