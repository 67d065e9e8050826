package policy_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/policy"
)

// server is a target for items of one second each: when more than its capacity are there,
// all take longer, and it gets less done than with as many as its capacity.
type server struct {
	capacity func(at time.Duration) int
	refuses  bool                 // in place of being slow
	took     func() time.Duration // unloaded
}

// phases is the capacity of the acceptance test: 20, then 5, then 40.
func phases(at time.Duration) int {
	switch {
	case at < phase:
		return 20
	case at < 2*phase:
		return 5
	}
	return 40
}

const phase = 300 * time.Second

// work is the work of an item in seconds, done at a speed that depends on how many are there.
type work struct {
	item  int
	left  float64
	began time.Time
}

// serve drives a map over a server for some time, and gives how many items ended in each
// second and how many ran at once then.
func (s *server) serve(t *testing.T, cfg policy.Config, d time.Duration) (ended, width []int) {
	t.Helper()
	m, err := policy.New(cfg, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Unix(1_000_000, 0)
	now := began
	var running []*work
	const tick = 20 * time.Millisecond
	ended, width = make([]int, d/time.Second), make([]int, d/time.Second)
	for at := time.Duration(0); at < d; at += tick {
		now = began.Add(at)
		for {
			dec := m.Next(now)
			if dec.Kind != policy.Start {
				break
			}
			if _, err := m.Started(dec.Item, now); err != nil {
				t.Fatal(err)
			}
			w := &work{dec.Item, 1, now}
			if s.took != nil {
				w.left = s.took().Seconds()
			}
			if s.refuses && len(running) >= s.capacity(at) {
				if _, err := m.Finished(w.item, policy.Outcome{RateLimited: true, RetryAfter: time.Second}, now); err != nil {
					t.Fatal(err)
				}
				continue
			}
			running = append(running, w)
		}
		width[at/time.Second] = len(running)
		speed := 1.0
		if over := float64(len(running)) / float64(s.capacity(at)); over > 1 && !s.refuses {
			speed = math.Pow(over, -1.5)
		}
		running = slices.DeleteFunc(running, func(w *work) bool {
			if w.left -= speed * tick.Seconds(); w.left > 1e-9 {
				return false
			}
			end := now.Add(tick)
			if _, err := m.Finished(w.item, policy.Outcome{OK: true, Took: end.Sub(w.began)}, end); err != nil {
				t.Fatal(err)
			}
			ended[at/time.Second]++
			return true
		})
	}
	return ended, width
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

// TestAdaptiveFollowsCapacity: a server whose capacity changes from 20 to 5 to 40 is used
// in each phase, 20 items' time after its beginning, as by the best fixed number at once, and
// over the whole no fixed number does as much.
func TestAdaptiveFollowsCapacity(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*server{"slower": {capacity: phases}, "refuses": {capacity: phases, refuses: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended, widths := s.serve(t, policy.Config{Adaptive: &policy.Adaptive{Min: 2, Max: 64}}, 3*phase)
			best, bestAt, of := [3]int{}, [3]int{}, 0
			most := 0
			for n := 1; n <= 64; n += 1 + n/6 {
				fixed, _ := s.serve(t, policy.Config{MaxParallel: n}, 3*phase)
				if sum(fixed) > most {
					most, of = sum(fixed), n
				}
				for p := range best {
					part := fixed[p*300+20 : p*300+300]
					if sum(part) > best[p] {
						best[p], bestAt[p] = sum(part), n
					}
				}
			}
			for p := range best {
				got := sum(ended[p*300+20 : p*300+300])
				t.Logf("phase %d: %d items, the best fixed number (%d) %d: %.2f", p, got, bestAt[p], best[p], float64(got)/float64(best[p]))
				if float64(got) < 0.9*float64(best[p]) {
					t.Errorf("phase %d: %d items ended, and %d with %d at once", p, got, best[p], bestAt[p])
				}
			}
			t.Logf("whole: %d items, the best fixed number (%d) %d", sum(ended), of, most)
			if !s.refuses && sum(ended) <= most { // with one that refuses, too many at once cost nothing but the pauses
				t.Errorf("%d items ended in all, and %d with %d at once", sum(ended), most, of)
			}
			if testing.Verbose() {
				t.Log(widths[:30], widths[300:330], widths[600:630])
			}
		})
	}
}

// TestAdaptiveWithTimesThatDiffer: that times differ by chance narrows no map.
func TestAdaptiveWithTimesThatDiffer(t *testing.T) {
	t.Parallel()
	for _, sigma := range []float64{0.1, 0.5, 0.8, 1.5} {
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 7))
			s := &server{capacity: func(time.Duration) int { return 1000 }, took: func() time.Duration {
				return time.Duration(float64(time.Second) * math.Exp(r.NormFloat64()*sigma))
			}}
			_, widths := s.serve(t, policy.Config{Adaptive: &policy.Adaptive{Min: 2, Max: 32}}, 400*time.Second)
			mean := float64(sum(widths[200:])) / float64(len(widths[200:]))
			t.Logf("sigma %v seed %d: %.1f at once", sigma, seed, mean)
			if mean < 24 {
				t.Errorf("times that differ by chance (sigma %v, seed %d): %.1f of 32 at once", sigma, seed, mean)
			}
		}
	}
}
