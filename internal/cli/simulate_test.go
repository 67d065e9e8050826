package cli_test

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSimulateAssumptions: the first sentence names what the answer rests on and nobody
// knows, and --run-input runs the command that gives the items, and nothing else.
func TestSimulateAssumptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	m := write("m.yml", "steps: {'*': {latency: 1s}}\n")
	ran := filepath.Join(dir, "ran")
	mapped := write("w.yml", "map: {input: {command: 'seq 1 120'}, max_parallel: 10, agent_template: [{shell: 'touch "+ran+"'}]}\n")
	loop := write("l.yml", "commands: [{foreach: 'ls x', do: [{shell: 'true'}]}]\n")
	listed := write("k.yml", "map: {input: [1, 2], agent_template: [{shell: 'true'}]}\n")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{mapped, "--model", m}, "assuming that seq 1 120, which is not run without --run-input, gives 100 items: with these failures 9 of 9 runs succeed, within 10s\n"},
		{[]string{mapped, "--model", m, "--run-input"}, "with these failures 9 of 9 runs succeed, within 12s\n"},
		{[]string{loop, "--model", m}, "assuming that ls x, which is not run, gives 100 values: with these failures"},
		{[]string{listed, "--model", m}, "with these failures"},
		{[]string{listed}, "assuming that of ten attempts one fails, and each takes 1s: with these failures"},
	} {
		out, errs, status := bide(append([]string{"simulate", "--seeds", "9"}, tc.args...)...)
		if status != 0 || !strings.HasPrefix(out, tc.want) {
			t.Errorf("%v: status %d:\n%s%s", tc.args, status, out, errs)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it has run a step")
	}
	for _, args := range [][]string{{"simulate", listed, "--seeds", "0"}, {"simulate", "--backtest", "a", "b", "--seeds", "10000001"}, {"tune", "a", "--seeds", "0"}} {
		if _, errs, status := bide(args...); status != 2 || !strings.Contains(errs, "it must be from 1 to 10000000") {
			t.Errorf("%v: status %d: %s", args, status, errs)
		}
	}
	if _, errs, status := bide("simulate", listed, "--run-input"); status != 2 || !strings.Contains(errs, "k.yml has no map whose input is a command") {
		t.Errorf("status %d: %s", status, errs)
	}
	failing := write("f.yml", "map: {input: {command: 'exit 7'}, agent_template: [{shell: 'true'}]}\n")
	if _, errs, status := bide("simulate", failing, "--run-input"); status == 0 || !strings.Contains(errs, "exit status 7") {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestSimulatePipelines: simulate takes pipelines, with a model by module, options
// by --set, made up inputs, and a drawing of two that are compared.
func TestSimulatePipelines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("modules.yml", "modules: [{name: Get, params: {u: String}, result: String, shell: [get]}]\n")
	a := write("a.cst", "in urls: List<String>\nxs = map(urls, (u) => Get(u) with retry: 1, delay: 1s)\nout xs\n")
	b := write("b.cst", "in urls: List<String>\nxs = map(urls, (u) => Get(u) with retry: 9, delay: 1s)\nout xs\n")
	m := write("m.yml", "items: 5\nsteps: {Get: {failures: {network: 0.3}, latency: 1s}}\n")
	svg := filepath.Join(dir, "x.svg")

	out, errs, status := bide("simulate", a, "--model", m, "--seeds", "50", "--compare", b, "--svg", svg)
	if status != 0 || !strings.Contains(out, "b.cst: assuming that the made-up input urls is as the real one: with these failures 50 of 50 runs succeed") {
		t.Errorf("status %d:\n%s%s", status, out, errs)
	}
	text, err := os.ReadFile(svg)
	if err != nil || xml.Unmarshal(text, new(struct{})) != nil || !strings.Contains(string(text), "runs by how long they took") || !strings.Contains(string(text), "longer than with a.cst") {
		t.Errorf("%v: the drawing is\n%s", err, text)
	}
	one, _, _ := bide("simulate", a, "--model", m, "--seeds", "50", "--json")
	if two, _, _ := bide("simulate", a, "--model", m, "--seeds", "50", "--json"); one != two || one == "" {
		t.Error("the same seed gives another text")
	}
	if more, _, _ := bide("simulate", a, "--model", m, "--seeds", "50", "--json", "--set", "Get.retry=9"); more == one || more == "" {
		t.Error("--set changes nothing")
	}
	for want, args := range map[string][]string{
		`did you mean "Get"`:            {"--set", "Gte.retry=2"},
		"no option retri":               {"--set", "Get.retri=2"},
		"it takes --input and --inputs": {"--param", "x=1"},
		"there is no input":             {"--input", "nothing=1"},
	} {
		if _, errs, status := bide(append([]string{"simulate", a, "--model", m}, args...)...); status != 2 || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d: %s", args, status, errs)
		}
	}
	wrong := write("wrong.yml", "steps: {Gte: {latency: 1s}}\n")
	if _, errs, status := bide("simulate", a, "--model", wrong); status != 2 || !strings.Contains(errs, `did you mean "Get"`) {
		t.Errorf("status %d: %s", status, errs)
	}
}
