package worst

import (
	"slices"

	"github.com/bide-dev/bide/internal/bound"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/pipeline/plan"
)

// Pipeline is how long a pipeline takes at the longest, as far as its options say.
// Waiting for throttles and slots is not in it, nor what is not in a [Plan].
type Pipeline struct {
	Calls    []Call // in the order of the plan
	Critical []int  // the indices in Calls of the longest chain, in order
	// Worst is that of the longest chain. Where its time is open, a call of the pipeline
	// has no bound, and D is the time of all that has one, and the delays of the rest.
	Worst bound.Cost
}

// Call is the worst case of one call.
type Call struct {
	Func, Node  int // in Plan.Funcs
	Name        string
	Callee      string
	Pos         diag.Pos
	Retries     bound.Retries
	Timeout     Limit // of one attempt
	Worst       bound.Cost
	PerElement  bool // it is made for each element of a list
	Conditional bool // whether it is made depends on values
}

// known is as much of the worst case as is bounded.
func (c *Call) known() bound.Span {
	if c.Worst.Time.Open {
		return bound.Span{D: c.Worst.Waits.D}
	}
	return c.Worst.Time
}

// Sum says how the worst case comes about: "6 × 5s + 15.5s of delays = 45.5s", without the sum
// if something of it is unbounded.
func (c *Call) Sum() string {
	text := c.Retries.Text(c.Timeout.D)
	if c.Worst.Time.Open {
		return text
	}
	return text + " = " + duration.Format(c.Worst.Time.D)
}

// String is one line: "hits = Search: 6 × 5s + 15.5s of delays = 45.5s".
func (c *Call) String() string {
	s := c.Callee + ": " + c.Sum()
	if c.Name != c.Callee {
		s = c.Name + " = " + s
	}
	return s
}

// Calls works out the worst case of a pipeline.
func Calls(p *plan.Plan) *Pipeline {
	e := &estimator{p: p, out: &Pipeline{}}
	e.gather()
	main := e.frame(0)
	best := chain{}
	for _, i := range p.Funcs[0].Eager {
		best = best.or(main.finish(i, chain{}))
	}
	e.out.Worst.Time = bound.Span{D: best.end.D, Open: e.open}
	for l := best.last; l != nil; l = l.before {
		e.out.Critical = append(e.out.Critical, l.call)
		e.out.Worst.Waits = e.out.Worst.Waits.Plus(e.out.Calls[l.call].Worst.Waits)
	}
	slices.Reverse(e.out.Critical)
	return e.out
}

type estimator struct {
	p     *plan.Plan
	out   *Pipeline
	open  bool           // a call has no bound
	calls map[[2]int]int // function and node to the index in Calls
}

// gather lists every call.
func (e *estimator) gather() {
	e.calls = map[[2]int]int{}
	for fi := range e.p.Funcs {
		f := &e.p.Funcs[fi]
		eager := make([]bool, len(f.Nodes))
		for _, i := range f.Eager {
			eager[i] = true
		}
		for ni := range f.Nodes {
			n := &f.Nodes[ni]
			if n.Op != plan.Call && (n.Op != plan.Apply || n.Call.Options == nil) {
				continue
			}
			o := n.Call.Options
			c := Call{Func: fi, Node: ni, Name: n.Call.Name, Callee: n.Label, Pos: e.p.Pos(n), Retries: o.Retries(), Worst: o.Worst(),
				PerElement: fi > 0, Conditional: !eager[ni]}
			if o != nil {
				c.Timeout.D = o.Retry.Timeout
			}
			e.open = e.open || c.Worst.Time.Open
			e.calls[[2]int{fi, ni}] = len(e.out.Calls)
			e.out.Calls = append(e.out.Calls, c)
		}
	}
}

// chain is the calls that follow one another up to a moment, and that moment.
type chain struct {
	end   bound.Span
	count int
	last  *link
}

type link struct {
	call   int
	before *link
}

// or is the longer of two chains.
func (c chain) or(d chain) chain {
	if d.end.D > c.end.D || d.end.D == c.end.D && d.count > c.count {
		return d
	}
	return c
}

func (c chain) then(call int, d bound.Span) chain {
	return chain{c.end.Plus(d), c.count + 1, &link{call, c.last}}
}

// frame is one function whose nodes' ends are being found.
type frame struct {
	e     *estimator
	index int
	ends  []*chain
	outer *frame
}

func (e *estimator) frame(index int) *frame {
	return &frame{e: e, index: index, ends: make([]*chain, len(e.p.Funcs[index].Nodes))}
}

// finish finds when a node that something asks for at the end of a chain has
// its value. A node is computed once, so what asked first counts.
func (f *frame) finish(i int32, asked chain) chain {
	if f.ends[i] != nil {
		return asked.or(*f.ends[i])
	}
	n := &f.e.p.Funcs[f.index].Nodes[i]
	at := asked
	for _, in := range n.In {
		at = at.or(f.finish(in, asked))
	}
	switch n.Op {
	case plan.Select:
		at = f.selected(n, at)
	case plan.Outer:
		at = at.or(f.outer.finish(n.Index, asked))
	case plan.Input:
		if n.Default != plan.None {
			at = at.or(f.finish(n.Default, asked))
		}
	case plan.Apply:
		inner := f.e.frame(n.Call.Fn)
		inner.outer = f
		at = at.or(inner.finish(f.e.p.Funcs[n.Call.Fn].Result, at))
	}
	if call, ok := f.e.calls[[2]int{f.index, int(i)}]; ok {
		at = at.then(call, f.e.out.Calls[call].known())
		if n.Call.Fallback != plan.None {
			at = at.or(f.finish(n.Call.Fallback, at))
		}
	}
	f.ends[i] = &at
	return at
}

// selected is the longest way through the arms: all tests up to one, then its
// value.
func (f *frame) selected(n *plan.Node, at chain) chain {
	longest := at
	for _, a := range n.Arms {
		if a.Test != plan.None {
			at = at.or(f.finish(a.Test, at))
		}
		longest = longest.or(f.finish(a.Value, at))
	}
	return longest
}
