package engine

import (
	"context"
	"errors"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/workflow"
)

// pipelineStep runs a pipeline file as a step.
func (r *run) pipelineStep(_ context.Context, _ place, _ *workflow.Pipeline, _ string) (action.Result, error) {
	return action.Result{}, &action.InputError{Err: errors.New("pipeline steps are not supported by this version of bide")}
}
