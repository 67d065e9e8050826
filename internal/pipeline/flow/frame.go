package flow

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/bide-dev/bide/internal/pipeline/plan"
)

// The states of a slot: idle at first, then, in any order, somebody computes it
// and somebody waits for it, and then done.
const (
	idle    uint32 = 0
	claimed uint32 = 1
	awaited uint32 = 2
	done    uint32 = 4
)

// slot is where the value of a node comes.
type slot struct {
	v     any
	err   error
	state atomic.Uint32
	left  atomic.Int32  // inputs of an eager node that have no value yet
	wait  chan struct{} // closed when it is done; made by the first who waits
	arg   [1]any        // of a call that has one: with a slice for each call, a map over a module takes 1.3 times as long
}

// claim reports whether the node is the caller's to compute.
func (s *slot) claim() bool { return s.state.Or(claimed)&(claimed|done) == 0 }

// frame is one run of one function.
type frame struct {
	x     *exec
	fn    *function
	outer *frame
	ctx   context.Context
	path  string // is before the labels of its calls

	app     *application // whose element this is; nil: it is no element
	element int

	slots   []slot
	mu      sync.Mutex // of the wait fields
	workers workers
	running group // the goroutines that compute its nodes
}

func newFrame(x *exec, index int, outer *frame, ctx context.Context, path string) *frame {
	fn := &x.f.funcs[index]
	fr := &frame{x: x, fn: fn, outer: outer, ctx: ctx, path: path, slots: make([]slot, len(fn.Nodes))}
	for i := range fn.Nodes {
		if fn.given(int32(i)) {
			fr.slots[i].v = fn.Nodes[i].Value
			fr.slots[i].state.Store(done)
		}
	}
	fr.reset()
	return fr
}

// reset makes a frame as new that nobody computes in any more.
func (fr *frame) reset() {
	for _, i := range fr.fn.todo {
		s := &fr.slots[i]
		s.v, s.err, s.wait = nil, nil, nil
		s.state.Store(idle)
		if n := fr.fn.degree[i]; n > 0 {
			s.left.Store(n)
		}
	}
}

// run computes all that a frame needs in any case, and returns when nobody is
// at work in it any more.
func (fr *frame) run() {
	fr.spawn(func() { fr.work(append(make([]int32, 0, len(fr.fn.start)), fr.fn.start...)) })
	fr.running.wait(fr.x.f.clock)
}

// spawn has something done in the frame by another goroutine.
func (fr *frame) spawn(f func()) { fr.running.start(fr.x.f.clock, f) }

// work computes nodes that are ready and everything that becomes ready by
// that. It takes over the slice.
//
// A module may end its goroutine with runtime.Goexit; then another one continues
// with the rest.
func (fr *frame) work(ready []int32) {
	var room [8]int32
	slow := room[:0]
	at, ended := 0, false
	defer func() {
		if !ended {
			rest := append(append([]int32(nil), slow...), ready[at:]...)
			fr.spawn(func() { fr.work(rest) })
		}
	}()
	for {
		for at < len(ready) {
			i := ready[at]
			at++
			if fr.fn.slow[i] {
				slow = append(slow, i)
			} else {
				ready = fr.compute(i, ready)
			}
		}
		i, ok := fr.take(slow)
		if slow, ready, at = slow[:0], ready[:0], 0; !ok {
			break
		}
		ready = fr.compute(i, ready)
		if fr.ordered(i) {
			fr.pass(i)
		}
	}
	ended = true
}

