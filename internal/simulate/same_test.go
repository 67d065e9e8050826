package simulate

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	digest "hash"
	"os"
	"path/filepath"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

var update = flag.Bool("update", false, "write testdata/same anew")

// TestSameAnswers: what the same seeds give stays as it is, byte for byte and fact by fact,
// whatever is done to the executor for its speed. Who changes what a run does, or what a model
// means, writes the files anew with -update.
func TestSameAnswers(t *testing.T) {
	const model = `steps: {'*': {failures: {error: 0.2, timeout: 0.05, rate_limit: 0.02}, latency: {lognormal: {p50: 20ms, p99: 2s}}}}
items: 300
`
	for name, text := range map[string]string{
		"step-retries":  "name: n\nmap:\n  input: made-up.json\n  max_parallel: 20\n  agent_template:\n    - {shell: 'x ${item}', retry: {attempts: 4, initial_delay: 10ms, jitter: full}}\n    - {id: second, shell: 'y ${shell.output}'}\n",
		"item-retries":  "name: n\nmap:\n  input: made-up.json\n  max_parallel: 20\n  agent_template:\n    - {shell: x}\n    - {claude: '/do ${item}'}\n  retry: {attempts: 3, initial_delay: 1s, jitter: decorrelated}\n",
		"item-handlers": "name: n\nmap:\n  input: made-up.json\n  max_parallel: 7\n  agent_template:\n    - shell: x\n      timeout: 1s\n      on_failure: {shell: mend, max_attempts: 2}\n  item_budget: {time: 3s}\nerror_policy:\n  on_item_failure: dlq\n  circuit_breaker: {failure_threshold: 9, timeout: 20s}\n",
		"commands":      "commands:\n  - {id: fetch, shell: x, retry: {attempts: 6, initial_delay: 2s, backoff: fibonacci, deadline: 1m, on_failure: continue}}\n  - {foreach: [1, 2, 3], parallel: 2, do: [{shell: 'y ${item}', retry: {attempts: 2, on_failure: {fallback: {command: z}}}}]}\n  - {goal_seek: {goal: g, shell: w, validate: 'echo score', threshold: 80, max_attempts: 3}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			const seeds = 12
			var facts [seeds]digest.Hash // a run is simulated by one goroutine
			for i := range facts {
				facts[i] = sha256.New()
			}
			o := Options{File: parsed(t, "w.yml", text), Model: exactly(modelOf(t, model)), Seeds: seeds, Facts: func(seed int, e event.Event) {
				if err := json.NewEncoder(facts[seed]).Encode(e); err != nil {
					t.Error(err)
				}
			}}
			got, err := json.Marshal(Summarize(samples(t, o), false))
			if err != nil {
				t.Fatal(err)
			}
			for i := range facts {
				got = fmt.Appendf(got, "\nfacts of run %d: %x", i+1, facts[i].Sum(nil))
			}
			got = append(got, '\n')
			path := filepath.Join("testdata", "same", name)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the answer is\n%s\nand was\n%s", got, want)
			}
		})
	}
}
