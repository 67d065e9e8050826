package simulate

import (
	"fmt"
	"time"
)

// Of an attempt that was cut short nobody knows how it would have ended, but that it
// takes longer. So it ends as those that took longer do: each of them stands for its
// share of it. This is the estimator of Kaplan and Meier, with one cause of an end for
// each class of errors.

// uncut gives for how many attempts each stands of which the end is known, where those of
// a unit are counted as often as it weighs. Those that were cut when all others had ended
// are beyond, and share what is left.
func (e *evidence) uncut(weights []float64) (stands []float64, beyond []int, left float64) {
	stands = make([]float64, len(e.list))
	rest := 0.0
	for _, u := range e.units {
		rest += weightOf(weights, u)
	}
	each, all := 1.0, rest // for how many attempts each stands that has not ended or been cut by now
	for _, i := range e.order {
		w := weightOf(weights, e.units[i])
		rest -= w
		if beyond = append(beyond, i); !e.list[i].cut {
			stands[i], beyond = each*w, beyond[:0]
			all -= each * w
		} else if rest > 1e-9 {
			each += each * w / rest
		}
	}
	return stands, beyond, max(all, 0)
}

// longer is how long an attempt is taken to take that was cut later than any other
// ended.
func (a *recorded) longer() time.Duration { return 2 * a.took }

// weighed are values of which each stands for a number of attempts.
type weighed struct {
	value  time.Duration
	weight float64
}

// quantiles gives at most n values that are distributed as the weighed ones are, which are
// sorted.
func quantiles(list []weighed, n int) (out []time.Duration) {
	total := 0.0
	for _, v := range list {
		total += v.weight
	}
	n = min(n, len(list))
	i, sum := 0, 0.0
	for k := range n {
		for at := (float64(k) + 0.5) / float64(n) * total; i < len(list)-1 && sum+list[i].weight <= at; i++ {
			sum += list[i].weight
		}
		out = append(out, list[i].value)
	}
	return out
}

// cutWarning says what is not known because attempts at a step were cut short.
func cutWarning(path string, e *evidence) string {
	n, longest := 0, time.Duration(0)
	for _, a := range e.list {
		if a.cut {
			n, longest = n+1, max(longest, a.took)
		}
	}
	if n == 0 {
		return ""
	}
	text := fmt.Sprintf("%d attempts of %s were cut short, the longest after %s: they are assumed to continue like those that took longer", n, path, Span(int64(longest)))
	if _, beyond, _ := e.uncut(nil); len(beyond) > 0 {
		text += ", and where none did, to take twice as long and to fail no more often than the others"
	}
	return text
}
