package driver

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Machine is the pure half of a breaker: it is told the time and reads no
// clock, holds no lock and starts nothing. It is not safe for concurrent use.
//
// Time may stand still or go backwards between calls, as a wall clock does
// when it is set: no wait grows beyond its own length by that.
type Machine struct {
	config     Config // defaults filled in
	state      State
	generation uint64        // counts changes of state
	failures   int           // in a row, while closed
	successes  int           // in a row, while half-open
	until      time.Time     // end of the open state
	openings   int           // since it was last closed
	span       time.Duration // of the open state
	held       bool          // open until it is closed by hand
	window     window        // of the calls while closed, with rates
	probes     []Probe       // permits of half-open not yet answered
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
	// Openings counts how often it has opened since it was last closed, and OpenFor is
	// for how long the last time; both are 0 without Config.OpenFor.
	Openings  int           `json:"openings,omitempty"`
	OpenFor   time.Duration `json:"open_for,omitempty"`
	Probes    []Probe       `json:"probes,omitempty"`
	LastProbe uint64        `json:"last_probe,omitempty"`
	Held      bool          `json:"held,omitempty"` // open until it is closed by hand
	Window    *Window       `json:"window,omitempty"`
}

// maxLost bounds the memory of probes that never answered. One that is pushed
// out by so many later ones is taken for gone.
const maxLost = 1024

// NewMachine returns a closed machine, or the error of Config.Validate.
func NewMachine(config Config) (*Machine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	m := &Machine{config: config.withDefaults()}
	m.span = m.config.Timeout
	return m, nil
}

// Acquire asks to let an attempt through at the time now. The error is an
// *[OpenError]. Each ticket is to be answered with [Machine.Done] once.
func (m *Machine) Acquire(now time.Time) (Ticket, error) {
	if ticket, ok := m.acquire(now); ok {
		return ticket, nil
	}
	return Ticket{}, &OpenError{Name: m.config.Name, State: m.state, RetryAfter: m.retryAfter(now), Held: m.held}
}

func (m *Machine) acquire(now time.Time) (Ticket, bool) {
	if m.state == Open {
		if m.held {
			return Ticket{}, false
		}
		if m.until.Sub(now) > m.span { // the clock was set back
			m.until = now.Add(m.span)
		}
		if m.remaining(m.until, m.span, now) > 0 {
			return Ticket{}, false
		}
		m.change(HalfOpen)
	}
	ticket := Ticket{Generation: m.generation}
	if m.state == Closed {
		return ticket, true
	}
	m.reclaim(now)
	if m.inFlight(now) >= m.config.HalfOpenRequests {
		return Ticket{}, false
	}
	m.forgetOldest()
	m.lastProbe++
	ticket.Probe = m.lastProbe
	m.probes = append(m.probes, Probe{ID: ticket.Probe, Until: now.Add(m.config.Lease)})
	return ticket, true
}

// Done is DoneAfter for a call of which it is not known how long it took.
func (m *Machine) Done(ticket Ticket, outcome Outcome, now time.Time) {
	m.DoneAfter(ticket, outcome, 0, now)
}

// DoneAfter answers a ticket with the outcome of a call that took so long, which
// only Config.SlowCall looks at. An answer to a ticket of an earlier generation, a
// second answer to a ticket of half-open, and Neutral in the closed state
// change nothing. The tickets of the closed state are all alike, so a second
// answer to one of these cannot be told from another's: answer each once.
func (m *Machine) DoneAfter(ticket Ticket, outcome Outcome, took time.Duration, now time.Time) {
	if ticket.Generation != m.generation {
		return
	}
	slow := m.config.SlowCall > 0 && took >= m.config.SlowCall
	switch m.state {
	case Closed:
		m.doneClosed(outcome, slow, now)
	case HalfOpen:
		if slow && outcome == Success {
			outcome = Failure
		}
		m.doneHalfOpen(ticket, outcome, now)
	}
}

func (m *Machine) doneClosed(outcome Outcome, slow bool, now time.Time) {
	if m.config.rated() && m.rateReached(outcome, slow, now) {
		m.open(now)
		return
	}
	if m.config.FailureRate > 0 { // in place of failures in a row
		return
	}
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

// rateReached counts a call into the window and reports whether a rate is
// reached by it.
func (m *Machine) rateReached(outcome Outcome, slow bool, now time.Time) bool {
	if outcome == Neutral {
		return false
	}
	mark := byte(0)
	if outcome != Success {
		mark = callFailed
	}
	if slow {
		mark |= callSlow
	}
	m.window.add(&m.config, mark, now)
	return m.window.over(&m.config)
}

// Open opens the breaker by hand at the time now: for Config.Timeout, or, if
// hold, until Close is called.
func (m *Machine) Open(now time.Time, hold bool) {
	m.open(now)
	if hold {
		m.held, m.until = true, time.Time{}
	}
}

// Close closes the breaker by hand, with nothing counted.
func (m *Machine) Close() { m.change(Closed) }

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
	if m.state == Open && !m.held && m.remaining(m.until, m.span, now) <= 0 {
		return HalfOpen
	}
	return m.state
}

