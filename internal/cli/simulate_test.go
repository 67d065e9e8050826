package cli_test

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
	if status != 0 || !strings.Contains(out, "b.cst: with these failures 50 of 50 runs succeed") || !strings.Contains(errs, "made up, since not given: input urls") {
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
