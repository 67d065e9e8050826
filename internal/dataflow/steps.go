package dataflow

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// Steps are the pipelines of a workflow's steps that can be read before
// it runs.
type Steps struct {
	Loaded []*Pipeline // each file once
	// Problems are those of the steps: what is wrong with the files themselves
	// is in FileProblems, in the order of Loaded.
	Problems     diag.List
	FileProblems []diag.List

	dir string
	at  map[string]int // the place in Loaded, by path
}

// LoadSteps reads the pipelines that steps of a workflow name literally,
// as a run in a directory would, and those of the workflows that they call. A
// file that is not there may be written by an earlier step, which is a warning.
func LoadSteps(f *workflow.File, dir string) *Steps {
	all := &Steps{dir: dir, at: map[string]int{}}
	all.visit(f)
	return all
}

// visit reads the pipelines of a workflow.
func (l *Steps) visit(f *workflow.File) {
	workflow.WalkAll(f, func(s *workflow.Step) {
		if a, ok := s.Action.(*workflow.Pipeline); ok && a.File.IsLiteral() {
			l.step(s, a)
		}
	})
}

func (l *Steps) step(s *workflow.Step, a *workflow.Pipeline) {
	path := a.File.String()
	if s.WorkingDir != nil && !filepath.IsAbs(path) {
		if !s.WorkingDir.IsLiteral() {
			return
		}
		path = filepath.Join(s.WorkingDir.String(), path)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.dir, path)
	}
	i, known := l.at[path]
	if !known {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			l.Problems.Warnf(s.Pos, "no-pipeline", "the pipeline %s is not there", path).Suggest("the step fails, unless a step before it writes the file")
			return
		}
		pl, problems := Load(path, "", os.ReadFile)
		i = len(l.Loaded)
		l.at[path] = i
		l.Loaded, l.FileProblems = append(l.Loaded, pl), append(l.FileProblems, problems)
		l.inside(pl)
	}
	l.Problems = append(l.Problems, l.Loaded[i].arguments(s, a)...)
}

// inside reads the pipelines of the workflows that a pipeline calls.
func (l *Steps) inside(pl *Pipeline) {
	for _, d := range pl.defs {
		if f := pl.workflows[d]; f != nil {
			l.visit(f)
		}
	}
}

// Add adds a pipeline that is none of a step, and those of steps in workflows that
// it calls.
func (l *Steps) Add(pl *Pipeline) {
	l.inside(pl)
	l.Loaded, l.FileProblems = append(l.Loaded, pl), append(l.FileProblems, nil)
}

// Agents are those that are configured in the workflows of a run.
func (l *Steps) Agents(f *workflow.File) map[string]*workflow.Agent {
	agents := workflow.AllAgents(f)
	for _, pl := range l.Loaded {
		for _, f := range pl.workflows {
			for name, a := range workflow.AllAgents(f) {
				if agents[name] == nil {
					agents[name] = a
				}
			}
		}
	}
	return agents
}

// UnknownAgents reports the modules of all pipelines that ask an agent that neither f
// nor a workflow that they call configures.
func (l *Steps) UnknownAgents(f *workflow.File) (problems diag.List) {
	agents := l.Agents(f)
	for _, pl := range l.Loaded {
		problems = append(problems, pl.unknownAgents(agents)...)
	}
	problems.Sort() // several pipelines may have one manifest
	return problems
}

// Err is everything that keeps the workflow from being run.
func (l *Steps) Err() error {
	errs := []error{l.Problems.Err()}
	for _, list := range l.FileProblems {
		errs = append(errs, list.Err())
	}
	return errors.Join(errs...)
}

// arguments checks the names under `with` against the inputs of the pipeline.
func (pl *Pipeline) arguments(s *workflow.Step, a *workflow.Pipeline) (problems diag.List) {
	if pl.Plan == nil {
		return nil
	}
	var names, given []string
	for _, arg := range a.With {
		given = append(given, arg.Name)
	}
	var missing []string
	for i := range pl.Plan.Inputs {
		in := &pl.Plan.Inputs[i]
		names = append(names, in.Name)
		if !in.Optional() && !slices.Contains(given, in.Name) {
			missing = append(missing, in.Name+": "+in.Type.String())
		}
	}
	for _, arg := range a.With {
		if slices.Contains(names, arg.Name) {
			continue
		}
		p := problems.Errorf(arg.Pos, "unknown-input", "%s has no input %s", pl.Path, arg.Name)
		if p.Near(arg.Name, names); len(names) > 0 {
			p.Or("its inputs are %s", strings.Join(names, ", "))
		}
		p.Or("it takes no inputs")
	}
	if len(missing) > 0 {
		problems.Errorf(s.Pos, "missing-input", "%s needs %s", pl.Path, strings.Join(missing, ", ")).Suggest("give it under with:")
	}
	return problems
}
