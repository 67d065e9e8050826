package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// pipelineStep runs a pipeline file as a step. Its outputs are the step's
// output, as a JSON object.
func (r *run) pipelineStep(ctx context.Context, p step.Site, a *workflow.Pipeline, path string) (action.Result, error) {
	pl, err := r.stepPipeline(ctx, p, a)
	if err != nil {
		return action.Result{}, &action.InputError{Err: err}
	}
	inputs := make(map[string]any, len(a.With))
	for _, arg := range a.With {
		if inputs[arg.Name], err = action.Expand(arg.Value, p.Scope); err != nil {
			return action.Result{}, &action.InputError{Err: fmt.Errorf("with %s: %w", arg.Name, err)}
		}
		if t := pl.typeOf(arg.Name); t != nil {
			inputs[arg.Name] = fitted(inputs[arg.Name], t)
		}
	}
	out, err := r.flow(ctx, p, pl, inputs, path+"/")
	res := action.Result{Output: value.JSON(out)}
	if err != nil {
		res.ExitCode = 1
	}
	return res, err
}

// stepPipeline reads the pipeline of a step, once in a run.
func (r *run) stepPipeline(ctx context.Context, p step.Site, a *workflow.Pipeline) (*Pipeline, error) {
	path, err := a.File.Expand(p.Scope)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	file := p.File(a.File, path)
	if _, err := file.Stat(); errors.As(err, new(*files.OutsideError)) {
		return nil, &action.InputError{Err: fmt.Errorf("pipeline: %w", err)}
	}
	path = file.Full()
	r.flows.mu.Lock()
	defer r.flows.mu.Unlock()
	if pl := r.flows.files[path]; pl != nil {
		return pl, nil
	}
	pl, problems := LoadPipeline(path, "", func(name string) ([]byte, error) { return files.At(name).Read(ctx) })
	if problems.HasErrors() {
		return nil, problems.Err()
	}
	value.Put(&r.flows.files, path, pl)
	return pl, nil
}

// StepPipelines are the pipelines of a workflow's steps that can be read before
// it runs.
type StepPipelines struct {
	Loaded []*Pipeline // each file once
	// Problems are those of the steps: what is wrong with the files themselves
	// is in FileProblems, in the order of Loaded.
	Problems     diag.List
	FileProblems []diag.List

	dir string
	at  map[string]int // the place in Loaded, by path
}

// LoadStepPipelines reads the pipelines that steps of a workflow name literally,
// as a run in a directory would, and those of the workflows that they call. A
// file that is not there may be written by an earlier step, which is a warning.
func LoadStepPipelines(f *workflow.File, dir string) *StepPipelines {
	all := &StepPipelines{dir: dir, at: map[string]int{}}
	all.visit(f)
	return all
}

// visit reads the pipelines of a workflow.
func (l *StepPipelines) visit(f *workflow.File) {
	workflow.WalkAll(f, func(s *workflow.Step) {
		if a, ok := s.Action.(*workflow.Pipeline); ok && a.File.IsLiteral() {
			l.step(s, a)
		}
	})
}

func (l *StepPipelines) step(s *workflow.Step, a *workflow.Pipeline) {
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
		pl, problems := LoadPipeline(path, "", os.ReadFile)
		i = len(l.Loaded)
		l.at[path] = i
		l.Loaded, l.FileProblems = append(l.Loaded, pl), append(l.FileProblems, problems)
		l.inside(pl)
	}
	l.Problems = append(l.Problems, l.Loaded[i].arguments(s, a)...)
}

// inside reads the pipelines of the workflows that a pipeline calls.
func (l *StepPipelines) inside(pl *Pipeline) {
	for _, d := range pl.defs {
		if f := pl.workflows[d]; f != nil {
			l.visit(f)
		}
	}
}

// pipelines are all that a run can be known to have: its own, those of its steps,
// and those of steps in workflows that they call.
func (o *Options) pipelines() *StepPipelines {
	all := LoadStepPipelines(o.File, o.Dir)
	if o.Pipeline != nil {
		all.inside(o.Pipeline)
		all.Loaded, all.FileProblems = append(all.Loaded, o.Pipeline), append(all.FileProblems, nil)
	}
	return all
}

// agents are those that are configured in the workflows of a run.
func (l *StepPipelines) agents(f *workflow.File) map[string]*workflow.Agent {
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

// Err is everything that keeps the workflow from being run.
func (l *StepPipelines) Err() error {
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
