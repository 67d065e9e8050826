package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry"
)

// breakers are the circuit breakers of commands: one for each step of the
// file, shared by all agents that run it.
type breakers struct {
	mu sync.Mutex
	m  map[string]*breaker
}

// breaker is a circuit.Machine that tells its changes as events, so that a
// resumed run has it as it was.
type breaker struct {
	name string
	r    *run
	mu   sync.Mutex
	m    *circuit.Machine
}

// of gives the breaker of a step, or nil where its policy has none.
func (b *breakers) of(r *run, s *workflow.Step, cfg *circuit.Config) (*breaker, error) {
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
	m, err := circuit.NewMachine(c)
	if err != nil {
		return nil, err
	}
	if rec, ok := r.state.Breakers[name]; ok {
		if err := restoreBreaker(m, rec.Data); err != nil {
			return nil, fmt.Errorf("the recorded state of the breaker of %s: %w", name, err)
		}
	}
	if b.m == nil {
		b.m = map[string]*breaker{}
	}
	b.m[name] = &breaker{name: name, r: r, m: m}
	return b.m[name], nil
}

// restoreBreaker puts a machine into a recorded state. Probes that were in
// flight when the process died have no one to answer for them any more.
func restoreBreaker(m *circuit.Machine, raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var s circuit.Snapshot
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	s.Probes = nil
	return m.Restore(s)
}

// acquire asks for a permit; the error is a *circuit.OpenError.
func (b *breaker) acquire() (circuit.Ticket, error) {
	return change(b, func() (circuit.Ticket, error) { return b.m.Acquire(time.Now()) })
}

// done gives the permit back.
func (b *breaker) done(t circuit.Ticket, o circuit.Outcome) {
	_, _ = change(b, func() (struct{}, error) {
		b.m.Done(t, o, time.Now())
		return struct{}{}, nil
	})
}

// change does something to the machine and tells a change of state or of the
// count that leads to one. It does so under the lock, so that the last one on
// record is the last one there was.
func change[T any](b *breaker, f func() (T, error)) (T, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.m.Snapshot()
	v, err := f()
	after := b.m.Snapshot()
	if before.State != after.State || before.Failures != after.Failures || before.Successes != after.Successes {
		b.r.emit(event.Event{Type: event.BreakerChanged, Label: b.name,
			From: before.State.String(), To: after.State.String(), Data: data(after)})
	}
	return v, err
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
