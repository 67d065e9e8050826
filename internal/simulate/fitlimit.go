package simulate

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A token bucket is known by its answers: where it has a token it lets a request
// through, and where it has none it answers 429. So the rate and the burst are those
// under which the answers that were recorded are most likely, each given those before
// it. A token is taken when a request arrives or when it is answered, whichever explains
// more. The moment at which a server has looked is known to within a timing noise, which
// is found as well. How likely the other rates and bursts are says how well the run
// tells them.

const (
	limitAnswers  = 2000 // that are looked at, from the first
	limitSurprise = 1e-4 // the least probability of an answer
	limitRates    = 90   // that are tried at first
	limitStep     = 1.07 // of one of them to the next

)

// limitNoises are the timing noises that are tried.
var limitNoises = []time.Duration{time.Millisecond / 2, 3 * time.Millisecond, 15 * time.Millisecond, 60 * time.Millisecond, 240 * time.Millisecond}

// bucketAnswer is an answer of a token bucket.
type bucketAnswer struct {
	at      time.Duration
	limited bool
}

// bucket is a token bucket that may have given the answers.
type bucket struct {
	rate     float64 // tokens a second
	burst    int
	atAnswer bool
	noise    time.Duration
	likely   float64 // the logarithm of how likely the answers are
}

// limitFit is the buckets that may have given the answers of a target, the most likely
// first.
type limitFit struct {
	list    []bucket
	shares  []float64 // of all that is likely, added up
	limit   Limited   // with what all of them have in common
	strange float64   // the share of answers that the most likely one does not explain
}

// fitLimit fits a token bucket to the answers of a target; nil where none was 429. out
// are attempts that have not come to it.
func fitLimit(list []*recorded, out []bool) *limitFit {
	var arrived, answered []bucketAnswer
	var hints []time.Duration
	refused := 0
	for i, a := range list {
		limited := classOf(a) == "rate_limit"
		if limited {
			refused++
			hints = append(hints, a.failure.RetryAfter)
		}
		if a.cut || out[i] && !limited || len(arrived) == limitAnswers {
			continue
		}
		arrived = append(arrived, bucketAnswer{a.from, limited})
		answered = append(answered, bucketAnswer{a.from + a.took, limited})
	}
	if refused == 0 || len(arrived) == 0 {
		return nil
	}
	slices.SortStableFunc(answered, func(a, b bucketAnswer) int { return cmp.Compare(a.at, b.at) })
	var best bucket
	best.likely = math.Inf(-1)
	for _, answers := range []struct {
		list     []bucketAnswer
		atAnswer bool
	}{{arrived, false}, {answered, true}} {
		if b := bestBucket(answers.list); b.likely > best.likely {
			b.atAnswer = answers.atAnswer
			best = b
		}
	}
	f := &limitFit{limit: hinted(hints)}
	for _, step := range []float64{1.002, 1.01, 1.05} { // the finest that reaches those that are unlikely
		f.list = f.list[:0]
		edge := math.Inf(-1)
		for _, b := range nearby(best, step, 25) {
			for _, answers := range [][]bucketAnswer{arrived, answered} {
				b.atAnswer = &answers[0] == &answered[0]
				if b.likely = b.of(answers); b.likely > best.likely-12 {
					f.list = append(f.list, b)
				}
				if off := math.Abs(math.Log(b.rate / best.rate)); off > 24.5*math.Log(step) {
					edge = max(edge, b.likely)
				}
			}
		}
		if edge < best.likely-5 {
			break
		}
	}
	slices.SortStableFunc(f.list, func(a, b bucket) int { return cmp.Compare(b.likely, a.likely) })
	total := 0.0
	for _, b := range f.list {
		total += math.Exp(b.likely - f.list[0].likely)
		f.shares = append(f.shares, total)
	}
	answers := arrived
	if f.list[0].atAnswer {
		answers = answered
	}
	f.strange = f.list[0].strange(answers)
	return f
}

