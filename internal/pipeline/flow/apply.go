package flow

import (
	"context"
	"sync"

	"github.com/bide-dev/bide/internal/pipeline/plan"
)

// apply applies a function to each element of a list.
func (fr *frame) apply(i int32, n *plan.Node) (any, error) {
	in, err := fr.inputs(n, nil)
	if err != nil {
		fr.tellSkipped(i, err)
		return nil, err
	}
	items, _ := in[0].([]any)
	s := fr.fn.sites[i]
	inner := &fr.x.f.funcs[n.Call.Fn]
	act := func(ctx context.Context, attempt int) (any, error) {
		if inner.Pure {
			return fr.each(ctx, n, items)
		}
		return fr.elements(ctx, i, items, attempt)
	}
	if s.plain {
		return act(fr.ctx, 1)
	}
	op := operation{fr: fr, s: s, at: i, args: in, act: act}
	return op.run()
}

// each applies a function that makes no calls, here and now.
func (fr *frame) each(ctx context.Context, n *plan.Node, items []any) (any, error) {
	results := make([]any, 0, len(items))
	if len(items) > 0 {
		captures := fr.x.f.funcs[n.Call.Fn].Captures
		fr.ahead(captures)
		for _, c := range captures {
			if _, err := fr.need(c); err != nil {
				return nil, err
			}
		}
	}
	var err error
	if results, err = newPureFrame(fr.x, n.Call.Fn, fr).each(ctx, n, items, results); err != nil {
		return nil, err
	}
	return fr.combine(n, items, results)
}

func (fr *frame) combine(n *plan.Node, items, results []any) (any, error) {
	v, err := guarded(func() (any, error) { return n.Call.Each.Combine(items, results) })
	if err == nil {
		err = fits(n, v)
	}
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
func (fr *frame) elements(ctx context.Context, at int32, items []any, attempt int) (any, error) {
	s := fr.fn.sites[at]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &application{fr: fr, at: at, s: s, ctx: ctx, stop: cancel, items: items, attempt: attempt, until: s.node.Call.Each.Until,
		results: make([]any, len(items)), ordered: fr.x.f.funcs[s.node.Call.Fn].ordered}
	a.spawn(func() { a.work(nil) })
	a.workers.wait(fr.x.f.clock)
	if err := a.failure(); err != nil {
		return nil, err
	}
	return fr.combine(s.node, items, a.results[:a.end()])
}

// application is one attempt to apply a function to all elements.
type application struct {
	fr      *frame
	at      int32 // its node in fr
	s       *site
	ctx     context.Context
	stop    context.CancelFunc
	items   []any
	attempt int
	until   func(v any) bool // nil: all elements at once
	ordered bool             // elements go through limits, in order
	results []any
	workers group

	mu    sync.Mutex
	errs  []error // of the elements, once one has failed
	next  int     // the first element that nobody has taken
	held  int     // the element on its way to a limit, from 1; 0: none
	spare bool    // as in a workers
	over  bool    // the others are needless
}

// spawn starts one who works on elements.
func (a *application) spawn(f func()) { a.workers.start(a.fr.x.f.clock, f) }

// end is how many elements there are a result of.
func (a *application) end() int {
	if a.until == nil {
		return len(a.items)
	}
	return a.next
}

// work takes element after element. one is the frame of an element that another
// goroutine had to leave, or nil.
func (a *application) work(one *frame) {
	ended := false
	defer func() {
		if !ended {
			a.spawn(func() { a.work(one) })
		}
	}()
	if one != nil {
		a.finish(one)
	}
	var room [8]int32
	for {
		i, ok := a.take()
		if !ok {
			break
		}
		if err := a.fr.x.stopping(a.ctx); err != nil {
			a.settle(i, nil, err)
			continue
		}
		one = a.frame(one, i)
		one.work(append(room[:0], one.fn.start...))
		a.finish(one)
	}
	ended = true
}

// frame is that of the next element of a worker, made of the one before.
func (a *application) frame(one *frame, i int) *frame {
	path := ""
	if a.fr.x.opt.Watcher != nil {
		path = elementPath(a.fr.pathOf(a.s), a.attempt, i)
	}
	if one == nil {
		one = newFrame(a.fr.x, a.s.node.Call.Fn, a.fr, a.ctx, path)
		one.app = a
	} else {
		one.reset()
	}
	one.path, one.element = path, i
	for _, p := range one.fn.Params {
		one.slots[p].v = a.items[i]
	}
	return one
}

// finish waits until nobody is at work on an element.
func (a *application) finish(one *frame) {
	one.running.wait(a.fr.x.f.clock)
	v, err := one.need(one.fn.Result)
	a.settle(one.element, v, err)
}

// settle takes the result of an element. Where the run stops at the first
// failure, so do the others.
func (a *application) settle(i int, v any, err error) {
	a.results[i] = v
	if err != nil {
		a.mu.Lock()
		if a.errs == nil {
			a.errs = make([]error, len(a.items))
		}
		a.errs[i] = err
		a.mu.Unlock()
		if a.fr.x.opt.FailFast {
			a.stop()
		}
	}
	if a.until != nil && (err != nil || a.until(v)) {
		a.mu.Lock()
		a.over = true
		a.mu.Unlock()
	}
	a.pass(i)
}

// take gives an element that nobody has taken, unless somebody else is going to.
func (a *application) take() (i int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held != 0 || a.over || a.next == len(a.items) {
		return 0, false
	}
	i = a.next
	a.next++
	if a.ordered || a.until != nil {
		a.held = i + 1
	} else {
		a.relay()
	}
	return i, true
}

// relay starts a spare if there is an element for it and the window is wide
// enough.
func (a *application) relay() {
	x := a.fr.x
	if a.next == len(a.items) || a.spare || a.held != 0 || a.until != nil || !x.widen() {
		return
	}
	a.spare = true
	a.spawn(func() {
		defer x.window.Add(1)
		a.mu.Lock()
		a.spare = false
		a.mu.Unlock()
		a.work(nil)
	})
}

// pass says that an element has its place at a limit, or waits for something
// else: the next may begin. It reports whether one is going to, before what is around
// them.
func (a *application) pass(i int) (more bool) {
	if !a.ordered && a.until == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held == i+1 {
		a.held = 0
		a.relay()
	}
	return a.held != 0 && a.until == nil || a.spare && a.next < len(a.items)
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
		case a.fr.x.interrupted(err):
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
