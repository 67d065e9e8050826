package flow

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/bide-dev/bide/internal/pipeline/plan"
)

// The states of a slot.
const (
	idle uint32 = iota
	running
	done
)

// slot is where the value of a node comes.
type slot struct {
	v     any
	err   error
	state atomic.Uint32
	left  atomic.Int32  // inputs of an eager node that have no value yet
	wait  chan struct{} // closed when it is done; made by the first who waits
}

// frame is one run of one function.
type frame struct {
	x     *exec
	fn    *function
	outer *frame
	ctx   context.Context
	path  string // stands before the labels of its calls
	args  []any  // of a lambda
	lazy  bool   // nothing starts by itself: nodes are computed when asked for

	slots []slot
	mu    sync.Mutex // of the wait fields, and of state becoming done
}

func newFrame(x *exec, index int, outer *frame, ctx context.Context, path string) *frame {
	fn := &x.f.funcs[index]
	fr := &frame{x: x, fn: fn, outer: outer, ctx: ctx, path: path, slots: make([]slot, len(fn.Nodes))}
	for _, i := range fn.Eager {
		fr.slots[i].left.Store(fn.degree[i])
	}
	return fr
}

// work computes nodes that are ready and everything that becomes ready by
// that. It takes over the slice.
func (fr *frame) work(ready []int32) {
	var slow []int32
	for {
		for len(ready) > 0 {
			i := ready[len(ready)-1]
			ready = ready[:len(ready)-1]
			if fr.fn.slow[i] {
				slow = append(slow, i)
			} else {
				ready = fr.compute(i, ready)
			}
		}
		if len(slow) == 0 {
			return
		}
		for _, i := range slow[1:] {
			fr.x.running.Go(func() { fr.work(fr.compute(i, nil)) })
		}
		i := slow[0]
		slow = slow[:0]
		ready = fr.compute(i, ready)
	}
}

// compute computes a node unless somebody else does, and adds to ready what
// became so.
func (fr *frame) compute(i int32, ready []int32) []int32 {
	if !fr.slots[i].state.CompareAndSwap(idle, running) {
		return ready
	}
	v, err := fr.eval(i)
	return fr.complete(i, v, err, ready)
}

// complete sets the value of a node, or its error, and tells those who wait
// for it.
func (fr *frame) complete(i int32, v any, err error, ready []int32) []int32 {
	s := &fr.slots[i]
	s.v, s.err = v, err
	fr.mu.Lock()
	s.state.Store(done)
	wait := s.wait
	fr.mu.Unlock()
	if wait != nil {
		close(wait)
	}
	if fr.lazy {
		return ready
	}
	if err != nil && fr.x.opt.FailFast && fr.outer == nil && fr.fn.eager[i] && !interrupted(err) {
		fr.x.cancel(errFailFast)
	}
	for _, u := range fr.fn.Users[i] {
		switch {
		case err != nil:
			ready = fr.skip(u, err, ready)
		case fr.slots[u].left.Add(-1) == 0:
			ready = append(ready, u)
		}
	}
	return ready
}

// skip completes a node whose input failed, unless it is already.
func (fr *frame) skip(i int32, err error, ready []int32) []int32 {
	if !fr.slots[i].state.CompareAndSwap(idle, running) {
		return ready
	}
	fr.tellSkipped(i, err)
	return fr.complete(i, nil, err, ready)
}

// need gives the value of a node, which is computed if it is not yet.
func (fr *frame) need(i int32) (any, error) {
	s := &fr.slots[i]
	if s.state.Load() != done {
		if ready := fr.compute(i, nil); len(ready) > 0 {
			// Not here: the one who asks is waiting.
			fr.x.running.Go(func() { fr.work(ready) })
		}
		fr.await(context.Background(), i)
	}
	return s.v, s.err
}

