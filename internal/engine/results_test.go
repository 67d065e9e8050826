package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// mapResults reads a map.results_file as a reduce step copied it.
func (r *ran) mapResults(name string) (list []map[string]any) {
	r.t.Helper()
	for line := range strings.Lines(r.file(name)) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			r.t.Fatalf("%v%s", err, r.story())
		}
		list = append(list, one)
	}
	return list
}

// TestResultsHaveEveryStep: the output of an item is that of all its steps. Each step's
// output is also there by itself, whatever its size and wherever it is kept.
func TestResultsHaveEveryStep(t *testing.T) {
	for name, size := range map[string]int{"short": 1, "in a file": 3000, "above a variable": 700_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := b.run(strings.NewReplacer("@SIZE@", strconv.Itoa(size)).Replace(`
map:
  input: [{name: a}, {name: b}]
  agent_template:
    - {id: ask, claude: "/sh printf '%0@SIZE@d' 7"}
    - shell: 'true'
    - {name: skipped, when: '1 == 2', shell: echo never}
    - {name: commit, shell: 'printf "%0@SIZE@d" 9; echo; echo ${item.name}'}
reduce:
  - shell: cp ${map.results_file} @EV@/results
`))
			r.status(event.Succeeded)
			list := r.mapResults("results")
			if len(list) != 2 {
				t.Fatalf("there are %d results", len(list))
			}
			first, second := strings.Repeat("0", size-1)+"7", strings.Repeat("0", size-1)+"9\nb"
			got := list[1]
			steps := got["steps"].([]any)
			if len(steps) != 4 {
				t.Fatalf("the steps are %v", steps)
			}
			for i, want := range []struct{ status, output string }{{"succeeded", first}, {"succeeded", ""}, {"skipped", ""}, {"succeeded", second}} {
				s := steps[i].(map[string]any)
				if s["status"] != want.status || s["output"] != want.output {
					t.Errorf("step %d is %s with %d bytes, want %s with %d", i, s["status"], len(s["output"].(string)), want.status, len(want.output))
				}
			}
			if steps[0].(map[string]any)["id"] != "ask" || steps[3].(map[string]any)["step"] != "commit" {
				t.Errorf("the steps are called %v", steps)
			}
			whole := first + "\n" + second
			if b, err := os.ReadFile(fileOf(got)); fileOf(got) != "" && (err != nil || string(b) != whole) {
				t.Errorf("the file has %d bytes, want %d: %v", len(b), len(whole), err)
			}
			if size < 700_000 && got["output"] != whole {
				t.Errorf("the output has %d bytes, want %d", len(got["output"].(string)), len(whole))
			}
		})
	}
}

func fileOf(result map[string]any) string {
	name, _ := result["output_file"].(string)
	return name
}

// TestResultsOfOneStep: a template with one step has its output twice, as the item's and as
// the step's.
func TestResultsOfOneStep(t *testing.T) {
	t.Parallel()
	r := newBench(t).run("map:\n  input: [1]\n  agent_template: [{shell: echo hi}]\nreduce: [{shell: 'cp ${map.results_file} @EV@/results'}]")
	got := r.mapResults("results")[0]
	if s := got["steps"].([]any); got["output"] != "hi" || len(s) != 1 || s[0].(map[string]any)["output"] != "hi" {
		t.Errorf("the result is %v", got)
	}
}

// TestStatusOfOneStep: a template with one step says of the step how the step ended, as one
// with several does, and not what became of the item.
func TestStatusOfOneStep(t *testing.T) {
	t.Parallel()
	const second = "    - {shell: 'true'}\n"
	for _, c := range [][2]string{{"none", ""}, {"none", second}, {"worktree", ""}, {"worktree", second}} {
		isolation, more := c[0], c[1]
		for _, fate := range []string{"dlq", "skip", "retry"} {
			b := newBench(t)
			b.git()
			r := b.run("mode: mapreduce\nisolation: " + isolation + "\nmap:\n  input: [1, 2, 3, 4, 5]\n  agent_template:\n" +
				"    - shell: 'echo ${item}; test ${item} != 2 && test ${item} != 5'\n      when: ${item} != 3\n" +
				"      retry: {attempts: 1, on_failure: {fallback: {command: 'test ${item} = 5'}}}\n" + more +
				"reduce: [{shell: 'cp ${map.results_file} @EV@/results'}]\nerror_policy: {on_item_failure: " + fate + ", retry_config: {attempts: 2, initial_delay: 1ms}}\n")
			var got []string
			for _, res := range r.mapResults("results") {
				status := "none"
				if s := res["steps"].([]any); len(s) > 0 {
					status = s[0].(map[string]any)["status"].(string)
				}
				got = append(got, status)
			}
			if want := []string{"succeeded", "failed", "skipped", "succeeded", "degraded"}; !slices.Equal(got, want) {
				t.Errorf("%s %s %q: the steps are %v, want %v", isolation, fate, more, got, want)
			}
		}
	}
}

