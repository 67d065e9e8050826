package retry

import (
	"math"
	"time"

	"github.com/bide-dev/bide/backoff"
)

// Action is what a [Decision] says to do.
type Action uint8

// The actions.
const (
	Done  Action = iota // the operation has succeeded
	Retry               // wait for Decision.Delay, then make another attempt
	Stop                // the operation has failed for Decision.Reason
)

// String returns done, retry or stop.
func (a Action) String() string {
	switch a {
	case Done:
		return "done"
	case Retry:
		return "retry"
	default:
		return "stop"
	}
}

// Decision is what a [Machine] says after an attempt.
type Decision struct {
	Action Action
	// Delay is how long to wait before the next attempt; 0 unless Action is
	// Retry.
	Delay time.Duration
	// Reason is why to stop; ReasonNone unless Action is Stop.
	Reason Reason
	// RetryAfter is the wait that the failed attempt's error asked for, 0 if
	// none, negative if it asked for no retry.
	RetryAfter time.Duration
}

// State is what a [Machine] remembers, for a journal. With it and the same
// policy [ResumeMachine] goes on where the machine was.
type State struct {
	// Attempt is the number of attempts that have failed.
	Attempt int `json:"attempt"`
	// Slept is the sum of the delays decided so far.
	Slept time.Duration `json:"slept,omitempty"`
	// Prev is the last delay; decorrelated jitter grows from it.
	Prev time.Duration `json:"prev,omitempty"`
	// FirstFailure is when the first attempt failed.
	FirstFailure time.Time `json:"first_failure,omitzero"`
	// Due is when the next attempt is to begin.
	Due time.Time `json:"due,omitzero"`
}

// Machine decides after each attempt of one operation whether and when there
// is another. It reads no clock and does nothing; besides itself it touches
// only what the policy shares between operations, Rand and Quota. [Do] drives
// it on the real clock; whoever drives it otherwise, in simulated time or from
// a journal, gets the same decisions.
//
// A Machine is for one goroutine. The policy must outlive it unchanged, and is
// taken to be valid.
type Machine struct {
	policy   *Policy
	state    State
	started  time.Time
	deadline time.Time
	charged  bool // a token of the quota was taken for the attempt to come
}

// NewMachine returns the machine of an operation that begins at the time now
// and has made no attempt.
func NewMachine(p *Policy, now time.Time) Machine {
	return Machine{policy: p, started: now}
}

// ResumeMachine returns the machine of an operation that was interrupted with
// the state s, and what to do at the time now: Retry after what is left of the
// wait, or Stop because the attempts are used up or because the first failure
// was as long ago as the budget or longer.
func ResumeMachine(p *Policy, s State, now time.Time) (Machine, Decision) {
	s.Attempt = max(s.Attempt, 0)
	s.Slept = max(s.Slept, 0)
	m := Machine{policy: p, state: s, started: now}
	switch {
	case p.Budget > 0 && !s.FirstFailure.IsZero() && !now.Before(s.FirstFailure.Add(p.Budget)):
		return m, Decision{Action: Stop, Reason: ReasonExpired}
	case s.Attempt >= p.attempts():
		return m, Decision{Action: Stop, Reason: ReasonAttempts}
	case s.Due.IsZero():
		return m, Decision{Action: Retry}
	}
	// Should the wall clock have been set back, no more than the longest
	// delay is waited for again.
	longest := max(p.Backoff.Cap(), p.retryAfterMax())
	return m, Decision{Action: Retry, Delay: min(max(s.Due.Sub(now), 0), longest)}
}

// SetDeadline sets the time by which the operation has to end; a wait that
// would last until then or longer is not begun. The zero time means none.
func (m *Machine) SetDeadline(t time.Time) { m.deadline = t }

// Elapsed returns the time since the operation began, or was resumed.
func (m *Machine) Elapsed(now time.Time) time.Duration { return now.Sub(m.started) }

// State returns what the machine remembers.
func (m *Machine) State() State {
	s := m.state
	s.FirstFailure = s.FirstFailure.Round(0) // the wall clock alone survives a restart
	s.Due = s.Due.Round(0)
	return s
}

