package simulate_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/simulate"
)

// TestSchemaAndReaderAgree: what the reader takes the schema takes, and what the
// schema can know to be wrong it refuses as the reader does.
func TestSchemaAndReaderAgree(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(simulate.Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("model.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("model.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{
		threeModel:  true,
		"steps: {}": true,
		"steps: {a: {latency: {empirical: [1s, 0]}, limit: {rate: 1/1s, burst: 3, retry_after: 2s}}}":                                true,
		"steps: {a: {latency: {uniform: [50ms, 2s]}, output: hi, cost: {usd: 1, tokens: 3}}}":                                        true,
		"steps: {a: {latency: {queue: {capacity: 8, service: 50ms}}}}":                                                               true,
		"steps: {a: {latency: {lognormal: {p50: 1s, p99: 1m}}, outages: {from: 1s, for: 2s}}}":                                       true,
		"steps: {a: {outages: [{mean_up: 1h, mean_down: 2min, class: timeout}]}}\ncorrelation: {items: 0.3}\nitems: 7\nprocess: 3ms": true,
		"steps: {a: {latency: {constant: 1h30m}}}":                                                                                   true,
		"late: 1ms": true,
		"late: {lognormal: {p50: 1ms, p99: 20ms}}":    true,
		"late: {queue: {capacity: 8, service: 50ms}}": false,
		"late: soon":                  false,
		"step: {}":                    false,
		"steps: {a: {latencey: 1s}}":  false,
		"steps: {a: {latency: fast}}": false,
		"steps: {a: {latency: {constant: 1s, uniform: [1s, 2s]}}}":   false,
		"steps: {a: {latency: {uniform: [1s]}}}":                     false,
		"steps: {a: {latency: {queue: {capacity: 0, service: 1s}}}}": false,
		"steps: {a: {failures: {netwrok: 0.1}}}":                     false,
		"steps: {a: {failures: {network: 1.1}}}":                     false,
		"steps: {a: {limit: {burst: 3}}}":                            false,
		"steps: {a: {limit: {rate: many}}}":                          false,
		"steps: {a: {outages: [{from: 1s}]}}":                        false,
		"steps: {a: {outages: [{for: 1s, class: x}]}}":               false,
		"steps: {a: {cost: {usd: -1}}}":                              false,
		"correlation: {items: 2}":                                    false,
		"correlation: {item: 0.2}":                                   false,
		"items: many":                                                false,
		"process: 3 parsecs":                                         false,
	} {
		if _, problems := simulate.Parse("m.yml", []byte(text), nil); problems.HasErrors() == good {
			t.Errorf("the reader says of\n%s\n%v", text, problems)
		}
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(inst); (err == nil) != good {
			t.Errorf("the schema says of\n%s\n%v", text, err)
		}
	}
}

// TestSchemaHasTheReadersKeys: where the reader takes keys, the schema has the
// same.
func TestSchemaHasTheReadersKeys(t *testing.T) {
	t.Parallel()
	var s map[string]any
	if err := json.Unmarshal(simulate.Schema, &s); err != nil {
		t.Fatal(err)
	}
	at := func(path ...string) map[string]any {
		v := any(s)
		for _, p := range path {
			if p == "object" { // of the two that may be there
				v = v.(map[string]any)["anyOf"].([]any)[1]
			} else {
				v = v.(map[string]any)[p]
			}
		}
		return v.(map[string]any)["properties"].(map[string]any)
	}
	for place, keys := range map[string]map[string]any{
		"zzz: 1":                                       at(),
		"correlation: {zzz: 1}":                        at("properties", "correlation"),
		"steps: {a: {zzz: 1}}":                         at("$defs", "target"),
		"steps: {a: {latency: {zzz: 1}}}":              at("$defs", "latency", "object"),
		"steps: {a: {latency: {lognormal: {zzz: 1}}}}": at("$defs", "latency", "object", "properties", "lognormal"),
		"steps: {a: {latency: {queue: {zzz: 1}}}}":     at("$defs", "latency", "object", "properties", "queue"),
		"steps: {a: {outages: {zzz: 1}}}":              at("$defs", "outage"),
		"steps: {a: {limit: {zzz: 1}}}":                at("$defs", "target", "properties", "limit"),
		"steps: {a: {cost: {zzz: 1}}}":                 at("$defs", "target", "properties", "cost"),
	} {
		_, problems := simulate.Parse("m.yml", []byte(place), nil)
		m := regexp.MustCompile(`its keys are ([a-z_0-9, ]+)`).FindStringSubmatch(problems.Error())
		if want := strings.Join(slices.Sorted(maps.Keys(keys)), ", "); len(m) < 2 || m[1] != want {
			t.Errorf("%s: the schema has %s, the reader says\n%v", place, want, problems)
		}
	}
	classes := s["$defs"].(map[string]any)["class"].(map[string]any)["enum"].([]any)
	if len(classes) != len(simulate.Classes) {
		t.Errorf("the schema has the classes %v, the reader %v", classes, simulate.Classes)
	}
	for i, c := range classes {
		if c != simulate.Classes[i] {
			t.Errorf("the schema has the classes %v, the reader %v", classes, simulate.Classes)
		}
	}
}
