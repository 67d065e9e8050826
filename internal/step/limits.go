package step

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

// Limits are the circuit breakers and the retry quotas of commands: a breaker
// for each step of the file or name, a quota for each target, shared by all
// who run the step. It is safe for concurrent use.
type Limits struct {
	// Breakers keeps the states of breakers, so that a resumed run has them as
	// they were, and Now gives their time; nil: none, and time.Now.
	Breakers circuit.Store
	Now      func() time.Time

	mu       sync.Mutex
	breakers map[string]*circuit.Breaker
	quotas   map[string]*retry.Quota
}

// breaker gives the breaker of a step, or nil where its policy has none.
func (l *Limits) breaker(s *workflow.Step) (*circuit.Breaker, error) {
	if s.Retry == nil || s.Retry.Breaker == nil {
		return nil, nil
	}
	c := *s.Retry.Breaker
	name := cmp.Or(c.Name, s.Path)
	l.mu.Lock()
	defer l.mu.Unlock()
	if got := l.breakers[name]; got != nil {
		return got, nil
	}
	c.Name, c.Key, c.Store, c.Now = s.Label(), name, l.Breakers, l.Now
	got, err := circuit.New(c)
	if err != nil {
		return nil, fmt.Errorf("the breaker of %s: %w", name, err)
	}
	value.Put(&l.breakers, name, got)
	return got, nil
}

// quota gives the shared retry budget that a step's policy names, or nil.
func (l *Limits) quota(s *workflow.Step) (*retry.Quota, error) {
	if s.Retry == nil || s.Retry.Quota == nil {
		return nil, nil
	}
	c := s.Retry.Quota
	l.mu.Lock()
	defer l.mu.Unlock()
	if got := l.quotas[c.Name]; got != nil {
		return got, nil
	}
	config := retry.QuotaConfig{Ratio: c.Ratio, Initial: int(c.Initial)}
	if c.Ratio == 0 { // in a QuotaConfig, 0 is the default and less is none
		config.Ratio = -1
	}
	if config.Initial == 0 {
		config.Initial = -1
	}
	got, err := retry.NewQuota(config)
	if err != nil {
		return nil, err
	}
	value.Put(&l.quotas, c.Name, got)
	return got, nil
}
