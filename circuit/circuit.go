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
// Package circuit/driver is what this package is made of: the decisions without a
// clock, a lock or a goroutine, for those who drive calls themselves.
package circuit

import (
	"time"

	"github.com/bide-dev/bide/circuit/driver"
)

// State is one of the three states of a breaker. Its text is closed, open or
// half_open.
type State = driver.State

// The states.
const (
	Closed   = driver.Closed   // calls pass
	Open     = driver.Open     // calls are refused
	HalfOpen = driver.HalfOpen // a limited number of calls pass at a time
)

// Outcome is the answer to a permit. Its text is failure, success or neutral.
type Outcome = driver.Outcome

// The outcomes. The zero value is Failure, so that an answer that was
// forgotten counts against the target.
const (
	Failure = driver.Failure
	Success = driver.Success
	// Neutral gives the permit back and says nothing about the target: the
	// call was cancelled, or failed for a reason of its own.
	Neutral = driver.Neutral
)

// OpenError says that a call was not let through:
//
//	Name        that of the breaker; it may be empty
//	State       Open, or HalfOpen when all permits are out
//	RetryAfter  how long the breaker surely refuses; in half-open, after how long a
//	            permit is free at the latest
//	Held        it was opened by hand and stays open until somebody closes it
type OpenError = driver.OpenError

// ErrOpen is what errors.Is finds in every [OpenError].
var ErrOpen = driver.ErrOpen

// Change is one change of state, as told to Config.OnChange: the Name of the breaker,
// the states From and To, and the Time.
type Change = driver.Change

// Snapshot is the whole state of a breaker, for JSON.
type Snapshot = driver.Snapshot

// Store keeps the states of breakers, so that a program that starts again has them
// as they were. driver.Store says what Load and Save promise.
type Store = driver.Store

// Counts are the Successes and Failures that a breaker was answered since it was made,
// the late ones included.
type Counts = driver.Counts

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

	// Now gives the time, in place of time.Now; it must be safe for concurrent use.
	Now func() time.Time `json:"-"`

	// Store, if not nil, keeps the state under the key: New begins with the state
	// that is stored, and each change is stored.
	Store Store  `json:"-"`
	Key   string `json:"-"`

	// OnChange is told each change of state, one at a time and in order, while no
	// lock is held: it may call the breaker. It runs in a goroutine that uses the
	// breaker, which waits for it.
	OnChange func(Change) `json:"-"`
}

// The defaults of [Config].
const (
	DefaultFailureThreshold = driver.DefaultFailureThreshold
	DefaultSuccessThreshold = driver.DefaultSuccessThreshold
	DefaultTimeout          = driver.DefaultTimeout
	DefaultHalfOpenRequests = driver.DefaultHalfOpenRequests
	DefaultWindow           = driver.DefaultWindow
	DefaultMinCalls         = driver.DefaultMinCalls
)

// Validate reports every field that is out of its range, joined, or nil.
func (c Config) Validate() error { return driver.Config(c).Validate() }
