package limit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
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
	return &adaptive{c: c, limit: float64(c.Initial)}, c.validate()
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
	c AdaptiveConfig

	mu       sync.Mutex
	limit    float64
	before   float64 // the limit that was halved
	unloaded float64 // average nanoseconds of the fastest window
	windows  int     // since the unloaded time was looked for
	sum      time.Duration
	count    int
	most     int // that were in use at once in the window
	refused  bool
}

// probing is after how many windows the unloaded time is looked for, for two
// windows: what the first has still began under the higher limit.
const probing = 100

// sample takes the end of an attempt, before its slot is given back.
func (a *adaptive) sample(l *Limit, r Result) {
	if r.Ignore {
		return
	}
	a.mu.Lock()
	before := int(a.limit)
	a.add(r, l.InUse())
	after := int(a.limit)
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

// add counts an answer, and decides once a window is full.
func (a *adaptive) add(r Result, inUse int) {
	a.count++
	a.sum += r.Took
	a.most = max(a.most, inUse)
	a.refused = a.refused || r.overloaded()
	if a.count < max(int(a.limit), 4) {
		return
	}
	a.decide(float64(a.sum) / float64(a.count))
	a.sum, a.count, a.most, a.refused = 0, 0, 0, false
}

// decide takes the average time of a window.
func (a *adaptive) decide(took float64) {
	a.windows++
	switch a.windows {
	case probing:
		a.before, a.limit = a.limit, max(a.limit/2, float64(a.c.Min))
		return
	case probing + 1:
		return
	case probing + 2:
		a.windows, a.limit, a.unloaded = 0, a.before, took
	}
	if a.unloaded == 0 || took < a.unloaded {
		a.unloaded = took
	}
	switch {
	case a.refused, took > a.unloaded*a.c.Tolerance:
		a.limit = max(a.limit*a.c.Backoff, float64(a.c.Min))
	case a.most >= int(a.limit): // a limit that is not met teaches nothing
		a.limit = min(a.limit+1, float64(a.c.Max))
	}
}
