package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/worst"
)

// A random policy, as a file and as a pipeline write it: one engine bounds both.
type randomPolicy struct{ step, call []string }

func (a *adversary) policy() randomPolicy {
	var p randomPolicy
	both := func(step, call string, values ...any) {
		p.step = append(p.step, fmt.Sprintf(step, values...))
		p.call = append(p.call, fmt.Sprintf(call, values...))
	}
	n := a.pick(1, 2, 3, 5, 8)
	p.step = append(p.step, fmt.Sprintf("attempts: %d", n))
	p.call = append(p.call, fmt.Sprintf("retry: %d", n-1))
	delay := a.pick(10, 300, 1000, 4000)
	both("initial_delay: %dms", "delay: %dms", delay)
	both("backoff: %s", "backoff: %s", []string{"fixed", "linear", "exponential", "fibonacci"}[a.pick(0, 1, 2, 3)])
	both("jitter: %s", "jitter: %s", []string{"none", "full", "equal", "decorrelated"}[a.pick(0, 0, 1, 2, 3)])
	if a.pick(0, 1) == 1 {
		both("max_delay: %ds", "max_delay: %ds", a.pick(4, 7, 60))
	}
	if n > 1 && delay > 0 && a.pick(0, 1, 2) == 0 {
		budget := a.pick(5, 11, 40)
		p.step, p.call = append(p.step, fmt.Sprintf("retry_budget: %ds", budget)), append(p.call, fmt.Sprintf("budget: %ds", budget))
	}
	if a.pick(0, 1, 2) == 0 {
		both("deadline: %ds", "deadline: %ds", a.pick(6, 20, 90))
	}
	if n > 1 && a.pick(0, 1, 2) == 0 {
		m := a.pick(1, n)
		wait := a.pick(10, 500, 9000)
		p.step = append(p.step, fmt.Sprintf("rules: [{on: [timeout], attempts: %d, initial_delay: %dms, backoff: fixed}]", m, wait))
		p.call = append(p.call, fmt.Sprintf("rules: [{on: timeout, retry: %d, delay: %dms}]", m-1, wait))
	}
	if n > 1 && a.pick(0, 1, 2) == 0 {
		p.step = append(p.step, "retry_on: [timeout, circuit_open, {exit_code: [1, 2, 3]}]", "circuit_breaker: {failure_threshold: 2, timeout: 20s}")
		p.call = append(p.call, "retry_on: [timeout, exit_code(1), exit_code(2), exit_code(3), circuit_open]", "breaker: 2/20s")
	}
	return p
}

// TestExplainBoundsOfRandomPolicies: no run of a step or of a call under a random
// policy takes longer than explain tells, whatever the attempts meet.
func TestExplainBoundsOfRandomPolicies(t *testing.T) {
	t.Parallel()
	// A budget had room for delays and for one wait behind a breaker.
	for _, seed := range []uint64{1795646303445688330, uint64(time.Now().UnixNano())} {
		t.Run("", func(t *testing.T) { explainBounds(t, seed) })
	}
}

func explainBounds(t *testing.T, seed uint64) {
	t.Logf("seed %d", seed)
	policies, plays := 40, 12
	if long {
		policies, plays = 1000, 100
	}
	const modules = "  - {name: Fetch, params: {url: String}, result: String, shell: [fetch], output: text}\n"
	dir, nearest := t.TempDir(), 0.0
	a := &adversary{t: t, luck: luck(mix(seed)), most: map[string]int{}}
	for range policies {
		p := a.policy()
		step := fmt.Sprintf("[{shell: x, timeout: 2s, retry: {%s}}]", strings.Join(p.step, ", "))
		call := fmt.Sprintf("out x = Fetch(\"a\") with timeout: 2s, %s\n", strings.Join(p.call, ", "))
		a.file, a.pipe = parsed(t, "w.yml", step), nil
		bound := worst.Explain(a.file).Worst.Time
		for _, text := range []string{step, call} {
			if text == call {
				a.file, a.pipe = nil, planned(t, dir, modules, call)
				bound = worst.Calls(a.pipe.Plan).Worst.Time
			}
			a.most = map[string]int{}
			took := a.search(plays, 0)
			if bound.Open || took > bound.D+time.Microsecond {
				t.Errorf("seed %d: a run of %v, %v at most (open: %v): %s", seed, took, bound.D, bound.Open, text)
			}
			if bound.D > 0 {
				nearest = max(nearest, took.Seconds()/bound.D.Seconds())
			}
		}
	}
	if nearest < 0.99 {
		t.Errorf("seed %d: no run comes up to its bound, the nearest to %.2f of it", seed, nearest)
	}
}
