package worst_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/bound"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worst"
)

const s, ms = time.Second, time.Millisecond

func explain(t *testing.T, text string) *worst.Plan {
	t.Helper()
	f, problems := workflow.Parse("w.yml", []byte(text), workflow.Options{})
	if problems.HasErrors() {
		t.Fatalf("%v", problems)
	}
	return worst.Explain(f)
}

// find gives the step at a path, wherever it stands.
func find(t *testing.T, p *worst.Plan, path string) *worst.Step {
	t.Helper()
	var walk func([]*worst.Step) *worst.Step
	walk = func(list []*worst.Step) *worst.Step {
		for _, s := range list {
			if s.Path == path {
				return s
			}
			for _, g := range s.Groups {
				if found := walk(g.Steps); found != nil {
					return found
				}
			}
		}
		return nil
	}
	for _, ph := range p.Phases {
		if s := walk(ph.Steps); s != nil {
			return s
		}
	}
	t.Fatalf("no step %s in the plan", path)
	return nil
}

func (tc most) check(t *testing.T, got bound.Cost) {
	t.Helper()
	if got.Time.Open != tc.open || !tc.open && got.Time.D != tc.time || !got.Waits.Open && got.Waits.D != tc.waits {
		t.Errorf("the worst case is %+v, want %v of which waits %v (open: %v)", got, tc.time, tc.waits, tc.open)
	}
}

type most struct {
	time, waits time.Duration
	open        bool
}

