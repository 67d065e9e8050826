package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// goalSeek repeats an attempt until the validation's score reaches the
// threshold.
func (r *run) goalSeek(ctx context.Context, p place, g *workflow.GoalSeek, path string) (action.Result, error) {
	if t := r.span(g.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "goal_seek", After: t})
		defer cancel()
	}
	goal := ""
	if g.Goal != nil {
		var err error
		if goal, err = g.Goal.Expand(p.scope); err != nil {
			return action.Result{}, &action.InputError{Err: err}
		}
	}
	best := score{vars: map[string]any{}}
	for n := 1; n <= max(1, g.MaxAttempts); n++ {
		q := p.round(n - 1)
		q.env = append(slices.Clip(p.env), "PRODIGY_VALIDATION="+value.JSON(best.vars), fmt.Sprintf("BIDE_GOAL_ATTEMPT=%d", n))
		q.scope.Set("goal", map[string]any{"text": goal, "attempt": int64(n), "score": best.percent})
		q.scope.Set("validation", best.vars)
		if err := r.sequence(ctx, q, g.Do); err != nil {
			return action.Result{}, err
		}
		got, err := r.measure(ctx, q, &workflow.Validate{Steps: g.Validate})
		if err != nil {
			return action.Result{}, err
		}
		best = scoreText(q, got)
		p.scope.Set("validation", best.vars)
		p.scope.Set("goal_seek.score", best.percent)
		p.scope.Set("goal_seek.attempts", int64(n))
		if best.percent >= g.Threshold {
			return action.Result{Output: fmt.Sprintf("%.4g", best.percent)}, nil
		}
	}
	e := &IncompleteError{Score: best.percent, Threshold: g.Threshold, Attempts: g.MaxAttempts, What: "goal_seek: the goal was not reached"}
	if g.FailOnIncomplete {
		return action.Result{ExitCode: 1}, e
	}
	r.note("%v; the workflow goes on (fail_on_incomplete: false)", e)
	return action.Result{Output: fmt.Sprintf("%.4g", best.percent)}, nil
}

// scoreText takes "score: 85" out of a validation's text, the form that goals
// are documented with.
func scoreText(p place, got score) score {
	m, _ := p.scope.Get("last").(map[string]any)
	text := value.Text(m["output"])
	if _, err := value.Parse([]byte(text)); err == nil {
		return got
	}
	for line := range strings.Lines(text) {
		name, v, ok := strings.Cut(line, ":")
		if ok && strings.EqualFold(strings.TrimSpace(name), "score") {
			if f, is := value.Float(strings.TrimSpace(v)); is {
				got.percent = f
				got.vars["completion"], got.vars["score"] = f, f
			}
		}
	}
	return got
}
