package limit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/bide-dev/bide/internal/width"
)

// AdaptiveConfig is the settings of a limit that finds its number of slots by
// trying, see [Adaptive]. The zero value is usable: every zero field means its
// default.
type AdaptiveConfig struct {
	// Initial is where it begins; 0 means 10, forced into Min and Max.
	Initial int
	// Min and Max bound it; 0 means 1 and 1000, or Min if that is more.
	Min, Max int
	// Tolerance is how many times the time of an unloaded target an attempt may
	// take on average before the limit goes down, more than 1; 0 means 1.3.
	Tolerance float64
	// Backoff is what the limit is multiplied by when it goes down, between 0
	// and 1; 0 means 0.9.
	Backoff float64
}

// Adaptive is a number of slots for a target whose capacity nobody knows:
// additive up, multiplicative down. It goes up by one while it is used in full
// and answers do not become slower, and goes down when the target refuses, or
// when answers take longer than Tolerance times those of the target unloaded.
// It looks at as many answers at a time as there are slots. What it takes for
// the unloaded time is the fastest window it has seen; every hundred windows it
// halves itself for two, to see that time anew, so that it learns of a target
// that has become slower for good.
// (After AIMD and Vegas as in Netflix concurrency-limits.)
func Adaptive() *Limit { return Must(New(Config{Adaptive: &AdaptiveConfig{}})) }

func newAdaptive(c AdaptiveConfig) (*adaptive, error) {
	c.Min = cmp.Or(c.Min, 1)
	c.Max = cmp.Or(c.Max, max(1000, c.Min))
	c.Tolerance, c.Backoff = cmp.Or(c.Tolerance, 1.3), cmp.Or(c.Backoff, 0.9)
	c.Initial = cmp.Or(c.Initial, min(max(10, c.Min), c.Max))
	return &adaptive{width: width.New(width.Config{Initial: c.Initial, Min: c.Min, Max: c.Max, Tolerance: c.Tolerance, Least: c.Backoff, Most: c.Backoff})}, c.validate()
}

func (c *AdaptiveConfig) validate() error {
	var problems []error
	switch {
	case c.Min < 1:
		problems = append(problems, fmt.Errorf("limit: Min is %d; it must be 1 or more", c.Min))
	case c.Max < c.Min || c.Max > maxSlots:
		problems = append(problems, fmt.Errorf("limit: Max is %d; it must be from Min, %d, to %d", c.Max, c.Min, maxSlots))
	case c.Initial < c.Min || c.Initial > c.Max:
		problems = append(problems, fmt.Errorf("limit: Initial is %d; it must be from Min, %d, to Max, %d", c.Initial, c.Min, c.Max))
	}
	if !(c.Tolerance > 1) || math.IsInf(c.Tolerance, 0) {
		problems = append(problems, fmt.Errorf("limit: Tolerance is %v; it must be a finite number of more than 1.0", c.Tolerance))
	}
	if !(c.Backoff > 0 && c.Backoff < 1) {
		problems = append(problems, fmt.Errorf("limit: Backoff is %v; it must be between 0 and 1", c.Backoff))
	}
	return errors.Join(problems...)
}

// adaptive is the decision about the number of slots.
type adaptive struct {
	mu    sync.Mutex
	width *width.Machine
}

// sample takes the end of an attempt, before its slot is given back.
func (a *adaptive) sample(l *Limit, r Result) {
	if r.Ignore {
		return
	}
	a.mu.Lock()
	before := a.width.Width()
	a.width.Ended(width.End{Took: r.Took, Refused: r.overloaded(), InUse: l.InUse()})
	after := a.width.Width()
	if after != before {
		l.slots.most.Store(int64(after))
	}
	a.mu.Unlock()
	if after > before {
		l.mu.Lock()
		l.dispatch()
		l.mu.Unlock()
	}
}
