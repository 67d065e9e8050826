package lsp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/workflow"
)

// form is a place of the schema of workflow files, without references and
// alternatives: what may be there in one of the forms that it takes.
type form struct {
	object string // the definition that it stands in, as workflow.FieldInfo has it; "" for none
	node   map[string]any
}

// schema is the schema that package workflow makes of its tables.
var schema = sync.OnceValue(func() map[string]any {
	var s map[string]any
	if err := json.Unmarshal(workflow.Schema(), &s); err != nil {
		panic(err) // it is made by us
	}
	return s
})

// examples are the values that the tables have for keys, by object and key.
var examples = sync.OnceValue(func() map[[2]string]workflow.FieldInfo {
	m := map[[2]string]workflow.FieldInfo{}
	for _, f := range workflow.Fields() {
		m[[2]string{f.Object, f.Key}] = f
	}
	return m
})

// expand gives the forms that a part of the schema stands for.
func expand(object string, node map[string]any, seen map[string]bool) []form {
	var out []form
	if ref, ok := node["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		if seen[name] {
			return nil
		}
		seen[name] = true
		target, _ := schema()["$defs"].(map[string]any)[name].(map[string]any)
		return expand(name, target, seen)
	}
	if alternatives, ok := node["anyOf"].([]any); ok {
		for _, alternative := range alternatives {
			if alternative, ok := alternative.(map[string]any); ok {
				out = append(out, expand(object, alternative, seen)...)
			}
		}
	}
	if len(out) == 0 || len(node) > 1 && node["properties"] != nil {
		out = append(out, form{object, node})
	}
	return out
}

// formsAt gives what may be under a path of keys, "" for a place in a list.
func formsAt(path []string) []form {
	forms := expand("", schema(), map[string]bool{})
	for _, key := range path {
		var next []form
		for _, f := range forms {
			var inside any
			if key == "" {
				inside = f.node["items"]
			} else if props, _ := f.node["properties"].(map[string]any); props[key] != nil {
				inside = props[key]
			} else {
				inside = f.node["additionalProperties"]
			}
			if node, ok := inside.(map[string]any); ok {
				next = append(next, expand("", node, map[string]bool{})...)
			}
		}
		forms = next
	}
	return forms
}

// keyInfo is what is known of one key in one place.
type keyInfo struct {
	doc, example string
	inert        bool
}

// keysAt gives the keys of the maps that may be under a path.
func keysAt(path []string) map[string]keyInfo {
	keys := map[string]keyInfo{}
	for _, f := range formsAt(path) {
		props, _ := f.node["properties"].(map[string]any)
		for key, node := range props {
			node, _ := node.(map[string]any)
			if known, ok := keys[key]; ok && known.doc != "" {
				continue
			}
			info := keyInfo{doc: describe(node), example: examples()[[2]string{f.object, key}].Example}
			info.inert, _ = node["deprecated"].(bool)
			keys[key] = info
		}
	}
	for key, info := range keys { // an older spelling says what the present one means
		name, _, _ := strings.Cut(strings.TrimPrefix(info.doc, sameAs), ", in ")
		if present, ok := keys[name]; ok && strings.HasPrefix(info.doc, sameAs) && !strings.HasPrefix(present.doc, sameAs) {
			info.doc += ": " + present.doc
			keys[key] = info
		}
	}
	return keys
}

// sameAs begins what the tables say of an older spelling.
const sameAs = "the same as "

// describe is the description of a part of the schema, or of the first of its
// alternatives that has one.
func describe(node map[string]any) string {
	if text, ok := node["description"].(string); ok {
		return text
	}
	alternatives, _ := node["anyOf"].([]any)
	for _, a := range alternatives {
		if a, ok := a.(map[string]any); ok {
			if text := describe(a); text != "" {
				return text
			}
		}
	}
	return ""
}

// wordsAt gives the words that a value under a path may be.
func wordsAt(path []string) []string {
	set := map[string]bool{}
	for _, f := range formsAt(path) {
		list, _ := f.node["enum"].([]any)
		for _, word := range list {
			set[fmt.Sprint(word)] = true
		}
		if f.node["type"] == "boolean" {
			set["true"], set["false"] = true, true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// markdown explains a key.
func (k keyInfo) markdown(key string) string {
	text := code(key)
	if k.example != "" {
		text = code(key + ": " + k.example)
	}
	return strings.TrimSpace(text + "\n" + k.doc)
}
