package circuit

import (
	"errors"
	"fmt"
	"time"
)

// Machine is the pure half of a breaker: it is told the time and reads no
// clock, holds no lock and starts nothing. It is not safe for concurrent use.
//
// Time may stand still or go backwards between calls, as a wall clock does
// when it is set: no wait grows beyond Config.Timeout by that.
type Machine struct {
	config     Config // defaults filled in
	state      State
	generation uint64    // counts changes of state
	failures   int       // in a row, while closed
	successes  int       // in a row, while half-open
	until      time.Time // end of the open state
	probes     []Probe   // permits of half-open not yet answered
	lastProbe  uint64
}

// Ticket is what a [Machine] gives for an attempt. It is a plain value that
// can be written to JSON and used after a restart.
type Ticket struct {
	// Generation is the number of changes of state before the ticket.
	Generation uint64 `json:"generation"`
	// Probe numbers the tickets of half-open, from 1; it is 0 in a ticket of
	// the closed state.
	Probe uint64 `json:"probe,omitempty"`
}

// Probe is a ticket of half-open that has not been answered.
type Probe struct {
	ID uint64 `json:"id"`
	// Until is the end of its lease.
	Until time.Time `json:"until"`
	// Lost is true once its lease has ended and its place may be given to
	// another. Its answer is still taken.
	Lost bool `json:"lost,omitempty"`
}

// Snapshot is the whole state of a [Machine], for JSON.
type Snapshot struct {
	State      State     `json:"state"`
	Generation uint64    `json:"generation,omitempty"`
	Failures   int       `json:"failures,omitempty"`  // in a row, while closed
	Successes  int       `json:"successes,omitempty"` // in a row, while half-open
	Until      time.Time `json:"until,omitzero"`      // end of the open state
	Probes     []Probe   `json:"probes,omitempty"`
	LastProbe  uint64    `json:"last_probe,omitempty"`
}

// maxLost bounds the memory of probes that never answered. One that is pushed
// out by so many later ones is taken for gone.
const maxLost = 1024

// NewMachine returns a closed machine, or the error of Config.Validate.
func NewMachine(config Config) (*Machine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Machine{config: config.withDefaults()}, nil
}

// Acquire asks to let an attempt through at the time now. The error is an
// *[OpenError]. Each ticket is to be answered with [Machine.Done] once.
func (m *Machine) Acquire(now time.Time) (Ticket, error) {
	if ticket, ok := m.acquire(now); ok {
		return ticket, nil
	}
	return Ticket{}, &OpenError{Name: m.config.Name, State: m.state, RetryAfter: m.retryAfter(now)}
}

func (m *Machine) acquire(now time.Time) (Ticket, bool) {
	if m.state == Open {
		if m.remaining(m.until, m.config.Timeout, now) > 0 {
			return Ticket{}, false
		}
		m.change(HalfOpen)
	}
	ticket := Ticket{Generation: m.generation}
	if m.state == Closed {
		return ticket, true
	}
	if m.inFlight(now) >= m.config.HalfOpenRequests {
		return Ticket{}, false
	}
	m.forgetOldest()
	m.lastProbe++
	ticket.Probe = m.lastProbe
	m.probes = append(m.probes, Probe{ID: ticket.Probe, Until: now.Add(m.config.Lease)})
	return ticket, true
}

// Done answers a ticket. An answer to a ticket of an earlier generation, a
// second answer to a ticket of half-open, and Neutral in the closed state
// change nothing. The tickets of the closed state are all alike, so a second
// answer to one of these cannot be told from another's: answer each once.
func (m *Machine) Done(ticket Ticket, outcome Outcome, now time.Time) {
	if ticket.Generation != m.generation {
		return
	}
	switch m.state {
	case Closed:
		m.doneClosed(outcome, now)
	case HalfOpen:
		m.doneHalfOpen(ticket, outcome, now)
	}
}

func (m *Machine) doneClosed(outcome Outcome, now time.Time) {
	switch outcome {
	case Success:
		m.failures = 0
	case Neutral:
	default:
		m.failures++
		if m.failures >= m.config.FailureThreshold {
			m.open(now)
		}
	}
}

func (m *Machine) doneHalfOpen(ticket Ticket, outcome Outcome, now time.Time) {
	if !m.giveBack(ticket.Probe) {
		return
	}
	switch outcome {
	case Success:
		m.successes++
		if m.successes >= m.config.SuccessThreshold {
			m.change(Closed)
		}
	case Neutral:
	default:
		m.open(now)
	}
}