// await waits until a node is done, or the context is.
func (fr *frame) await(ctx context.Context, i int32) {
	s := &fr.slots[i]
	if s.state.Load() == done {
		return
	}
	fr.mu.Lock()
	if s.state.Load() == done {
		fr.mu.Unlock()
		return
	}
	if s.wait == nil {
		s.wait = make(chan struct{})
	}
	wait := s.wait
	fr.mu.Unlock()
	select {
	case <-wait:
	case <-ctx.Done():
	}
}

// inputs gives the values of a node's inputs. Where several are still to be
// computed, that is done at once.
func (fr *frame) inputs(n *plan.Node) ([]any, error) {
	fr.begin(n.In)
	args := make([]any, len(n.In))
	for k, in := range n.In {
		v, err := fr.need(in)
		if err != nil {
			return nil, err
		}
		args[k] = v
	}
	return args, nil
}

// begin starts the computing of all nodes of a list but one, as far as it may
// take time.
func (fr *frame) begin(list []int32) {
	if fr.lazy || len(list) < 2 {
		return
	}
	missing := 0
	for _, i := range list {
		if fr.slots[i].state.Load() == idle && (fr.fn.slow[i] || fr.unready(i)) {
			if missing++; missing > 1 {
				fr.x.running.Go(func() { _, _ = fr.need(i) }) // who needs it gets the error
			}
		}
	}
}

// eval computes the value of a node that is this goroutine's to compute.
func (fr *frame) eval(i int32) (any, error) {
	n := &fr.fn.Nodes[i]
	switch n.Op {
	case plan.Const:
		return n.Value, nil
	case plan.Input:
		if !fr.x.given[n.Index] {
			return fr.need(n.Default)
		}
		return fr.x.values[n.Index], nil
	case plan.Arg:
		return fr.args[n.Index], nil
	case plan.Outer:
		return fr.fromOuter(n.Index)
	case plan.Pure:
		return fr.pure(n)
	case plan.Select:
		return fr.choose(n)
	case plan.Call:
		return fr.call(i, n)
	case plan.Apply:
		return fr.apply(i, n)
	}
	return nil, errNoFailure
}

// errNoFailure cannot be seen: who asks for the failure of a call is its
// fallback, which is asked after it is set.
var errNoFailure = errors.New("there is no failure yet")

func (fr *frame) pure(n *plan.Node) (any, error) {
	args, err := fr.inputs(n)
	if err != nil {
		return nil, err
	}
	v, err := guarded(func() (any, error) { return n.Eval(args) })
	if err != nil {
		p := fr.x.f.plan
		return nil, &NodeError{Label: n.Label, Pos: p.Pos(n), Source: p.Source(n), Err: err}
	}
	return v, nil
}

// choose gives the value of the first arm whose test holds.
func (fr *frame) choose(n *plan.Node) (any, error) {
	for _, a := range n.Arms {
		if a.Test != plan.None {
			holds, err := fr.need(a.Test)
			if err != nil {
				return nil, err
			}
			if holds != true {
				continue
			}
		}
		return fr.need(a.Value)
	}
	p := fr.x.f.plan
	return nil, &NodeError{Label: n.Label, Pos: p.Pos(n), Source: p.Source(n), Err: errors.New("no case fits the value")}
}

// fromOuter gives the value of a node of the function around. That function may
// live longer than this one: where it has to compute, it does so by itself, and
// this one does not wait longer than its own time.
func (fr *frame) fromOuter(i int32) (any, error) {
	o := fr.outer
	s := &o.slots[i]
	if s.state.Load() != done {
		if o.fn.slow[i] || o.unready(i) {
			fr.x.running.Go(func() { _, _ = o.need(i) })
			if o.await(fr.ctx, i); s.state.Load() != done {
				return nil, fr.x.stopping(fr.ctx)
			}
		}
		return o.need(i)
	}
	return s.v, s.err
}

// unready reports whether a node that takes no time itself may have to wait for
// what it needs.
func (fr *frame) unready(i int32) bool {
	for _, in := range fr.fn.Nodes[i].In {
		if fr.slots[in].state.Load() != done {
			return true
		}
	}
	return fr.fn.Nodes[i].Op == plan.Select
}
