package journal

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// Given is a value that a run was started with: a parameter of a workflow, or an input
// of a pipeline.
type Given struct{ Name, Value string }

// Given lists the values that the run was started with, by name; a text as it is, all
// else as JSON. Runs of an older bide have them among their options alone.
func (h *Header) Given() (list []Given) {
	all := map[string]json.RawMessage{}
	if json.Unmarshal(h.Params, &all) != nil || len(all) == 0 {
		var o struct {
			ParamFile map[string]json.RawMessage `json:"param_file"`
			Params    map[string]json.RawMessage `json:"params"`
			Inputs    map[string]json.RawMessage `json:"inputs"`
		}
		if json.Unmarshal(h.Options, &o) != nil {
			return nil
		}
		for _, m := range []map[string]json.RawMessage{o.ParamFile, o.Params, o.Inputs} {
			maps.Copy(all, m)
		}
	}
	for name, raw := range all {
		text := string(raw)
		_ = json.Unmarshal(raw, &text) // what is no text stays JSON
		list = append(list, Given{name, text})
	}
	slices.SortFunc(list, func(x, y Given) int { return cmp.Compare(x.Name, y.Name) })
	return list
}
