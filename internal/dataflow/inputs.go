package dataflow

import (
	"errors"
	"maps"
	"strings"

	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// ReadInputs makes the inputs of a pipeline of the texts that a person gave
// and of a file's values; the texts win. The error is a *plan.InputError with
// everything that is wrong with them.
func (pl *Pipeline) ReadInputs(texts map[string]string, file map[string]any) (map[string]any, error) {
	in := maps.Clone(file)
	if in == nil {
		in = map[string]any{}
	}
	unread := map[string]error{} // texts that are no values of their type
	for name, text := range texts {
		in[name] = text
		if t := pl.typeOf(name); t != nil {
			v, err := types.FromText(text, t)
			if err != nil {
				unread[name] = err
				continue
			}
			in[name] = types.Encode(v)
		}
	}
	_, _, err := pl.Plan.Decode(in)
	var wrong *plan.InputError
	if !errors.As(err, &wrong) {
		return in, err
	}
	for i, text := range wrong.Problems {
		for name, err := range unread {
			if head := "input " + name + ": "; strings.HasPrefix(text, head) {
				wrong.Problems[i] = head + err.Error() // which knows more of a text
			}
		}
	}
	return in, wrong
}

// typeOf is the type of an input, nil if there is none of the name.
func (pl *Pipeline) typeOf(input string) *types.Type {
	for i := range pl.Plan.Inputs {
		if pl.Plan.Inputs[i].Name == input {
			return pl.Plan.Inputs[i].Type
		}
	}
	return nil
}
