package simulate

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// Share is a probability with its 95 % interval (Wilson's).
type Share struct {
	P    float64 `json:"p"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Percentiles are those of numbers, each with the bounds of its 95 % interval in
// Bounds: by the number of runs, and by what is not known of the model.
type Percentiles[T int64 | float64] struct {
	P5     T               `json:"p5"`
	P50    T               `json:"p50"`
	P90    T               `json:"p90"`
	P95    T               `json:"p95"`
	P99    T               `json:"p99"`
	Bounds map[string][2]T `json:"intervals"`
}

// Spread is percentiles of whole numbers.
type Spread = Percentiles[int64]

// Numbers are a mean and percentiles of whole numbers.
type Numbers struct {
	Mean float64 `json:"mean"`
	Spread
}

// Money is a mean and percentiles of dollars.
type Money struct {
	Mean float64 `json:"mean"`
	Percentiles[float64]
}

// StepReport is one step in all runs.
type StepReport struct {
	// Succeeded is the share of its executions that ended well.
	Succeeded float64 `json:"succeeded"`
	// Attempts is the mean number of attempts in a run.
	Attempts float64 `json:"attempts_mean"`
}

// LoadReport is how many attempts began over time.
type LoadReport struct {
	BucketNS int64     `json:"bucket_ns"`
	Mean     []float64 `json:"mean"`
	// Low and High are the bounds in which 90 of 100 runs are.
	Low  []float64 `json:"low"`
	High []float64 `json:"high"`
	// Amplification is the attempts for each first attempt.
	Amplification []Ratio `json:"amplification"`
	// Peaks are the most attempts that began within 100 ms.
	PeakP50 int64 `json:"peak_p50"`
	PeakP95 int64 `json:"peak_p95"`
	PeakAt  int64 `json:"peak_at_ns"` // the median of when
}

// Ratio is a ratio that may be infinite, which is null in JSON: retries, and no
// first attempt beside them.
type Ratio float64

// MarshalJSON makes null of an infinite factor.
func (f Ratio) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// Advice is a change that makes the load gentler, tried under the same luck.
type Advice struct {
	// Set is the change, as --set takes it.
	Set string `json:"set"`
	// Cut is the part of the peak of retries, in the mean of all runs, that it takes
	// away, 0 to 1.
	Cut float64 `json:"peak_cut"`
	// Seeds is how many runs it was tried on, and Fewer how many of them succeed no
	// more.
	Seeds int `json:"seeds"`
	Fewer int `json:"fewer"`
}

// Spent is what attempts cost in a run.
type Spent struct {
	USD    Money   `json:"usd"`
	Tokens Numbers `json:"tokens"`
}

// Cause is why some of the simulated runs do not succeed.
type Cause struct {
	// What these runs do: "end with dead letters", "fail at fetch (network)".
	What string `json:"what"`
	Share
}

// Report is what many simulated runs were like. Its JSON text is the same for
// the same seeds, on every machine.
type Report struct {
	Seeds int `json:"seeds"`
	// Assumed is what the answer rests on and nobody knows, each as a clause.
	Assumed []string `json:"assumed,omitempty"`
	Runs    struct {
		Succeeded Share `json:"succeeded"`
		// Causes are what the others do, the most frequent first.
		Causes []Cause `json:"causes,omitempty"`
		// Recovered: after the last outage of the model; absent without one.
		Recovered *Share `json:"recovered,omitempty"`
	} `json:"runs"`
	Makespan Spread `json:"makespan_ns"`
	// Median is between which bounds the median makespan is, where the model is fitted to
	// a run and so is not known; nil where it is.
	Median *Range `json:"median_ns,omitempty"`
	// untold says that it is, and that there are too few runs to tell these bounds.
	untold   bool
	Attempts Numbers               `json:"attempts"`
	Retries  Numbers               `json:"retries"`
	Waits    Numbers               `json:"waits_ns"`
	Letters  Numbers               `json:"dead_letters"`
	Steps    map[string]StepReport `json:"steps"`
	Load     LoadReport            `json:"load"`
	Cost     Spent                 `json:"cost"`
	// Advice, where retries drive the load up and another jitter would not.
	Advice *Advice `json:"advice,omitempty"`

	// Makespans are those of the runs in the order of seeds.
	Makespans []time.Duration `json:"-"`
	// Busiest is the step with the most retries, Retried the share of its
	// attempts that are retries.
	Busiest string  `json:"-"`
	Retried float64 `json:"-"`
}

// Name calls the busiest step by its label and not by its path.
func (r *Report) Name(f *workflow.File) {
	workflow.WalkAll(f, func(s *workflow.Step) {
		if s.Path == r.Busiest {
			r.Busiest = s.Label()
		}
	})
}

// Summarize makes a report of samples.
func Summarize(list []*Sample, outage bool) *Report {
	r := &Report{Seeds: len(list), Steps: map[string]StepReport{}}
	if len(list) == 0 {
		return r
	}
	good, recovered := 0, 0
	of := func(f func(*Sample) int64) []int64 { return value.Map(list, f) }
	for _, s := range list {
		if s.good() {
			good++
		}
		if s.Recovered {
			recovered++
		}
		r.Makespans = append(r.Makespans, s.Makespan)
		for _, clause := range s.Assumed {
			if !slices.Contains(r.Assumed, clause) {
				r.Assumed = append(r.Assumed, clause)
			}
		}
	}
	r.Runs.Succeeded = wilson(good, len(list))
	r.causes(list)
	if outage {
		share := wilson(recovered, len(list))
		r.Runs.Recovered = &share
	}
	r.Makespan = spread(of(func(s *Sample) int64 { return int64(s.Makespan) }))
	r.Attempts = numbers(of(func(s *Sample) int64 { return int64(s.Attempts) }))
	r.Retries = numbers(of(func(s *Sample) int64 { return int64(s.Retries) }))
	r.Waits = numbers(of(func(s *Sample) int64 { return int64(s.Waits) }))
	r.Letters = numbers(of(func(s *Sample) int64 { return int64(s.Letters) }))
	r.Cost.Tokens = numbers(of(func(s *Sample) int64 { return s.Tokens }))
	r.Cost.USD = money(numbers(of(func(s *Sample) int64 { return int64(math.Round(s.USD * 1e6)) })))
	r.widen(list)
	r.steps(list)
	r.load(list)
	return r
}

// causes counts why runs did not succeed.
func (r *Report) causes(list []*Sample) {
	n := map[string]int{}
	for _, s := range list {
		if s.Cause != "" {
			n[s.Cause]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(n)) {
		r.Runs.Causes = append(r.Runs.Causes, Cause{what, wilson(n[what], len(list))})
	}
	slices.SortStableFunc(r.Runs.Causes, func(a, b Cause) int { return cmp.Compare(b.P, a.P) })
}

func (r *Report) steps(list []*Sample) {
	total := map[string]*StepSample{}
	for _, s := range list {
		for path, one := range s.Steps {
			t := total[path]
			if t == nil {
				t = &StepSample{}
				total[path] = t
			}
			t.Ended += one.Ended
			t.Succeeded += one.Succeeded
			t.Attempts += one.Attempts
			t.Retries += one.Retries
		}
	}
	most := 0
	for path, t := range total {
		sr := StepReport{Attempts: round(float64(t.Attempts) / float64(len(list)))}
		if t.Ended > 0 {
			sr.Succeeded = round(float64(t.Succeeded) / float64(t.Ended))
		}
		r.Steps[path] = sr
		if t.Retries > most || t.Retries == most && most > 0 && path < r.Busiest {
			most, r.Busiest, r.Retried = t.Retries, path, float64(t.Retries)/float64(t.Attempts)
		}
	}
}

func (r *Report) load(list []*Sample) {
	width := Bucket
	for _, s := range list {
		width = max(width, s.width)
	}
	longest := 0
	for _, s := range list {
		for s.width < width {
			s.load, s.first, s.width = halved(s.load), halved(s.first), 2*s.width
		}
		longest = max(longest, len(s.load))
	}
	l := &r.Load
	l.BucketNS = int64(width)
	at := make([]float64, len(list))
	for i := range longest {
		sum, first := 0.0, 0.0
		for k, s := range list {
			at[k] = 0
			if i < len(s.load) {
				at[k] = s.load[i]
				first += s.first[i]
			}
			sum += at[k]
		}
		slices.Sort(at)
		l.Mean = append(l.Mean, round(sum/float64(len(list))))
		l.Low, l.High = append(l.Low, at[rank(len(at), 0.05)]), append(l.High, at[rank(len(at), 0.95)])
		amp := Ratio(0) // nothing began
		if sum > 0 {
			amp = Ratio(round(sum / first))
		}
		l.Amplification = append(l.Amplification, amp)
	}
	var peaks, when []int64
	for _, s := range list {
		peaks, when = append(peaks, int64(s.Peak)), append(when, int64(s.PeakAt))
	}
	slices.Sort(peaks)
	slices.Sort(when)
	l.PeakP50, l.PeakP95, l.PeakAt = peaks[rank(len(peaks), 0.5)], peaks[rank(len(peaks), 0.95)], when[rank(len(when), 0.5)]
}

// round keeps six digits behind the point: more is noise, and differs from one
// processor to the next.
func round(f float64) float64 { return math.Round(f*1e6) / 1e6 }

// rank is the place of a percentile among n sorted values.
func rank(n int, p float64) int { return min(max(int(math.Ceil(p*float64(n)))-1, 0), n-1) }

const z95 = 1.959963984540054

// wilson is a share of n with its 95 % interval.
func wilson(k, n int) Share {
	p, nn := float64(k)/float64(n), float64(n)
	mid := (p + z95*z95/(2*nn)) / (1 + z95*z95/nn)
	half := z95 / (1 + z95*z95/nn) * math.Sqrt(p*(1-p)/nn+z95*z95/(4*nn*nn))
	return Share{round(p), round(max(mid-half, 0)), round(min(mid+half, 1))}
}

func spread(list []int64) Spread {
	slices.Sort(list)
	n := len(list)
	s := Spread{Bounds: map[string][2]int64{}}
	s.each(func(name string, at float64, to *int64) {
		*to = list[rank(n, at)]
		half := z95 * math.Sqrt(float64(n)*at*(1-at)) // of the rank, which is binomial
		low, high := int(math.Floor(at*float64(n)-half))-1, int(math.Ceil(at*float64(n)+half))
		s.Bounds[name] = [2]int64{list[min(max(low, 0), n-1)], list[min(max(high, 0), n-1)]}
	})
	return s
}

// each gives the percentiles, each with its name and its share.
func (p *Percentiles[T]) each(f func(name string, at float64, value *T)) {
	f("p5", 0.05, &p.P5)
	f("p50", 0.5, &p.P50)
	f("p90", 0.9, &p.P90)
	f("p95", 0.95, &p.P95)
	f("p99", 0.99, &p.P99)
}

func numbers(list []int64) Numbers {
	slices.Sort(list)
	sum := 0.0
	for _, v := range list {
		sum += float64(v)
	}
	return Numbers{round(sum / float64(len(list))), spread(list)}
}

// money is numbers of millionths of a dollar, as dollars.
func money(n Numbers) Money {
	f := func(v int64) float64 { return float64(v) / 1e6 }
	m := Money{round(n.Mean / 1e6), Percentiles[float64]{f(n.P5), f(n.P50), f(n.P90), f(n.P95), f(n.P99), map[string][2]float64{}}}
	for name, b := range n.Bounds {
		m.Bounds[name] = [2]float64{f(b[0]), f(b[1])}
	}
	return m
}
