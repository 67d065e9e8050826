// Package circuit is a circuit breaker: it stops calls to a target that keeps
// failing, waits, and lets a few calls through to see whether it has recovered.
//
//	         failures in a row              timeout, next call
//	closed ────────────────────▶ open ────────────────────▶ half-open
//	   ▲                           ▲                          │   │
//	   │                           └──────── a failure ───────┘   │
//	   └──────────────────── successes in a row ──────────────────┘
//
// A call asks for a permit, does its work, and answers with the outcome:
//
//	permit, err := breaker.Acquire()
//	if err != nil {
//		return err // an *OpenError: come back later
//	}
//	defer permit.Done(circuit.Failure) // for panics; does nothing after the line below
//	if err = work(); err == nil {
//		permit.Done(circuit.Success)
//	}
//
// or leaves all that to [Breaker.Call].
//
// Three things keep a breaker honest. Each change of state begins a new
// generation, and an answer from an earlier one changes nothing, so that slow
// calls from before the failure neither open nor close it. The permits of the
// half-open state are limited in number, however many ask at once. And each of
// them is lent for a time, the lease: a call that hangs, or a holder that
// forgets, costs the breaker one lease and not its life.
//
// [Machine] holds all decisions without a clock, a lock or a goroutine; it is
// what to use in simulated time or where state must survive a restart.
// [Breaker] is the same Machine behind a lock, on the real clock.
package circuit

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// State is one of the three states of a breaker.
type State uint8

// The states.
const (
	Closed   State = iota // calls pass
	Open                  // calls are refused
	HalfOpen              // a limited number of calls pass at a time
)

var stateNames = [...]string{"closed", "open", "half_open"}

// String returns closed, open or half_open.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MarshalJSON writes the state's name.
func (s State) MarshalJSON() ([]byte, error) {
	if int(s) >= len(stateNames) {
		return nil, fmt.Errorf("circuit: unknown state %d", uint8(s))
	}
	return json.Marshal(s.String())
}

// UnmarshalJSON reads the state's name.
func (s *State) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return fmt.Errorf("circuit: state: %w", err)
	}
	for i, known := range stateNames {
		if name == known {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("circuit: unknown state %q; it is closed, open or half_open", name)
}

// Outcome is the answer to a permit.
type Outcome uint8

// The outcomes. The zero value is Failure, so that an answer that was
// forgotten counts against the target.
const (
	Failure Outcome = iota
	Success
	// Neutral gives the permit back and says nothing about the target: the
	// call was cancelled, or failed for a reason of its own.
	Neutral
)

// String returns failure, success or neutral.
func (o Outcome) String() string {
	switch o {
	case Failure:
		return "failure"
	case Success:
		return "success"
	case Neutral:
		return "neutral"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Change is one change of state, as told to Config.OnChange.
type Change struct {
	Name string // Config.Name
	From State
	To   State
	Time time.Time
}

// ErrOpen is what errors.Is finds in every [OpenError].
var ErrOpen = errors.New("circuit open")

// OpenError says that a call was not let through.
type OpenError struct {
	// Name is that of the breaker; it may be empty.
	Name string
	// State is Open, or HalfOpen when all permits are out.
	State State
	// RetryAfter is how long the breaker surely refuses, in the state Open;
	// in the state HalfOpen, after how long a permit is free at the latest. A
	// [Breaker] rounds it up, by a thousandth of Config.Timeout or a
	// millisecond, whichever is less.
	RetryAfter time.Duration
}

// Error names the breaker and says when to come back.
func (e *OpenError) Error() string {
	name := "circuit"
	if e.Name != "" {
		name = fmt.Sprintf("circuit %q", e.Name)
	}
	if e.State == HalfOpen {
		return fmt.Sprintf("%s is half-open and all its probes are running; one is free in %v at the latest", name, e.RetryAfter)
	}
	return fmt.Sprintf("%s is open; it lets a probe through in %v", name, e.RetryAfter)
}

// Is reports whether target is [ErrOpen].
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// Config is the settings of a breaker. The zero value is usable: every zero
// field means its default.
type Config struct {
	// Name is shown in errors and changes.
	Name string

	// FailureThreshold is how many failures in a row open the breaker; 0
	// means 5.
	FailureThreshold int

	// SuccessThreshold is how many successes in a row close it again from
	// half-open; 0 means 3.
	SuccessThreshold int

	// Timeout is how long it stays open; 0 means 30s.
	Timeout time.Duration

	// HalfOpenRequests is how many permits may be out at a time in half-open;
	// 0 means 3.
	HalfOpenRequests int

	// Lease is how long a permit of half-open is waited for before another
	// may be given in its place; 0 means Timeout. It need not cover the
	// longest call: the answer of a call that outlives its lease still
	// counts while the breaker is half-open.
	Lease time.Duration

	// OnChange is told each change of state of a [Breaker], one at a time and
	// in order, while no lock is held: it may call the breaker. It runs in a
	// goroutine that uses the breaker, which waits for it. A [Machine] does
	// not call it.
	OnChange func(Change)
}

// The defaults of [Config].
const (
	DefaultFailureThreshold = 5
	DefaultSuccessThreshold = 3
	DefaultTimeout          = 30 * time.Second
	DefaultHalfOpenRequests = 3
)

// Validate reports every field that is out of its range, joined, or nil.
func (c Config) Validate() error {
	var problems []error
	for _, field := range []struct {
		name  string
		value int
	}{
		{"failure threshold", c.FailureThreshold},
		{"success threshold", c.SuccessThreshold},
		{"half-open requests", c.HalfOpenRequests},
	} {
		if field.value < 0 {
			problems = append(problems, fmt.Errorf("circuit: %s is %d; it must be 1 or more, or 0 for the default", field.name, field.value))
		}
	}
	if c.Timeout < 0 {
		problems = append(problems, fmt.Errorf("circuit: timeout is %v; it must be positive, or 0 for the default", c.Timeout))
	}
	if c.Lease < 0 {
		problems = append(problems, fmt.Errorf("circuit: lease is %v; it must be positive, or 0 for the timeout", c.Lease))
	}
	return errors.Join(problems...)
}

// withDefaults returns c with each zero field resolved.
func (c Config) withDefaults() Config {
	if c.FailureThreshold == 0 {
		c.FailureThreshold = DefaultFailureThreshold
	}
	if c.SuccessThreshold == 0 {
		c.SuccessThreshold = DefaultSuccessThreshold
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.HalfOpenRequests == 0 {
		c.HalfOpenRequests = DefaultHalfOpenRequests
	}
	if c.Lease == 0 {
		c.Lease = c.Timeout
	}
	return c
}