// Next is told how an attempt ended, nil for success, and at what time, and
// says what to do. An error that carries a *[circuit.OpenError] is the refusal
// of an attempt by a breaker. One that carries context.Canceled is a
// cancellation, which is never retried.
//
// The time is used for deadline and state alone; it may be zero if neither is.
func (m *Machine) Next(err error, now time.Time) Decision {
	if err == nil {
		m.succeeded()
		return Decision{Action: Done}
	}
	found := inspect(err)
	if found.has(refused) && !m.acceptsRefusal(err) {
		m.Cancel() // what was charged for was not done
		return Decision{Action: Stop, Reason: ReasonCircuitOpen, RetryAfter: found.hint}
	}
	m.failed(now)
	d := m.decide(err, found, now)
	d.RetryAfter = found.hint
	if d.Action == Retry {
		m.state.Slept = addSaturated(m.state.Slept, d.Delay)
		if !now.IsZero() {
			m.state.Due = now.Add(d.Delay)
		}
	}
	return d
}

// Cancel says that the attempt which Next has allowed will not be made. It
// gives back what the quota took for it.
func (m *Machine) Cancel() {
	if m.charged {
		m.charged = false
		m.policy.Quota.giveBack()
	}
}

// acceptsRefusal reports whether a refusal by a breaker is to be retried: only
// a policy that names it says so.
func (m *Machine) acceptsRefusal(err error) bool {
	return m.policy.RetryOn != nil && m.policy.RetryOn(err)
}

func (m *Machine) succeeded() {
	if m.state.Attempt == 0 && m.policy.Quota != nil {
		m.policy.Quota.deposit()
	}
	m.Cancel() // the retry was worth its token
}

// failed counts a failed attempt.
func (m *Machine) failed(now time.Time) {
	m.charged = false
	if m.state.Attempt > 0 {
		m.state.Due = time.Time{}
	} else {
		m.state.FirstFailure = now
		if m.policy.Quota != nil {
			m.policy.Quota.deposit()
		}
	}
	if m.state.Attempt < math.MaxInt {
		m.state.Attempt++
	}
}

// decide is the whole decision about a failed attempt, in the order of
// precedence: what the error is, then what bounds the number of attempts, then
// what bounds the wait.
func (m *Machine) decide(err error, found traits, now time.Time) Decision {
	p := m.policy
	switch {
	case found.has(cancelled):
		return stop(ReasonCancelled)
	case found.has(permanent):
		return stop(ReasonNotRetryable)
	case p.AbortOn != nil && p.AbortOn(err):
		return stop(ReasonAborted)
	case p.RetryOn != nil && !p.RetryOn(err):
		return stop(ReasonNotRetryable)
	case m.state.Attempt >= p.attempts():
		return stop(ReasonAttempts)
	case found.hint < 0 || found.hint > p.retryAfterMax():
		return stop(ReasonRetryAfter)
	}
	delay := m.delay(found.hint)
	switch {
	case p.Budget > 0 && delay > p.Budget-m.state.Slept:
		return stop(ReasonBudget)
	case !m.deadline.IsZero() && delay >= m.deadline.Sub(now):
		return stop(ReasonDeadline)
	case p.Quota != nil && !p.Quota.take():
		return stop(ReasonQuota)
	}
	m.charged = p.Quota != nil
	return Decision{Action: Retry, Delay: delay}
}

// delay returns the delay that the schedule gives, or more if the error of the
// attempt asks for it.
func (m *Machine) delay(hint time.Duration) time.Duration {
	p, s := m.policy, &m.state
	if b := &p.Backoff; hint <= 0 && b.Initial == 0 && b.Strategy == nil && b.Jitter == backoff.None {
		s.Prev = 0 // retries at once are not to wait for the arithmetic
		return 0
	}
	if hint > 0 {
		s.Prev = p.Backoff.DelayAtLeast(hint, p.retryAfterMax(), s.Attempt, s.Prev, p.Rand)
	} else {
		s.Prev = p.Backoff.Delay(s.Attempt, s.Prev, p.Rand)
	}
	return s.Prev
}

func stop(r Reason) Decision { return Decision{Action: Stop, Reason: r} }

func addSaturated(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a { // a, b ≥ 0
		return sum
	}
	return math.MaxInt64
}
