package workflow

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/option"
)

// form is what a value may be, as JSON Schema. Its fields are in the order of their
// names there.
type form struct {
	Ref           string           `json:"$ref,omitempty"`
	Others        any              `json:"additionalProperties,omitempty"` // the *form of values under other keys, or false
	AnyOf         []*form          `json:"anyOf,omitempty"`
	Deprecated    bool             `json:"deprecated,omitempty"`
	Description   string           `json:"description,omitempty"`
	Enum          []string         `json:"enum,omitempty"`
	Above         any              `json:"exclusiveMinimum,omitempty"` // a number, as Minimum
	Items         *form            `json:"items,omitempty"`
	MaxProperties int              `json:"maxProperties,omitempty"`
	Maximum       any              `json:"maximum,omitempty"` // a number, as Minimum
	MinProperties int              `json:"minProperties,omitempty"`
	Minimum       any              `json:"minimum,omitempty"`
	Pattern       string           `json:"pattern,omitempty"`
	Properties    map[string]*form `json:"properties,omitempty"`
	Required      []string         `json:"required,omitempty"`
	Type          any              `json:"type,omitempty"` // a name, or a list of names
}

func tRef(name string) *form { return &form{Ref: "#/$defs/" + name} }

// table is the keys of a map of this form, or of the steps that a list of it has; nil where
// there are none.
func (f *form) table(n *node) *table {
	for _, one := range append([]*form{f}, f.AnyOf...) {
		name, _ := strings.CutPrefix(one.Ref, "#/$defs/")
		switch at := slices.IndexFunc(tables, func(t *table) bool { return t.name == name }); {
		case n.kind == listNode && name == "steps":
			return stepTable
		case n.kind == mapNode && at >= 0:
			return tables[at]
		}
	}
	return nil
}

func oneOf(fs ...*form) *form { return &form{AnyOf: fs} }

func tList(of *form) *form { return &form{Type: "array", Items: of} }

func tMap(of *form) *form { return &form{Type: "object", Others: of} }

func tEnum(words ...string) *form { return oneOf(&form{Type: "string", Enum: words}, tVar) }

// tInt is a whole number from least on, or a variable.
func tInt(least int) *form { return oneOf(&form{Type: "integer", Minimum: least}, tVar) }

// tWhole is a whole number within the bounds of an option.
func tWhole(r *option.Row) *form {
	return &form{Type: "integer", Minimum: int(r.Least), Maximum: int(r.Greatest)}
}

// tNum is a number from least to greatest (0: no upper bound), or a variable.
func tNum(least, greatest float64) *form {
	n := &form{Type: "number", Minimum: least}
	if greatest > 0 {
		n.Maximum = greatest
	}
	return oneOf(n, tVar)
}

// tAbove is a number above least, at most greatest (0: no upper bound), or a variable.
func tAbove(least, greatest float64) *form {
	n := &form{Type: "number", Above: least}
	if greatest > 0 {
		n.Maximum = greatest
	}
	return oneOf(n, tVar)
}

