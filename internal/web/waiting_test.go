package web

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestWaitingIsAMap: the first of the waits is that of a plain map of them, whatever was
// done before, and what is kept stays as large as what waits.
func TestWaitingIsAMap(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var w waiting
	plain := map[int]int64{}
	for n := range 20_000 {
		switch index := r.IntN(300); r.IntN(20) {
		case 0:
			w.begin(int64(n))
			for i, at := range plain {
				plain[i] = min(at, int64(n))
			}
		case 1, 2, 3, 4, 5, 6, 7, 8:
			w.drop(index)
			delete(plain, index)
		default:
			at := int64(n + r.IntN(1000))
			w.put(index, at)
			plain[index] = at
		}
		first := int64(0)
		for _, at := range plain {
			if first == 0 || at < first {
				first = at
			}
		}
		if n%7 != 0 {
			continue // what is over is not always looked for
		}
		if got := w.first(); w.len() != len(plain) || got.IsZero() != (first == 0) || first != 0 && got.UnixNano() != first {
			t.Fatalf("after %d changes the first of %d is %d, want %d of %d", n, w.len(), got.UnixNano(), first, len(plain))
		}
		if len(w.order) > 2*len(plain)+1001 {
			t.Fatalf("%d ends are kept of %d waits", len(w.order), len(plain))
		}
	}
}

// TestWithin: each wait is counted once, and the counts are kept for a second.
func TestWithin(t *testing.T) {
	t.Parallel()
	var w waiting
	now := time.Unix(1_800_000_000, 0)
	for i, d := range []time.Duration{-time.Second, 0, 5 * time.Second, time.Hour} {
		w.put(i+1, now.Add(d).UnixNano())
	}
	times := []time.Duration{0, 10 * time.Second, 1 << 62}
	want := func(at time.Time, a, b, c int) {
		t.Helper()
		if got := w.within(at, times); got[0] != a || got[1] != b || got[2] != c {
			t.Errorf("%v, want %d %d %d", got, a, b, c)
		}
	}
	want(now, 2, 1, 1)
	w.drop(1)
	want(now.Add(sumsFor-1), 2, 1, 1)
	want(now.Add(sumsFor), 1, 1, 1)
}
