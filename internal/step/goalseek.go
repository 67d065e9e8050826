package step

import (
	"context"
	"fmt"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// goalSeek repeats an attempt until the validation's score reaches the
// threshold.
func (x *Executor) goalSeek(ctx context.Context, p Place, g *workflow.GoalSeek) (res action.Result, err error) {
	t, err := x.Span(ctx, &p, g.Timeout)
	if err != nil {
		return res, inputError("timeout: %w", err)
	}
	goal := ""
	if g.Goal != nil {
		if goal, err = g.Goal.Expand(x.View(ctx, &p)); err != nil {
			return res, &action.InputError{Err: err}
		}
	}
	err = x.within(ctx, t, "goal_seek", func(ctx context.Context) error {
		res, err = x.seek(ctx, p, g, goal)
		return err
	})
	return res, err
}

func (x *Executor) seek(ctx context.Context, p Place, g *workflow.GoalSeek, goal string) (action.Result, error) {
	last := score{vars: map[string]any{}}
	n := 1
	for ; n <= g.Rounds(); n++ {
		q := p.Round(n - 1)
		q.Env = p.Env.Export("PRODIGY_VALIDATION", value.JSON(last.vars), "BIDE_GOAL_ATTEMPT", fmt.Sprint(n))
		q.Scope.Set("goal", map[string]any{"text": goal, "attempt": int64(n), "score": last.percent})
		q.Scope.Set("validation", last.vars)
		if err := x.Sequence(ctx, &q, g.Do); err != nil {
			return action.Result{}, err
		}
		got, err := x.measure(ctx, q, &workflow.Validate{Steps: g.Validate, Threshold: g.Threshold}, meansScore)
		if err != nil {
			return action.Result{}, err
		}
		last = got
		p.Scope.Set("validation", last.vars)
		p.Scope.Set("goal_seek.score", last.percent)
		p.Scope.Set("goal_seek.attempts", int64(n))
		if last.read && last.percent >= g.Threshold {
			return action.Result{Output: fmt.Sprintf("%.4g", last.percent)}, nil
		}
	}
	e := &IncompleteError{Score: last.percent, Threshold: g.Threshold, Attempts: n - 1, What: "the goal was not reached", Unread: last.unread()}
	if g.FailOnIncomplete {
		return action.Result{ExitCode: 1}, e
	}
	x.noteAt(p, "goal_seek: %v; the workflow continues (fail_on_incomplete: false)", e)
	return action.Result{Output: fmt.Sprintf("%.4g", last.percent), Incomplete: true}, nil
}
