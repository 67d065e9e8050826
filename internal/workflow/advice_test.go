package workflow

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAdviceIsValid: what is to be written in the place of a key of another tool is accepted
// there, as it is written.
func TestAdviceIsValid(t *testing.T) {
	places := []struct {
		of   *table
		file string // %s is where the advice goes
	}{
		{stepTable, "commands: [{shell: a, %s}]"},
		{retryTable, "commands: [{shell: a, retry: {%s}}]"},
		{mapTable, "map: {input: {command: ls}, agent_template: [{shell: a}], %s}"},
		{errorPolicyTable, "map: {input: {command: ls}, agent_template: [{shell: a}]}\nerror_policy: {%s}"},
		{breakerTable, "commands: [{shell: a, retry: {circuit_breaker: {%s}}}]"},
		{inputTable, "map: {agent_template: [{shell: a}], %s}"},
		{foreachTable, "commands: [{foreach: {do: [{shell: a}], %s}}]"},
		{httpTable, "commands: [{http: {url: 'http://a.test', %s}}]"},
		{fileTable, "%s\ncommands: [{shell: a}]"},
	}
	more := regexp.MustCompile(` (beside|for|where|if|as|with|behind|or|to|at|under|into|in the|from) |, (and|which|of which|or|the|with|for) |: (a step|where|their|the name|bide) |; `)
	placed := regexp.MustCompile(` (at|under|beside|into|in the) `)
	tried := 0
	for _, place := range places {
		for _, row := range elsewheres {
			in := row.in == nil && place.of == stepTable || slices.Contains(row.in, place.of)
			text, isWrite := strings.CutPrefix(filledIn(row.write, nil), "write ")
			if at := more.FindStringIndex(text); at != nil {
				if placed.MatchString(text[at[0]:at[1]]) {
					continue // it is for another place
				}
				text = text[:at[0]]
			}
			text = strings.NewReplacer("NAME", "name", "EXPRESSION", "\"output contains 'x'\"", "the steps of each item", "{shell: a}", "${TOKEN}", "x").Replace(text)
			var v map[string]any
			if !in || !isWrite || yaml.Unmarshal([]byte("{"+text+"}"), &v) != nil || len(v) == 0 || hasNil(v) || v["imports"] != nil {
				continue // it is for a person to read
			}
			src := fmt.Sprintf(place.file, text)
			switch {
			case v["map"] != nil, v["commands"] != nil:
				src = text
			case v["shell"] != nil, v["http"] != nil:
				src = fmt.Sprintf("commands: [{%s}]", text)
			case v["foreach"] != nil:
				src = fmt.Sprintf("commands: [{%s, do: [{shell: a}]}]", text)
			case v["input"] != nil && place.of == mapTable:
				src = fmt.Sprintf("map: {agent_template: [{shell: a}], %s}", text)
			}
			_, problems := Parse("advice.yml", []byte(src), Options{})
			for _, p := range problems {
				t.Errorf("%q says: %s\n%s\n%s", row.keys, row.write, src, p.Message+"; "+p.Suggestion)
			}
			tried++
		}
	}
	if tried < 60 {
		t.Errorf("only %d advices were tried", tried)
	}
}

func hasNil(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, x := range v {
			if hasNil(x) {
				return true
			}
		}
	}
	return false
}
