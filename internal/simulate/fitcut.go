package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Of an attempt that was cut short nobody knows how it would have ended, but that it
// takes longer. So it ends as those that took longer do: each of them stands for its
// share of it. This is the estimator of Kaplan and Meier, with one cause of an end for
// each class of errors.

// uncut gives the attempts of which the end is known, in their order, and for how many
// attempts each stands. Those that were cut when all others had ended are beyond, and
// share what is left.
func uncut(list []*recorded) (known []*recorded, weight []float64, beyond []*recorded, left float64) {
	order := slices.Clone(list)
	slices.SortStableFunc(order, func(a, b *recorded) int {
		if c := cmp.Compare(a.took, b.took); c != 0 || a.cut == b.cut {
			return c
		}
		if a.cut {
			return 1
		}
		return -1
	})
	stands := map[*recorded]float64{}
	each := 1.0 // for how many attempts each stands that has not ended or been cut by now
	for i, a := range order {
		if beyond = append(beyond, a); !a.cut {
			stands[a], beyond = each, beyond[:0]
		} else if rest := len(order) - i - 1; rest > 0 {
			each += each / float64(rest)
		}
	}
	for _, a := range list {
		if !a.cut {
			known, weight = append(known, a), append(weight, stands[a])
		}
	}
	left = float64(len(list))
	for _, w := range weight {
		left -= w
	}
	return known, weight, beyond, left
}

// longer is how long an attempt is taken to take that was cut later than any other
// ended.
func (a *recorded) longer() time.Duration { return 2 * a.took }

// weighed are values of which each stands for a number of attempts.
type weighed struct {
	value  time.Duration
	weight float64
}

// quantiles gives at most n values that are distributed as the weighed ones are, sorted.
func quantiles(list []weighed, n int) (out []time.Duration) {
	slices.SortStableFunc(list, func(a, b weighed) int { return cmp.Compare(a.value, b.value) })
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
func cutWarning(path string, list []*recorded) string {
	n, longest := 0, time.Duration(0)
	for _, a := range list {
		if a.cut {
			n, longest = n+1, max(longest, a.took)
		}
	}
	if n == 0 {
		return ""
	}
	text := fmt.Sprintf("%d attempts of %s were cut short, the longest after %s: they are taken to go on as those do that took longer", n, path, Span(int64(longest)))
	if _, _, beyond, _ := uncut(list); len(beyond) > 0 {
		text += ", and where none did, to take twice as long and to fail no more often than the others"
	}
	return text
}
