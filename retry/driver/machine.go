package driver

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bide-dev/bide/backoff"
)

// Action is what a [Decision] says to do.
type Action uint8

// The actions.
const (
	ActionDone  Action = iota // the operation has succeeded
	ActionRetry               // wait for Decision.Delay, then make another attempt
	ActionStop                // the operation has failed for Decision.Reason
)

// String returns done, retry or stop.
func (a Action) String() string {
	switch a {
	case ActionDone:
		return "done"
	case ActionRetry:
		return "retry"
	default:
		return "stop"
	}
}

// Decision is what a [Machine] says after an attempt.
type Decision struct {
	Action Action
	// Delay is how long to wait before the next attempt; 0 unless Action is
	// ActionRetry.
	Delay time.Duration
	// Reason is why to stop; ReasonNone unless Action is ActionStop.
	Reason Reason
	// Source is where the delay comes from: SourcePolicy, or SourceRetryAfter
	// if the error asked for more than the policy.
	Source Source
	// RetryAfter is the wait that the failed attempt's error asked for, 0 if
	// none, negative if it asked for no retry.
	RetryAfter time.Duration
}

// Source is what an attempt waits for.
type Source uint8

// The sources.
const (
	SourcePolicy     Source = iota // the delay of the policy
	SourceRetryAfter               // the hint of the error of the attempt before
	SourceRateLimit                // a token of a rate
	SourceLimit                    // a slot of a limit of concurrency
)

var sourceNames = [...]string{"policy", "retry_after", "rate_limit", "limit"}

// String returns the source's name, in lower case with underscores.
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return fmt.Sprintf("Source(%d)", uint8(s))
}

// State is what a [Machine] remembers, for a journal. With it and the same
// policy [ResumeMachine] continues where the machine was.
type State struct {
	// Attempt is the number of attempts that have failed.
	Attempt int `json:"attempt"`
	// Slept is the sum of the delays decided so far.
	Slept time.Duration `json:"slept,omitempty"`
	// Prev is the last delay; decorrelated jitter grows from it.
	Prev time.Duration `json:"prev,omitempty"`
	// Began is when the first attempt began, as far as the clock was read;
	// Policy.Deadline counts from it.
	Began time.Time `json:"began,omitzero"`
	// FirstFailure is when the first attempt failed.
	FirstFailure time.Time `json:"first_failure,omitzero"`
	// Due is when the next attempt is to begin.
	Due time.Time `json:"due,omitzero"`
	// Charged is whether the retry to come has a token of Policy.Quota, which
	// comes back if the retry succeeds.
	Charged bool `json:"charged,omitempty"`
	// Rules are the counts of Policy.Rules, in their order.
	Rules []RuleState `json:"rules,omitempty"`
}

// Machine decides after each attempt of one operation whether and when there
// is another. It reads no clock and does nothing; besides itself it touches
// only what the policy shares between operations, Rand and Quota. retry.Get drives
// it on the real clock; whoever drives it otherwise, in simulated time or from
// a journal, gets the same decisions.
//
// A Machine is for one goroutine. The policy must outlive it unchanged, and is
// taken to be valid.
type Machine struct {
	policy   *Policy
	state    State
	started  time.Time // of this life
	deadline time.Time // the caller's
}

// NewMachine returns the machine of an operation that begins at the time now
// and has made no attempt.
func NewMachine(p *Policy, now time.Time) Machine {
	return Machine{policy: p, started: now, state: State{Began: now}}
}

// ResumeMachine returns the machine of an operation that was interrupted with
// the state s, and what to do at the time now: ActionRetry after what is left of
// the wait, or ActionStop because the attempts are used up, because the deadline of the
// policy is over or would be before the end of the wait, or because of
// Policy.BudgetExpires.
func ResumeMachine(p *Policy, s State, now time.Time) (Machine, Decision) {
	s.Attempt = max(s.Attempt, 0)
	s.Slept = max(s.Slept, 0)
	s.Rules = slices.Clone(s.Rules)
	if s.Began.IsZero() { // a record without it
		s.Began = s.FirstFailure
	}
	if s.Began.IsZero() {
		s.Began = now
	}
	// Should the wall clock have been set back, the deadline and the budget begin again,
	// and no more is waited for again than the longest delay, or than all delays so far.
	if s.Began.After(now) {
		s.Began = now
	}
	if s.FirstFailure.After(now) {
		s.FirstFailure = now
	}
	m := Machine{policy: p, state: s, started: now}
	delay := min(max(s.Due.Sub(now), 0), p.longestDelay())
	if s.Slept > 0 {
		delay = min(delay, s.Slept)
	}
	if s.Due.IsZero() {
		delay = 0
	}
	switch {
	case p.BudgetExpires && !s.FirstFailure.IsZero() && !now.Before(s.FirstFailure.Add(p.Budget)):
		return m, stop(ReasonExpired)
	case s.Attempt >= p.attempts():
		return m, stop(ReasonAttempts)
	case p.Deadline > 0 && delay >= m.ends().Sub(now):
		return m, stop(ReasonDeadline)
	}
	return m, Decision{Action: ActionRetry, Delay: delay}
}

// longestDelay is the greatest delay that any failed attempt can be given.
func (p *Policy) longestDelay() time.Duration {
	longest := max(p.Backoff.Cap(), p.retryAfterMax())
	for i := range p.Rules {
		if b := p.Rules[i].Backoff; b != nil {
			longest = max(longest, b.Cap())
		}
	}
	return longest
}

// ends is when the deadline of the policy is over, if it has one.
func (m *Machine) ends() time.Time { return m.state.Began.Add(m.policy.Deadline) }

// SetDeadline sets the time by which the caller wants the operation to end; a
// wait that would last until then or longer is not begun. The zero time means
// none. The deadline of the policy is kept besides.
func (m *Machine) SetDeadline(t time.Time) { m.deadline = t }

