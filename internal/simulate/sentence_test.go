package simulate

import "testing"

func TestRoughly(t *testing.T) {
	for f, want := range map[float64]string{2: "2", 2.44: "2.4", 19.2: "19", 99.4: "99", 99.5: "100", 120.4: "120", 20290: "20290"} {
		if got := roughly(f); got != want {
			t.Errorf("%v is %q, want %q", f, got, want)
		}
	}
}
