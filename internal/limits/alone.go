package limits

import (
	"context"
	"errors"
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
	if set.Try() {
		return released(func() { set.Release(limit.Result{}) }), nil
	}
	if r.Waits != nil {
		r.Waits(a.block(r.Names))
	}
	if err := set.Acquire(ctx, limit.Request{Priority: r.Priority}); errors.Is(err, limit.ErrRefused) {
		return nil, r.Clock.Wait(ctx, -1, nil) // its turn comes after the end of ctx, and that is how long it waits, as on a machine
	} else if err != nil {
		return nil, err
	}
	return released(func() { set.Release(limit.Result{}) }), nil
}

// block is the first limit that lets nobody begin now.
func (a *Alone) block(names []string) *Block {
	b := &Block{Limit: names[0], Rated: true}
	for _, name := range names {
		for _, l := range a.limits[name] {
			if !l.IsRate() && l.InUse() >= l.Max() {
				return &Block{Limit: name, Full: true, Slots: l.Max(), Held: l.InUse()}
			}
		}
	}
	return b
}

// Pause does nothing: nobody else is here who could wait.
func (a *Alone) Pause([]string, time.Time, string, string) error { return nil }

type released func()

// Release gives back what was taken.
func (f released) Release() { f() }
