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
	// ReasonNotRetryable: the error was retry.Permanent, or If did not accept it.
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
	// ReasonQuota: the quota of the target, or retry.WithRetries, had no retry left.
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

// ErrExhausted is what errors.Is finds in an [Error] for all reasons for which the
// operation has failed in the end and a fallback is due: [Reason.Exhausted].
var ErrExhausted = errors.New("retries exhausted")

// errDeadline is that of ReasonDeadline, and the cause of a context that ended by it.
var errDeadline = fmt.Errorf("deadline of the operation: no time left for a further attempt: %w", context.DeadlineExceeded)

// reasons have a name each, and what errors.Is finds in an [Error].
var reasons = [...]struct {
	name     string
	sentinel error
}{
	ReasonNone:           {"none", nil},
	ReasonAttempts:       {"attempts", errors.New("attempts used up")},
	ReasonBudget:         {"budget", errors.New("retry budget used up")},
	ReasonNotRetryable:   {"not_retryable", errors.New("error not retryable")},
	ReasonAborted:        {"abort_on", errors.New("error named by abort_on")},
	ReasonCircuitOpen:    {"circuit_open", circuit.ErrOpen},
	ReasonDeadline:       {"deadline", errDeadline},
	ReasonRetryAfter:     {"retry_after", errors.New("retry-after asks for a longer wait than is allowed")},
	ReasonQuota:          {"quota", errors.New("retry quota used up")},
	ReasonCancelled:      {"cancelled", fmt.Errorf("operation cancelled: %w", context.Canceled)},
	ReasonExpired:        {"expired", errors.New("retry budget expired before the operation was resumed")},
	ReasonCallerDeadline: {"caller_deadline", fmt.Errorf("no time left for a further attempt: %w", context.DeadlineExceeded)},
	ReasonLimit:          {"limit", errors.New("refused by a limit")},
	ReasonInterrupted:    {"interrupted", errors.New("operation interrupted")},
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
