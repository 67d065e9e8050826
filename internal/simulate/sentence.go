package simulate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/duration"
)

// Sentence says in words what a report says in numbers.
func (r *Report) Sentence() string {
	if r.Seeds == 0 {
		return "no run was simulated"
	}
	var b strings.Builder
	if len(r.Assumed) > 0 {
		fmt.Fprintf(&b, "assuming that %s: ", strings.Join(r.Assumed, ", and that "))
	}
	low, high := Span(r.Makespan.P5), Span(r.Makespan.P95)
	fmt.Fprintf(&b, "with these failures %s runs succeed%s, %swithin ", r.of(r.Runs.Succeeded), r.unsure(), r.others())
	if low == high {
		b.WriteString(low)
	} else {
		fmt.Fprintf(&b, "%s to %s", low, high)
	}
	if r.untold {
		b.WriteString(" (one run does not tell the median; --seeds 60 or more say between which bounds it is)")
	} else if off := r.off(); off > sure {
		fmt.Fprintf(&b, " (one run does not tell the median better than %s to %s", Span(r.Median.Low), Span(r.Median.High))
		if len(r.Assumed) == 0 {
			fmt.Fprintf(&b, "; one with %s times the work would", roughly(math.Max(2, math.Ceil(math.Pow(off/sure, 2)))))
		}
		b.WriteString(")")
	}
	if amp, at := r.amplified(); math.IsInf(amp, 1) {
		fmt.Fprintf(&b, "; at %s the load is retries of %s alone", Span(int64(at)), r.Busiest)
	} else if amp >= storm {
		fmt.Fprintf(&b, "; the retries of %s make the load %s times as high at %s", r.Busiest, roughly(amp), Span(int64(at)))
	} else if r.Busiest != "" {
		fmt.Fprintf(&b, "; %.0f %% of the attempts of %s are retries", 100*r.Retried, r.Busiest)
	}
	if a := r.Advice; a != nil {
		fmt.Fprintf(&b, "; %s would cut the peak of retries by %.0f %%", a.Set, 100*a.Cut)
		if a.Fewer > 0 {
			fmt.Fprintf(&b, ", and cost %d of %d runs their success", a.Fewer, a.Seeds)
		}
	}
	if s := r.Runs.Recovered; s != nil {
		fmt.Fprintf(&b, "; %s continue after the outage", r.of(*s))
	}
	return b.String()
}

// mostCauses is how many reasons a sentence has.
const mostCauses = 3

// others says what the runs do that do not succeed, and where that is all of them, that
// this is why.
func (r *Report) others() string {
	list := r.Runs.Causes
	if len(list) == 0 {
		return ""
	}
	var parts []string
	for _, c := range list[:min(len(list), mostCauses)] {
		who := r.of(c.Share)
		if c.P == 1 {
			who = "all"
		}
		part := who + " " + c.What
		if strings.HasPrefix(who, "1 of ") { // one ends, fails, is stopped
			verb, rest, _ := strings.Cut(c.What, " ")
			if verb += "s"; verb == "ares" {
				verb = "is"
			}
			part = who + " " + verb + " " + rest
		}
		if c.What == withLetters && c.P == 1 {
			part += fmt.Sprintf(" (%s in the mean)", Figure(r.Letters.Mean))
		}
		parts = append(parts, part)
	}
	text := strings.Join(parts, ", ")
	if len(list) > mostCauses {
		text += ", others for other reasons"
	}
	if r.Runs.Succeeded.P == 0 {
		text = "because " + text
	}
	return text + ", "
}

// doubtful is how far apart the bounds of a share are that is not told without them.
const doubtful = 0.25

// unsure says between which bounds the share of runs that succeed is, where a recorded
// run does not tell it.
func (r *Report) unsure() string {
	if s := r.Runs.Succeeded; r.Median != nil && s.High-s.Low > doubtful {
		return fmt.Sprintf(" (%.0f to %.0f of 100)", math.Floor(100*s.Low), math.Ceil(100*s.High))
	}
	return ""
}

// of says a share in runs, as the table beside it does.
func (r *Report) of(s Share) string {
	return fmt.Sprintf("%.0f of %d", s.P*float64(r.Seeds), r.Seeds)
}

