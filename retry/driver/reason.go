package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/bide-dev/bide/circuit"
)

// Reason is why an operation ended without success.
type Reason uint8

// The reasons.
const (
	// ReasonNone: it has not ended, or ended well.
	ReasonNone Reason = iota
	// ReasonAttempts: all attempts were used up.
	ReasonAttempts
	// ReasonBudget: the next delay would have exceeded the budget.
	ReasonBudget
	// ReasonNotRetryable: the error was [Permanent], or If did not accept it.
	ReasonNotRetryable
	// ReasonAborted: AbortOn named the error.
	ReasonAborted
	// ReasonCircuitOpen: the circuit breaker refused the attempt.
	ReasonCircuitOpen
	// ReasonDeadline: Policy.Deadline was over, or the wait would have lasted
	// until it.
	ReasonDeadline
	// ReasonRetryAfter: the server asked for a longer wait than is allowed,
	// or for no retry at all.
	ReasonRetryAfter
	// ReasonQuota: the quota of the target, or [WithRetries], had no retry left.
	ReasonQuota
	// ReasonCancelled: it was cancelled.
	ReasonCancelled
	// ReasonExpired: it was resumed when the first failure was longer ago than
	// the budget, and the policy has BudgetExpires.
	ReasonExpired
	// ReasonCallerDeadline: the deadline of the caller's context was over, or
	// the wait would have lasted until it.
	ReasonCallerDeadline
	// ReasonLimit: a limit refused the attempt.
	ReasonLimit
	// ReasonInterrupted: Operation.Soft has ended, so that no further attempt
	// was begun. The operation can be resumed with Error.State.
	ReasonInterrupted
)

// What errors.Is finds in an [Error], by its reason.
var (
	// ErrExhausted is found for all reasons for which the operation has
	// failed in the end and a fallback is due: [Reason.Exhausted].
	ErrExhausted = errors.New("retries exhausted")

	ErrAttempts     = errors.New("attempts used up")
	ErrBudget       = errors.New("retry budget used up")
	ErrNotRetryable = errors.New("error not retryable")
	ErrAborted      = errors.New("error named by abort_on")
	// ErrDeadline is also a context.DeadlineExceeded.
	ErrDeadline = fmt.Errorf("deadline of the operation: no time left for a further attempt: %w", context.DeadlineExceeded)
	// ErrCallerDeadline is also a context.DeadlineExceeded.
	ErrCallerDeadline = fmt.Errorf("no time left for a further attempt: %w", context.DeadlineExceeded)
	ErrRetryAfter     = errors.New("retry-after asks for a longer wait than is allowed")
	ErrQuota          = errors.New("retry quota used up")
	ErrLimit          = errors.New("refused by a limit")
	// ErrCancelled is also a context.Canceled.
	ErrCancelled   = fmt.Errorf("operation cancelled: %w", context.Canceled)
	ErrInterrupted = errors.New("operation interrupted")
	ErrExpired     = errors.New("retry budget expired before the operation was resumed")
)

var reasons = [...]struct {
	name     string
	sentinel error
}{
	ReasonNone:           {"none", nil},
	ReasonAttempts:       {"attempts", ErrAttempts},
	ReasonBudget:         {"budget", ErrBudget},
	ReasonNotRetryable:   {"not_retryable", ErrNotRetryable},
	ReasonAborted:        {"abort_on", ErrAborted},
	ReasonCircuitOpen:    {"circuit_open", circuit.ErrOpen},
	ReasonDeadline:       {"deadline", ErrDeadline},
	ReasonRetryAfter:     {"retry_after", ErrRetryAfter},
	ReasonQuota:          {"quota", ErrQuota},
	ReasonCancelled:      {"cancelled", ErrCancelled},
	ReasonExpired:        {"expired", ErrExpired},
	ReasonCallerDeadline: {"caller_deadline", ErrCallerDeadline},
	ReasonLimit:          {"limit", ErrLimit},
	ReasonInterrupted:    {"interrupted", ErrInterrupted},
}

// String returns the reason's name, in lower case with underscores.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r].name
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Err returns the sentinel error of the reason, nil for ReasonNone.
func (r Reason) Err() error {
	if int(r) < len(reasons) {
		return reasons[r].sentinel
	}
	return nil
}

// Exhausted reports whether the operation has failed in the end, so that a
// fallback is due. Cancellation, interruption and the deadline of the caller
// are no such end: who called it off wants nothing more done.
func (r Reason) Exhausted() bool {
	switch r {
	case ReasonNone, ReasonCancelled, ReasonCallerDeadline, ReasonInterrupted:
		return false
	}
	return true
}

// byCaller reports whether the caller has ended the operation.
func (r Reason) byCaller() bool {
	return r == ReasonCancelled || r == ReasonCallerDeadline || r == ReasonInterrupted
}

// text is how an error begins that has the reason.
func (r Reason) text() string {
	switch r {
	case ReasonCancelled:
		return "operation cancelled"
	case ReasonDeadline:
		return "deadline of the operation over"
	case ReasonCallerDeadline:
		return "no time left for a further attempt"
	}
	if err := r.Err(); err != nil {
		return err.Error()
	}
	return r.String()
}
