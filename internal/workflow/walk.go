package workflow

import (
	"slices"
	"strings"
)

// Walk calls visit for every step of a file, in every place: handlers, loops,
// validations, named handlers of items. Outer steps come before those inside.
// Steps of sub-workflows are not visited; they belong to their own File.
func Walk(f *File, visit func(*Step)) {
	walkSteps(f.Steps, visit)
	for _, b := range []*Block{f.Setup, f.template(), f.Reduce, f.Merge} {
		if b != nil {
			walkSteps(b.Steps, visit)
		}
	}
	var names []string
	for name := range f.Handlers {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	for _, name := range names {
		walkSteps(f.Handlers[name], visit)
	}
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

// children are the lists of steps that stand inside a step.
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
	var codes []int
	for c := range s.OnExitCode {
		codes = append(codes, c)
	}
	slices.Sort(codes)
	for _, c := range codes {
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
