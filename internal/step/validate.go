package step

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/workflow"
)

// validate runs a validation and, below its threshold, what is to be done then,
// up to max_attempts times. A score that is missed fails, unless the file says
// that it may be: then incomplete is true.
func (x *Executor) validate(ctx context.Context, p Place, v *workflow.Validate) (incomplete bool, err error) {
	for n := 0; ; n++ {
		q := p
		q.Rounds += "%" + strconv.Itoa(n)
		got, err := x.measure(ctx, q, v, nil)
		if err != nil {
			return false, err
		}
		got.vars["attempt_number"], got.vars["attempt"] = int64(n+1), int64(n+1)
		p.Scope.Set("validation", got.vars)
		if got.read && got.percent >= v.Threshold {
			return false, nil
		}
		if n >= v.Completions() {
			e := &IncompleteError{Score: got.percent, Threshold: v.Threshold, Attempts: n + 1, What: "the validation is incomplete", Unread: got.unread()}
			if v.Required() {
				return false, e
			}
			x.noteAt(p, "%v; the workflow continues (on_incomplete)", e)
			return true, nil
		}
		if err := x.complete(ctx, q, v.OnIncomplete); err != nil {
			return false, err
		}
	}
}

// complete runs the on_incomplete steps.
func (x *Executor) complete(ctx context.Context, p Place, inc *workflow.OnIncomplete) error {
	if inc.Prompt != nil && x.Ask != nil {
		text, err := inc.Prompt.Expand(x.View(ctx, &p))
		if err != nil {
			return &action.InputError{Err: err}
		}
		if !x.Ask(text) {
			return errors.New("the validation is incomplete, and was given up")
		}
	}
	if err := x.pause(ctx, p, inc.RetryDelay); err != nil {
		return err
	}
	must := &workflow.Step{Name: "on_incomplete", CommitRequired: inc.CommitRequired}
	check, err := x.beforeCommits(ctx, &p, must)
	if err != nil {
		return err
	}
	if err := x.Sequence(ctx, &p, inc.Steps); err != nil {
		return err
	}
	return check.after(ctx, &p, must)
}

// pause waits as long as retry_delay says.
func (x *Executor) pause(ctx context.Context, p Place, d workflow.Duration) error {
	delay, err := x.Span(ctx, &p, d)
	if err != nil {
		return inputError("retry_delay: %w", err)
	}
	return x.Life.Sleep(ctx, delay)
}

// measure runs the validation's commands and reads what they found. needs says of what they
// printed that it must have a score, so that the exit status is none; nil: there is no such text.
func (x *Executor) measure(ctx context.Context, p Place, v *workflow.Validate, needs func(text string) bool) (got score, err error) {
	t, err := x.Span(ctx, &p, v.Timeout)
	if err != nil {
		return got, inputError("timeout: %w", err)
	}
	p.Alone = false // what is printed is read for its score
	var failed error
	err = x.within(ctx, t, "the validation", func(ctx context.Context) error {
		failed = x.Sequence(ctx, &p, v.Steps)
		if failed != nil && ctx.Err() != nil {
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return cause // a check that did not end has found nothing
			}
		}
		if failed != nil && (!errors.As(failed, new(*Error)) || x.Life.Interrupted(ctx, failed)) {
			return failed
		}
		return nil
	})
	if err != nil {
		return got, err
	}
	text, must := p.lastOutput(), false
	if n := len(v.Steps); n > 0 {
		// The exit status of a command is a result; that of an agent says nothing.
		// Nor does it where a part of a score is enough: it is not the whole of one.
		_, must = v.Steps[n-1].Action.(*workflow.Claude)
		must = must || failed == nil && (0 < v.Threshold && v.Threshold < 100 || needs != nil && needs(text))
	}
	if v.ResultFile != nil {
		name, err := v.ResultFile.Expand(x.View(ctx, &p))
		if err != nil {
			return got, &action.InputError{Err: err}
		}
		b, err := x.Actions.Read(ctx, p.File(v.ResultFile, name))
		if err != nil && failed == nil {
			return got, fmt.Errorf("the validation's result_file: %w", err)
		}
		text, must = string(b), true
	}
	if got, err = parseScore(text, failed == nil, must); err != nil {
		return got, err
	}
	if why := cutShort(failed); why != nil && got.percent > 0 {
		if got, err = parseScore("", false, true); err != nil {
			return got, err
		}
		got.read, got.cut = false, why
		return got, nil
	}
	schema := v.Schema
	if v.SchemaFile != nil {
		if schema, err = x.readSchema(ctx, p, v.SchemaFile); err != nil {
			return got, err
		}
	}
	if schema != nil {
		return got, fits(schema, text)
	}
	return got, nil
}

// cutShort is why a check that failed did not run to its end: it was killed, took too
// long, or has a command that is not there. What it printed before is no result.
func cutShort(failed error) error {
	exit, ok := errors.AsType[*action.ExitError](failed)
	if ok && (exit.Signal != "" || exit.Code == 126 || exit.Code == 127) || errors.As(failed, new(*TimeoutError)) {
		return Cause(failed)
	}
	return nil
}

// check runs the commands of step_validate.
func (x *Executor) check(ctx context.Context, p *Place, c *workflow.StepValidate) error {
	t, err := x.Span(ctx, p, c.Timeout)
	if err != nil {
		return inputError("timeout: %w", err)
	}
	return x.within(ctx, t, "step_validate", func(ctx context.Context) error { return x.checks(ctx, *p, c) })
}

func (x *Executor) checks(ctx context.Context, p Place, c *workflow.StepValidate) error {
	var errs []error
	for n := 1; ; n++ {
		errs = errs[:0]
		for i, cmd := range c.Commands {
			if err := x.checkOne(ctx, p, cmd, n); err != nil {
				errs = append(errs, fmt.Errorf("check %d: %w", i+1, err))
			}
		}
		if err := x.Life.Stopping(ctx); err != nil {
			return err
		}
		passed := len(c.Commands) - len(errs)
		if len(errs) == 0 || c.Criteria == "any" && passed > 0 || c.Criteria == "at_least" && passed >= c.AtLeast {
			return nil
		}
		if n >= c.Rounds() {
			break
		}
		if err := x.pause(ctx, p, c.RetryDelay); err != nil {
			return err
		}
	}
	err := fmt.Errorf("step_validate: %w", errors.Join(errs...))
	if c.IgnoreFailure {
		x.noteAt(p, "%v; it is ignored (ignore_validation_failure)", err)
		return nil
	}
	return err
}

func (x *Executor) checkOne(ctx context.Context, p Place, c workflow.CheckCommand, n int) error {
	q := p
	q.Scope, q.Alone = p.Scope.Child(), false
	res, err := x.leaf(ctx, q, c.Step, c.Step.Action, fmt.Sprintf("%s%%%d", p.Path(c.Step.Path), n), 1)
	code := 0
	if err != nil {
		var ok bool
		if code, ok = failure.ExitCode(err); !ok {
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
