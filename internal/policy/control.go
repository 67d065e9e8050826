package policy

import "time"

// SetParallel changes how many agents may run at once, at least 1. Agents that
// run beyond it run to their end. From then on the number is given.
func (m *Machine) SetParallel(n int) { m.cfg.MaxParallel, m.finder = max(1, n), nil }

// RetryNow ends the waits of all items that wait for their next attempt, and the
// pause for a rate limit. Open breakers stay.
func (m *Machine) RetryNow(now time.Time) {
	m.limit.Lift(now)
	old := m.waiting
	m.waiting = make(waiting, 0, len(old))
	for _, r := range old {
		r.notBefore = min(r.notBefore, instantOf(now))
		m.waiting.push(r)
	}
}
