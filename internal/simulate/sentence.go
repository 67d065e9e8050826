package simulate

import (
	"fmt"
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
	low, high := Span(r.Makespan.P5), Span(r.Makespan.P95)
	fmt.Fprintf(&b, "with these failures %.0f of 100 runs succeed, within ", 100*r.Runs.Succeeded.P)
	if low == high {
		b.WriteString(low)
	} else {
		fmt.Fprintf(&b, "%s to %s", low, high)
	}
	if amp, at := r.amplified(); amp >= 1.5 && r.Busiest != "" {
		fmt.Fprintf(&b, "; the retries of %s make the load %.2g times as high at %s", r.Busiest, amp, Span(int64(at)))
	} else if r.Busiest != "" {
		fmt.Fprintf(&b, "; %.0f %% of the attempts of %s are retries", 100*r.Retried, r.Busiest)
	}
	if s := r.Runs.Recovered; s != nil {
		fmt.Fprintf(&b, "; %.0f of 100 go on after the outage", 100*s.P)
	}
	return b.String()
}

// amplified is the greatest amplification where there is a load worth speaking
// of, and when.
func (r *Report) amplified() (amp float64, at time.Duration) {
	most := 0.0
	for _, v := range r.Load.Mean {
		most = max(most, v)
	}
	for i, v := range r.Load.Mean {
		if v >= most/4 && r.Load.Amplification[i] > amp {
			amp, at = r.Load.Amplification[i], time.Duration(int64(i)*r.Load.BucketNS)
		}
	}
	return amp, at
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
