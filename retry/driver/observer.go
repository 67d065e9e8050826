package driver

import (
	"fmt"
	"time"
)

// Observer is told what happens in an operation, in order and in the
// operation's own goroutine, which waits for it: it must be quick. Of [Hedged]
// it is told in the goroutine of the call that began. One
// observer may serve many operations, so it must be safe for concurrent use.
// If it panics, so does the operation.
type Observer func(Event)

// EventType is what happened.
type EventType uint8

// The types of event. Every AttemptStarted is followed by AttemptFailed or, if
// the attempt succeeded, by Finished; every operation ends with one Finished,
// unless an observer panics.
const (
	AttemptStarted EventType = iota + 1
	AttemptFailed
	WaitScheduled // another attempt follows after a delay, which may be 0
	Refused       // a breaker or a limit did not let the attempt through
	Finished      // the operation has ended
	Queued        // the attempt waits for a limit before it begins
	Hedged        // a call began beside a slow one, or after one that failed
)

// String returns the type's name, in lower case with underscores.
func (t EventType) String() string {
	switch t {
	case AttemptStarted:
		return "attempt_started"
	case AttemptFailed:
		return "attempt_failed"
	case WaitScheduled:
		return "wait_scheduled"
	case Refused:
		return "refused"
	case Finished:
		return "finished"
	case Queued:
		return "queued"
	case Hedged:
		return "hedged"
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// Event is one thing that happened in an operation. The fields that a type
// does not carry are zero.
//
//	Hedged          Attempt (which call of the hedge it is, from 2)
//	Queued          Attempt, Source, Delay (0 if it is not known)
//	AttemptStarted  Attempt, Waited
//	AttemptFailed   Attempt, Duration, Err
//	WaitScheduled   Attempt (the one that failed), Delay, Source, RetryAfter, Err, State
//	Refused         Attempt (the one that was not made), Err
//	Finished        Attempt (how many were made), Duration (of the whole), Reason, Err, RetryAfter
type Event struct {
	Type     EventType
	Time     time.Time
	Attempt  int
	Duration time.Duration
	// Waited is how long the attempt waited for its admission.
	Waited     time.Duration
	Delay      time.Duration
	Source     Source
	Reason     Reason // ReasonNone: the operation succeeded
	RetryAfter time.Duration
	Err        error
	// State is what to resume from should the operation be interrupted in the
	// wait.
	State State
}
