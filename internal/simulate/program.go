package simulate

import (
	"context"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/workflow"
)

// Program is what is run: a workflow, or a pipeline.
type Program struct {
	File     *workflow.File
	Pipeline *dataflow.Pipeline
}

// ChangeError is a change that cannot be made to a file.
type ChangeError struct{ Err error }

func (e *ChangeError) Error() string { return e.Err.Error() }

// Unwrap gives what is wrong with it.
func (e *ChangeError) Unwrap() error { return e.Err }

// Program is the file of the recorded run with changes, as [Set] and [SetCalls]
// make them. The error is a *[ChangeError] or a list of the problems of the file.
func (r *Recording) Program(set []string) (Program, error) {
	h, s := r.Header, r.Settings
	change := Set
	if h.Kind == workflow.Dataflow.String() {
		change = SetCalls
	}
	text, err := change(h.Source, set)
	if err != nil {
		return Program{}, &ChangeError{err}
	}
	if h.Kind == workflow.Dataflow.String() {
		p, problems := dataflow.Load(h.Path, s.Manifest, func(path string) ([]byte, error) {
			if path == h.Path {
				return text, nil
			}
			return h.ReadFile(path)
		})
		return Program{Pipeline: p}, problems.Err()
	}
	f, problems := workflow.Parse(h.Path, text, workflow.Options{Params: s.Params, ParamFile: s.ParamFile, Profile: s.Profile, ReadFile: h.ReadFile})
	if problems.HasErrors() {
		return Program{}, problems
	}
	return Program{File: f}, nil
}

// Simulate gives what runs of a program would be like that meet what the recorded
// one has met, as far as that tells. When ctx ends, it is of those that have ended.
func (r *Recording) Simulate(ctx context.Context, p Program, seeds int) (*Report, error) {
	return r.Predict(ctx, r.FitChecked(ctx), p, seeds)
}

// Predict is Simulate with a model that is fitted already.
func (r *Recording) Predict(ctx context.Context, m *Model, p Program, seeds int) (*Report, error) {
	report, _, err := r.simulate(ctx, m, p, seeds)
	return report, err
}

func (r *Recording) simulate(ctx context.Context, m *Model, p Program, seeds int) (*Report, []*Sample, error) {
	list, err := Run(ctx, Options{File: p.File, Pipeline: p.Pipeline, Settings: r.Settings, Model: m, Seeds: seeds, First: 1, Items: r.Items})
	if err != nil {
		return nil, nil, err
	}
	_, outage := m.End()
	report := Summarize(list, outage)
	if p.File != nil {
		report.Name(p.File)
	}
	return report, list, nil
}
