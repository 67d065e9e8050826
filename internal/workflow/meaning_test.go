package workflow_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/workflow"
)

// meaning is what the steps of a map say, with their file.
func meaning(t *testing.T, text string) string {
	t.Helper()
	f, problems := workflow.Parse("flow.yml", []byte(text), workflow.Options{ReadFile: func(string) ([]byte, error) { return nil, nil }})
	if problems.HasErrors() {
		t.Fatalf("%v\n%s", problems.Err(), text)
	}
	var b strings.Builder
	workflow.WriteMeaning(&b, f, f.Map.Template.Steps)
	return b.String()
}

func mapWith(steps string) string {
	return "mode: mapreduce\nmap:\n  input: [1]\n  agent_template:\n" + steps
}

// TestMeaning: the same however it is written, and another one for what is done in
// another way.
func TestMeaning(t *testing.T) {
	base := mapWith("    - {shell: make, timeout: 1m, retry: {attempts: 3}}\n    - {http: 'http://x.test/', validate: {shell: check, expected_schema: {type: object}}}\n")
	for _, same := range []string{
		"# a comment\n" + base,
		strings.Replace(base, "1m", "60", 1),
		strings.Replace(base, "{attempts: 3}", "3", 1),
		strings.Replace(base, "shell: make", "description: makes, shell: make", 1),
		strings.Replace(base, "shell: make", "limits: [gpu], shell: make", 1),
		strings.Replace(base, "input: [1]", "input: [1, 2]\n  max_parallel: 3", 1),
	} {
		if got := meaning(t, same); got != meaning(t, base) {
			t.Errorf("not the same:\n%s\n%s", got, meaning(t, base))
		}
	}
	for _, other := range []string{
		strings.Replace(base, "make", "make -j", 1),
		strings.Replace(base, "1m", "2m", 1),
		strings.Replace(base, "attempts: 3", "attempts: 3, retry_on: [network]", 1),
		strings.Replace(base, "attempts: 3", "attempts: 4", 1),
		strings.Replace(base, "attempts: 3", "attempts: 3, until: 'result.output == 1'", 1),
		strings.Replace(base, "type: object", "type: array", 1),
		strings.Replace(base, "shell: make", "id: first, shell: make", 1),
		strings.Replace(base, "shell: make", "shell: make, when: item", 1),
		strings.Replace(base, "shell: make", "shell: make, env: {A: b}", 1),
		strings.Replace(base, "{shell: make", "{write_file: {path: make, content: a}", 1),
		strings.Replace(base, "{shell: make", "{write_file: {path: made, content: a}", 1),
		"retry_defaults: {max_delay: 9s}\n" + base,
		base + "    - {shell: more}\n",
	} {
		if meaning(t, other) == meaning(t, base) {
			t.Errorf("it means the same as the base:\n%s", other)
		}
	}
	// What two texts say together is none that says both.
	if meaning(t, mapWith("    - {shell: a, id: bc}\n")) == meaning(t, mapWith("    - {shell: ab, id: c}\n")) {
		t.Error("ab and c are a and bc")
	}
}

// TestMeaningKnowsAllTypes: whatever a step is made of says what it is by fields that
// can be seen, or is known by name.
func TestMeaningKnowsAllTypes(t *testing.T) {
	known := map[string]bool{"diag.Pos": true, "template.Text": true, "expr.Expr": true, "expr.Sort": true, "regexp.Regexp": true, "option.Matcher": true, "jsonschema.Resolved": true, "time.Time": true}
	// hidden are unexported fields that say nothing beside the others.
	hidden := map[string]bool{
		"workflow.Step.label": true, "option.Settings.written": true,
		"workflow.File.subs": true, "workflow.File.templates": true, "workflow.File.former": true, "workflow.File.names": true, "workflow.File.reads": true,
	}
	seen := map[reflect.Type]bool{}
	var look func(at reflect.Type, path string)
	look = func(at reflect.Type, path string) {
		if seen[at] || known[at.String()] {
			return
		}
		seen[at] = true
		switch at.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			look(at.Elem(), path)
		case reflect.Map:
			look(at.Key(), path)
			look(at.Elem(), path)
		case reflect.Struct:
			for i := range at.NumField() {
				f := at.Field(i)
				if !f.IsExported() && !hidden[at.String()+"."+f.Name] {
					t.Errorf("%s: %s.%s cannot be seen", path, at, f.Name)
				}
				if f.IsExported() {
					look(f.Type, path+"."+f.Name)
				}
			}
		case reflect.Chan, reflect.UnsafePointer:
			t.Errorf("%s is a %s", path, at)
		}
	}
	for _, v := range []any{workflow.Step{}, workflow.Agent{}, workflow.Shell{}, workflow.Claude{}, workflow.HTTP{}, workflow.WriteFile{}, workflow.Foreach{},
		workflow.Validate{}, workflow.GoalSeek{}, workflow.Pipeline{}, workflow.Call{}} {
		look(reflect.TypeOf(v), reflect.TypeOf(v).String())
	}
}