// Each row adds one thing that multiplies or bounds, counted by hand.
func TestWorstCase(t *testing.T) {
	const m = time.Minute
	for _, tc := range []struct {
		name, yaml string
		want       most
		executions string
	}{
		{"one attempt", `[{shell: x, timeout: 5s}]`, most{time: 5 * s}, "1"},
		{"no timeout", `[{shell: x}]`, most{open: true}, "1"},
		{"retry with waits", `[{shell: x, timeout: 5s, retry: {attempts: 4}}]`, most{time: 27 * s, waits: 7 * s}, "4"},
		{"timeout inside the policy", `[{shell: x, retry: {attempts: 4, timeout: 5s}}]`, most{time: 27 * s, waits: 7 * s}, "4"},
		{"the shorter of two timeouts", `[{shell: x, timeout: 2s, retry: {attempts: 4, timeout: 5s}}]`, most{time: 15 * s, waits: 7 * s}, "4"},
		{"jitter draws its longest", `[{shell: x, timeout: 5s, retry: {attempts: 4, jitter: true}}]`, most{time: 20*s + 9100*ms, waits: 9100 * ms}, "4"},
		{"budget", `[{shell: x, timeout: 5s, retry: {attempts: 10, retry_budget: 5s}}]`, most{time: 18 * s, waits: 3 * s}, "3"},
		{"budget with jitter", `[{shell: x, timeout: 5s, retry: {attempts: 4, jitter: full, retry_budget: 5s}}]`, most{time: 25 * s, waits: 5 * s}, "4"},
		{"no timeout, waits known", `[{shell: x, retry: {attempts: 4}}]`, most{open: true, waits: 7 * s}, "4"},
		{"fallback", `[{shell: x, timeout: 5s, retry: {attempts: 2, on_failure: {fallback: {command: y}}}}]`, most{time: 16 * s, waits: s}, "2"},
		{"handler once", `[{shell: x, timeout: 5s, on_failure: {shell: y, timeout: 3s}}]`, most{time: 8 * s}, "1"},
		{"handler loop", `[{shell: x, timeout: 5s, retry: {attempts: 3}, on_failure: {commands: [{shell: y, timeout: 2s}], max_attempts: 3}}]`, most{time: 3*(15*s+3*s) + 2*2*s, waits: 9 * s}, "9"},
		{"on_success", `[{shell: x, timeout: 5s, on_success: [{shell: y, timeout: 1s}]}]`, most{time: 6 * s}, "1"},
		{"the longest exit code", `[{shell: x, timeout: 5s, on_exit_code: {2: [{shell: y, timeout: 1s}], 3: [{shell: y, timeout: 4s}]}}]`, most{time: 9 * s}, "1"},
		{"foreach in place", `[{foreach: [a, b, c], do: [{shell: x, timeout: 2s, retry: {attempts: 2}}]}]`, most{time: 15 * s, waits: 3 * s}, "1"},
		{"foreach in parallel", `[{foreach: [a, b, c], parallel: 2, do: [{shell: x, timeout: 2s}]}]`, most{time: 4 * s}, "1"},
		{"foreach of anything", `[{foreach: "seq $n", do: [{shell: x, timeout: 2s}]}]`, most{open: true}, "1"},
		{"foreach within a timeout", `[{foreach: "seq $n", timeout: 1m, do: [{shell: x, timeout: 2s}]}]`, most{time: m}, "1"},
		{"foreach with attempts", `[{foreach: [a, b], timeout: 10s, retry: {attempts: 2, initial_delay: 3s}, do: [{shell: x, timeout: 2s}]}]`, most{time: 4*s + 3*s + 4*s, waits: 3 * s}, "2"},
		{"validation", `[{validate: {shell: v, timeout: 1m, threshold: 90, on_incomplete: {shell: y, max_attempts: 2}}}]`, most{open: true}, "1"},
		{"validation whose completion has a bound", `[{timeout: 10m, validate: {shell: v, timeout: 1m, on_incomplete: {shell: y, max_attempts: 2, retry_delay: 5s}}}]`, most{time: 10 * m, waits: 10 * s}, "1"},
		{"validation of commands with timeouts", `[{validate: {commands: [{shell: v, timeout: 40s}, {shell: w, timeout: 40s}], timeout: 1m, on_incomplete: {commands: [{shell: y, timeout: 10s}], max_attempts: 2, retry_delay: 5s}}}]`, most{time: 3*m + 2*(5*s+10*s), waits: 10 * s}, "1"},
		{"step_validate", `[{shell: x, timeout: 5s, step_validate: {commands: [{shell: y}], max_attempts: 3, retry_delay: 2, timeout: 10s}}]`, most{time: 5*s + 10*s, waits: 4 * s}, "1"},
		{"write_file", `[{write_file: {path: a, content: b}}]`, most{}, "1"},
		{"iterations", `{max_iterations: 3, commands: [{shell: x, timeout: 5s, retry: {attempts: 2}}]}`, most{time: 33 * s, waits: 3 * s}, "6"},
		{"the whole within its timeout", `{timeout: 10s, commands: [{shell: x}]}`, most{time: 10 * s}, "1"},
		{"two steps", `[{shell: x, timeout: 5s}, {shell: y, timeout: 6s}]`, most{time: 11 * s}, "1"},
		{"very many attempts", `[{shell: x, timeout: 1000d, retry: {attempts: 200000, max_delay: 1000d, initial_delay: 1000d}}]`, most{time: 1<<63 - 1, waits: 1<<63 - 1}, "200000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := explain(t, tc.yaml)
			tc.want.check(t, p.Worst)
			if got := p.Phases[0].Steps[0].Executions.String(); got != tc.executions {
				t.Errorf("executed %s times, want %s", got, tc.executions)
			}
		})
	}
}

const product = `
mode: mapreduce
map:
  input: [1, 2, 3, 4, 5]
  max_parallel: 2
  agent_timeout: 5m
  agent_template:
    - id: fetch
      shell: x
      timeout: 5s
      retry_config: {attempts: 4}
      on_failure: {commands: [{shell: mend, timeout: 1s}], max_attempts: 2}
    - foreach: [a, b]
      do: [{shell: y, timeout: 1s, retry_config: {attempts: 2, initial_delay: 0}}]
error_policy:
  retry_config: {max_attempts: 3, initial_delay: 10s}
reduce:
  - {shell: z, timeout: 1m}
`