// storm is how many times as high retries make a load that is spoken of.
const storm = 1.5

// Stormy says whether the retries of one step drive the load up.
func (r *Report) Stormy() bool {
	amp, _ := r.amplified()
	return amp >= storm
}

// amplified is the greatest amplification, over five buckets at a time, where there
// is a load worth speaking of, and when; infinite where that load is retries alone.
func (r *Report) amplified() (amp float64, at time.Duration) {
	if r.Busiest == "" {
		return 0, 0
	}
	around := func(i int) (load, first float64) {
		for k := max(i-2, 0); k < min(i+3, len(r.Load.Mean)); k++ {
			load += r.Load.Mean[k]
			if a := float64(r.Load.Amplification[k]); a > 0 {
				first += r.Load.Mean[k] / a
			}
		}
		return load, first
	}
	most := 0.0
	for i := range r.Load.Mean {
		load, _ := around(i)
		most = max(most, load)
	}
	for i := range r.Load.Mean {
		load, first := around(i)
		if a := load / first; load > most/4 && a > amp {
			amp, at = a, time.Duration(int64(i)*r.Load.BucketNS)
		}
	}
	return amp, at
}

// Figure is a number that a person reads: whole, or with two decimals where it is small.
func Figure(f float64) string {
	if f == math.Trunc(f) || f >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// Of is a share of n runs as a person reads it, with its 95 % interval: of few runs, "100 %"
// would claim what they cannot tell.
func (s Share) Of(n int) string {
	return fmt.Sprintf("%.0f of %d (%.0f – %.0f %%)", s.P*float64(n), n, 100*s.Low, 100*s.High)
}

// Scale is up to which value numbers are drawn: the greatest, or where a few of them stand
// far above all others, as when everything starts at once, what is clear of the others.
// Those above it are cut.
func Scale(values []float64) (top float64, cut bool) {
	sorted := slices.DeleteFunc(slices.Sorted(slices.Values(values)), func(f float64) bool { return f <= 0 })
	if len(sorted) == 0 {
		return 0, false
	}
	most, few := sorted[len(sorted)-1], max(1, len(sorted)/20)
	if n := len(sorted) - 1 - few; n >= 0 && most > 2*sorted[n] {
		return shortNumber(1.25 * sorted[n]), true
	}
	return shortNumber(most), false
}

// shortNumber is the next number at which an axis ends well: it and its half are short.
func shortNumber(f float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(f)))
	for _, n := range []float64{1, 2, 4, 6, 8, 10} {
		if f <= n*unit*(1+1e-9) {
			return n * unit
		}
	}
	return f
}

// roughly is a positive number to two digits, or to the next whole number where that
// has more of them: never with an exponent.
func roughly(f float64) string {
	if f >= 99.5 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.2g", f)
}

// Span is a time that a person reads.
func Span(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d >= 10*time.Minute:
		d = d.Round(time.Minute)
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Millisecond)
	}
	return duration.Format(d)
}

// Differences are by how much each run of b is longer than the run of a that met
// the same luck.
func Differences(a, b *Report) []time.Duration {
	list := make([]time.Duration, min(len(a.Makespans), len(b.Makespans)))
	for i := range list {
		list[i] = b.Makespans[i] - a.Makespans[i]
	}
	return list
}

// Difference says what another file would change, under the same luck.
func Difference(a, b *Report, name string) string {
	n := min(len(a.Makespans), len(b.Makespans))
	if n == 0 {
		return ""
	}
	shorter := 0
	diff := make([]int64, n)
	for i, d := range Differences(a, b) {
		if diff[i] = int64(d); d < 0 {
			shorter++
		}
	}
	median := numbers(diff).P50
	how := "longer"
	if median < 0 {
		how, median = "shorter", -median
	}
	text := fmt.Sprintf("%s: the median run is %s %s under the same luck (%d of %d are shorter)", name, Span(median), how, shorter, n)
	if a.Load.PeakP50 > 0 && a.Load.PeakP50 != b.Load.PeakP50 {
		change := 100 * (float64(b.Load.PeakP50)/float64(a.Load.PeakP50) - 1)
		text += fmt.Sprintf("; the peak of the load changes by %+.0f %%", change)
	}
	return text
}
