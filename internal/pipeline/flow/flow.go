// Package flow takes a plan to its values: dataflow, with the options of every
// call carried out.
//
// # How a run goes
//
// Each function of a plan that runs has a frame: a slot for each node. A node
// of the eager ones starts when the last of its inputs has its value; nobody
// holds anything while it waits. Whoever completes a node runs what it
// unblocks: what takes no time at once, calls in the order of their priorities and
// of the source. Before a call can wait, another goroutine is there for the next
// one, so that a chain of calls is run by one goroutine and a fan by as many as
// wait. Any other node is computed by the first who asks for it; others who ask
// wait for that. A function without calls has a pure frame: one
// goroutine computes it, for one element after another.
//
// A node that fails completes the nodes that need it with the same error, at
// once and without running them. So a run always ends, and the errors of the
// eager nodes are the errors of the run.
//
// # How a call goes
//
// [driver.Drive] makes the attempts. Outside in: deadline, cache, on_error,
// fallback, retry, and for each attempt breaker, throttle and concurrency as one
// reservation, timeout, call. A fallback is computed when
// the deadline is over too; what it calls has options of its own. The end of
// the run's context, or of Options.Soft, is final: it is neither retried nor
// answered by a fallback or on_error.
//
// What is common to all calls of a module, over any number of runs, is in
// [Shared]. The package has no effects but those of the modules, and a disk
// cache if it is given one; recording and showing is for its [Watcher].
package flow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// Flow is a plan ready to run, any number of times and at once.
type Flow struct {
	plan  *plan.Plan
	funcs []function
	all   *limit.Limit // of all attempts; nil: no bound
	clock clock.Clock
	// machine: the clock is that of this machine, for which package retry needs
	// none.
	machine bool
}

// function is what is worked out once of a plan.Func.
type function struct {
	*plan.Func
	todo   []int32    // all nodes but constants and arguments, which have their values before the start
	degree []int32    // of each eager node: how many of its inputs are of todo
	start  []int32    // the eager nodes of todo that need nothing of todo
	eager  []bool     // nodes that are needed in any case
	slow   []bool     // nodes that may wait for something
	sites  []*site    // of calls and applications
	line   []computed // see lineOf
	// ordered: calls in it go through limits, those in functions inside it too.
	ordered bool
	rank    int // of the most urgent call in it; that of any other where there is none
}

// once is the policy of a call without options.
var once = retry.Policy{Attempts: 1}

// site is what is worked out once of a call in the source.
type site struct {
	plan     *plan.Plan
	node     *plan.Node
	label    string // unique in its function
	plain    bool   // no options: one attempt
	direct   bool   // nothing comes before the first attempt, or after its success
	priority int
	rank     int // its place among what is ready: of a list, that of the most urgent call in it
	policy   *retry.Policy
	limits   limit.Set // its own, and the one of all attempts
	nests    bool      // what it calls may call modules of this run
	named    []string  // limits of the machine
	breaker  *circuit.Breaker
	cache    *cache

	once sync.Once // see identity
	id   string    // of what is called: for the cache, and for a later life of the run
}

// New prepares a plan. What its calls share with other plans is in shared.
func New(p *plan.Plan, shared *Shared) (*Flow, error) {
	f := &Flow{plan: p, funcs: make([]function, len(p.Funcs)), all: shared.all, clock: shared.opt.Clock}
	_, f.machine = f.clock.(clock.Machine)
	var problems []error
	for i := len(p.Funcs) - 1; i >= 0; i-- { // a function is after those around it
		fn := &f.funcs[i]
		fn.Func = &p.Funcs[i]
		fn.line = lineOf(fn.Func)
		fn.order()
		problems = append(problems, f.prepare(fn, i, shared))
	}
	return f, errors.Join(problems...)
}

// order finds out what of a function is to be computed, and what comes first.
func (fn *function) order() {
	fn.degree, fn.eager = make([]int32, len(fn.Nodes)), make([]bool, len(fn.Nodes))
	for i := range fn.Nodes {
		if !fn.given(int32(i)) {
			fn.todo = append(fn.todo, int32(i))
		}
	}
	for _, n := range fn.Eager {
		fn.eager[n] = true
		for _, in := range fn.Nodes[n].In {
			if !fn.given(in) {
				fn.degree[n]++
			}
		}
		if fn.degree[n] == 0 && !fn.given(n) {
			fn.start = append(fn.start, n)
		}
	}
}