func TestProductOfCommandItemAndLoop(t *testing.T) {
	p := explain(t, product)
	fetch := find(t, p, "map.agent_template[0]")
	if want := []worst.Factor{{Times: bound.Count{N: 4}, Of: "attempts"}, {Times: bound.Count{N: 2}, Of: "rounds with its handler"}, {Times: bound.Count{N: 3}, Of: "agents of an item"}}; !slices.Equal(fetch.Factors, want) || fetch.Executions.N != 24 {
		t.Errorf("%v times: %v", fetch.Executions, fetch.Factors)
	}
	if inner := find(t, p, "map.agent_template[1].do[0]"); inner.Executions.N != 2*2*3 {
		t.Errorf("the step in the foreach is executed %v times: %v", inner.Executions, inner.Factors)
	}
	if mend := find(t, p, "map.agent_template[0].on_failure[0]"); mend.Executions.N != 3 {
		t.Errorf("the handler is executed %v times: %v", mend.Executions, mend.Factors)
	}
	// 4 attempts of 5s with 7s of waits, twice, and the handler; then 2 × 2 × 1s.
	agent := 2*27*s + s + 4*s
	most{time: agent, waits: 14 * s}.check(t, p.Map.Agent)
	item := 3*agent + 30*s
	most{time: item, waits: 3*14*s + 30*s}.check(t, p.Map.Item)
	// Four items of three agents each, two at a time; then the last item; then reduce.
	most{time: 12*agent/2 + item + time.Minute, waits: 3*14*s + 30*s}.check(t, p.Worst)
}

func TestDefaultsAreFilledIn(t *testing.T) {
	p := explain(t, "mode: mapreduce\nmap: {input: items.json, agent_template: [{shell: x, retry: true}]}\nerror_policy: {on_item_failure: retry}\n")
	r := p.Phases[0].Steps[0].Retry
	if r.Attempts != 3 || r.Backoff != "exponential ×2" || r.Initial != s || r.Max != 30*s || r.Jitter != "none" || r.RetryAfterMax != 5*time.Minute {
		t.Errorf("the step's policy is %+v", r)
	}
	if m := p.Map; m.Parallel != "10" || m.Retry == nil || m.Retry.Attempts != 3 || m.Retry.Waits[0].Least != s || m.OnFailure != "dead letter" || !m.Items.Open || p.Isolation != "auto" {
		t.Errorf("the map is %+v with %+v", m, m.Retry)
	}
}

func TestTimelineOfAStep(t *testing.T) {
	p := explain(t, `[{shell: x, retry: {attempts: 4, jitter: equal}}]`)
	want := []worst.Delay{{1, 500 * ms, s}, {2, s, 2 * s}, {3, 2 * s, 4 * s}}
	if got := p.Phases[0].Steps[0].Retry.Waits; !slices.Equal(got, want) {
		t.Errorf("delays %v, want %v", got, want)
	}
}

