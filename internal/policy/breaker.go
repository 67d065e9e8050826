package policy

import (
	"fmt"
	"time"

	"github.com/bide-dev/bide/circuit"
	circuitdriver "github.com/bide-dev/bide/circuit/driver"
)

// agentLease is longer than any agent runs. The machine hears of the end of
// every agent, so that no permit is lost, and a probe that takes hours must
// not be replaced by another while it still runs.
const agentLease = 100 * 365 * 24 * time.Hour

func newBreaker(c circuit.Config) (*circuitdriver.Machine, error) {
	c.Lease = agentLease
	return circuitdriver.NewMachine(circuitdriver.Config(c))
}

// breakerHold says how long the breaker lets nothing start, from now; or that
// it waits for its probes.
func (m *Machine) breakerHold(now time.Time) (wait time.Duration, busy bool) {
	if m.breaker == nil {
		return 0, false
	}
	wait = m.breaker.RetryAfter(now)
	return wait, wait > 0 && m.breaker.State(now) == circuit.HalfOpen
}

// answerBreaker tells the breaker how an agent ended, and gives the change of
// state that this makes, or nil. That a rate limit turned an agent away, or that
// somebody cancelled it, says nothing about whether agents work.
func (m *Machine) answerBreaker(t circuitdriver.Ticket, o Outcome, limited bool, now time.Time) *BreakerChange {
	if m.breaker == nil {
		return nil
	}
	answer := circuit.Failure
	switch {
	case o.OK:
		answer = circuit.Success
	case o.Cancelled, limited:
		answer = circuit.Neutral
	}
	before := m.breaker.State(now)
	m.breaker.DoneAfter(t, answer, o.Took, now)
	if m.breaker.State(now) == before {
		return nil
	}
	return m.breakerChange(now)
}

// breakerChange gives the change since the last one that was told, or nil.
func (m *Machine) breakerChange(now time.Time) *BreakerChange {
	if m.breaker == nil {
		return nil
	}
	from, to := m.told, m.breaker.State(now)
	if from == to {
		return nil
	}
	m.told = to
	return &BreakerChange{From: from, To: to}
}

// RestoreSnapshot puts the breaker and the rate-limit pause where they stood.
// It is called before the first Started. Probes that ran when the run went
// down are gone, and their permits free. A pause that lasts longer than RateLimitMaxWait
// from now on stops the map.
func (m *Machine) RestoreSnapshot(s Snapshot, now time.Time) error {
	if m.started {
		return errStarted
	}
	if s.Breaker != nil && m.breaker != nil {
		b := *s.Breaker
		b.Probes = nil
		if err := m.breaker.Restore(b); err != nil {
			return fmt.Errorf("policy: recorded breaker: %w", err)
		}
		m.told = b.State
	}
	m.limit.Restore(s.Pause)
	if m.cfg.RateLimitMaxWait > 0 && m.limit.TooLong(now) {
		m.Halt(ByRateLimit)
	}
	return nil
}