// elapsed returns the time since the operation began, or was resumed.
func (m *Machine) elapsed(now time.Time) time.Duration { return now.Sub(m.started) }

// State returns what the machine remembers.
func (m *Machine) State() State {
	s := m.state
	s.Began = s.Began.Round(0) // the wall clock alone survives a restart
	s.FirstFailure = s.FirstFailure.Round(0)
	s.Due = s.Due.Round(0)
	s.Rules = slices.Clone(s.Rules)
	return s
}

// Next is told how an attempt ended, nil for success, and at what time, and
// says what to do. An error that carries a *[circuit.OpenError] is the refusal
// of an attempt by a breaker. That an error carries context.Canceled means
// nothing: whoever drives the machine knows whether the operation itself was
// cancelled, and does not ask then.
//
// The time is used for deadlines and state alone; it may be zero if neither is.
func (m *Machine) Next(err error, now time.Time) Decision {
	if err == nil {
		m.succeeded()
		return Decision{Action: ActionDone}
	}
	found := inspect(err)
	if found.has(refused) && !m.acceptsRefusal(err) {
		return m.refuse(found, ReasonCircuitOpen)
	}
	return m.failed(err, found, now)
}

// Refused is told that the attempt was not let through, by a breaker or by a
// limit, and says what to do: ActionStop, unless If or a rule accepts the error, for
// then the refusal is a failed attempt.
func (m *Machine) Refused(err error, now time.Time) Decision {
	found := inspect(err)
	switch {
	case m.acceptsRefusal(err):
		return m.failed(err, found, now)
	case found.has(refused):
		return m.refuse(found, ReasonCircuitOpen)
	}
	return m.refuse(found, ReasonLimit)
}

func (m *Machine) refuse(found traits, reason Reason) Decision {
	m.Cancel() // what was charged for was not done
	return Decision{Action: ActionStop, Reason: reason, RetryAfter: found.hint}
}

// failed counts a failed attempt and decides about it.
func (m *Machine) failed(err error, found traits, now time.Time) Decision {
	m.count(now)
	d := m.decide(err, found, now)
	d.RetryAfter = found.hint
	if d.Action == ActionRetry {
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
	if m.state.Charged {
		m.state.Charged = false
		if m.policy.Quota != nil {
			m.policy.Quota.giveBack()
		}
	}
}

// acceptsRefusal reports whether a refusal by a breaker or a limit is to be
// retried: only a policy that names it says so.
func (m *Machine) acceptsRefusal(err error) bool {
	p := m.policy
	return p.rule(err) >= 0 || p.If != nil && p.If(err)
}

func (m *Machine) succeeded() {
	if m.state.Attempt == 0 && m.policy.Quota != nil {
		m.policy.Quota.deposit()
	}
	m.Cancel() // the retry was worth its token
}

// count counts a failed attempt.
func (m *Machine) count(now time.Time) {
	m.state.Charged = false
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
	if found.has(final) {
		return stop(ReasonNotRetryable)
	}
	if p.AbortOn != nil && p.AbortOn(err) {
		return stop(ReasonAborted)
	}
	var rule *Rule
	var counts *RuleState
	if i := p.rule(err); i >= 0 {
		rule, counts = &p.Rules[i], m.state.count(p, i)
	}
	switch {
	case rule == nil && p.If != nil && !p.If(err):
		return stop(ReasonNotRetryable)
	case m.state.Attempt >= p.attempts(), rule != nil && rule.Attempts > 0 && counts.Attempt >= rule.Attempts:
		return stop(ReasonAttempts)
	case found.hint < 0 || found.hint > p.retryAfterMax():
		return stop(ReasonRetryAfter)
	}
	delay, source := m.delay(rule, counts, found.hint)
	switch {
	case p.Budget > 0 && delay > p.Budget-m.state.Slept, rule != nil && rule.Budget > 0 && delay > rule.Budget-counts.Slept:
		return stop(ReasonBudget)
	case p.Deadline > 0 && delay >= m.ends().Sub(now):
		return stop(ReasonDeadline)
	case !m.deadline.IsZero() && delay >= m.deadline.Sub(now):
		return stop(ReasonCallerDeadline)
	case p.Quota != nil && !p.Quota.take():
		return stop(ReasonQuota)
	}
	m.state.Charged = p.Quota != nil
	if counts != nil {
		counts.Slept = addSaturated(counts.Slept, delay)
	}
	return Decision{Action: ActionRetry, Delay: delay, Source: source}
}

// delay returns the delay that the schedule gives, or more if the error of the
// attempt asks for it. A rule has its own count and its own last delay.
func (m *Machine) delay(rule *Rule, counts *RuleState, hint time.Duration) (_ time.Duration, source Source) {
	p := m.policy
	b, n, prev := &p.Backoff, m.state.Attempt, &m.state.Prev
	if rule != nil {
		n, prev = counts.Attempt, &counts.Prev
		if rule.Backoff != nil {
			b = rule.Backoff
		}
	}
	switch {
	case hint > 0:
		if least, _ := b.Range(n, *prev); hint > least {
			source = SourceRetryAfter
		}
		*prev = b.DelayAtLeast(hint, p.retryAfterMax(), n, *prev, p.Rand)
	case b.Initial == 0 && b.Strategy == nil && b.Jitter == backoff.None:
		*prev = 0 // retries at once are not to wait for the arithmetic
	default:
		*prev = b.Delay(n, *prev, p.Rand)
	}
	return *prev, source
}

func stop(r Reason) Decision { return Decision{Action: ActionStop, Reason: r} }

func addSaturated(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a { // a, b ≥ 0
		return sum
	}
	return math.MaxInt64
}
