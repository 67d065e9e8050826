package check

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/retry"
)

// Worst is the longest that a call can take, waits for others (for a throttle,
// a slot, its inputs) aside.
type Worst struct {
	Attempts   int
	Timeout    time.Duration // of each; 0: none
	Attempting time.Duration // attempts × timeout
	Delays     time.Duration // the sum of the delays between them, jitter at its most
	Deadline   time.Duration // ends all of it; 0: none
}

// Worst computes the worst case of a call with the options. Without options
// it is one attempt of unknown length.
func (o *Options) Worst() Worst {
	if o == nil {
		return Worst{Attempts: 1}
	}
	p := &o.Retry
	w := Worst{Attempts: max(p.Attempts, 1), Timeout: p.Timeout, Deadline: o.Deadline}
	if p.Attempts == retry.Unlimited {
		w.Attempts = option.MaxAttempts
	}
	w.Attempting = times(p.Timeout, w.Attempts)
	w.Delays = delays(&p.Backoff, w.Attempts-1)
	for _, r := range p.Rules { // each with delays of its own
		n := w.Attempts
		if r.Attempts > 0 {
			n = min(n, r.Attempts)
		}
		w.Delays = plus(w.Delays, delays(r.Backoff, n-1))
	}
	if o.Breaker != nil {
		w.Delays = max(w.Delays, policy.Refused(*p, cmp.Or(o.Breaker.Timeout, circuit.DefaultTimeout)))
	}
	if p.Budget > 0 {
		w.Delays = min(w.Delays, p.Budget)
	}
	return w
}

// maxSummed is how many delays are added up one by one; all further ones are
// taken as long as the last.
const maxSummed = 10000

func delays(s *backoff.Schedule, n int) time.Duration {
	var total, longest time.Duration
	for i := 1; i <= n; i++ {
		_, d := s.Range(i, longest)
		if i > 1 && d == longest && (d == s.Cap() || i > 2) || i > maxSummed {
			_, last := s.Range(n, max(d, longest))
			return plus(total, times(max(d, last), n-i+1))
		}
		total, longest = plus(total, d), d
	}
	return total
}

func (w Worst) bounded() bool { return w.Timeout > 0 }

// Total is the whole of it, if it has an end.
func (w Worst) Total() (d time.Duration, known bool) {
	d = plus(w.Attempting, w.Delays)
	switch {
	case w.Deadline > 0 && (!w.bounded() || d > w.Deadline):
		return w.Deadline, true
	case !w.bounded():
		return 0, false
	}
	return d, true
}

// String shows how it comes about: "4 × 5s + 7s of delays".
func (w Worst) String() string {
	s := fmt.Sprintf("%d × ", w.Attempts)
	if w.Attempts == option.MaxAttempts {
		s = "any number × "
	}
	if w.bounded() {
		s += duration.Format(w.Timeout)
	} else {
		s += "unbounded"
	}
	if w.Delays > 0 {
		s += " + " + duration.Format(w.Delays) + " of delays"
	}
	return s
}

func plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(d time.Duration, n int) time.Duration {
	if n > 0 && d > math.MaxInt64/time.Duration(n) {
		return math.MaxInt64
	}
	return d * time.Duration(n)
}