func TestFindings(t *testing.T) {
	for name, tc := range map[string]struct{ yaml, code, message string }{
		"budget never reached":     {`[{shell: x, retry: {attempts: 3, retry_budget: 5m}}]`, "budget-unreachable", "at most 3s in all"},
		"budget with jitter":       {`[{shell: x, retry: {attempts: 3, jitter: true, retry_budget: 3900ms}}]`, "budget-unreachable", "at most 3.9s"},
		"attempts never reached":   {`[{shell: x, retry: {attempts: 10, retry_budget: 5s}}]`, "attempts-unreachable", "allows at most 3 of the 10 attempts"},
		"breaker before attempts":  {`[{shell: x, retry: {attempts: 5, circuit_breaker: {failure_threshold: 3}}}]`, "attempts-unreachable", "attempt 4 of 5 is refused"},
		"foreach below its waits":  {`[{foreach: [a, b], timeout: 10s, do: [{shell: x, retry: {attempts: 4}}]}]`, "timeout-below-waits", "can take 14s"},
		"run below its waits":      {`{timeout: 7s, commands: [{shell: x, retry: {attempts: 4}}]}`, "timeout-below-waits", "the workflow has a timeout of 7s"},
		"run below its attempts":   {`{timeout: 20s, commands: [{shell: x, timeout: 5s, retry: {attempts: 4}}]}`, "timeout-below-attempts", "can take 27s"},
		"handler below its waits":  {`[{shell: x, on_failure: {timeout: 2s, commands: [{shell: y, retry: {attempts: 4}}]}}]`, "timeout-below-waits", "on_failure"},
		"agent below its waits":    {"mode: mapreduce\nmap: {input: i.json, agent_timeout: 6s, agent_template: [{shell: x, retry: {attempts: 4}}]}", "timeout-below-waits", "the agent has a timeout of 6s"},
		"item budget":              {"mode: mapreduce\nmap: {input: i.json, agent_template: [{shell: x}]}\nerror_policy: {retry_config: {attempts: 2, retry_budget: 1h}}", "budget-unreachable", "items"},
		"template below its waits": {"mode: mapreduce\nmap: {input: i.json, agent_template: {timeout: 6s, commands: [{shell: x, retry: {attempts: 4}}]}}", "timeout-below-waits", "map has a timeout of 6s"},
		"setup below its attempts": {"mode: mapreduce\nsetup: {timeout: 3s, commands: [{shell: x, timeout: 5s}]}\nmap: {input: i.json, agent_template: [{shell: x}]}", "timeout-below-attempts", "setup"},
	} {
		t.Run(name, func(t *testing.T) {
			p := explain(t, tc.yaml)
			if len(p.Findings) != 1 || p.Findings[0].Code != tc.code || !strings.Contains(p.Findings[0].Message, tc.message) || p.Findings[0].Suggestion == "" || p.Findings[0].Line == 0 {
				t.Errorf("findings: %v", p.Findings)
			}
		})
	}
	for name, yaml := range map[string]string{
		"budget that can be reached": `[{shell: x, retry: {attempts: 3, jitter: true, retry_budget: 3s}}]`,
		"breaker waited for":         `[{shell: x, retry: {attempts: 5, retry_on: [network, circuit_open], circuit_breaker: {failure_threshold: 3}}}]`,
		"timeout with room":          `{timeout: 27s, commands: [{shell: x, timeout: 5s, retry: {attempts: 4}}]}`,
		"per attempt":                `[{shell: x, timeout: 1s, retry: {attempts: 4}}]`,
	} {
		if p := explain(t, yaml); len(p.Findings) != 0 {
			t.Errorf("%s: %v", name, p.Findings)
		}
	}
}

func TestVariablesInScope(t *testing.T) {
	p := explain(t, `
mode: mapreduce
env: {STAGE: test}
parameters: {definitions: {region: {type: string, default: eu}}}
setup:
  - {shell: list, capture: found}
map:
  input: items.json
  agent_template:
    - {id: fetch, shell: x, env: {DEEP: 1}, on_failure: {shell: mend, capture: mended}}
    - {shell: y, when: "item.a", capture: maybe}
    - {foreach: [1], do: [{shell: z}]}
    - {shell: last}
reduce:
  - shell: sum
`)
	for path, tc := range map[string]struct{ has, not string }{
		"setup[0]":                            {"STAGE region workflow.*", "found item map.* item.*"},
		"map.agent_template[0]":               {"STAGE found found.* item item.* item_id attempt DEEP", "fetch.* map.* error.*"},
		"map.agent_template[0].on_failure[0]": {"error.* test.* fetch.* item", "mended"},
		"map.agent_template[1]":               {"fetch.* shell.* last.* mended? error.*?", "maybe DEEP"},
		"map.agent_template[2].do[0]":         {"index total foreach.* maybe? item", ""},
		"map.agent_template[3]":               {"foreach.* maybe?", "index total"},
		"reduce[0]":                           {"map.* found STAGE", "item fetch.* maybe maybe? index"},
	} {
		got := find(t, p, path).Variables
		for _, name := range strings.Fields(tc.has) {
			if !slices.Contains(got, name) {
				t.Errorf("%s: %s is not in scope: %v", path, name, got)
			}
		}
		for _, name := range strings.Fields(tc.not) {
			if slices.Contains(got, name) {
				t.Errorf("%s: %s is in scope: %v", path, name, got)
			}
		}
	}
}

