package workflow

import (
	"maps"
	"slices"

	"github.com/bide-dev/bide/internal/template"
)

// Walk calls visit for every step of a file, in every place: handlers, loops,
// validations, named handlers of items, the checks of a map and
// of its merge queue. Outer steps come before those inside.
// Steps of sub-workflows are not visited; they belong to their own File.
func Walk(f *File, visit func(*Step)) {
	walkSteps(f.Steps, visit)
	for _, b := range []*Block{f.Setup, f.template(), f.Reduce, f.Merge, f.Finally} {
		if b != nil {
			walkSteps(b.Steps, visit)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Handlers)) {
		walkSteps(f.Handlers[name], visit)
	}
	walkSteps(f.Policy.OnHold, visit)
	if f.Map != nil && f.Map.Evidence != nil {
		walkSteps(f.Map.Evidence.Checks, visit)
	}
	if f.Queue != nil {
		walkSteps(f.Queue.Verify, visit)
		walkSteps(f.Queue.Resolve, visit)
	}
}

// WalkAll is Walk, and visits the steps of the workflows that the file runs and
// calls as well.
func WalkAll(f *File, visit func(*Step)) {
	for _, f := range Files(f) {
		Walk(f, visit)
	}
}

// Files gives a file and those of the workflows that it runs and calls, each
// once, the file itself first.
func Files(f *File) []*File {
	var list []*File
	var add func(f *File)
	add = func(f *File) {
		if f == nil || slices.Contains(list, f) {
			return
		}
		list = append(list, f)
		for _, w := range f.Workflows {
			add(w.File)
		}
		Walk(f, func(s *Step) {
			if c, ok := s.Action.(*Call); ok && c.Target != nil {
				add(c.Target.File)
			}
		})
	}
	add(f)
	return list
}

// AllAgents gives the agents that steps of a file and of those it calls may
// ask; where two files configure the same name, the outer one counts.
func AllAgents(f *File) map[string]*Agent {
	all := map[string]*Agent{}
	for _, f := range Files(f) {
		for name, a := range f.Agents {
			if all[name] == nil {
				all[name] = a
			}
		}
	}
	return all
}

// OutputIsRead reports whether something other than a person may read what step
// s of a file, or of one that it calls, prints: a capture, another step, a
// condition. In doubt it does.
func OutputIsRead(f *File, s *Step) bool {
	if s.Capture.Set || s.Capture.Name != "" || s.Capture.Text != nil || s.OutputFile != nil || len(s.Outputs) > 0 ||
		s.Validate != nil || s.Check != nil || s.Retry != nil && s.Retry.Until != nil {
		return true
	}
	for _, f := range Files(f) {
		if f.reads == nil {
			return true
		}
		for _, w := range f.Workflows {
			if len(w.Outputs) > 0 {
				return true
			}
		}
		for _, word := range []string{s.ID, "shell", "last", "step", "steps", "test", "foreach", "outputs", "output", s.Action.Kind()} {
			if word != "" && f.reads[word] {
				return true
			}
		}
	}
	return false
}

// Variables lists the first words of the variables that a file may use, sorted:
// those that it sets, and those that are always there or belong to a place.
func Variables(f *File) []string {
	return slices.Sorted(slices.Values(slices.Concat(f.names, builtin)))
}

func (f *File) template() *Block {
	if f.Map == nil {
		return nil
	}
	return f.Map.Template
}

func walkSteps(steps []*Step, visit func(*Step)) {
	for _, s := range steps {
		visit(s)
		for _, inner := range s.children() {
			walkSteps(inner, visit)
		}
	}
}

// children are the lists of steps that are inside a step.
func (s *Step) children() [][]*Step {
	var out [][]*Step
	validate := func(v *Validate) {
		if v == nil {
			return
		}
		out = append(out, v.Steps)
		if v.OnIncomplete != nil {
			out = append(out, v.OnIncomplete.Steps)
		}
	}
	switch a := s.Action.(type) {
	case *Foreach:
		out = append(out, a.Do)
	case *Validate:
		validate(a)
	case *GoalSeek:
		out = append(out, a.Do, a.Validate)
	}
	if s.OnFailure != nil {
		out = append(out, s.OnFailure.Steps)
	}
	out = append(out, s.OnSuccess)
	for _, c := range slices.Sorted(maps.Keys(s.OnExitCode)) {
		out = append(out, s.OnExitCode[c])
	}
	validate(s.Validate)
	if s.Check != nil {
		for _, c := range s.Check.Commands {
			out = append(out, []*Step{c.Step})
		}
	}
	return out
}

// SecretParams are the parameters of a workflow that are secrets: by their own name,
// or because a secret is written with them.
func SecretParams(f *File) (names []string) {
	for _, p := range f.Params {
		if slices.ContainsFunc(f.Secrets, func(s Secret) bool { return s.Name == p.Name || s.Provider == "value" && mentions(s.Key, p.Name) }) {
			names = append(names, p.Name)
		}
	}
	return names
}

// mentions reports whether a text names a variable.
func mentions(t *template.Text, name string) bool {
	return t != nil && slices.ContainsFunc(t.Refs(), func(r template.Ref) bool { return r.Name == name })
}
