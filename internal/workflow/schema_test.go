package workflow_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/workflow"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(workflow.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("bide.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("bide.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance reads YAML as the JSON that an editor validates.
func instance(t *testing.T, src string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(src), &v); err != nil {
		t.Fatalf("%v in\n%s", err, src)
	}
	b, err := json.Marshal(stringKeys(v))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func stringKeys(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m := map[string]any{}
		for k, e := range v {
			b, _ := json.Marshal(k) // scalars
			m[string(bytes.Trim(b, `"`))] = stringKeys(e)
		}
		return m
	case map[string]any:
		for k, e := range v {
			v[k] = stringKeys(e)
		}
	case []any:
		for i, e := range v {
			v[i] = stringKeys(e)
		}
	}
	return v
}

// TestSchemaKnowsEveryKey validates the example of every key, in every place.
func TestSchemaKnowsEveryKey(t *testing.T) {
	s := compileSchema(t)
	for _, f := range workflow.Fields() {
		places := f.Places
		if places == nil {
			places = []string{""}
		}
		for _, place := range places {
			src, _ := source(f, place)
			if err := s.Validate(instance(t, src)); err != nil {
				t.Errorf("%s.%s in %q: %v\n%s", f.Object, f.Key, place, err, src)
			}
		}
	}
}

func TestSchemaRefusesWhatTheParserRefuses(t *testing.T) {
	s := compileSchema(t)
	for _, src := range []string{
		"commnds: [{shell: a}]",
		"commands: [{shell: [a]}]",
		"commands: [{shell: a, timeout: 2 minutes}]",
		"commands: [{shell: a, retry: {attempts: 0}}]",
		"commands: [{shell: a, retry: {attempts: 3, backof: fixed}}]",
		"commands: [{shell: a, retry: {jitter_factor: 1.5}}]",
		"commands: [{shell: a, commit_required: maybe}]",
		"commands: {shell: a, b: {c: d}}",
		"map: {input: a.json, max_parallel: 0}",
		"map: {input: a.json, agent_templte: []}",
		"error_policy: {failure_threshold: 2}\nmap: {input: a, agent_template: []}",
		"isolation: container\ncommands: []",
		"just a text",
	} {
		if s.Validate(instance(t, src)) == nil {
			t.Errorf("the schema takes\n%s", src)
		}
		_, problems := workflow.Parse("flow.yml", []byte(src), workflow.Options{Strict: true, ReadFile: others.read})
		if !problems.HasErrors() {
			t.Errorf("a strict check takes\n%s", src)
		}
	}
}
