package step

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// foreach runs its steps for each of a list of values, one after another or
// several at a time. Its output is the outputs of the rounds, in order.
func (x *Executor) foreach(ctx context.Context, p Site, a *workflow.Foreach, path string) (res action.Result, err error) {
	list, err := x.foreachItems(ctx, p, a, path)
	if err != nil {
		return res, err
	}
	parallel, err := x.Number(ctx, p, a.Parallel)
	if err != nil {
		return res, inputError("parallel: %w", err)
	}
	t, err := x.Span(ctx, p, a.Timeout)
	if err != nil {
		return res, inputError("timeout: %w", err)
	}
	p.Alone = p.Alone && parallel < 2
	err = x.within(ctx, t, "foreach", func(ctx context.Context) error {
		f := &loop{x: x, p: p, a: a, list: list, outs: make([]string, len(list)), errs: make([]error, len(list))}
		for i := range f.errs {
			f.errs[i] = errNotBegun
		}
		x.Clock.Together(min(max(1, parallel), len(list)), func(int) { f.work(ctx) })
		res, err = f.result(ctx)
		return err
	})
	return res, err
}

// errNotBegun is the end of a round that never began.
var errNotBegun = errors.New("it was not begun")

// loop is the rounds of one foreach. Each worker takes the next round; what a
// round gave is written by its worker alone.
type loop struct {
	x    *Executor
	p    Site
	a    *workflow.Foreach
	list []any
	outs []string
	errs []error

	next   atomic.Int64
	failed atomic.Bool // and no further round begins
}

func (f *loop) work(ctx context.Context) {
	for !f.failed.Load() && f.x.Life.Stopping(ctx) == nil {
		i := int(f.next.Add(1)) - 1
		if i >= len(f.list) {
			return
		}
		if f.errs[i] = f.round(ctx, i); f.errs[i] != nil && !f.a.ContinueOnError {
			f.failed.Store(true)
		}
	}
}

func (f *loop) round(ctx context.Context, i int) error {
	q := f.p.Round(i)
	v, n := f.list[i], int64(len(f.list))
	q.For = f.x.brief(v)
	q.Scope.Set("item", v)
	q.Scope.Set("index", int64(i))
	q.Scope.Set("total", n)
	q.Scope.Set("foreach", map[string]any{"item": v, "index": int64(i), "total": n})
	err := f.x.Sequence(ctx, q, f.a.Do)
	if last, ok := q.Scope.Lookup("last.output"); ok {
		f.outs[i] = value.Text(last.V)
	} else {
		f.outs[i] = q.lastOutput()
	}
	return err
}

// lastOutput is the output of the step that ran last.
func (p Site) lastOutput() string {
	m, _ := p.Scope.Get("last").(map[string]any)
	return value.Text(m["output"])
}

// result joins what the rounds gave.
func (f *loop) result(ctx context.Context) (action.Result, error) {
	var first error
	done, failed := 0, 0
	results := make([]any, len(f.list))
	for i, err := range f.errs {
		results[i] = map[string]any{"item": f.list[i], "output": f.outs[i], "success": err == nil}
		switch {
		case err == nil:
			done++
		case err != errNotBegun:
			if failed++; first == nil {
				first = fmt.Errorf("foreach: item %d of %d (%s): %w", i+1, len(f.list), f.x.brief(f.list[i]), err)
			}
		}
	}
	f.p.Scope.Set("foreach.results", results)
	f.p.Scope.Set("foreach.succeeded", int64(done))
	f.p.Scope.Set("foreach.failed", int64(failed))
	f.p.Scope.Set("foreach.skipped", int64(len(f.list)-done-failed))
	f.p.Scope.Set("foreach.total", int64(len(f.list)))
	res := action.Result{Output: f.x.Values.Mask().Bound(strings.Join(f.outs, "\n"), MaxVar)}
	if err := f.x.Life.Stopping(ctx); err != nil {
		return res, err
	}
	if first != nil {
		res.ExitCode = 1
		if !f.a.ContinueOnError {
			return res, first
		}
		f.x.Note("foreach went on after %d of %d items failed; the first: %v", failed, len(f.list), first)
	}
	return res, nil
}

// brief is a value as people know it.
func (x *Executor) brief(v any) string { return x.text(value.Text(v)).Head(60) }

// foreachItems gives the values of a foreach.
func (x *Executor) foreachItems(ctx context.Context, p Site, a *workflow.Foreach, path string) (list []any, err error) {
	switch {
	case a.Input != nil:
		list, err = x.foreachFile(ctx, p, a)
	case a.Text != nil:
		list, err = x.foreachText(ctx, p, a, path)
	default:
		for _, e := range a.List {
			v, eerr := action.Expand(e, x.View(ctx, p))
			if eerr != nil {
				return nil, &action.InputError{Err: eerr}
			}
			list = append(list, v)
		}
	}
	if err != nil {
		return nil, err
	}
	limit, err := x.Number(ctx, p, a.MaxItems)
	if err != nil {
		return nil, inputError("max_items: %w", err)
	}
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	return list, nil
}

func (x *Executor) foreachFile(ctx context.Context, p Site, a *workflow.Foreach) ([]any, error) {
	name, err := a.Input.Expand(x.View(ctx, p))
	if err != nil {
		return nil, &action.InputError{Err: err}
	}
	until, stop := x.Life.Until(ctx)
	defer stop()
	list, err := x.Actions.Items(until, p.File(a.Input, name), a.JSONPath)
	if halt := x.Life.Stopping(ctx); err != nil && halt != nil {
		return nil, halt
	}
	if err != nil {
		return nil, inputError("foreach: %w", err)
	}
	return list, nil
}

// foreachText gives the values of a text: those of the list that it names, or
// the lines of the command that it is.
func (x *Executor) foreachText(ctx context.Context, p Site, a *workflow.Foreach, path string) ([]any, error) {
	if v, ok := a.Text.Value(x.View(ctx, p)); ok {
		var list []any
		switch v := v.V.(type) {
		case []any:
			list = v
		case string:
			list = lines(v)
		case nil:
		default:
			list = []any{v}
		}
		for _, e := range list {
			if s, ok := e.(string); ok && mask.IsLeftOut(s) {
				return nil, inputError("foreach: values are missing in %s, where it says %q: a variable keeps the two ends of a large output; have the foreach run the command itself, or read a file with input:", a.Text, s)
			}
		}
		return list, nil
	}
	step := &workflow.Step{Path: path + ".items", Action: &workflow.Shell{Text: a.Text}}
	q := p
	q.Quiet, q.Alone = true, false // what it prints are the items
	res, err := x.leafWithin(ctx, q, step, step.Action, p.Path(step.Path), 1, 0)
	if err != nil {
		return nil, fmt.Errorf("the items of foreach: %w", err)
	}
	text, err := x.Actions.Output(ctx, res)
	if err != nil {
		return nil, err
	}
	if v, err := value.Parse(text); err == nil {
		if list, ok := v.([]any); ok {
			return list, nil
		}
	}
	return lines(string(text)), nil
}

// lines gives the lines of a text that are not blank.
func lines(text string) []any {
	var list []any
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, len(text)+1)
	for sc.Scan() {
		if l := strings.TrimSpace(sc.Text()); l != "" {
			list = append(list, l)
		}
	}
	return list
}