var (
	tAny    = &form{}
	tVar    = &form{Type: "string", Pattern: `\$`}
	tBool   = oneOf(&form{Type: "boolean"}, tVar)
	tText   = &form{Type: []string{"string", "number", "boolean"}}
	tName   = &form{Type: []string{"string", "number"}}
	tScalar = &form{Type: []string{"string", "number", "boolean", "null"}}
	// A duration's exact form is the parser's business; the schema knows its shape.
	tDur   = tRef("duration")
	tBound = tRef("duration")                                     // more than 0
	tPath  = &form{Type: []string{"string", "number", "boolean"}} // a JSONPath

	tTexts      = oneOf(tText, tList(tText))
	tExpr       = tText
	tSteps      = tRef("steps")
	tBlock      = oneOf(tSteps, tRef("block"))
	tEnv        = tMap(oneOf(tScalar, tRef("env_value")))
	tFileEnv    = tMap(oneOf(tScalar, tRef("env_value"), tSecretVar, tByProfile))
	tSecretVar  = &form{Type: "object", Required: []string{"secret", "provider"}}
	tByProfile  = &form{Type: "object", Required: []string{"default"}, Others: tScalar}
	tFormat     = tEnum("string", "text", "json", "lines", "number", "boolean") // how an output is read
	tRetry      = oneOf(tWhole(option.ByName("attempts")), &form{Type: "boolean"}, tVar, tRef("retry"))
	tHandler    = oneOf(&form{Type: []string{"boolean", "string"}}, tSteps, tRef("handler"))
	tValidate   = oneOf(tText, tSteps, tRef("validate"))
	tOnItem     = oneOf(tText, tRef("on_item_failure"))
	tCollection = oneOf(tText, tRef("error_batch"))
	tInput      = oneOf(tText, tList(tAny), tRef("map_input"))
	tWidth      = oneOf(tInt(1), &form{Type: "string", Enum: []string{"auto"}}, tRef("max_parallel"))
	tAtOnce     = oneOf(tBool, tInt(1), &form{Type: "string", Enum: []string{"auto"}}, tRef("max_parallel"))
	tTokens     = oneOf(tInt(1), &form{Type: "string", Pattern: `^[0-9.]+ *[kM]$`})
	tStatus     = &form{Type: []string{"integer", "string"}}
	tPriority   = oneOf(tWhole(option.ByName("priority")), tEnum(option.ByName("priority").Words...))
	tExpect     = oneOf(tStatus, tList(tStatus))
	tMatchers   = oneOf(tText, tList(oneOf(tText, tRef("matcher"))), tRef("matcher"))
	tBackoff    = oneOf(
		tEnum(option.Strategies...),
		tRef("backoff"),
		&form{Type: "object", MinProperties: 1, MaxProperties: 1, Others: false, Properties: map[string]*form{
			"fixed": tStrategy, "linear": tStrategy, "exponential": tStrategy, "fibonacci": tStrategy, "custom": tStrategy,
		}},
	)
	tStrategy = oneOf(&form{Type: "null"}, &form{Type: []string{"number", "string"}}, tList(tDur), tRef("backoff"))
)

// optionType is the form of an option's value.
func optionType(r *option.Row) *form {
	switch r.Kind {
	case option.Count:
		n := tInt(int(r.Least))
		if r.Greatest > 0 {
			n = oneOf(tWhole(r), tVar)
		}
		if len(r.Words) > 0 {
			return oneOf(n, tEnum(r.Words...))
		}
		return n
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

func schema() any {
	defs := map[string]*form{
		"duration": oneOf(
			&form{Type: "number", Minimum: 0},
			&form{Type: "string", Pattern: `\$|^\s*([0-9.]+(ns|us|µs|μs|ms|s|m|min|h|d|w))+\s*$|^\s*0\s*$`},
			tRef("seconds"),
		),
		"steps": tList(oneOf(&form{Type: "string"}, tRef("step"))),
	}
	for _, t := range tables {
		defs[t.name] = joined(false, t) // unknown keys are refused, as a strict check does
	}
	defs["step"].Others = tText // the name of a configured agent is a key of a step too
	defs["on_failure"] = joined(tText, handlerTable, stepTable)
	defs["handler"] = tRef("on_failure")
	for _, t := range []*table{subWorkflowTable, inlineTable} { // what is written in place may have the keys of a file
		defs[t.name] = joined(false, t, fileTable, subWorkflowTable)
	}
	return map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "bide workflow",
		"description": "A workflow file: a list of steps, a standard workflow (commands) or a MapReduce workflow (map).",
		"anyOf":       []*form{tSteps, tRef("workflow")},
		"$defs":       defs,
	}
}

// joined is a map that may have the keys of several tables, and others of a form;
// false is none.
func joined(others any, ts ...*table) *form {
	all := &form{Type: "object", Others: others, Properties: map[string]*form{}}
	for _, t := range ts {
		for _, f := range t.fields() {
			v := f.described()
			if first, ok := all.Properties[f.key]; ok {
				v = oneOf(first, v)
			}
			all.Properties[f.key] = v
		}
	}
	return all
}

// described is the form of a field with what the table says of it.
func (f field) described() *form {
	p := *f.typ
	p.Description = f.doc
	if f.inert != "" {
		p.Description, p.Deprecated = "no effect: "+f.inert, true
	} else if f.def != "" {
		p.Description += "; where missing: " + f.def
	}
	return &p
}
