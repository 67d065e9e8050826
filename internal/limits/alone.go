package limits

import (
	"context"
	"time"

	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry/driver"
)

// Alone is the limits of a machine on which nothing else runs: those of a simulation.
// They are kept in memory, on a clock of any kind. It is safe for concurrent use.
type Alone struct {
	limits map[string]limit.Set
}

// NewAlone makes the limits of a file, on a clock.
func NewAlone(c *Config, clock driver.Clock) (*Alone, error) {
	a := &Alone{limits: map[string]limit.Set{}}
	for name, l := range c.Limits {
		var set limit.Set
		if l.Slots > 0 {
			slots, err := limit.New(limit.Config{Name: name, Concurrency: l.Slots, Clock: clock})
			if err != nil {
				return nil, err
			}
			set = append(set, slots)
		}
		if l.Rate > 0 {
			rate, err := limit.New(limit.Config{Name: name, Rate: 1, Per: l.interval(), Clock: clock})
			if err != nil {
				return nil, err
			}
			set = append(set, rate)
		}
		a.limits[name] = set
	}
	return a, nil
}

// Take waits for a slot and a token of each limit.
func (a *Alone) Take(ctx context.Context, r Request) (Held, error) {
	var all []*limit.Limit
	for _, name := range r.Names {
		all = append(all, a.limits[name]...)
	}
	set, err := limit.Join(all...)
	if err != nil {
		return nil, err
	}
	if !set.Try() {
		if err := set.Acquire(ctx, limit.Request{}); err != nil {
			return nil, err
		}
	}
	return released(func() { set.Release(limit.Result{}) }), nil
}

// Pause does nothing: nobody else is here who could wait.
func (a *Alone) Pause([]string, time.Time, string, string) error { return nil }

type released func()

// Release gives back what was taken.
func (f released) Release() { f() }
