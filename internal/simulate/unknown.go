package simulate

import (
	"math"
	"slices"
)

// Simulated runs take the models in turn that a run could have been fitted to. So runs
// differ by luck and by model, and only the second is what nobody knows of a median or of
// a probability. The two are told apart as in an analysis of variance, with the models
// as its groups.

// Range is the bounds of a number of which a run does not tell more: 90 in 100 are between.
type Range struct {
	Low  int64 `json:"low"`
	High int64 `json:"high"`
}

// z90 bounds 90 in 100 of the normal distribution.
const z90 = 1.6448536269514722

// ofMedian is by how much more the median of runs is off by chance than their mean.
const ofMedian = 1.2533141373155003

// acrossModels is by how much the mean of values differs from model to model: it is between
// mean-low and mean+high. known is false where there are not two models with two values.
func acrossModels(groups map[int][]float64) (mean, low, high float64, known bool) {
	mean, low, high, _, known = spreadAcross(groups)
	return mean, low, high, known
}

// spreadAcross is acrossModels, with the variance of the mean.
func spreadAcross(groups map[int][]float64) (mean, low, high, square float64, known bool) {
	n, many := 0, 0
	for _, list := range groups {
		for _, v := range list {
			mean += v
		}
		if n += len(list); len(list) > 1 {
			many++
		}
	}
	g := len(groups)
	mean /= float64(max(n, 1))
	if g < 2 || many < 2 {
		return mean, 0, 0, 0, false
	}
	within, among := 0.0, 0.0
	means := make([]float64, 0, g)
	for _, list := range groups {
		m := 0.0
		for _, v := range list {
			m += v / float64(len(list))
		}
		for _, v := range list {
			within += (v - m) * (v - m)
		}
		among += float64(len(list)) * (m - mean) * (m - mean)
		means = append(means, m-mean)
	}
	each := float64(n) / float64(g)
	within /= float64(n - g)
	// Of a few models their variance is not known: it is taken as large as it may be, by one
	// standard error, so that models that happen to be alike do not make an answer sure.
	among *= (1 + math.Sqrt(2/float64(g-1))) / float64(g-1)
	variance := math.Max(0, (among-within)/each)
	shrink := 0.0
	if variance > 0 {
		shrink = math.Sqrt(variance / (variance + within/each))
	}
	slices.Sort(means)
	at := func(p float64) float64 {
		x := max(0, min(p*float64(g+1)-1, float64(g-1)))
		i := min(int(x), g-2)
		return shrink * (means[i] + (x-float64(i))*(means[i+1]-means[i]))
	}
	drawn := z90 * ofMedian * math.Sqrt(within/float64(n)) // by the number of runs alone
	return mean, math.Hypot(math.Max(0, -at(0.05)), drawn), math.Hypot(math.Max(0, at(0.95)), drawn), variance + within/float64(n), true
}

// byDraw are numbers of samples by the model that each has met.
func byDraw(list []*Sample, of func(*Sample) float64) map[int][]float64 {
	groups := map[int][]float64{}
	for _, s := range list {
		groups[s.draw] = append(groups[s.draw], of(s))
	}
	return groups
}

// exact is by how much a median may be off where all is known: the moments at which things
// happen on a machine are not those of virtual time.
const exact = 0.005

// widen makes intervals as wide as what is not known of the model makes them.
func (r *Report) widen(list []*Sample) {
	_, low, high, known := acrossModels(byDraw(list, func(s *Sample) float64 { return math.Log(math.Max(float64(s.Makespan), 1)) }))
	if !known {
		r.untold = list[0].draws > 1
		return
	}
	mid := float64(r.Makespan.P50)
	low, high = math.Hypot(low, exact), math.Hypot(high, exact)
	r.Median = &Range{int64(mid * math.Exp(-low)), int64(mid * math.Exp(high))}
	s := &r.Runs.Succeeded
	if p, low, high, square, _ := spreadAcross(byDraw(list, succeeded)); square > 0 {
		least, most := shareBetween(p, square)
		s.Low, s.High = round(math.Max(0, min(s.Low, p-low, least))), round(math.Min(1, max(s.High, p+high, most)))
	}
	widen(&r.Makespan, list, func(s *Sample) float64 { return float64(s.Makespan) })
	widen(&r.Attempts.Spread, list, func(s *Sample) float64 { return float64(s.Attempts) })
	widen(&r.Retries.Spread, list, func(s *Sample) float64 { return float64(s.Retries) })
	widen(&r.Waits.Spread, list, func(s *Sample) float64 { return float64(s.Waits) })
	widen(&r.Letters.Spread, list, func(s *Sample) float64 { return float64(s.Letters) })
	widen(&r.Cost.Tokens.Spread, list, func(s *Sample) float64 { return float64(s.Tokens) })
	widen(&r.Cost.USD.Percentiles, list, func(s *Sample) float64 { return s.USD })
}

// shareBetween is between what 90 in 100 shares are that have a mean and a variance, as
// those of the beta distribution: one that is near 0 may as well be 0.
func shareBetween(mean, square float64) (low, high float64) {
	n := mean*(1-mean)/math.Min(square, 0.99*mean*(1-mean)) - 1
	a, b := mean*n, (1-mean)*n
	at := func(p float64) float64 {
		from, to := 0.0, 1.0
		for range 60 {
			if mid := (from + to) / 2; betaBelow(mid, a, b) < p {
				from = mid
			} else {
				to = mid
			}
		}
		return from
	}
	return at(0.05), at(0.95)
}

// betaBelow is the probability of a value of at most x under the beta distribution, by the
// continued fraction that converges below its mean.
func betaBelow(x, a, b float64) float64 {
	if x > (a+1)/(a+b+2) {
		return 1 - betaBelow(1-x, b, a)
	}
	if x <= 0 {
		return 0
	}
	ab, _ := math.Lgamma(a + b)
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	f := 0.0
	for m := 60.0; m >= 1; m-- { // from the innermost term
		odd := -(a + m - 1) * (a + b + m - 1) * x / ((a + 2*m - 2) * (a + 2*m - 1))
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		f = odd / (1 + even/(1+f))
	}
	return math.Exp(ab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a / (1 + f)
}

// widen makes the bounds of percentiles as wide as the models differ.
func widen[T int64 | float64](p *Percentiles[T], list []*Sample, of func(*Sample) float64) {
	_, low, high, _ := acrossModels(byDraw(list, of))
	p.each(func(name string, _ float64, at *T) {
		mid, b := float64(*at), p.Bounds[name]
		p.Bounds[name] = [2]T{T(math.Max(0, mid-math.Hypot(mid-float64(b[0]), low))), T(mid + math.Hypot(float64(b[1])-mid, high))}
	})
}

func succeeded(s *Sample) float64 {
	if s.good() {
		return 1
	}
	return 0
}

// sure is by how much a median may be off that the run is said to tell.
const sure = 0.05

// Sure reports whether the run tells what the answer says: it rests on nothing that
// nobody knows, and the median is known.
func (r *Report) Sure() bool { return len(r.Assumed) == 0 && !r.untold && r.off() <= sure }

// off is by how much the median may be off, as a part of it.
func (r *Report) off() float64 {
	if r.Median == nil || r.Makespan.P50 <= 0 {
		return 0
	}
	mid := float64(r.Makespan.P50)
	return math.Max(float64(r.Median.High)/mid-1, 1-float64(r.Median.Low)/mid)
}
