package simulate

import (
	"math"
	"time"
)

// What happens to an attempt is drawn from the seed, the work item, the step
// and the number of the attempt, and from nothing else: policies that are
// compared meet the same luck, in whatever order they make their attempts.

// luck is a source of numbers for one thing that is drawn.
type luck uint64

// mix is the finalizer of splitmix64: each bit of the result depends on each
// of x.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hash is FNV-1a.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// with is the source for a part of what l is for.
func (l luck) with(part uint64) luck { return luck(mix(uint64(l) ^ mix(part))) }

// Uint64 gives the next number.
func (l *luck) Uint64() uint64 {
	*l += 0x9e3779b97f4a7c15
	return mix(uint64(*l))
}

// unit gives a number from 0 to less than 1.
func (l *luck) unit() float64 { return float64(l.Uint64()>>11) / (1 << 53) }

// exponential gives a time around a mean.
func (l *luck) exponential(mean time.Duration) time.Duration {
	return span(-math.Log(1-l.unit()) * float64(mean))
}

// span is a time that was drawn, at most as long as one of a model.
func span(f float64) time.Duration { return time.Duration(min(f, float64(mostSpan))) }

// normal gives a number of the standard normal distribution.
func (l *luck) normal() float64 {
	return math.Sqrt(-2*math.Log(1-l.unit())) * math.Cos(2*math.Pi*l.unit())
}

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// draw gives the time of an attempt; of a queue, that of its service.
func (t *Latency) draw(l *luck) time.Duration {
	switch {
	case t.LogNormal[0] > 0:
		sigma := math.Log(float64(t.LogNormal[1])/float64(t.LogNormal[0])) / z99
		return span(float64(t.LogNormal[0]) * math.Exp(sigma*l.normal()))
	case len(t.Empirical) > 0:
		return draw(t.Empirical, l)
	case t.Exponential > 0:
		return l.exponential(t.Exponential)
	case t.Uniform[1] > 0:
		return t.Uniform[0] + time.Duration(l.unit()*float64(t.Uniform[1]-t.Uniform[0]))
	case t.Capacity > 0:
		return l.exponential(t.Service)
	}
	return t.Constant
}

// draw is one of some times.
func draw(list []time.Duration, l *luck) time.Duration { return list[int(l.unit()*float64(len(list)))] }
