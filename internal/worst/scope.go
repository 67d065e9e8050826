package worst

import (
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/workflow"
)

// scope is the names of the variables that exist at a place. An object is one
// name, "shell.*". The value says whether the variable may be missing, because
// what sets it may not have run.
type scope map[string]bool

func (s scope) child(more ...string) scope {
	out := maps.Clone(s)
	out.set(more...)
	return out
}

func (s scope) set(names ...string) {
	for _, n := range names {
		s[n] = false
	}
}

// join takes over what may have been set elsewhere.
func (s scope) join(other scope, maybe bool) {
	for n, m := range other {
		if was, ok := s[n]; !ok || was && !m && !maybe {
			s[n] = maybe || m
		}
	}
}

// list gives the names in order, those that may be missing with a question
// mark.
func (s scope) list() []string {
	out := make([]string, 0, len(s))
	for _, n := range slices.Sorted(maps.Keys(s)) {
		if s[n] {
			n += "?"
		}
		out = append(out, n)
	}
	return out
}

// initial are the variables of a run before its first step.
func initial(f *workflow.File) scope {
	s := scope{}
	s.set("workflow.*", "PROJECT_ROOT", "WORKTREE", "BIDE_RUN", "BIDE_ATTEMPT", "BIDE_AUTOMATION", "PRODIGY_AUTOMATION", "env.*", "uuid", "date:", "file:", "cmd:")
	for _, p := range f.Params {
		s[p.Name] = !p.HasValue && !p.Required
	}
	for _, v := range f.Env {
		s.set(v.Name)
	}
	for _, v := range f.Profiles[f.Profile] {
		s.set(v.Name)
	}
	for _, v := range f.Secrets {
		s.set(v.Name)
	}
	if f.Kind == workflow.Standard {
		s.set("ITERATION")
		for _, n := range []string{"ARG", "INDEX", "TOTAL", "FILE"} {
			s[n] = true // with --args and --map
		}
	}
	return s
}

// sets are the variables that a step leaves.
func sets(s *workflow.Step) []string {
	out := []string{s.Action.Kind() + ".*", "last.*"}
	if a, ok := s.Action.(*workflow.Shell); ok && a.Test {
		out = append(out, "test.*")
	}
	switch a := s.Action.(type) {
	case *workflow.Foreach:
		out = append(out, "foreach.*")
	case *workflow.Validate:
		out = append(out, "validation.*")
	case *workflow.GoalSeek:
		out = append(out, "validation.*", "goal_seek.*")
	case *workflow.Call:
		if a.Target != nil {
			out = append(out, a.Target.Outputs...)
			if len(a.Target.Outputs) > 0 {
				out = append(out, a.Workflow+".*")
			}
		}
	}
	if s.ID != "" {
		out = append(out, s.ID+".*")
	}
	switch c := s.Capture; {
	case !c.Set || c.Off:
	case c.Text != nil:
		out = append(out, c.Text.String())
	case c.Name == "":
		out = append(out, "CAPTURED_OUTPUT")
	default:
		out = append(out, c.Name, c.Name+".*")
	}
	for _, o := range s.Outputs {
		out = append(out, o.Name)
	}
	if s.Validate != nil {
		out = append(out, "validation.*")
	}
	if s.OnFailure != nil {
		for name := range s.OnFailure.Captures {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
