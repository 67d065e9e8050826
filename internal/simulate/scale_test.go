package simulate

import "testing"

// TestScale: one spike is cut, many are not; what is drawn ends at a short number.
func TestScale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		values []float64
		top    float64
		cut    bool
	}{
		{"nothing", nil, 0, false},
		{"zeros", []float64{0, 0}, 0, false},
		{"one", []float64{0, 37}, 40, false},
		{"a spike at the start", []float64{500, 0, 7, 8, 0, 6}, 10, true},
		{"a wave", []float64{500, 300, 150, 50, 10, 0}, 600, false},
		{"many spikes", []float64{500, 0, 500, 0, 500, 1, 500}, 600, false},
		{"small", []float64{0.03, 0.02}, 0.04, false},
	} {
		top, cut := Scale(c.values)
		if top < c.top*(1-1e-9) || top > c.top*(1+1e-9) || cut != c.cut {
			t.Errorf("%s: drawn up to %v, cut: %v; want %v, %v", c.name, top, cut, c.top, c.cut)
		}
	}
}

// TestShareOf: of few runs it does not say "100 %" alone.
func TestShareOf(t *testing.T) {
	t.Parallel()
	if got := (Share{P: 1, Low: 0.839, High: 1}).Of(20); got != "20 of 20 (84 – 100 %)" {
		t.Errorf("%q", got)
	}
	if got := (Share{P: 0.9350000001, Low: 0.891, High: 0.964}).Of(200); got != "187 of 200 (89 – 96 %)" {
		t.Errorf("%q", got)
	}
}