// State returns the state that an attempt at the time now would meet: once
// the timeout is over that is HalfOpen, though the change is made by the
// attempt itself.
func (m *Machine) State(now time.Time) State {
	if m.state == Open && m.remaining(m.until, m.config.Timeout, now) <= 0 {
		return HalfOpen
	}
	return m.state
}

// RetryAfter returns 0 if an attempt at the time now would be let through,
// otherwise the OpenError.RetryAfter that it would get.
func (m *Machine) RetryAfter(now time.Time) time.Duration {
	switch m.State(now) {
	case Closed:
		return 0
	case HalfOpen:
		if m.state == Open || m.inFlight(now) < m.config.HalfOpenRequests {
			return 0
		}
	}
	return m.retryAfter(now)
}

// retryAfter is RetryAfter for a machine that has just refused.
func (m *Machine) retryAfter(now time.Time) time.Duration {
	if m.state == Open {
		return m.remaining(m.until, m.config.Timeout, now)
	}
	soonest := m.config.Lease
	for _, probe := range m.probes {
		if !probe.Lost {
			soonest = min(soonest, m.remaining(probe.Until, m.config.Lease, now))
		}
	}
	return soonest
}

// Snapshot returns a copy of the machine's state.
func (m *Machine) Snapshot() Snapshot {
	return Snapshot{
		State:      m.state,
		Generation: m.generation,
		Failures:   m.failures,
		Successes:  m.successes,
		Until:      m.until,
		Probes:     append([]Probe(nil), m.probes...),
		LastProbe:  m.lastProbe,
	}
}

// Restore puts the machine into the state of a snapshot, or leaves it as it
// was and returns an error if the snapshot cannot be one of a machine. The
// tickets of the snapshot stay good; those whose holders are gone are
// reclaimed when their leases end.
func (m *Machine) Restore(s Snapshot) error {
	var problems []error
	if s.State > HalfOpen {
		problems = append(problems, fmt.Errorf("circuit: snapshot has the unknown state %d", s.State))
	}
	if s.Failures < 0 || s.Successes < 0 {
		problems = append(problems, fmt.Errorf("circuit: snapshot has negative counts: %d failures, %d successes", s.Failures, s.Successes))
	}
	if len(s.Probes) > 0 && s.State != HalfOpen {
		problems = append(problems, fmt.Errorf("circuit: snapshot in the state %v has probes", s.State))
	}
	for i, probe := range s.Probes {
		if probe.ID == 0 || probe.ID > s.LastProbe || i > 0 && probe.ID <= s.Probes[i-1].ID {
			problems = append(problems, fmt.Errorf("circuit: snapshot has a probe %d out of order (the last is %d)", probe.ID, s.LastProbe))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	m.state, m.generation = s.State, s.Generation
	m.failures, m.successes = s.Failures, s.Successes
	m.until, m.lastProbe = s.Until, s.LastProbe
	m.probes = append(m.probes[:0:0], s.Probes...)
	return nil
}

func (m *Machine) open(now time.Time) {
	m.change(Open)
	m.until = now.Add(m.config.Timeout)
}

func (m *Machine) change(to State) {
	m.state = to
	m.generation++
	m.failures, m.successes = 0, 0
	m.until = time.Time{}
	m.probes = m.probes[:0]
}

// inFlight counts the permits that are out, after marking those whose lease
// has ended as lost.
func (m *Machine) inFlight(now time.Time) int {
	count := 0
	for i := range m.probes {
		probe := &m.probes[i]
		if !probe.Lost && m.remaining(probe.Until, m.config.Lease, now) <= 0 {
			probe.Lost = true
		}
		if !probe.Lost {
			count++
		}
	}
	return count
}

// giveBack removes a probe and reports whether it was there.
func (m *Machine) giveBack(id uint64) bool {
	for i, probe := range m.probes {
		if probe.ID == id {
			m.probes = append(m.probes[:i], m.probes[i+1:]...)
			return true
		}
	}
	return false
}

// forgetOldest makes room for one more probe.
func (m *Machine) forgetOldest() {
	if len(m.probes) < maxLost+m.config.HalfOpenRequests {
		return
	}
	for _, probe := range m.probes {
		if probe.Lost {
			m.giveBack(probe.ID)
			return
		}
	}
}

// remaining returns the time from now to until. More than span cannot be left
// of a wait of that length unless the clock was set back; then nothing is
// left, since how long it took is not known.
func (m *Machine) remaining(until time.Time, span time.Duration, now time.Time) time.Duration {
	if left := until.Sub(now); left <= span {
		return left
	}
	return 0
}
