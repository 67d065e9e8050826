package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// How long attempts take at a number at once that a run has not shown, one run cannot
// say: as long as at the number that it has shown, where nothing is short of anything;
// longer or shorter in proportion, where a server has all of its hands full. So each
// simulated run takes one of them, or something between.

// width is the most work items that were in flight at once.
func (r *Recording) width() int {
	type span struct{ from, to time.Duration }
	spans := map[attemptKey]span{}
	for k, a := range r.attempts {
		if k.index == 0 {
			continue
		}
		at := attemptKey{life: k.life, index: k.index, round: k.round}
		s, ok := spans[at]
		if !ok {
			s = span{from: a.from}
		}
		spans[at] = span{min(s.from, a.from), max(s.to, a.from+a.took)}
	}
	type edge struct {
		at time.Duration
		by int
	}
	var edges []edge
	for _, s := range spans {
		edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	now, most := 0, 0
	for _, e := range edges {
		now += e.by
		most = max(most, now)
	}
	return most
}

// parallel is how many work items at once were allowed last; 0: that is not known.
func (r *Recording) parallel() int {
	n := r.Settings.MaxParallel
	if len(r.lives) > 0 {
		n = cmp.Or(r.lives[len(r.lives)-1].parallel, n)
	}
	if p, err := r.Program(nil); n == 0 && err == nil && p.File != nil && p.File.Map != nil && p.File.Map.Parallel.Text == nil && p.File.Map.Adaptive == nil {
		n = p.File.Map.Parallel.N
	}
	return n
}

// widened is by what the number of items at once differs from the one that the model
// knows of: 1 where it does not, or where that is known to make no difference.
func (o *Options) widened() (factor float64, parallel int) {
	if o.Model.width == 0 || o.Model.queues() || o.File == nil || o.File.Map == nil || o.File.Map.Parallel.Text != nil || o.File.Map.Adaptive != nil {
		return 1, 0
	}
	parallel = cmp.Or(o.Settings.MaxParallel, o.File.Map.Parallel.N)
	if parallel == o.Model.parallel {
		return 1, 0
	}
	at := parallel
	if n := len(o.Items); n > 0 {
		at = min(at, n)
	}
	return float64(at) / float64(o.Model.width), parallel
}

// assumeWidth notes that latencies are not known at the number at once.
func (o *Options) assumeWidth() {
	if factor, n := o.widened(); factor != 1 {
		o.assumed = append(o.assumed, fmt.Sprintf("attempts take about as long with %d items at once as with %d, which a run with max_parallel %d would tell", n, o.Model.width, n))
	}
}

// stretched is by what the latencies of one simulated run are longer, or shorter.
func (o *Options) stretched(m *Model) float64 {
	factor, _ := o.widened()
	return math.Pow(factor, m.stretch) * cmp.Or(m.slow, 1)
}