// RetryAfter changes nothing. It returns 0 if an attempt at the time now would be let through,
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
	if m.held {
		return 0
	}
	if m.state == Open {
		return m.remaining(m.until, m.span, now)
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
		Openings:   m.openings,
		OpenFor:    m.varied(),
		Probes:     append([]Probe(nil), m.probes...),
		LastProbe:  m.lastProbe,
		Held:       m.held,
		Window:     m.window.snapshot(),
	}
}

// Restore puts the machine into the state of a snapshot, or leaves it as it
// was and returns an error that names everything in the snapshot that no
// machine can have. Counts that the configuration would no longer allow are
// taken: the next call decides. The tickets of the snapshot stay good; those
// whose holders are gone are reclaimed when their leases end.
func (m *Machine) Restore(s Snapshot) error {
	if err := s.validate(); err != nil {
		return err
	}
	m.state, m.generation = s.State, s.Generation
	m.failures, m.successes = s.Failures, s.Successes
	m.until, m.lastProbe, m.held = s.Until, s.LastProbe, s.Held
	m.openings, m.span = s.Openings, m.config.Timeout
	if m.config.OpenFor != nil && s.Openings > 0 {
		m.span = s.OpenFor
	}
	m.probes = append(m.probes[:0:0], s.Probes...)
	m.window.restore(&m.config, s.Window)
	return nil
}

// Same reports whether s is in the state of other with the same counts: what is
// worth storing again has changed otherwise. Permits that are out make no
// difference.
func (s *Snapshot) Same(other *Snapshot) bool {
	return s.State == other.State && s.Failures == other.Failures && s.Successes == other.Successes && s.Held == other.Held &&
		s.Window.equal(other.Window)
}

// validate reports what cannot be together in one machine.
func (s *Snapshot) validate() error {
	var problems []error
	problem := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf("circuit: snapshot "+format, args...))
		}
	}
	problem(s.State > HalfOpen, "has the unknown state %d", s.State)
	problem(s.Failures < 0 || s.Successes < 0, "has negative counts: %d failures, %d successes", s.Failures, s.Successes)
	problem(s.Openings < 0 || s.OpenFor < 0, "has opened %d times, for %v", s.Openings, s.OpenFor)
	problem(s.Openings > 0 && s.State == Closed, "in the state %v counts openings", s.State)
	problem(s.Failures > 0 && s.State != Closed, "in the state %v counts failures in a row", s.State)
	problem(s.Successes > 0 && s.State != HalfOpen, "in the state %v counts successes in a row", s.State)
	problem(!s.Until.IsZero() && s.State != Open, "in the state %v has an end of being open", s.State)
	problem(s.State == Open && s.Until.IsZero() != s.Held, "is open with the end %v, held by hand %v", s.Until, s.Held)
	problem(s.Held && s.State != Open, "in the state %v is held open", s.State)
	problem(s.State != Closed && s.Generation == 0, "in the state %v has never changed", s.State)
	problem(len(s.Probes) > 0 && s.State != HalfOpen, "in the state %v has probes", s.State)
	problem(s.Window != nil && s.State != Closed, "in the state %v has a window of calls", s.State)
	if s.Window != nil {
		what := s.Window.problem()
		problem(what != "", "has a window with %s", what)
	}
	for i, probe := range s.Probes {
		problem(probe.ID == 0 || probe.ID > s.LastProbe || i > 0 && probe.ID <= s.Probes[i-1].ID,
			"has a probe %d out of order (the last is %d)", probe.ID, s.LastProbe)
		problem(probe.Until.IsZero(), "has a probe %d without an end of its lease", probe.ID)
	}
	return errors.Join(problems...)
}

func (m *Machine) open(now time.Time) {
	span, openings := m.config.Timeout, 0
	if m.config.OpenFor != nil {
		openings = min(m.openings, math.MaxInt-1) + 1
		span = max(m.config.OpenFor(openings), 0) // before anything changes: it may panic
	}
	m.change(Open)
	m.until, m.openings, m.span = now.Add(span), openings, span
}

// varied is the length of the last opening, if Config.OpenFor has given it.
func (m *Machine) varied() time.Duration {
	if m.openings == 0 {
		return 0
	}
	return m.span
}

func (m *Machine) change(to State) {
	m.state = to
	m.generation++
	m.failures, m.successes = 0, 0
	m.until, m.held = time.Time{}, false
	if to == Closed {
		m.openings = 0
	}
	m.window.clear()
	m.probes = m.probes[:0]
}

// inFlight counts the permits that are out and whose lease has not ended.
func (m *Machine) inFlight(now time.Time) int {
	count := 0
	for i := range m.probes {
		if probe := &m.probes[i]; !probe.Lost && m.remaining(probe.Until, m.config.Lease, now) > 0 {
			count++
		}
	}
	return count
}

// reclaim marks the permits whose lease has ended as lost. A lease that ends
// later than it can, since the clock was set back, ends after its length.
func (m *Machine) reclaim(now time.Time) {
	for i := range m.probes {
		probe := &m.probes[i]
		if probe.Until.Sub(now) > m.config.Lease {
			probe.Until = now.Add(m.config.Lease)
		}
		if m.remaining(probe.Until, m.config.Lease, now) <= 0 {
			probe.Lost = true
		}
	}
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

// remaining returns the time from now to until, and no more than span, which is
// all that can be left of a wait of that length.
func (m *Machine) remaining(until time.Time, span time.Duration, now time.Time) time.Duration {
	return min(until.Sub(now), span)
}
