package simulate

import (
	"math"
	"strings"
)

// An attempt takes the luck of its item with the probability c, and else one of
// its own. So of two attempts of an item both take the item's with c², and
// otherwise they have nothing to do with each other: where a first attempt fails
// with p, the second of those fails with p + c²·(1-p).

// fewestPairs is how many second attempts there must be before anything is said
// of what attempts of an item have in common.
const fewestPairs = 30

// fitCorrelation gives the share of an item's luck that all its attempts have in
// common; 0 where the recording does not show that there is any.
func (r *Recording) fitCorrelation() float64 {
	first, failed, second, both := 0.0, 0.0, 0.0, 0.0
	for k, a := range r.attempts {
		if k.n != 1 || k.round > 1 || k.index == 0 && !strings.Contains(k.path, "]") || classOf(a) == "rate_limit" || a.cut {
			continue
		}
		if first++; a.failure == nil {
			continue
		}
		failed++
		k.n = 2
		if b := r.attempts[k]; b != nil && classOf(b) != "rate_limit" && !b.cut {
			if second++; b.failure != nil {
				both++
			}
		}
	}
	if second < fewestPairs || failed == first {
		return 0
	}
	p, q := failed/first, both/second
	if noise := math.Sqrt(p * (1 - p) * (1/second + 1/first)); q-p < 3*noise {
		return 0
	}
	return round(math.Sqrt(min((q-p)/(1-p), 1)))
}
