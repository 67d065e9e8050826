// Package circuit is a circuit breaker: it stops calls to a target that keeps
// failing, waits, and lets a few calls through to see whether it has recovered.
//
//	     failures in a row, or a rate       timeout, next call
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
// or leaves all that to [Do] and [Get]:
//
//	page, err := circuit.Get(ctx, breaker, fetch)
//
// What opens it is a number of failures in a row, or, with Config.FailureRate
// or Config.SlowRate, the share of failed or slow calls among the last calls or
// in the last time. [Breaker.Open] and [Breaker.Close] do it by hand.
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
// [Breaker] is the same Machine behind a lock, on the real clock or on one that it
// is given.
package circuit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
	// [Breaker] without Config.Now rounds it up, by a thousandth of Config.Timeout
	// or a millisecond, whichever is less.
	RetryAfter time.Duration
	// Held is whether it was opened by hand and stays open until somebody
	// closes it; RetryAfter is then 0.
	Held bool
}

// Error names the breaker and says when to come back.
func (e *OpenError) Error() string {
	name := "circuit"
	if e.Name != "" {
		name = fmt.Sprintf("circuit %q", e.Name)
	}
	if e.Held {
		return name + " is held open by hand"
	}
	if e.State == HalfOpen {
		return fmt.Sprintf("%s is half-open and all its probes are running; one is free in %v at the latest", name, readable(e.RetryAfter))
	}
	return fmt.Sprintf("%s is open; it lets a probe through in %v", name, readable(e.RetryAfter))
}

// readable rounds a wait up to what a person reads: whole seconds from ten
// seconds on, whole milliseconds below. RetryAfter itself stays exact.
func readable(d time.Duration) time.Duration {
	unit := time.Millisecond
	if d >= 10*time.Second {
		unit = time.Second
	}
	if short := d.Truncate(unit); short < d && short <= math.MaxInt64-unit {
		return short + unit
	}
	return d.Truncate(unit)
}

// Is reports whether target is [ErrOpen].
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// Config is the settings of a breaker. The zero value is usable: every zero
// field means its default. Its numbers can be sent as JSON.
type Config struct {
	// Name is shown in errors and changes.
	Name string `json:"-"`

	// FailureThreshold is how many failures in a row open the breaker; 0
	// means 5.
	FailureThreshold int `json:"failure_threshold,omitempty"`

	// FailureRate opens the breaker when at least this share of the calls in
	// the window have failed, whatever became of the last of them, more than 0
	// and at most 1. It replaces
	// FailureThreshold. 0 means that failures in a row are counted.
	FailureRate float64 `json:"failure_rate,omitempty"`

	// SlowCall is how long a call may take before it counts as slow, and
	// SlowRate opens the breaker when at least this share of the calls in the
	// window were slow, failed or not. Both or none are set; in half-open a
	// slow call is a failure. Failures open it as well, by FailureRate or, without
	// that, by FailureThreshold.
	SlowCall time.Duration `json:"slow_call,omitempty"`
	SlowRate float64       `json:"slow_rate,omitempty"`

	// Window is of how many of the last calls the rates are taken; 0 means 100,
	// unless WindowTime is set.
	Window int `json:"window,omitempty"`

	// WindowTime makes the rates those of the calls of the last time, counted
	// in tenths of it. Only one of Window and WindowTime is set.
	WindowTime time.Duration `json:"window_time,omitempty"`

	// MinCalls is how many calls the window must hold before a rate can open
	// the breaker; 0 means 10, or Window if that is less.
	MinCalls int `json:"min_calls,omitempty"`

	// FailureIf says of the error of a call whether it counts as a failure:
	// otherwise it is a success. nil means that every error is a failure.
	FailureIf func(error) bool `json:"-"`

	// IgnoreIf says of the error of a call whether it says nothing about the
	// target: it is then [Neutral], whatever FailureIf says. nil means that no
	// call is.
	IgnoreIf func(error) bool `json:"-"`

	// SuccessThreshold is how many successes in a row close it again from
	// half-open; 0 means 3.
	SuccessThreshold int `json:"success_threshold,omitempty"`

	// Timeout is how long it stays open; 0 means 30s.
	Timeout time.Duration `json:"timeout,omitempty"`

	// OpenFor gives how long it stays open, in place of Timeout: opening counts the
	// times that it has opened since it was last closed, from 1, so that a target which
	// fails its probes is left alone for longer each time. The method Base of a
	// backoff.Schedule is such a function, and one with jitter keeps many clients
	// apart. It is called while the breaker is locked, and must not use it.
	OpenFor func(opening int) time.Duration `json:"-"`

	// HalfOpenRequests is how many permits may be out at a time in half-open;
	// 0 means 3.
	HalfOpenRequests int `json:"half_open_requests,omitempty"`

	// Lease is how long a permit of half-open is waited for before another
	// may be given in its place; 0 means Timeout. It need not cover the
	// longest call: the answer of a call that outlives its lease still
	// counts while the breaker is half-open.
	Lease time.Duration `json:"lease,omitempty"`

	// Now gives the time to a [Breaker], in place of time.Now; it must be safe for
	// concurrent use. A [Machine] is told the time.
	Now func() time.Time `json:"-"`

	// Store, if not nil, keeps the state of a [Breaker] under the key: New begins
	// with the state that is stored, and each change is stored. A [Machine] is
	// told its state by [Machine.Restore].
	Store Store  `json:"-"`
	Key   string `json:"-"`

	// OnChange is told each change of state of a [Breaker], one at a time and
	// in order, while no lock is held: it may call the breaker. It runs in a
	// goroutine that uses the breaker, which waits for it. A [Machine] does
	// not call it.
	OnChange func(Change) `json:"-"`
}

