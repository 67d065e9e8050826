package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// score is what a validation found.
type score struct {
	percent float64
	status  string
	vars    map[string]any
}

// IncompleteError is a validation that stayed below its threshold.
type IncompleteError struct {
	Score, Threshold float64
	Attempts         int
	What             string
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%s: %.4g of at least %.4g percent after %d rounds", e.What, e.Score, e.Threshold, e.Attempts)
}

// Class is "validation".
func (e *IncompleteError) Class() string { return "validation" }

// validate runs a validation and, below its threshold, what is to be done then,
// up to max_attempts times.
func (r *run) validate(ctx context.Context, p place, v *workflow.Validate, path string) error {
	for n := 0; ; n++ {
		q := p
		q.at += fmt.Sprintf("%%%d", n)
		got, err := r.measure(ctx, q, v)
		if err != nil {
			return err
		}
		got.vars["attempt_number"], got.vars["attempt"] = int64(n+1), int64(n+1)
		p.scope.Set("validation", got.vars)
		inc := v.OnIncomplete
		if got.percent >= v.Threshold || inc == nil {
			if got.percent < v.Threshold {
				r.note("validation: %.4g of %.4g percent, and nothing is to be done about it (no on_incomplete)", got.percent, v.Threshold)
			}
			return nil
		}
		if n >= max(1, inc.MaxAttempts) {
			e := &IncompleteError{Score: got.percent, Threshold: v.Threshold, Attempts: n, What: "the validation is incomplete"}
			if inc.FailWorkflow {
				return e
			}
			r.note("%v; the workflow goes on (fail_workflow: false)", e)
			return nil
		}
		if err := r.complete(ctx, q, inc); err != nil {
			return err
		}
	}
}

// complete runs the on_incomplete steps.
func (r *run) complete(ctx context.Context, p place, inc *workflow.OnIncomplete) error {
	if inc.Prompt != nil && r.opt.Ask != nil {
		text, err := inc.Prompt.Expand(p.scope)
		if err != nil {
			return &action.InputError{Err: err}
		}
		if !r.opt.Ask(text) {
			return &IncompleteError{What: "the validation was given up"}
		}
	}
	if err := r.sleep(ctx, r.span(inc.RetryDelay)); err != nil {
		return err
	}
	check, err := r.beforeCommits(ctx, p, &workflow.Step{CommitRequired: inc.CommitRequired})
	if err != nil {
		return err
	}
	if err := r.sequence(ctx, p, inc.Steps); err != nil {
		return err
	}
	return check.after(ctx, p, &workflow.Step{Name: "on_incomplete", CommitRequired: inc.CommitRequired})
}

// measure runs the validation's commands and reads what they found.
func (r *run) measure(ctx context.Context, p place, v *workflow.Validate) (score, error) {
	if t := r.span(v.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "the validation", After: t})
		defer cancel()
	}
	err := r.sequence(ctx, p, v.Steps)
	if err != nil && ctx.Err() != nil {
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			return score{}, cause // a check that did not end has found nothing
		}
	}
	var failed *StepError
	if err != nil && (!errors.As(err, &failed) || r.interrupted(ctx, err)) {
		return score{}, err
	}
	text := ""
	switch {
	case v.ResultFile != nil:
		name, eerr := v.ResultFile.Expand(p.scope)
		if eerr != nil {
			return score{}, &action.InputError{Err: eerr}
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.dir, name)
		}
		b, rerr := os.ReadFile(name)
		if rerr != nil && err == nil {
			return score{}, fmt.Errorf("the validation's result_file: %w", rerr)
		}
		text = string(b)
	default:
		if m, ok := p.scope.Get("last").(map[string]any); ok {
			text = value.Text(m["output"])
		}
	}
	got, perr := parseScore(text, err == nil)
	if perr != nil {
		return score{}, perr
	}
	schema := v.Schema
	if v.SchemaFile != nil {
		var serr error
		if schema, serr = readSchema(p, v.SchemaFile); serr != nil {
			return score{}, serr
		}
	}
	if schema != nil {
		if serr := fits(schema, text); serr != nil {
			return score{}, serr
		}
	}
	return got, nil
}

