package flow

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/bide-dev/bide/internal/pipeline/plan"
)

// apply applies a function to each element of a list.
func (fr *frame) apply(i int32, n *plan.Node) (any, error) {
	in, err := fr.inputs(n)
	if err != nil {
		fr.tellSkipped(i, err)
		return nil, err
	}
	items, _ := in[0].([]any)
	s := fr.fn.sites[i]
	inner := &fr.x.f.funcs[n.Call.Fn]
	if s.plain {
		if inner.Pure {
			return fr.each(n, items)
		}
		return fr.elements(fr.ctx, s, items, 1)
	}
	op := operation{fr: fr, s: s, args: in}
	op.act = func(ctx context.Context, attempt int) (any, error) {
		if inner.Pure {
			return fr.each(n, items)
		}
		return fr.elements(ctx, s, items, attempt)
	}
	return op.run()
}

// each applies a function that makes no calls, here and now.
func (fr *frame) each(n *plan.Node, items []any) (any, error) {
	inner := &fr.x.f.funcs[n.Call.Fn]
	results := make([]any, 0, len(items))
	if len(items) > 0 {
		fr.begin(inner.Captures)
		for _, c := range inner.Captures {
			if _, err := fr.need(c); err != nil {
				return nil, err
			}
		}
		one := newFrame(fr.x, n.Call.Fn, fr, fr.ctx, "")
		one.lazy = true
		one.args = make([]any, 1)
		for i, item := range items {
			if i%1024 == 1023 && fr.ctx.Err() != nil {
				return nil, fr.x.stopping(fr.ctx)
			}
			if i > 0 {
				one.reset()
			}
			one.args[0] = item
			v, err := one.need(inner.Result)
			if err != nil {
				return nil, &ElementsError{Total: len(items), Failed: 1, First: i, Err: err}
			}
			results = append(results, v)
			if n.Call.Each.Until != nil && n.Call.Each.Until(v) {
				break
			}
		}
	}
	return fr.combine(n, items, results)
}

// reset makes a frame that one goroutine used as new.
func (fr *frame) reset() {
	for i := range fr.slots {
		s := &fr.slots[i]
		s.v, s.err = nil, nil
		s.state.Store(idle)
	}
}

func (fr *frame) combine(n *plan.Node, items, results []any) (any, error) {
	v, err := guarded(func() (any, error) { return n.Call.Each.Combine(items, results) })
	if err != nil {
		p := fr.x.f.plan
		return nil, &NodeError{Label: n.Label, Pos: p.Pos(n), Source: p.Source(n), Err: err}
	}
	return v, nil
}

// elements applies a function that makes calls to many elements at once, or
// one after another where the first results may make the others needless. Every
// element is brought to its end, whatever becomes of the others, so that a
// resumed run has only the failed ones to do.
func (fr *frame) elements(ctx context.Context, s *site, items []any, attempt int) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := application{fr: fr, s: s, items: items, attempt: attempt, results: make([]any, len(items)), errs: make([]error, len(items))}
	n := s.node
	if n.Call.Each.Until != nil {
		for i := range items {
			a.element(ctx, i)
			if a.errs[i] != nil {
				return nil, a.failure()
			}
			if n.Call.Each.Until(a.results[i]) {
				return fr.combine(n, items, a.results[:i+1])
			}
		}
		return fr.combine(n, items, a.results)
	}
	a.all(ctx, cancel)
	if err := a.failure(); err != nil {
		return nil, err
	}
	return fr.combine(n, items, a.results)
}

// application is one attempt to apply a function to all elements.
type application struct {
	fr      *frame
	s       *site
	items   []any
	attempt int
	results []any
	errs    []error
}

// all takes the elements in order, so many at once as the window is wide. Where
// the run stops at the first failure, so does it.
func (a *application) all(ctx context.Context, stop func()) {
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(a.items) {
				return
			}
			if a.errs[i] = a.fr.x.stopping(ctx); a.errs[i] == nil {
				a.element(ctx, i)
			}
			if a.fr.x.opt.FailFast && a.errs[i] != nil {
				stop()
			}
		}
	}
	var workers sync.WaitGroup
	for range min(a.fr.x.opt.Window, len(a.items)) - 1 {
		workers.Go(work)
	}
	work()
	workers.Wait()
}

func (a *application) element(ctx context.Context, i int) {
	fr, x := a.fr, a.fr.x
	path := ""
	if x.opt.Watcher != nil {
		path = elementPath(fr.pathOf(a.s), a.attempt, i)
	}
	one := newFrame(x, a.s.node.Call.Fn, fr, ctx, path)
	one.args = []any{a.items[i]}
	one.work(append(make([]int32, 0, len(one.fn.start)), one.fn.start...))
	a.results[i], a.errs[i] = one.need(one.fn.Result)
}

// failure is the error of the application: of one element, or of several. An
// application that was interrupted is not over, unless its own first failure did
// that.
func (a *application) failure() error {
	e := &ElementsError{Total: len(a.items)}
	var stopped error
	for i, err := range a.errs {
		switch {
		case err == nil:
		case interrupted(err):
			stopped = err
		default:
			if e.Failed++; e.Failed == 1 {
				e.First, e.Err = i, err
			}
		}
	}
	switch {
	case stopped != nil && (e.Failed == 0 || !a.fr.x.opt.FailFast):
		return stopped
	case e.Failed > 0:
		return e
	}
	return nil
}
