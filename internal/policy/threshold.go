package policy

import (
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// rate is a failure threshold as an exact fraction. The written decimal is
// meant, not the binary number nearest to it: with a threshold of 0.3, three
// failures of ten reach it, whatever the float64 next to 3/10 is.
type rate struct {
	num, den uint64
}

// newRate takes the shortest decimal that reads back as t, which is what was
// written. Beyond 19 decimals it is cut: no two fractions of counts below 2^31
// lie that close to each other.
func newRate(t float64) rate {
	s := strconv.FormatFloat(t, 'f', -1, 64)
	if whole, frac, ok := strings.Cut(s, "."); ok && len(frac) > 19 {
		s = whole + "." + frac[:19]
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || r.Sign() < 0 || r.Cmp(big.NewRat(1, 1)) > 0 {
		return rate{1, 1} // not reached with a valid configuration
	}
	return rate{r.Num().Uint64(), r.Denom().Uint64()}
}

// reachedBy reports whether failed of finished is the rate or more; without a failure
// no rate is reached.
func (r rate) reachedBy(failed, finished int) bool {
	if failed == 0 {
		return false
	}
	ah, al := bits.Mul64(uint64(failed), r.den)
	bh, bl := bits.Mul64(uint64(finished), r.num)
	return ah > bh || ah == bh && al >= bl
}
