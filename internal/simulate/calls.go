package simulate

import (
	"maps"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/workflow"
)

// callsOf finds what a call is by its path, and that the pipeline can be run.
func callsOf(p *dataflow.Pipeline) (*stepNames, error) {
	_, err := flow.New(p.Plan, flow.NewShared(flow.SharedOptions{Volatile: true, Named: true}))
	return &stepNames{pipeline: true}, err
}

// static is the path of a step in its file, or of a call: without the rounds of
// the loops and the elements of the lists around it.
func (n *stepNames) static(path string) string {
	if n.pipeline {
		at, rest, inside := strings.Cut(path, "/")
		if !inside {
			return flow.Static(at)
		}
		return flow.Static(rest) + "/" + static(at) // a step of a workflow that is a module
	}
	if at, rest, inside := strings.Cut(path, "/"); inside {
		at = static(at)
		if s := n.paths[at]; s != nil {
			if _, is := s.Action.(*workflow.Pipeline); is {
				call, _, _ := strings.Cut(rest, "/")
				return at + "/" + flow.Static(call)
			}
		}
	}
	return static(path)
}

// KnownCalls are the names under which a model may speak of the calls of a
// pipeline: their modules, and their paths.
func KnownCalls(p *dataflow.Pipeline) []string {
	f, err := flow.New(p.Plan, flow.NewShared(flow.SharedOptions{Volatile: true, Named: true}))
	if err != nil {
		return nil // which a run says
	}
	names := map[string]bool{}
	for _, c := range f.Calls() {
		names[c.Path], names[c.Callee] = true, true
	}
	return slices.Sorted(maps.Keys(names))
}

// MadeUp are the inputs that a pipeline needs and that are not given.
func MadeUp(p *dataflow.Pipeline, given map[string]any) (names []string) {
	for i := range p.Plan.Inputs {
		in := &p.Plan.Inputs[i]
		if _, ok := given[in.Name]; !ok && !in.Optional() {
			names = append(names, in.Name)
		}
	}
	return names
}

// madeUp fills in the inputs that are not given: with the first example of the
// file, or with a value of the type, whose lists have n elements.
func madeUp(p *dataflow.Pipeline, given map[string]any, n int) map[string]any {
	all := maps.Clone(given)
	if all == nil {
		all = map[string]any{}
	}
	missing := MadeUp(p, given)
	for i := range p.Plan.Inputs {
		in := &p.Plan.Inputs[i]
		switch {
		case !slices.Contains(missing, in.Name):
		case len(in.Examples) > 0:
			all[in.Name] = types.Encode(in.Examples[0])
		default:
			all[in.Name] = types.Encode(types.Sample(in.Type, n))
		}
	}
	return all
}
