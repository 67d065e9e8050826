package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/breaker"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

// breakers are the circuit breakers of commands: one for each step of the
// file, shared by all agents that run it.
type breakers struct {
	mu sync.Mutex
	m  map[string]*breaker.Breaker
}

// of gives the breaker of a step, or nil where its policy has none.
func (b *breakers) of(r *run, s *workflow.Step, cfg *circuit.Config) (*breaker.Breaker, error) {
	if cfg == nil {
		return nil, nil
	}
	name := cfg.Name
	if name == "" {
		name = s.Path
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := b.m[name]; got != nil {
		return got, nil
	}
	c := *cfg
	c.Name = label(s)
	got, err := breaker.New(name, c, r.breakerRecord())
	if err != nil {
		return nil, fmt.Errorf("the breaker of %s: %w", name, err)
	}
	if b.m == nil {
		b.m = map[string]*breaker.Breaker{}
	}
	b.m[name] = got
	return got, nil
}

// breakerRecord keeps the states of breakers in the journal, so that a resumed
// run has them as they were.
func (r *run) breakerRecord() breaker.Record {
	return breaker.Record{Last: r.recordedBreaker, Changed: func(name string, before, after circuit.Snapshot) {
		r.emit(event.Event{Type: event.BreakerChanged, Label: name, From: before.State.String(), To: after.State.String(), Data: data(after)})
	}}
}

func (r *run) recordedBreaker(name string) (s circuit.Snapshot, ok bool) {
	rec, ok := r.state.Breakers[name]
	if !ok || len(rec.Data) == 0 {
		return s, false
	}
	if err := json.Unmarshal(rec.Data, &s); err != nil {
		r.note("the recorded state of the breaker of %s cannot be read, and it begins closed: %v", name, err)
		return s, false
	}
	return s, true
}

// quotas are the retry budgets of targets, by name.
type quotas struct {
	mu sync.Mutex
	m  map[string]*retry.Quota
}

// outcomeOf says what an attempt was to a breaker. Cancelled attempts and
// steps that could not begin say nothing about the target.
func outcomeOf(err error) circuit.Outcome {
	switch {
	case err == nil:
		return circuit.Success
	case errors.Is(err, ErrInterrupted), isInput(err):
		return circuit.Neutral
	}
	return circuit.Failure
}

// of gives the shared retry budget that a step's policy names, or nil.
func (q *quotas) of(s *workflow.Step) (*retry.Quota, error) {
	if s.Retry == nil || s.Retry.Quota == nil {
		return nil, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := s.Retry.Quota
	if got := q.m[c.Name]; got != nil {
		return got, nil
	}
	got, err := retry.NewQuota(retry.QuotaConfig{Ratio: c.Ratio, Floor: int(c.Floor)})
	if err != nil {
		return nil, err
	}
	if q.m == nil {
		q.m = map[string]*retry.Quota{}
	}
	q.m[c.Name] = got
	return got, nil
}

func breakerConfig(rt *workflow.Retry) *circuit.Config {
	if rt == nil {
		return nil
	}
	return rt.Breaker
}
