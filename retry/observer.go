package retry

import (
	"fmt"
	"time"
)

// Observer is told what happens in an operation, in order and in the
// operation's own goroutine, which waits for it: it must be quick. One
// observer may serve many operations, so it must be safe for concurrent use.
// If it panics, so does the operation.
type Observer func(Event)

// EventType is what happened.
type EventType uint8

// The types of event. Every AttemptStarted is followed by AttemptFailed or,
// if it succeeded, by Finished; every operation ends with one Finished, unless
// an attempt ends the goroutine with runtime.Goexit.
const (
	AttemptStarted EventType = iota + 1
	AttemptFailed
	WaitScheduled // another attempt follows after a delay, which may be 0
	Refused       // the breaker did not let the attempt through
	Finished      // the operation has ended
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
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// Event is one thing that happened in an operation. The fields that a type
// does not carry are zero.
//
//	AttemptStarted  Attempt
//	AttemptFailed   Attempt, Duration, Err
//	WaitScheduled   Attempt (the one that failed), Delay, RetryAfter
//	Refused         Attempt (the one that was not made), Err
//	Finished        Attempt (how many were made), Duration (of the whole), Reason, Err, RetryAfter
type Event struct {
	Type EventType
	// Time is when it happened; zero if the policy is Untimed, as Duration is.
	Time       time.Time
	Attempt    int
	Duration   time.Duration
	Delay      time.Duration
	Reason     Reason // ReasonNone: the operation succeeded
	RetryAfter time.Duration
	Err        error
}
