package workflow

import (
	"encoding/json"
	"maps"
	"sync"

	"github.com/bide-dev/bide/internal/option"
)

// typ is the form of a value, as JSON Schema.
type typ = map[string]any

func tRef(name string) typ { return typ{"$ref": "#/$defs/" + name} }

func oneOf(ts ...typ) typ { return typ{"anyOf": ts} }

func tList(of typ) typ { return typ{"type": "array", "items": of} }

func tMap(of typ) typ { return typ{"type": "object", "additionalProperties": of} }

func tEnum(words ...string) typ {
	return oneOf(typ{"type": "string", "enum": words}, tVar)
}

// tInt is a whole number from least on, or a variable.
func tInt(least int) typ {
	return oneOf(typ{"type": "integer", "minimum": least}, tVar)
}

// tNum is a number from least to greatest (0: no upper bound), or a variable.
func tNum(least, greatest float64) typ {
	n := typ{"type": "number", "minimum": least}
	if greatest > 0 {
		n["maximum"] = greatest
	}
	return oneOf(n, tVar)
}

var (
	tAny  = typ{}
	tVar  = typ{"type": "string", "pattern": `\$`}
	tBool = oneOf(typ{"type": "boolean"}, tVar)
	tText = typ{"type": []string{"string", "number", "boolean"}}
	tName = typ{"type": []string{"string", "number"}}
	// A duration's exact form is the parser's business; the schema knows its shape.
	tDur = tRef("duration")

	tTexts      = oneOf(tText, tList(tText))
	tExpr       = typ{"type": []string{"string", "number", "boolean"}}
	tSteps      = tRef("steps")
	tBlock      = oneOf(tSteps, tRef("block"))
	tEnv        = tMap(oneOf(typ{"type": []string{"string", "number", "boolean", "null"}}, tRef("env_value")))
	tFileEnv    = tMap(oneOf(typ{"type": []string{"string", "number", "boolean", "null"}}, tRef("env_value"), tSecretVar, tByProfile))
	tSecretVar  = typ{"type": "object", "required": []string{"secret", "provider"}}
	tByProfile  = typ{"type": "object", "required": []string{"default"}, "additionalProperties": typ{"type": []string{"string", "number", "boolean", "null"}}}
	tRetry      = oneOf(typ{"type": "integer", "minimum": 1}, typ{"type": "boolean"}, tVar, tRef("retry"))
	tHandler    = oneOf(typ{"type": []string{"boolean", "string"}}, tSteps, tRef("handler"))
	tValidate   = oneOf(tText, tSteps, tRef("validate"))
	tOnItem     = oneOf(tText, tRef("on_item_failure"))
	tCollection = oneOf(tText, tRef("error_batch"))
	tInput      = oneOf(tText, tList(tAny), tRef("map_input"))
	tExpect     = oneOf(typ{"type": []string{"integer", "string"}}, tList(typ{"type": []string{"integer", "string"}}))
	tMatchers   = oneOf(tText, tList(oneOf(tText, tRef("matcher"))), tRef("matcher"))
	tBackoff    = oneOf(
		tEnum("fixed", "linear", "exponential", "fibonacci", "custom"),
		tRef("backoff"),
		typ{"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false, "properties": typ{
			"fixed": tStrategy, "linear": tStrategy, "exponential": tStrategy, "fibonacci": tStrategy, "custom": tStrategy,
		}},
	)
	tStrategy = oneOf(typ{"type": "null"}, typ{"type": []string{"number", "string"}}, tList(tDur), tRef("backoff"))
)

// optionType is the form of an option's value.
func optionType(r *option.Row) typ {
	switch r.Kind {
	case option.Count:
		if len(r.Words) > 0 {
			return oneOf(tInt(int(r.Least)), tEnum(r.Words...))
		}
		return tInt(int(r.Least))
	case option.Number:
		return tNum(r.Least, r.Greatest)
	case option.Span:
		return tDur
	case option.Spans:
		return tList(tDur)
	case option.Flag:
		return tBool
	case option.Jitter:
		return oneOf(tBool, tEnum(r.Words...))
	case option.Strategy:
		return tBackoff
	case option.Matchers:
		return tMatchers
	case option.Condition:
		return tExpr
	case option.Rules:
		return oneOf(tRef("rule"), tList(tRef("rule")))
	case option.Breaker:
		return oneOf(tBool, tRef("circuit_breaker"))
	case option.Exhausted:
		return oneOf(tEnum(r.Words...), tRef("retry_failure"))
	case option.Shared:
		return tRef("quota")
	}
	panic("workflow: the schema has no form for the option " + r.Name)
}

// Schema gives the JSON Schema (2020-12) of workflow files, for editors. It is
// made from the tables that the parser itself reads by.
var Schema = sync.OnceValue(func() []byte {
	b, err := json.MarshalIndent(schema(), "", "  ")
	if err != nil {
		panic("workflow: the schema does not marshal: " + err.Error()) // only literals of this package are in it
	}
	return append(b, '\n')
})

func schema() typ {
	defs := typ{
		"duration": oneOf(
			typ{"type": "number", "minimum": 0},
			typ{"type": "string", "pattern": `\$|^\s*([0-9.]+(ns|us|µs|μs|ms|s|m|min|h|d|w))+\s*$|^\s*0\s*$`},
			tRef("seconds"),
		),
		"steps": tList(oneOf(typ{"type": "string"}, tRef("step"))),
	}
	for _, t := range tables {
		defs[t.name] = t.schema()
	}
	defs["on_failure"] = joined(handlerTable, stepTable)
	defs["handler"] = tRef("on_failure")
	for _, t := range []*table{subWorkflowTable, inlineTable} { // what is written in place may have the keys of a file
		all := joined(t, fileTable, subWorkflowTable)
		all["additionalProperties"] = false
		defs[t.name] = all
	}
	// A configured agent's name is a key of a step too.
	defs["step"].(typ)["additionalProperties"] = tText
	return typ{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "bide workflow",
		"description": "A workflow file: a list of steps, a standard workflow (commands) or a MapReduce workflow (map).",
		"anyOf":       []typ{tSteps, tRef("workflow")},
		"$defs":       defs,
	}
}

// schema is the table as a JSON Schema object. Unknown keys are refused, as a
// strict check does.
func (t *table) schema() typ {
	return typ{"type": "object", "properties": t.properties(), "additionalProperties": false}
}

func (t *table) properties() typ {
	props := make(typ, len(t.fields()))
	for _, f := range t.fields() {
		p := typ{}
		maps.Copy(p, f.typ)
		doc := f.doc
		if f.inert != "" {
			doc = "no effect: " + f.inert
			p["deprecated"] = true
		} else if f.def != "" {
			doc += "; where missing: " + f.def
		}
		if doc != "" {
			p["description"] = doc
		}
		props[f.key] = p
	}
	return props
}

// joined is a map that may have the keys of several tables.
func joined(ts ...*table) typ {
	props := typ{}
	for _, t := range ts {
		for k, v := range t.properties() {
			if first, ok := props[k]; ok {
				v = oneOf(first.(typ), v.(typ))
			}
			props[k] = v
		}
	}
	return typ{"type": "object", "properties": props, "additionalProperties": tText}
}