// compute computes a node unless somebody else does, and adds to ready what
// became so.
func (fr *frame) compute(i int32, ready []int32) []int32 {
	if !fr.slots[i].claim() {
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
	if s.state.Swap(done)&awaited != 0 {
		fr.mu.Lock()
		close(s.wait)
		fr.mu.Unlock()
	}
	if err != nil && fr.x.opt.FailFast && fr.outer == nil && fr.fn.eager[i] && !fr.x.interrupted(err) {
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
	if !fr.slots[i].claim() {
		return ready
	}
	fr.tellSkipped(i, err)
	return fr.complete(i, nil, err, ready)
}

// need gives the value of a node, which is computed if it is not yet. A call is
// made by somebody else, since it may end the goroutine that it is made in.
func (fr *frame) need(i int32) (any, error) {
	s := &fr.slots[i]
	if s.state.Load()&done == 0 {
		if fr.fn.Nodes[i].Op == plan.Call {
			fr.start(i)
		} else if ready := fr.compute(i, nil); len(ready) > 0 {
			// Not here: the one who asks is waiting.
			fr.spawn(func() { fr.work(ready) })
		}
		fr.await(context.Background(), i)
	}
	return s.v, s.err
}

// await waits until a node is done, or the context is.
func (fr *frame) await(ctx context.Context, i int32) {
	s := &fr.slots[i]
	if s.state.Load()&done != 0 {
		return
	}
	fr.mu.Lock()
	if s.wait == nil {
		s.wait = make(chan struct{})
	}
	wait := s.wait
	if s.state.Or(awaited)&done != 0 {
		fr.mu.Unlock()
		return
	}
	fr.mu.Unlock()
	fr.yield()
	_ = fr.x.f.clock.Wait(ctx, -1, wait) // what ended it, the slot says
}

// inputs gives the values of a node's inputs. Where several are still to be
// computed, that is done at once. They are in room, if that is as long as they are.
func (fr *frame) inputs(n *plan.Node, room []any) ([]any, error) {
	fr.ahead(n.In)
	args := room
	if len(n.In) != len(room) {
		args = make([]any, len(n.In))
	}
	for k, in := range n.In {
		v, err := fr.need(in)
		if err != nil {
			return nil, err
		}
		args[k] = v
	}
	return args, nil
}

// ahead has all nodes of a list computed at once, as far as that may take time.
func (fr *frame) ahead(list []int32) {
	if len(list) < 2 {
		return
	}
	for _, i := range list {
		if fr.slots[i].state.Load()&(claimed|done) != 0 || fr.atHand(i) {
			continue
		}
		switch {
		case fr.fn.Nodes[i].Op == plan.Call:
			fr.start(i)
		case fr.fn.slow[i] || fr.unready(i):
			fr.spawn(func() { _, _ = fr.need(i) }) // who needs it gets the error
		}
	}
}

// eval computes the value of a node that is this goroutine's to compute.
func (fr *frame) eval(i int32) (any, error) {
	n := &fr.fn.Nodes[i]
	switch n.Op {
	case plan.Input:
		if !fr.x.given[n.Index] {
			return fr.need(n.Default)
		}
		return fr.x.values[n.Index], nil
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
	if fr.ctx.Err() != nil {
		return nil, fr.x.interruption(fr.ctx)
	}
	args, err := fr.inputs(n, nil)
	if err != nil {
		return nil, err
	}
	v, err := guarded(func() (any, error) { return n.Eval(args) })
	if err == nil {
		err = fits(n, v)
	}
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
	return nil, &NodeError{Label: n.Label, Pos: p.Pos(n), Source: p.Source(n), Err: errNoCase}
}

var errNoCase = errors.New("no case matches the value")

// fromOuter gives the value of a node of the function around. That function may
// live longer than this one: where it has to compute, it does so by itself, and
// this one does not wait longer than its own time.
func (fr *frame) fromOuter(i int32) (any, error) {
	o := fr.outer
	s := &o.slots[i]
	if s.state.Load()&done == 0 {
		if !o.atHand(i) && (o.fn.slow[i] || o.unready(i)) {
			o.spawn(func() { _, _ = o.need(i) })
			fr.yield()
			if o.await(fr.ctx, i); s.state.Load()&done == 0 {
				return nil, fr.x.stopping(fr.ctx)
			}
		}
		return o.need(i)
	}
	return s.v, s.err
}

// atHand reports whether nobody has to wait for the value of a node: it has one, or takes
// that of the function around, which has it.
func (fr *frame) atHand(i int32) bool {
	n := &fr.fn.Nodes[i]
	return fr.slots[i].state.Load()&done != 0 || n.Op == plan.Outer && fr.outer.atHand(n.Index)
}

// unready reports whether a node that takes no time itself may have to wait for
// what it needs.
func (fr *frame) unready(i int32) bool {
	for _, in := range fr.fn.Nodes[i].In {
		if fr.slots[in].state.Load()&done == 0 {
			return true
		}
	}
	return fr.fn.Nodes[i].Op == plan.Select
}
