package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// refused says what a run on Temporal refuses of a file: each with its place, and with what to
// write in its stead.
func refused(t *testing.T, source string, others map[string]string) (list []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range others {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(dir, "a.yml")
	if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	f, problems := workflow.Load(name, workflow.Options{})
	if problems.HasErrors() {
		t.Fatalf("%s: %v", source, problems)
	}
	for _, p := range cluster.Refused(f, "", dir) {
		if p.Severity != diag.Error || p.Code != "not-on-temporal" || p.Suggestion == "" {
			t.Errorf("%s: %+v", source, p)
		}
		what, _, _ := strings.Cut(p.Message, ": ")
		list = append(list, fmt.Sprintf("%s:%d %s", filepath.Base(p.File), p.Line, what))
	}
	return list
}

// TestWhatJudgesARunAsAWholeIsRefused: a run on Temporal keeps to a key, or says that it does not.
// None is read and ignored, wherever it is written.
func TestWhatJudgesARunAsAWholeIsRefused(t *testing.T) {
	t.Parallel()
	const of = "isolation: none\nmap: {input: [1], agent_template: [{shell: a}],\n  %s}\n"
	policy := func(s string) string { return fmt.Sprintf(of, "offset: 0") + "error_policy:\n  " + s + "\n" }
	for _, c := range []struct {
		source, want string
		others       map[string]string
	}{
		{source: policy("same_error: true"), want: "a.yml:5 same_error"},
		{source: policy("same_error: {action: stop}"), want: "a.yml:5 same_error"},
		{source: policy("same_error: {on_hold: [{shell: a}]}"), want: "a.yml:5 same_error"},
		{source: policy("same_error: false")},
		{source: fmt.Sprintf(of, "canary: 3"), want: "a.yml:2 map.canary"},
		{source: fmt.Sprintf(of, "max_parallel: auto"), want: "a.yml:2 map.max_parallel"},
		{source: fmt.Sprintf(of, "max_parallel: {max: 3}"), want: "a.yml:2 map.max_parallel"},
		{source: fmt.Sprintf(of, "max_parallel: 3")},
		{source: fmt.Sprintf(of, "item_budget: {time: 1m}"), want: "a.yml:3 map.item_budget"},
		{source: fmt.Sprintf(of, "limits: [gpu]"), want: "a.yml:3 limits"},
		// How many values of a foreach run at once is found out by the machine that has them.
		{source: "isolation: none\ncommands: [{foreach: [a], do: [{shell: a}], parallel: auto}]\n"},
		// Limits, and the priority with which somebody waits for them.
		{source: "isolation: none\ncommands:\n- {shell: a, limits: [gpu], priority: high}\n", want: "a.yml:3 limits"},
		{source: "isolation: none\ncommands: [{shell: a, on_failure: [{shell: a,\n  limits: gpu}]}]\n", want: "a.yml:3 limits"},
		{source: "isolation: none\nmap: {input: [1], agent_template: [{foreach: [a], do: [{shell: a,\n  limits: gpu}]}]}\n", want: "a.yml:3 limits"},
		{source: "isolation: none\nmap: {input: [1], agent_template: [{shell: a}]}\nreduce:\n- {shell: a, limits: gpu}\n", want: "a.yml:4 limits"},
		{source: policy("same_error: {on_hold: [{shell: a, limits: gpu}]}"), want: "a.yml:5 limits, a.yml:5 same_error"},
		{source: "isolation: none\nagents:\n  one: {command: [x], limits: [gpu]}\ncommands: [{one: a}]\n", want: "a.yml:3 limits"},
		{source: "isolation: none\nimports: [{path: other.yml}]\ncommands: [{workflow: other}]\n", want: "other.yml:3 limits",
			others: map[string]string{"other.yml": "name: other\ncommands:\n- {shell: a, limits: [gpu]}\n"}},
		{source: "isolation: none\ncommands: [{pipeline: a.cst}]\n", want: "a.cst:2 limits",
			others: map[string]string{"a.cst": "x = Say(\"a\")\ny = Say(x) with limits: \"gpu\", priority: high\nout y\n",
				"modules.yml": "modules: [{name: Say, params: {word: String}, result: String, shell: echo}]\n"}},
		// Chains, asked or not.
		{source: "isolation: none\nagents:\n  coder: {first_of: [claude, codex]}\ncommands: [{coder: a}]\n", want: "a.yml:3 agents.coder.first_of"},
		{source: "isolation: none\nagents:\n  coder: {first_of: [claude, codex], limits: [gpu]}\ncommands: [{coder: a}]\n", want: "a.yml:3 limits, a.yml:3 agents.coder.first_of"},
	} {
		if got := strings.Join(refused(t, c.source, c.others), ", "); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.source, got, c.want)
		}
	}
}

// TestEachKeyOfWhatJudgesARunIsRefused: so it is with each key of these tables, those too that
// are added later.
func TestEachKeyOfWhatJudgesARunIsRefused(t *testing.T) {
	t.Parallel()
	in := map[string]struct{ file, beside string }{
		"same_error":   {"isolation: none\nmap: {input: [1], agent_template: [{shell: a}]}\nerror_policy: {same_error: {%s}}\n", ""},
		"probe":        {"isolation: none\nmap: {input: [1], agent_template: [{shell: a}]}\nerror_policy: {same_error: {probe: {%s}}}\n", ""},
		"canary":       {"isolation: none\nmap: {input: [1], agent_template: [{shell: a}], canary: {%s}}\n", "items: 3, "},
		"item_budget":  {"isolation: none\nmap: {input: [1], agent_template: [{claude: a}], item_budget: {%s}}\n", "time: 1m, "},
		"max_parallel": {"isolation: none\nmap: {input: [1], agent_template: [{shell: a}], max_parallel: {%s}}\n", ""},
	}
	seen := map[string]int{}
	for _, f := range workflow.Fields() {
		c, ok := in[f.Object]
		if !ok {
			continue
		}
		seen[f.Object]++
		if strings.HasPrefix(c.beside, f.Key+":") {
			c.beside = ""
		}
		source := fmt.Sprintf(c.file, c.beside+f.Key+": "+f.Example)
		if got := refused(t, source, nil); len(got) != 1 {
			t.Errorf("%s\nrefused: %q", source, got)
		}
	}
	for object := range in {
		if seen[object] == 0 {
			t.Errorf("there is no table %s", object)
		}
	}
}