// TestMapTotals: what the reduce of a map reads about all its items.
func TestMapTotals(t *testing.T) {
	t.Parallel()
	r := newBench(t).run(`
map:
  input: [{n: 1}, {n: 2}, {n: 3}]
  max_parallel: 1
  agent_template:
    - shell: 'sleep 0.02; echo "got ${item.n}"'
    - shell: 'test ${item.n} != 2'
error_policy: {on_item_failure: skip}
reduce:
  - shell: echo '${map.success_count} ${map.failure_count}; ${map.outputs}; ${map.results[1].item.n} ${map.results_array[2].output}' > @EV@/x
  - shell: echo "${map.total_duration_secs} ${map.average_duration_secs}" > @EV@/times
`)
	r.want("x", "2 0; got 1, got 3; 2 got 3")
	var total, mean float64
	if _, err := fmt.Sscan(r.file("times"), &total, &mean); err != nil || total < 0.06 || mean*3 < total-0.01 || mean*3 > total+0.01 {
		t.Errorf("the times are %q: %v", r.file("times"), err)
	}
}

// TestWhyNoItems: if an input has content and the list of items is empty, the run explains
// it; if the input is empty, it does not. Reduce runs in both cases, unless the path is a slip: then
// the run fails, but for min_items: 0.
func TestWhyNoItems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ input, more, note string }{
		{`{"items": [1, 2], "total": 2}`, "json_path: '$.itmes[*]'\n  min_items: 0", `did you mean "items"?`},
		{`{"items": [1, 2], "total": 2}`, "json_path: '$.things[*].x'", "its top level has items, total"},
		{`[{"n": 1}]`, "json_path: '$.items[*]'\n  min_items: 0", "its top level is an array"},
		{`[{"n": 1}, {"n": 2}]`, "filter: n > 5", "none of the 2 items"},
		{`[{"n": 1}, {"n": 2}]`, "offset: 2", "all of the 2 items"},
		{`{"items": []}`, "json_path: '$.items[*]'", ""},
		{`{"items": []}`, "json_path: '$.items'", ""},
		{`[]`, "json_path: '$[*]'", ""},
		{`[]`, "filter: n > 5", ""},
	} {
		b := newBench(t)
		b.write("in.json", c.input)
		r := b.run("map:\n  input: in.json\n  " + c.more + "\n  agent_template: [{shell: 'true'}]\nreduce: [{shell: 'echo ran ${map.total} > @EV@/x'}]")
		r.status(event.Succeeded)
		r.want("x", "ran 0")
		if !r.noted("the map is left out, reduce runs") {
			t.Errorf("%s, %s: it is not said that the map is left out%s", c.input, c.more, r.story())
		}
		if c.note != "" && !r.noted(c.note) || c.note == "" && (r.noted("json_path") || r.noted("filter")) {
			t.Errorf("%s, %s: %q is not noted%s", c.input, c.more, c.note, r.story())
		}
		slip, is := strings.CutSuffix(c.more, "\n  min_items: 0")
		if !is {
			continue
		}
		r = b.run("map:\n  input: in.json\n  " + slip + "\n  agent_template: [{shell: 'true'}]\nreduce: [{shell: 'echo again > @EV@/x'}]")
		r.status(event.Failed)
		r.want("x", "ran 0")
		if !strings.Contains(r.story(), c.note) {
			t.Errorf("%s, %s: the error does not say %q%s", c.input, slip, c.note, r.story())
		}
	}
}