// given reports whether a node has its value before the start.
func (fn *function) given(i int32) bool {
	op := fn.Nodes[i].Op
	return op == plan.Const || op == plan.Arg
}

// prepare finds the sites of a function and what of it may wait.
func (f *Flow) prepare(fn *function, index int, shared *Shared) error {
	f.findSlow(fn)
	fn.rank = noOptions.Priority
	fn.sites = make([]*site, len(fn.Nodes))
	calls := 0
	for i := range fn.Nodes {
		if fn.Nodes[i].Call != nil {
			calls++
		}
	}
	all := make([]site, 0, calls)
	names := make(map[string]int, calls)
	var problems []error
	for i := range fn.Nodes {
		n := &fn.Nodes[i]
		if n.Call == nil {
			continue
		}
		all = append(all, site{plan: f.plan, node: n, label: n.Call.Name, plain: n.Call.Options == nil, policy: &once, priority: noOptions.Priority})
		s := &all[len(all)-1]
		if n.Op == plan.Apply && s.label == n.Label {
			s.label = n.Label[strings.LastIndexByte(n.Label, '.')+1:]
		}
		if names[s.label]++; names[s.label] > 1 {
			s.label += "#" + strconv.Itoa(names[s.label])
		}
		s.nests = n.Op == plan.Call && nests(n.Call.Module)
		if n.Op == plan.Call && !isWorkflow(n.Call.Module) {
			if f.all != nil {
				s.limits = limit.Set{f.all}
			}
		}
		if n.Call.Options != nil {
			if err := s.options(index, shared); err != nil {
				problems = append(problems, err)
			}
		}
		s.direct = s.plain && !s.limited() || !s.plain && s.first()
		if s.rank = s.priority; n.Op == plan.Apply && s.rank == noOptions.Priority {
			s.rank = f.funcs[n.Call.Fn].rank
		}
		if fn.sites[i] = s; len(all) == 1 || s.rank > fn.rank {
			fn.rank = s.rank
		}
		fn.ordered = fn.ordered || s.limited() || n.Op == plan.Apply && f.funcs[n.Call.Fn].ordered
	}
	return errors.Join(problems...)
}

// limited reports whether attempts of the call go through a limit.
func (s *site) limited() bool { return len(s.limits) > 0 || len(s.named) > 0 }

// first reports whether the first attempt of a call with options is a plain
// call.
func (s *site) first() bool {
	o := s.node.Call.Options
	return !s.limited() && s.breaker == nil && s.cache == nil && o.Deadline == 0 && o.Until == nil && o.OnError != check.Wrap
}

// findSlow marks the nodes that may have to wait for something. A node stands
// after those that it refers to, so that one pass is enough.
func (f *Flow) findSlow(fn *function) {
	fn.slow = make([]bool, len(fn.Nodes))
	unsettled := make([]bool, len(fn.Nodes)) // asking for it may mean waiting: for itself or for what it needs
	for i := range fn.Nodes {
		n := &fn.Nodes[i]
		switch n.Op {
		case plan.Call, plan.Outer:
			fn.slow[i] = true
		case plan.Input:
			fn.slow[i] = n.Default != plan.None
		case plan.Apply:
			inner := &f.plan.Funcs[n.Call.Fn]
			fn.slow[i] = n.Call.Options != nil || !inner.Pure || len(inner.Captures) > 0 || fn.slow[n.In[0]]
		case plan.Select:
			for _, a := range n.Arms {
				fn.slow[i] = fn.slow[i] || a.Test != plan.None && unsettled[a.Test] || unsettled[a.Value]
			}
		}
		unsettled[i] = fn.slow[i]
		for _, in := range n.In {
			unsettled[i] = unsettled[i] || unsettled[in]
		}
	}
}

// isWorkflow reports whether a module is made of steps, which have slots of
// their own.
func isWorkflow(m module.Module) bool {
	d, ok := module.Describe(m)
	return ok && d.Workflow != nil
}

// nests reports whether a module may run a pipeline itself.
func nests(m module.Module) bool {
	d, ok := module.Describe(m)
	return !ok || d.Workflow != nil
}

// Plan is what is run.
func (f *Flow) Plan() *plan.Plan { return f.plan }

