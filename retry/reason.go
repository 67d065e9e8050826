package retry

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
	// ReasonNotRetryable: the error was [Permanent], or RetryOn did not
	// accept it.
	ReasonNotRetryable
	// ReasonAborted: AbortOn named the error.
	ReasonAborted
	// ReasonCircuitOpen: the circuit breaker refused the attempt.
	ReasonCircuitOpen
	// ReasonDeadline: the deadline was over, or the wait would have lasted
	// until it.
	ReasonDeadline
	// ReasonRetryAfter: the server asked for a longer wait than is allowed,
	// or for no retry at all.
	ReasonRetryAfter
	// ReasonQuota: the quota of the target had no retry left.
	ReasonQuota
	// ReasonCancelled: it was cancelled.
	ReasonCancelled
	// ReasonExpired: it was interrupted, and resumed when the first failure
	// was longer ago than the budget.
	ReasonExpired
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
	ErrCircuitOpen  = circuit.ErrOpen
	// ErrDeadline is also a context.DeadlineExceeded.
	ErrDeadline   = fmt.Errorf("no time left for a further attempt: %w", context.DeadlineExceeded)
	ErrRetryAfter = errors.New("retry-after asks for a longer wait than is allowed")
	ErrQuota      = errors.New("retry quota of the target used up")
	// ErrCancelled is also a context.Canceled.
	ErrCancelled = fmt.Errorf("operation cancelled: %w", context.Canceled)
	ErrExpired   = errors.New("retry budget expired before the operation was resumed")
)

var reasons = [...]struct {
	name     string
	sentinel error
}{
	ReasonNone:         {"none", nil},
	ReasonAttempts:     {"attempts", ErrAttempts},
	ReasonBudget:       {"budget", ErrBudget},
	ReasonNotRetryable: {"not_retryable", ErrNotRetryable},
	ReasonAborted:      {"abort_on", ErrAborted},
	ReasonCircuitOpen:  {"circuit_open", ErrCircuitOpen},
	ReasonDeadline:     {"deadline", ErrDeadline},
	ReasonRetryAfter:   {"retry_after", ErrRetryAfter},
	ReasonQuota:        {"quota", ErrQuota},
	ReasonCancelled:    {"cancelled", ErrCancelled},
	ReasonExpired:      {"expired", ErrExpired},
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
// fallback is due. Cancellation and the deadline of the caller are no such
// end: who called it off wants nothing more done.
func (r Reason) Exhausted() bool {
	switch r {
	case ReasonNone, ReasonCancelled, ReasonDeadline:
		return false
	}
	return true
}