// bestBucket is the most likely one, first among rates far apart, then among those near
// the best of them.
func bestBucket(answers []bucketAnswer) (best bucket) {
	best.likely = math.Inf(-1)
	through, refused := 0, false // before the first refusal
	all := 0
	var first time.Duration
	for _, a := range answers {
		if !a.limited {
			all++
			if !refused {
				through++
			}
		} else if !refused {
			refused, first = true, a.at
		}
	}
	span := max(answers[len(answers)-1].at-answers[0].at, time.Millisecond).Seconds()
	mean := max(float64(all)/span, 1/span)
	early := (first - answers[0].at).Seconds()
	try := func(b bucket) {
		if b.likely = b.of(answers); b.likely > best.likely {
			best = b
		}
	}
	for k := range limitRates {
		rate := mean * math.Pow(limitStep, float64(k-limitRates/2))
		least := max(int(float64(through)-rate*early)-2, 1)
		for burst := least; burst <= through+2 && burst <= least+12; burst++ {
			try(bucket{rate: rate, burst: burst, noise: limitNoises[2]})
		}
	}
	for _, step := range []float64{1.015, 1.004} {
		for _, b := range nearby(best, step, 6) {
			for _, noise := range limitNoises {
				b.noise = noise
				try(b)
			}
		}
	}
	return best
}

// nearby are buckets that are like another one.
func nearby(b bucket, step float64, n int) (list []bucket) {
	for d := -4; d <= 4; d++ {
		for k := -n; k <= n; k++ {
			c := b
			if c.burst, c.rate = b.burst+d, b.rate*math.Pow(step, float64(k)); c.burst >= 1 {
				list = append(list, c)
			}
		}
	}
	return list
}

// of is the logarithm of how likely answers are, each given those before.
func (b *bucket) of(answers []bucketAnswer) (sum float64) {
	b.walk(answers, func(over float64, limited bool) {
		if limited {
			over = -over
		}
		sum += likelihood(over)
	})
	return sum
}

// strange is the share of the answers that are not those of the bucket.
func (b *bucket) strange(answers []bucketAnswer) float64 {
	n := 0
	b.walk(answers, func(over float64, limited bool) {
		if over > 3 && limited || over < -3 && !limited {
			n++
		}
	})
	return float64(n) / float64(len(answers))
}

// walk goes through answers: over is by how many times the noise there was a token
// before each, or was none.
func (b *bucket) walk(answers []bucketAnswer, each func(over float64, limited bool)) {
	full := float64(b.burst)
	tokens, last := full, answers[0].at
	noise := max(min(b.rate*b.noise.Seconds(), max(full-1, 1)/4), 1e-6) // in tokens; with more, any answer is about as likely
	for _, a := range answers {
		tokens = min(full, tokens+b.rate*(a.at-last).Seconds())
		last = a.at
		each((tokens-1)/noise, a.limited)
		// What the noise explains is no error of the count, and is not made up for: that would
		// give the bucket tokens which it has not had. What it does not explain is.
		most := min(2*noise, 0.5)
		if a.limited {
			tokens = min(tokens, 1+most)
		} else {
			tokens = max(tokens-1, -most)
		}
	}
}

// likelihood is the logarithm of how likely it is that there was a token, or none, by
// how many times the noise that is so.
func likelihood(over float64) float64 {
	switch {
	case over > 20:
		return 0
	case over < -20:
		return math.Log(limitSurprise)
	}
	return math.Log(limitSurprise + (1-limitSurprise)/(1+math.Exp(-over)))
}

// hinted is what the answers 429 ask for: all the same, none anything, or until there is
// a token.
func hinted(hints []time.Duration) Limited {
	slices.Sort(hints)
	middle := hints[len(hints)/2]
	whole := true
	for _, h := range hints {
		whole = whole && h%time.Second == 0
	}
	switch {
	case middle == 0:
		return Limited{RetryAfter: -1}
	case hints[0] == hints[len(hints)-1]:
		return Limited{RetryAfter: middle}
	}
	return Limited{whole: whole}
}

// best is the limit that is most likely.
func (f *limitFit) best() *Limited { return f.with(f.list[0]) }

// drawn is one of those that are likely.
func (f *limitFit) drawn(l *luck) *Limited {
	u := l.unit() * f.shares[len(f.shares)-1]
	i, _ := slices.BinarySearch(f.shares, u)
	return f.with(f.list[min(i, len(f.list)-1)])
}

func (f *limitFit) with(b bucket) *Limited {
	l := f.limit
	l.Count, l.Per, l.Burst, l.AtAnswer = 1, time.Duration(float64(time.Second)/b.rate), b.burst, b.atAnswer
	return &l
}