func TestWhereStepsRun(t *testing.T) {
	const own, place, merged, left = "in a git worktree of the run", "in place, in the directory it is started in",
		"is committed at the end, and merged", "is not merged (auto_commit: false); the exit status is 3 then"
	for yaml, want := range map[string][2]string{
		`[{shell: x}]`:  {place, ""},
		`[{claude: x}]`: {own + " where the directory is a git repository, else in place", merged},
		`{isolation: none, commands: [{claude: x}]}`:                                                 {place, ""},
		`{isolation: worktree, commands: [{shell: x}]}`:                                              {own, merged},
		`{isolation: worktree, auto_commit: false, commands: [{shell: x}]}`:                          {own, left},
		`{isolation: worktree, commands: [{shell: x, auto_commit: false}]}`:                          {own, left},
		`{isolation: worktree, map: {input: [1], agent_template: [{shell: x, auto_commit: false}]}}`: {own, left},
	} {
		p := explain(t, yaml)
		if got := [2]string{p.Where, p.Uncommitted}; got != want {
			t.Errorf("%s runs %q", yaml, got)
		}
		if p.Kind == "workflow" && p.Phases[0].Where != want[0] {
			t.Errorf("the steps of %s run %s", yaml, p.Phases[0].Where)
		}
	}
}

func TestCallsOfAWorkflow(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.yml": "imports: [{path: sub.yml, alias: sub}]\ncommands:\n  - workflow: sub\n    with: {who: you}\n    retry: {attempts: 2}\n",
		"sub.yml":  "commands: [{shell: x, timeout: 4s}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, problems := workflow.Load(filepath.Join(dir, "main.yml"), workflow.Options{})
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	p := worst.Explain(f)
	most{time: 9 * s, waits: s}.check(t, p.Worst)
	inner := p.Phases[0].Steps[0].Groups[0].Steps[0]
	if inner.Executions.N != 2 || !slices.Contains(inner.Variables, "who") {
		t.Errorf("the step of the workflow is %+v", inner)
	}
}

func TestPlanAsJSON(t *testing.T) {
	b, err := json.Marshal(explain(t, product))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Kind  string
		Worst struct {
			Time  *int64 `json:"time_ns"`
			Waits *int64 `json:"waits_ns"`
		} `json:"worst_case"`
		Findings []any
		Phases   []struct {
			Phase string
			Steps []struct {
				Executions *int64
				Retry      struct {
					Waits []struct{ After, Least, Greatest int64 }
				}
			}
		}
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.Kind != "mapreduce" || got.Worst.Time == nil || got.Findings == nil || len(got.Phases) != 2 || got.Phases[0].Phase != "map" || *got.Phases[0].Steps[0].Executions != 24 || len(got.Phases[0].Steps[0].Retry.Waits) != 3 {
		t.Errorf("%s", b)
	}
	b, err = json.Marshal(explain(t, `[{foreach: "seq $n", do: [{shell: x}]}]`))
	if err != nil || !strings.Contains(string(b), `"executions":null`) || !strings.Contains(string(b), `"time_ns":null`) {
		t.Errorf("what has no bound is not null: %v %s", err, b)
	}
}

// Every file of the loader's fuzzing that has no errors has a plan.
func FuzzExplain(f *testing.F) {
	f.Add(product)
	f.Add(`[{foreach: [a], parallel: 0, do: [{shell: x, retry: {attempts: 1000, jitter: decorrelated}}]}]`)
	f.Add(`[{goal_seek: {goal: g, shell: x, validate: v, threshold: 90, max_attempts: 3}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		file, problems := workflow.Parse("w.yml", []byte(text), workflow.Options{ReadFile: func(string) ([]byte, error) { return nil, os.ErrNotExist }})
		if file == nil || problems.HasErrors() {
			return
		}
		p := worst.Explain(file)
		if p.Worst.Time.D < 0 || p.Worst.Waits.D < 0 {
			t.Errorf("a negative worst case: %+v", p.Worst)
		}
		if _, err := json.Marshal(p); err != nil {
			t.Error(err)
		}
	})
}
