package engine

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// foreach runs its steps for each of a list of values, one after another or
// several at a time. Its output is the outputs of the rounds, in order.
func (r *run) foreach(ctx context.Context, p place, a *workflow.Foreach, path string) (action.Result, error) {
	list, err := r.foreachItems(ctx, p, a, path)
	if err != nil {
		return action.Result{}, err
	}
	parallel, err := r.number(a.Parallel, p.scope)
	if err != nil {
		return action.Result{}, &action.InputError{Err: fmt.Errorf("parallel: %w", err)}
	}
	if t := r.span(a.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "foreach", After: t})
		defer cancel()
	}
	f := &rounds{r: r, p: p, a: a, list: list, outs: make([]string, len(list)), errs: make([]error, len(list))}
	f.run(ctx, max(1, parallel))
	return f.result(ctx)
}

// rounds are the rounds of one foreach.
type rounds struct {
	r    *run
	p    place
	a    *workflow.Foreach
	list []any
	outs []string
	errs []error
}

// run takes the rounds in order, several at a time.
func (f *rounds) run(ctx context.Context, parallel int) {
	next := make(chan int)
	var failed sync.Once
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for range min(parallel, len(f.list)) {
		workers.Go(func() {
			for i := range next {
				select {
				case <-stop: // it was handed over at the moment of the failure
					continue
				default:
				}
				if f.errs[i] = f.round(ctx, i); f.errs[i] != nil && !f.a.ContinueOnError {
					failed.Do(func() { close(stop) })
				}
			}
		})
	}
	for i := range f.list {
		select {
		case next <- i:
			continue
		case <-stop:
		case <-ctx.Done():
		}
		break
	}
	close(next)
	workers.Wait()
}

func (f *rounds) round(ctx context.Context, i int) error {
	select {
	case <-ctx.Done():
		return f.r.stopping(ctx)
	default:
	}
	q := f.p.round(i)
	v, n := f.list[i], int64(len(f.list))
	q.scope.Set("item", v)
	q.scope.Set("index", int64(i))
	q.scope.Set("total", n)
	q.scope.Set("foreach", map[string]any{"item": v, "index": int64(i), "total": n})
	err := f.r.sequence(ctx, q, f.a.Do)
	if last, ok := q.scope.Lookup("last.output"); ok {
		f.outs[i] = value.Text(last.V)
	} else if last, ok := q.scope.Lookup("last"); ok {
		if m, ok := last.V.(map[string]any); ok {
			f.outs[i] = value.Text(m["output"])
		}
	}
	return err
}

// result joins what the rounds gave.
func (f *rounds) result(ctx context.Context) (action.Result, error) {
	var errs []error
	done := 0
	results := make([]any, len(f.list))
	for i, err := range f.errs {
		results[i] = map[string]any{"item": f.list[i], "output": f.outs[i], "success": err == nil}
		if err != nil {
			errs = append(errs, fmt.Errorf("foreach: item %d of %d (%s): %w", i+1, len(f.list), clipName(f.list[i]), err))
			continue
		}
		done++
	}
	f.p.scope.Set("foreach.results", results)
	f.p.scope.Set("foreach.succeeded", int64(done))
	f.p.scope.Set("foreach.failed", int64(len(errs)))
	f.p.scope.Set("foreach.total", int64(len(f.list)))
	res := action.Result{Output: bounded(strings.Join(f.outs, "\n"))}
	if err := f.r.stopping(ctx); err != nil {
		return res, err
	}
	if len(errs) > 0 {
		res.ExitCode = 1
		if !f.a.ContinueOnError {
			return res, errs[0]
		}
		f.r.note("foreach went on after %d of %d items failed; the first: %v", len(errs), len(f.list), errs[0])
	}
	return res, nil
}

func clipName(v any) string {
	s := value.Text(v)
	if r := []rune(s); len(r) > 60 {
		s = string(r[:57]) + "..."
	}
	return s
}

// foreachItems gives the values of a foreach.
func (r *run) foreachItems(ctx context.Context, p place, a *workflow.Foreach, path string) ([]any, error) {
	var list []any
	var err error
	switch {
	case a.Input != nil:
		list, err = r.foreachFile(p, a)
	case a.Text != nil:
		list, err = r.foreachText(ctx, p, a, path)
	default:
		for _, e := range a.List {
			v, eerr := action.Expand(e, p.scope)
			if eerr != nil {
				return nil, &action.InputError{Err: eerr}
			}
			list = append(list, v)
		}
	}
	if err != nil {
		return nil, err
	}
	limit, err := r.number(a.MaxItems, p.scope)
	if err != nil {
		return nil, &action.InputError{Err: fmt.Errorf("max_items: %w", err)}
	}
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	return list, nil
}

func (r *run) foreachFile(p place, a *workflow.Foreach) ([]any, error) {
	name, err := a.Input.Expand(p.scope)
	if err != nil {
		return nil, &action.InputError{Err: err}
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(p.dir, name)
	}
	var list []any
	for it, err := range (input.Spec{File: name, JSONPath: a.JSONPath}).Items() {
		if err != nil {
			return nil, &action.InputError{Err: fmt.Errorf("foreach: %w", err)}
		}
		v, err := value.Parse(it.Data)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// foreachText gives the values of a text: those of the list that it names, or
// the lines of the command that it is.
func (r *run) foreachText(ctx context.Context, p place, a *workflow.Foreach, path string) ([]any, error) {
	if v, ok := a.Text.Value(p.scope); ok {
		switch v := v.V.(type) {
		case []any:
			return v, nil
		case string:
			return lines(v), nil
		case nil:
			return nil, nil
		default:
			return []any{v}, nil
		}
	}
	step := &workflow.Step{Path: path + ".items", Action: &workflow.Shell{Text: a.Text}}
	q := p
	q.quiet = true // what it prints are the items
	res, err := r.leafWithin(ctx, q, step, step.Action, step.Path+p.at, 1, 0)
	if err != nil {
		return nil, fmt.Errorf("the items of foreach: %w", err)
	}
	text := res.Output
	if res.StdoutFile != "" {
		b, err := os.ReadFile(res.StdoutFile)
		if err != nil {
			return nil, err
		}
		text = string(b)
	}
	if v, err := value.Parse([]byte(text)); err == nil {
		if list, ok := v.([]any); ok {
			return list, nil
		}
	}
	return lines(text), nil
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
