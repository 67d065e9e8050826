package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/types"
)

// InputError lists everything that is wrong with the inputs given for a run.
type InputError struct{ Problems []string }

func (e *InputError) Error() string { return strings.Join(e.Problems, "\n") }

// Optional reports whether the input may be left out: it has a default, or none
// is a value of its type.
func (p *Param) Optional() bool { return !p.Required || p.Type.Kind == types.OptionalKind }

// Decode makes the run-time values of the inputs from JSON values, in the
// order of Inputs. given[i] is false where the default is to be used. The
// error is an *InputError.
func (p *Plan) Decode(in map[string]any) (values []any, given []bool, err error) {
	e := &InputError{}
	names := make([]string, len(p.Inputs))
	values, given = make([]any, len(p.Inputs)), make([]bool, len(p.Inputs))
	for i := range p.Inputs {
		param := &p.Inputs[i]
		names[i] = param.Name
		v, there := in[param.Name]
		switch {
		case there:
			if values[i], err = types.Decode(v, param.Type); err != nil {
				e.Problems = append(e.Problems, fmt.Sprintf("input %s: %v", param.Name, err))
			}
			given[i] = true
		case param.Type.Kind == types.OptionalKind && param.Required:
			given[i] = true // none
		case param.Required:
			e.Problems = append(e.Problems, fmt.Sprintf("input %s is missing; give %s, as in --input %s=%s", param.Name, withArticle(param.Type.String()), param.Name, types.Example(param.Type)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if slices.Contains(names, name) {
			continue
		}
		text := fmt.Sprintf("there is no input named %s", name)
		if hint := diag.DidYouMean(name, names); hint != "" {
			text += "; " + hint
		}
		e.Problems = append(e.Problems, text)
	}
	if len(e.Problems) > 0 {
		return nil, nil, e
	}
	return values, given, nil
}

// withArticle puts the article before the name of a type.
func withArticle(name string) string {
	if strings.HasPrefix(name, "I") || strings.HasPrefix(name, "O") {
		return "an " + name
	}
	return "a " + name
}
