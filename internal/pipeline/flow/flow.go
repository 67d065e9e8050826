// Package flow takes a plan to its values: dataflow, with the options of every
// call carried out.
//
// # How a run goes
//
// Each function of a plan that runs has a frame: a slot for each node. A node
// of the eager ones starts when the last of its inputs has its value; nobody
// holds anything while it waits. Who completes a node goes on with what became
// ready: what takes no time at once, the first call itself, and each further
// call in a goroutine of its own, so that a chain of calls is run by one
// goroutine and a fan by many. Any other node is computed by the first who asks
// for it; others who ask wait for that.
//
// A node that fails completes the nodes that need it with the same error, at
// once and without running them. So a run always ends, and the errors of the
// eager nodes are the errors of the run.
//
// # How a call goes
//
// Outside in: deadline, cache, on_error, fallback, retry, and for each attempt
// throttle, concurrency, breaker, timeout, call. A fallback is computed when
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

	"github.com/bide-dev/bide/internal/breaker"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/retry"
)

// Flow is a plan ready to run, any number of times and at once.
type Flow struct {
	plan  *plan.Plan
	funcs []function
	all   *gate // of all attempts; nil: no bound
}

// function is what is worked out once of a plan.Func.
type function struct {
	*plan.Func
	degree []int32 // the number of inputs of each eager node
	start  []int32 // the eager nodes without inputs
	eager  []bool  // nodes that are needed in any case
	slow   []bool  // nodes that may wait for something
	sites  []*site // of calls and applications
}

// site is what is worked out once of a call in the source.
type site struct {
	node     *plan.Node
	label    string // unique in its function
	plain    bool   // no options: one attempt
	policy   retry.Policy
	throttle *bucket
	slots    *gate
	breaker  *breaker.Breaker
	cache    *cache
	identity string // of the module, for the cache
	all      *gate
}

// New prepares a plan. What its calls share with other plans is in shared.
func New(p *plan.Plan, shared *Shared) (*Flow, error) {
	f := &Flow{plan: p, funcs: make([]function, len(p.Funcs)), all: shared.all}
	var problems []error
	for i := range p.Funcs {
		fn := &f.funcs[i]
		fn.Func = &p.Funcs[i]
		fn.degree, fn.eager = make([]int32, len(fn.Nodes)), make([]bool, len(fn.Nodes))
		for _, n := range fn.Eager {
			fn.eager[n] = true
			if fn.degree[n] = int32(len(fn.Nodes[n].In)); fn.degree[n] == 0 {
				fn.start = append(fn.start, n)
			}
		}
		problems = append(problems, f.prepare(fn, i, shared))
	}
	return f, errors.Join(problems...)
}

// prepare finds the sites of a function and what of it may wait.
func (f *Flow) prepare(fn *function, index int, shared *Shared) error {
	fn.slow = make([]bool, len(fn.Nodes))
	fn.sites = make([]*site, len(fn.Nodes))
	names := map[string]int{}
	var problems []error
	for i := range fn.Nodes {
		n := &fn.Nodes[i]
		fn.slow[i] = f.waits(fn, n)
		if n.Call == nil {
			continue
		}
		s := &site{node: n, label: n.Call.Name, plain: n.Call.Options == nil, policy: retry.Policy{Attempts: 1}}
		if n.Op == plan.Apply && s.label == n.Label {
			s.label = n.Label[strings.LastIndexByte(n.Label, '.')+1:]
		}
		if names[s.label]++; names[s.label] > 1 {
			s.label += "#" + strconv.Itoa(names[s.label])
		}
		if n.Op == plan.Call && !isWorkflow(n.Call.Module) {
			s.all = f.all
		}
		if n.Call.Options != nil {
			problems = append(problems, s.options(f.plan, index, shared))
		}
		fn.sites[i] = s
	}
	return errors.Join(problems...)
}

// waits reports whether computing a node may have to wait for something.
func (f *Flow) waits(fn *function, n *plan.Node) bool {
	switch n.Op {
	case plan.Call, plan.Outer:
		return true
	case plan.Input:
		return n.Default != plan.None
	case plan.Apply:
		inner := &f.plan.Funcs[n.Call.Fn]
		return n.Call.Options != nil || !inner.Pure || len(inner.Captures) > 0 || fn.slow[n.In[0]]
	case plan.Select:
		for _, a := range n.Arms {
			if a.Test != plan.None && f.unsettled(fn, a.Test) || f.unsettled(fn, a.Value) {
				return true
			}
		}
	}
	return false
}

// unsettled reports whether asking for a node may mean waiting: for itself or
// for what it needs.
func (f *Flow) unsettled(fn *function, i int32) bool {
	if fn.slow[i] {
		return true
	}
	for _, in := range fn.Nodes[i].In {
		if f.unsettled(fn, in) {
			fn.slow[i] = fn.Nodes[i].Op == plan.Select // remembered where it is asked for again and again
			return true
		}
	}
	return false
}

// isWorkflow reports whether a module is made of steps, which have slots of
// their own.
func isWorkflow(m module.Module) bool {
	d, ok := module.Describe(m)
	return ok && d.Workflow != nil
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
	// Window is how many elements of a list are in work at once, waits
	// included; 0 means 1024.
	Window int
	// Prefix stands before the path of every call.
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
	ctx, x.cancel = context.WithCancelCause(ctx)
	defer x.cancel(nil)
	fr := newFrame(x, 0, nil, ctx, opt.Prefix)
	fr.work(append(make([]int32, 0, len(fr.fn.start)), fr.fn.start...))
	x.running.Wait()

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
	f       *Flow
	opt     Options
	values  []any
	given   []bool
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
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
		if !errors.As(err, &interrupted) {
			e.Failures = append(e.Failures, err)
		}
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
		return &InterruptedError{context.Cause(ctx)}
	}
	if x.opt.Soft.Err() != nil {
		return &InterruptedError{context.Cause(x.opt.Soft)}
	}
	return nil
}

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