// Store keeps the states of breakers, so that a program that starts again has
// them as they were. It must be safe for concurrent use.
type Store interface {
	// Load returns the state that was saved last under the key, if there is one.
	// Probes in it are dropped: nobody answers for them any more.
	Load(key string) (Snapshot, bool)
	// Save is called with each change of the state, of the counts that lead to one,
	// and of the window of calls, in order. The breaker is locked meanwhile: Save
	// must not use it.
	Save(key string, before, after Snapshot)
}

// The defaults of [Config].
const (
	DefaultFailureThreshold = 5
	DefaultSuccessThreshold = 3
	DefaultTimeout          = 30 * time.Second
	DefaultHalfOpenRequests = 3
	DefaultWindow           = 100
	DefaultMinCalls         = 10
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
		{"window", c.Window},
		{"fewest calls", c.MinCalls},
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
	problem := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf("circuit: "+format, args...))
		}
	}
	problem(!(c.FailureRate >= 0 && c.FailureRate <= 1), "failure rate is %v; it must be from 0.0 to 1.0", c.FailureRate)
	problem(!(c.SlowRate >= 0 && c.SlowRate <= 1), "slow rate is %v; it must be from 0.0 to 1.0", c.SlowRate)
	problem(c.SlowCall < 0, "a slow call is %v; it must be positive, or 0 for none", c.SlowCall)
	problem((c.SlowCall > 0) != (c.SlowRate > 0), "a slow call is %v and the slow rate %v; set both or none", c.SlowCall, c.SlowRate)
	problem(c.WindowTime < 0 || c.WindowTime > 0 && c.WindowTime < buckets, "window time is %v; it must be %v or more, or 0 for a window of calls", c.WindowTime, time.Duration(buckets))
	problem(c.Window > 0 && c.WindowTime > 0, "there is a window of %d calls and one of %v; set one", c.Window, c.WindowTime)
	problem(!c.rated() && (c.Window > 0 || c.WindowTime > 0 || c.MinCalls > 0), "there is a window but no rate; set FailureRate or SlowRate")
	problem(c.Window > 0 && c.MinCalls > c.Window, "the fewest calls are %d, but the window holds %d", c.MinCalls, c.Window)
	problem(c.FailureRate > 0 && c.FailureThreshold > 0, "there is a failure rate and a failure threshold; set one")
	return errors.Join(problems...)
}

// rated reports whether rates open the breaker.
func (c *Config) rated() bool { return c.FailureRate > 0 || c.SlowRate > 0 }

// withDefaults returns c with each zero field resolved.
func (c Config) withDefaults() Config {
	c.FailureThreshold = cmp.Or(c.FailureThreshold, DefaultFailureThreshold)
	c.SuccessThreshold = cmp.Or(c.SuccessThreshold, DefaultSuccessThreshold)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.HalfOpenRequests = cmp.Or(c.HalfOpenRequests, DefaultHalfOpenRequests)
	c.Lease = cmp.Or(c.Lease, c.Timeout)
	if c.rated() && c.Window == 0 && c.WindowTime == 0 {
		c.Window = DefaultWindow
	}
	if c.MinCalls == 0 {
		c.MinCalls = DefaultMinCalls
		if c.Window > 0 {
			c.MinCalls = min(c.MinCalls, c.Window)
		}
	}
	return c
}
