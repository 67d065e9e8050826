package simulate

import (
	"math"
	"testing"
)

// TestBetaBelow: the beta distribution is as its closed forms are.
func TestBetaBelow(t *testing.T) {
	for _, x := range []float64{0.01, 0.2, 0.5, 0.77, 0.99} {
		for _, c := range []struct{ a, b, want float64 }{
			{1, 1, x}, {3, 1, x * x * x}, {1, 4, 1 - math.Pow(1-x, 4)}, {0.5, 0.5, 2 / math.Pi * math.Asin(math.Sqrt(x))},
			{2, 3, x * x * (6 - 8*x + 3*x*x)}, {0.01, 1, math.Pow(x, 0.01)},
		} {
			if got := betaBelow(x, c.a, c.b); math.Abs(got-c.want) > 1e-9 {
				t.Errorf("below %v of beta(%v, %v) is %v, want %v", x, c.a, c.b, got, c.want)
			}
		}
	}
}

// TestShareBetween: where some models say that all runs succeed and some that none does,
// the share may be either; where all say the same, it is that.
func TestShareBetween(t *testing.T) {
	if low, high := shareBetween(0.1, 0.06); low > 1e-6 || high < 0.5 {
		t.Errorf("of models that differ: %v to %v", low, high)
	}
	if low, high := shareBetween(0.5, 0.0004); math.Abs(low-0.467) > 0.002 || math.Abs(high-0.533) > 0.002 {
		t.Errorf("of models that are alike: %v to %v", low, high)
	}
}