// Options says how one run goes. The zero value runs everything that can be
// run and tells nobody.
type Options struct {
	Watcher Watcher
	// Soft, when it is done, stops the start of new attempts; what runs may
	// end. nil: never.
	Soft context.Context
	// FailFast cancels everything at the first failure. Otherwise what does
	// not need the failed value comes to its end.
	FailFast bool
	// Window is how many elements of lists are in work at once, waits included,
	// over all lists; 0 means 1024. Of each list there is always one.
	Window int
	// Foreign, if not nil, makes the attempts of modules that no manifest
	// describes, in place of their own code.
	Foreign func(ctx context.Context, m module.Module, args []any) (any, error)
	// Hold takes the limits of the machine that an attempt of a call names, all together. It
	// tells waits before it waits. nil: there are none, and none is held.
	Hold func(ctx context.Context, c *Call, attempt int, names []string, waits func()) (Held, error)
	// Rand, if not nil, draws the jitter of the call of a path; nil: the machine.
	Rand func(path string) backoff.Rand
	// Prefix is before the path of every call.
	Prefix string
}

const defaultWindow = 1024

// Run takes the plan to its outputs. values and given are from [plan.Decode].
// The outputs are run-time values; those that could not be computed are not in
// the map. The error is nil, an *[Error], or an *[InterruptedError].
func (f *Flow) Run(ctx context.Context, values []any, given []bool, opt Options) (map[string]any, error) {
	if opt.Soft == nil {
		opt.Soft = context.Background()
	}
	if opt.Window <= 0 {
		opt.Window = defaultWindow
	}
	x := &exec{f: f, opt: opt, values: values, given: given}
	x.window.Store(int32(opt.Window) - 1)
	ctx, x.cancel = context.WithCancelCause(ctx)
	defer x.cancel(nil)
	fr := newFrame(x, 0, nil, ctx, opt.Prefix)
	fr.run()

	out := make(map[string]any, len(f.plan.Outputs))
	for _, o := range f.plan.Outputs {
		if s := &fr.slots[o.Node]; s.err == nil {
			out[o.Name] = s.v
		}
	}
	return out, x.failure(fr)
}

// exec is one run.
type exec struct {
	f      *Flow
	opt    Options
	values []any
	given  []bool
	cancel context.CancelCauseFunc
	window atomic.Int32 // how many more elements may be in work
}

// widen asks for one more element to be in work.
func (x *exec) widen() bool {
	for {
		n := x.window.Load()
		if n <= 0 {
			return false
		}
		if x.window.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// failure gathers the errors of the run.
func (x *exec) failure(fr *frame) error {
	var interrupted *InterruptedError
	e := &Error{}
	seen := map[error]bool{}
	for _, i := range fr.fn.Eager {
		err := fr.slots[i].err
		if err == nil || seen[err] {
			continue
		}
		seen[err] = true
		if x.interrupted(err) {
			errors.As(err, &interrupted)
			continue
		}
		e.Failures = append(e.Failures, err)
	}
	switch {
	case len(e.Failures) > 0 && (interrupted == nil || errors.Is(interrupted, errFailFast)):
		return e
	case interrupted != nil:
		return interrupted
	}
	return nil
}

// stopping gives the reason for which nothing new is started, or nil.
func (x *exec) stopping(ctx context.Context) error {
	if ctx.Err() != nil {
		return x.interruption(ctx)
	}
	if x.opt.Soft.Err() != nil {
		return x.interruption(x.opt.Soft)
	}
	return nil
}

// interruption is what a context that is done does to a part of the run.
func (x *exec) interruption(ctx context.Context) error {
	return &InterruptedError{Cause: context.Cause(ctx), run: x}
}

// interrupted reports whether an error says that this run was stopped. A module
// may run a pipeline of its own: the interruption of that is a failure like any
// other.
func (x *exec) interrupted(err error) bool { return err != nil && errors.Is(err, ofRun{x}) }

// Encode makes JSON values of outputs.
func Encode(outputs map[string]any) map[string]any {
	out := make(map[string]any, len(outputs))
	for name, v := range outputs {
		out[name] = types.Encode(v)
	}
	return out
}

// errFailFast is the cause of what is cancelled because something failed.
var errFailFast = errors.New("something else failed, and the run stops at the first failure")

// pathOf is the path of a call: unique in its run, and the same in every life
// of it.
func (fr *frame) pathOf(s *site) string { return fr.path + s.label }

func elementPath(path string, attempt, i int) string {
	if attempt > 1 {
		return fmt.Sprintf("%s@%d[%d].", path, attempt, i)
	}
	return path + "[" + strconv.Itoa(i) + "]."
}
