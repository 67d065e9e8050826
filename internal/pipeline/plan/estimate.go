package plan

import (
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/pipeline/check"
)

// Estimate is how long a plan takes at the longest, as far as its options say:
// what `bide explain` shows. Waiting for throttles and slots is not in it.
type Estimate struct {
	Calls    []CallEstimate // in source order
	Critical []int          // the indices in Calls of the longest chain, in order
	// Total is the time of the longest chain. If Known is false a call in the
	// plan has no bound, and Total counts its delays alone.
	Total time.Duration
	Known bool
}

// CallEstimate is the worst case of one call.
type CallEstimate struct {
	Func, Node  int // in Plan.Funcs
	Name        string
	Callee      string
	Pos         diag.Pos
	Worst       check.Worst
	PerElement  bool // it is made for each element of a list
	Conditional bool // whether it is made depends on values
}

func (c *CallEstimate) weight() (time.Duration, bool) {
	if d, known := c.Worst.Total(); known {
		return d, true
	}
	return c.Worst.Delays, false
}

// String is one line: "hits = Search: 6 × 5s + 15.5s of delays = 45.5s".
func (c *CallEstimate) String() string {
	s := c.Callee + ": " + c.Worst.String()
	if c.Name != c.Callee {
		s = c.Name + " = " + s
	}
	if d, known := c.weight(); known {
		s += " = " + duration.Format(d)
	}
	return s
}

// Estimate computes the worst case.
func (p *Plan) Estimate() Estimate {
	e := &estimator{p: p, est: Estimate{Known: true}}
	e.gather()
	main := e.frame(0)
	best := chain{}
	f := &p.Funcs[0]
	for _, i := range f.Eager {
		best = longer(best, main.finish(i, chain{}))
	}
	e.est.Total = best.end
	for s := best.steps; s != nil; s = s.before {
		e.est.Critical = append(e.est.Critical, s.call)
	}
	for i, j := 0, len(e.est.Critical)-1; i < j; i, j = i+1, j-1 {
		e.est.Critical[i], e.est.Critical[j] = e.est.Critical[j], e.est.Critical[i]
	}
	return e.est
}

type estimator struct {
	p     *Plan
	est   Estimate
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
			if n.Op != Call && (n.Op != Apply || n.Call.Options == nil) {
				continue
			}
			c := CallEstimate{Func: fi, Node: ni, Name: n.Call.Name, Callee: n.Label, Pos: e.p.Pos(n),
				Worst: n.Call.Options.Worst(), PerElement: fi > 0, Conditional: !eager[ni]}
			if _, known := c.weight(); !known {
				e.est.Known = false
			}
			e.calls[[2]int{fi, ni}] = len(e.est.Calls)
			e.est.Calls = append(e.est.Calls, c)
		}
	}
}

// chain is the calls that follow one another up to a moment, and that moment.
type chain struct {
	end   time.Duration
	count int
	steps *step
}

type step struct {
	call   int
	before *step
}

func longer(a, b chain) chain {
	if b.end > a.end || b.end == a.end && b.count > a.count {
		return b
	}
	return a
}

func (c chain) then(call int, d time.Duration) chain {
	return chain{saturated(c.end, d), c.count + 1, &step{call, c.steps}}
}

func saturated(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<63 - 1
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
		return longer(asked, *f.ends[i])
	}
	n := &f.e.p.Funcs[f.index].Nodes[i]
	at := asked
	for _, in := range n.In {
		at = longer(at, f.finish(in, asked))
	}
	switch n.Op {
	case Select:
		at = f.selected(n, at)
	case Outer:
		at = longer(at, f.outer.finish(n.Index, asked))
	case Input:
		if n.Default != None {
			at = longer(at, f.finish(n.Default, asked))
		}
	case Apply:
		inner := f.e.frame(n.Call.Fn)
		inner.outer = f
		at = longer(at, inner.finish(f.e.p.Funcs[n.Call.Fn].Result, at))
	}
	if call, ok := f.e.calls[[2]int{f.index, int(i)}]; ok {
		d, _ := f.e.est.Calls[call].weight()
		at = at.then(call, d)
		if n.Call.Fallback != None {
			at = longer(at, f.finish(n.Call.Fallback, at))
		}
	}
	f.ends[i] = &at
	return at
}

// selected is the longest way through the arms: all tests up to one, then its
// value.
func (f *frame) selected(n *Node, at chain) chain {
	longest := at
	for _, a := range n.Arms {
		if a.Test != None {
			at = longer(at, f.finish(a.Test, at))
		}
		longest = longer(longest, f.finish(a.Value, at))
	}
	return longest
}
