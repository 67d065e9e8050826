package simulate

import (
	"fmt"
	"math"
	"slices"
)

// Items may differ: some fail more often than others, or always. So the attempts of an
// item say something of those that come after them, which counts of all attempts do not.
// Two kinds of items are fitted to how often each item has failed, by expectation and
// maximization; and beside it one kind alone, of which it is known how likely it is
// that it gives the same.

const (
	fewestItems = 20  // of which anything is said
	twoKinds    = 2.0 // by how much more likely two kinds have to be for each to be as good as one
	kindRounds  = 80
)

// itemCounts is how often items have ended in which way. Items that have done so alike are
// one.
type itemCounts struct {
	classes []string // of failures; the last of each count is successes
	counts  [][]float64
	of      []int // the count of a unit
	units   []int
	differ  float64 // how likely it is that there are two kinds
}

// count counts the ends of the attempts of items that are known and their own.
func (e *evidence) count() *itemCounts {
	c := &itemCounts{}
	counted := func(i int) bool {
		a := e.list[i]
		return !a.cut && !e.inside[i] && classOf(a) != "rate_limit"
	}
	for i, a := range e.list {
		if class := classOf(a); counted(i) && class != "" && !slices.Contains(c.classes, class) {
			c.classes = append(c.classes, class)
		}
	}
	slices.Sort(c.classes)
	own := map[int][]float64{}
	for i, a := range e.list {
		if !counted(i) {
			continue
		}
		n := own[e.units[i]]
		if n == nil {
			n = make([]float64, len(c.classes)+1)
			own[e.units[i]] = n
			c.units = append(c.units, e.units[i])
		}
		if k := slices.Index(c.classes, classOf(a)); k >= 0 {
			n[k]++
		} else {
			n[len(c.classes)]++
		}
	}
	known := map[string]int{}
	for _, u := range c.units {
		key := fmt.Sprint(own[u])
		at, is := known[key]
		if !is {
			at = len(c.counts)
			known[key] = at
			c.counts = append(c.counts, own[u])
		}
		c.of = append(c.of, at)
	}
	if len(c.units) < fewestItems || len(c.classes) == 0 {
		return nil
	}
	c.differ = 1 / (1 + math.Exp(twoKinds-c.fit(nil).better))
	return c
}

// kinds are two kinds of items.
type kinds struct {
	share  float64      // of the second kind, which fails more often
	rates  [2][]float64 // of each kind, by class; the last is of successes
	better float64      // by how much more likely they are than one kind, as a logarithm
}

// fit fits two kinds of items, each counted as often as its unit weighs; nil: once.
func (c *itemCounts) fit(weights []float64) kinds {
	weigh := make([]float64, len(c.counts))
	for i, u := range c.units {
		weigh[c.of[i]] += weightOf(weights, u)
	}
	all := make([]float64, len(c.classes)+1)
	for i, n := range c.counts {
		for k, v := range n {
			all[k] += weigh[i] * v
		}
	}
	one := shares(all)
	single := kinds{share: 0, rates: [2][]float64{one, one}}
	flat := c.likely(&single, weigh)
	best := single
	best.better = math.Inf(-1)
	for _, start := range [][2]float64{{0.05, 0.97}, {0.3, 0.6}} {
		k := started(one, start[0], start[1])
		for range kindRounds {
			c.improve(&k, weigh)
		}
		if k.better = c.likely(&k, weigh) - flat; k.better > best.better {
			best = k
		}
	}
	if best.fails(0) > best.fails(1) {
		best.rates[0], best.rates[1], best.share = best.rates[1], best.rates[0], 1-best.share
	}
	return best
}

// fails is how often attempts of a kind fail.
func (k *kinds) fails(kind int) float64 { return 1 - k.rates[kind][len(k.rates[kind])-1] }

// started is two kinds of which the second, a share, fails as often as is said, or more.
func started(one []float64, share, fails float64) kinds {
	last := len(one) - 1
	p := 1 - one[last]
	fails = max(fails, (p+1)/2)
	share = min(share, 0.8*p/fails)
	k := kinds{share: share}
	for i, f := range []float64{(p - share*fails) / (1 - share), fails} {
		k.rates[i] = make([]float64, len(one))
		for c := range last {
			k.rates[i][c] = one[c] / p * f
		}
		k.rates[i][last] = 1 - f
	}
	return k
}

// parts is how likely a count is under each kind, each times its share.
func (k *kinds) parts(count []float64) (a, b float64) {
	a, b = 1-k.share, k.share
	for i, n := range count {
		if n > 0 {
			a *= math.Pow(k.rates[0][i], n)
			b *= math.Pow(k.rates[1][i], n)
		}
	}
	return a, b
}

// improve is one round of expectation and maximization.
func (c *itemCounts) improve(k *kinds, weigh []float64) {
	var sums [2][]float64
	sums[0], sums[1] = make([]float64, len(c.classes)+1), make([]float64, len(c.classes)+1)
	total, second := 0.0, 0.0
	for i, n := range c.counts {
		a, b := k.parts(n)
		if a+b <= 0 {
			continue
		}
		r := b / (a + b)
		total, second = total+weigh[i], second+weigh[i]*r
		for j, v := range n {
			sums[0][j] += weigh[i] * (1 - r) * v
			sums[1][j] += weigh[i] * r * v
		}
	}
	if total == 0 {
		return
	}
	k.share, k.rates = second/total, [2][]float64{shares(sums[0]), shares(sums[1])}
}

// likely is the logarithm of how likely the counts are.
func (c *itemCounts) likely(k *kinds, weigh []float64) (sum float64) {
	for i, n := range c.counts {
		a, b := k.parts(n)
		sum += weigh[i] * math.Log(max(a+b, 1e-300))
	}
	return sum
}

// shares are numbers as parts of their sum.
func shares(list []float64) []float64 {
	out, sum := make([]float64, len(list)), 0.0
	for _, v := range list {
		sum += v
	}
	for i, v := range list {
		out[i] = v / max(sum, 1e-300)
	}
	return out
}

// weightOf is how much a unit counts.
func weightOf(weights []float64, unit int) float64 {
	if weights == nil {
		return 1
	}
	return weights[unit]
}

// split gives a target the two kinds.
func (t *Target) split(c *itemCounts, k kinds) {
	t.Failures, t.unlucky = failuresOf(c.classes, k.rates[0]), &unlucky{k.share, failuresOf(c.classes, k.rates[1])}
}

func failuresOf(classes []string, rates []float64) (list []Failure) {
	for i, class := range classes {
		if rates[i] > 0 {
			list = append(list, Failure{class, rates[i]})
		}
	}
	return list
}
