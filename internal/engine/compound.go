package engine

import (
	"context"
	"fmt"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/workflow"
)

// compound runs an action that is made of steps.
func (r *run) compound(ctx context.Context, p place, s *workflow.Step, path string) (action.Result, error) {
	switch a := s.Action.(type) {
	case *workflow.Foreach:
		return r.foreach(ctx, p, a, path)
	case *workflow.Validate:
		return action.Result{}, r.validate(ctx, p, a, path)
	case *workflow.GoalSeek:
		return r.goalSeek(ctx, p, a, path)
	case *workflow.Call:
		return r.call(ctx, p, a, path)
	case *workflow.Pipeline:
		return r.pipelineStep(ctx, p, a, path)
	}
	return action.Result{}, fmt.Errorf("a step of kind %T cannot be run", s.Action)
}