// parseScore reads a validation's result. Both documented shapes are
// understood: {completion_percentage, status, implemented, missing, gaps} and
// {complete, score, gaps}. A text that is no JSON is complete where the
// command ended well.
func parseScore(text string, ok bool) (score, error) {
	s := score{vars: map[string]any{"missing": []any{}, "implemented": []any{}, "gaps": map[string]any{}}}
	v, err := value.Parse([]byte(text))
	m, isMap := v.(map[string]any)
	switch {
	case err != nil || !isMap:
		if f, is := value.Float(strings.TrimSuffix(strings.TrimSpace(text), "%")); is && ok && text != "" {
			s.percent = f
		} else if ok {
			s.percent = 100
		}
	default:
		for _, k := range []string{"missing", "implemented", "gaps"} {
			if x, has := m[k]; has {
				s.vars[k] = x
			}
		}
		s.percent, err = percentOf(m, ok)
		if err != nil {
			return s, err
		}
		s.status, _ = m["status"].(string)
	}
	if s.status == "" {
		s.status = "incomplete"
		if s.percent >= 100 {
			s.status = "complete"
		}
	}
	missing, _ := s.vars["missing"].([]any)
	s.vars["completion"], s.vars["completion_percentage"], s.vars["score"] = s.percent, s.percent, s.percent
	s.vars["status"], s.vars["missing_count"] = s.status, int64(len(missing))
	return s, nil
}

func percentOf(m map[string]any, ok bool) (float64, error) {
	for _, k := range []string{"completion_percentage", "completion", "score", "percentage"} {
		if x, has := m[k]; has {
			f, is := value.Float(x)
			if !is || f < 0 || f > 100 {
				return 0, fmt.Errorf("the validation's %s is %s; it must be a number from 0 to 100", k, value.JSON(x))
			}
			if k == "score" && f <= 1 && f != 0 && m["complete"] == nil {
				f *= 100
			}
			return f, nil
		}
	}
	switch done, has := m["complete"]; {
	case has && value.Truthy(done):
		return 100, nil
	case has:
		return 0, nil
	}
	switch m["status"] {
	case "complete", "skipped":
		return 100, nil
	case "incomplete", "failed":
		return 0, nil
	}
	if ok {
		return 100, nil
	}
	return 0, nil
}

// check runs the commands of step_validate.
func (r *run) check(ctx context.Context, p place, c *workflow.StepValidate) error {
	if t := r.span(c.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "step_validate", After: t})
		defer cancel()
	}
	var errs []error
	for n := 1; ; n++ {
		errs = errs[:0]
		for i, cmd := range c.Commands {
			if err := r.checkOne(ctx, p, cmd, n); err != nil {
				errs = append(errs, fmt.Errorf("check %d: %w", i+1, err))
			}
		}
		if err := r.stopping(ctx); err != nil {
			return err
		}
		passed := len(c.Commands) - len(errs)
		if len(errs) == 0 || c.Criteria == "any" && passed > 0 || c.Criteria == "at_least" && passed >= c.AtLeast {
			return nil
		}
		if n >= max(1, c.MaxAttempts) {
			break
		}
		if err := r.sleep(ctx, r.span(c.RetryDelay)); err != nil {
			return err
		}
	}
	err := fmt.Errorf("step_validate: %w", errors.Join(errs...))
	if c.IgnoreFailure {
		r.note("%v; it is ignored (ignore_validation_failure)", err)
		return nil
	}
	return err
}

func (r *run) checkOne(ctx context.Context, p place, c workflow.CheckCommand, n int) error {
	q := p
	q.scope = p.scope.Child()
	res, err := r.leaf(ctx, q, c.Step, c.Step.Action, fmt.Sprintf("%s%s%%%d", c.Step.Path, p.at, n), 1)
	code := 0
	if err != nil {
		var ok bool
		if code, ok = exitCode(err); !ok {
			return err
		}
	}
	if code != c.ExpectExitCode {
		return fmt.Errorf("exit status %d where %d is expected", code, c.ExpectExitCode)
	}
	if c.ExpectOutput != nil && !c.ExpectOutput.MatchString(res.Output) {
		return fmt.Errorf("the output does not match %s", c.ExpectOutput)
	}
	return nil
}
