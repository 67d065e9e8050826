// Package driver is what package circuit is made of, for those who drive calls
// themselves: in simulated time, in a journal that outlives the process, or in an
// engine that measures its calls. Who calls functions needs package circuit alone.
//
//   - [Machine] is the decisions. It reads no clock and holds no lock: it is told the
//     time, gives a [Ticket] for each attempt, and is told how the attempt ended. Its
//     [Snapshot] goes into a journal.
//   - [Breaker] is a Machine on a clock and behind a lock. circuit.Breaker has one
//     within, which its method Driver returns.
package driver

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

// Config is circuit.Config, whose comments say what the fields mean: one is
// converted to the other. A [Machine] does without FailureIf, IgnoreIf, Now, Store,
// Key and OnChange.
type Config struct {
	Name             string
	FailureThreshold int
	FailureRate      float64
	SlowCall         time.Duration
	SlowRate         float64
	Window           int
	WindowTime       time.Duration
	MinCalls         int
	FailureIf        func(error) bool
	IgnoreIf         func(error) bool
	SuccessThreshold int
	Timeout          time.Duration
	OpenFor          func(opening int) time.Duration
	HalfOpenRequests int
	Lease            time.Duration
	Now              func() time.Time
	Store            Store
	Key              string
	OnChange         func(Change)
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
	problem := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf("circuit: "+format, args...))
		}
	}
	for _, field := range []struct {
		name        string
		value, most int
	}{
		{"FailureThreshold", c.FailureThreshold, math.MaxInt},
		{"SuccessThreshold", c.SuccessThreshold, math.MaxInt},
		{"HalfOpenRequests", c.HalfOpenRequests, maxWindow},
		{"Window", c.Window, maxWindow},
		{"MinCalls", c.MinCalls, math.MaxInt},
	} {
		problem(field.value < 0, "%s is %d; it must be 1 or more, or 0 for the default", field.name, field.value)
		problem(field.value > field.most, "%s is %d; it must be at most %d", field.name, field.value, field.most)
	}
	problem(c.Timeout < 0, "Timeout is %v; it must be positive, or 0 for the default", c.Timeout)
	problem(c.Lease < 0, "Lease is %v; it must be positive, or 0 for Timeout", c.Lease)
	problem(!(c.FailureRate >= 0 && c.FailureRate <= 1), "FailureRate is %v; it must be from 0.0 to 1.0, where 0.5 is 50 %%", c.FailureRate)
	if !(c.SlowRate >= 0 && c.SlowRate <= 1) || c.SlowCall < 0 {
		problem(c.SlowCall < 0, "SlowCall is %v; it must be positive, or 0 for none", c.SlowCall)
		problem(!(c.SlowRate >= 0 && c.SlowRate <= 1), "SlowRate is %v; it must be from 0.0 to 1.0", c.SlowRate)
	} else {
		problem((c.SlowCall > 0) != (c.SlowRate > 0), "SlowCall is %v and SlowRate %v; set both or none", c.SlowCall, c.SlowRate)
	}
	problem(c.WindowTime < 0 || c.WindowTime > 0 && c.WindowTime < buckets, "WindowTime is %v; it must be %v or more, or 0 for a window of calls", c.WindowTime, time.Duration(buckets))
	problem(c.Window > 0 && c.WindowTime > 0, "there is a Window of %d calls and a WindowTime of %v; set one", c.Window, c.WindowTime)
	problem(!c.rated() && (c.Window > 0 || c.WindowTime > 0 || c.MinCalls > 0), "Window, WindowTime or MinCalls is set, but no rate; set FailureRate or SlowRate")
	if calls := c.withDefaults().Window; calls > 0 && c.rated() {
		problem(c.MinCalls > calls, "MinCalls is %d, but the Window holds %d; make that greater", c.MinCalls, calls)
	}
	problem(c.FailureRate > 0 && c.FailureThreshold > 0, "there is a FailureRate and a FailureThreshold; set one")
	problem(c.Key != "" && c.Store == nil, "Key is %q, but there is no Store; set one", c.Key)
	return errors.Join(problems...)
}

// maxWindow bounds what a breaker remembers of calls: a byte for each.
const maxWindow = 1 << 30

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
