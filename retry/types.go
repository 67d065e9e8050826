package retry

import (
	"context"
	"time"

	"github.com/bide-dev/bide/internal/carried"
	"github.com/bide-dev/bide/internal/permanent"
	"github.com/bide-dev/bide/retry/driver"
)

// Policy says how an operation is retried. The zero value makes up to 3 attempts
// without a wait between them. Its fields, of which driver.Policy says more:
//
//	Attempts        executions in all, the first included; 0: 3, or Unlimited
//	Backoff         the delays between them
//	Budget          the most that the delays may be together
//	Deadline        the most that the whole operation may take
//	Timeout         the most that one attempt may take
//	If              which errors are retried; nil: all
//	AbortOn         which errors never are
//	Rules           other attempts and delays for errors of a kind
//	RetryAfterMax   the longest wait that a server may ask for; 0: 5m
//	Breaker, Quota  what operations on the same target share
//	Observer        is told of everything
//	Rand            the source of the jitter
//	NumberAttempts  AttemptFrom finds the number of the attempt
//	Timed           the duration of the first attempt is measured too
//	BudgetExpires   the budget counts the time in which nobody ran the operation
type Policy = driver.Policy

// Rule is a policy for errors of a kind: On accepts them, and Attempts, Backoff and
// Budget are theirs. See Policy.Rules.
type Rule = driver.Rule

// Error says how an operation ended without success: the Reason, the Last error,
// the History of the attempts, and how long it took. errors.Is finds in it the
// sentinel of its reason ([ErrAttempts], [ErrBudget], …), [ErrExhausted], and what
// the last attempt died of, but not what earlier attempts did.
type Error = driver.Error

// Observer is told what happens in an operation, in order and in the operation's
// own goroutine, which waits for it. It must be quick and safe for concurrent use.
type Observer = driver.Observer

// Event is what an [Observer] is told. driver.Event says which types have which
// fields.
type Event = driver.Event

// The types of event.
const (
	AttemptStarted = driver.AttemptStarted
	AttemptFailed  = driver.AttemptFailed
	WaitScheduled  = driver.WaitScheduled // another attempt follows after a delay, which may be 0
	Refused        = driver.Refused       // a breaker or a limit did not let the attempt through
	Finished       = driver.Finished      // the operation has ended
	Queued         = driver.Queued        // the attempt waits for a limit before it begins
	Hedged         = driver.Hedged        // a hedge makes another attempt beside a slow one
)

const (
	// DefaultAttempts is the number of attempts of a [Policy] whose Attempts
	// is 0.
	DefaultAttempts = driver.DefaultAttempts

	// Unlimited as Policy.Attempts sets no bound on the number of attempts.
	// It needs a Policy.Deadline.
	Unlimited = driver.Unlimited

	// DefaultRetryAfterMax is the longest hint that a [Policy] whose
	// RetryAfterMax is 0 obeys.
	DefaultRetryAfterMax = driver.DefaultRetryAfterMax
)

// What errors.Is finds in an [Error], by its reason.
var (
	// ErrExhausted is found for all reasons for which the operation has
	// failed in the end and a fallback is due.
	ErrExhausted = driver.ErrExhausted

	ErrAttempts     = driver.ReasonAttempts.Err()
	ErrBudget       = driver.ReasonBudget.Err()
	ErrNotRetryable = driver.ReasonNotRetryable.Err()
	ErrAborted      = driver.ReasonAborted.Err()
	// ErrDeadline and ErrCallerDeadline are a context.DeadlineExceeded too, and
	// ErrCancelled is a context.Canceled.
	ErrDeadline       = driver.ReasonDeadline.Err()
	ErrCallerDeadline = driver.ReasonCallerDeadline.Err()
	ErrCancelled      = driver.ReasonCancelled.Err()
	ErrRetryAfter     = driver.ReasonRetryAfter.Err()
	ErrQuota          = driver.ReasonQuota.Err()
	ErrLimit          = driver.ReasonLimit.Err()
)

// PanicError is a panic in an attempt, which counts as its failure.
type PanicError = driver.PanicError

// TimeoutError is the failure of an attempt that took longer than its timeout.
type TimeoutError = driver.TimeoutError

// Quota bounds the retries of all operations on one target together, so that a
// target which fails for everybody is not buried under retries.
type Quota = driver.Quota

// QuotaConfig is the settings of a [Quota]: the Ratio of retries to operations, the
// Initial number of retries, and the Capacity that can be saved up.
type QuotaConfig = driver.QuotaConfig

// NewQuota returns a quota that has Initial retries to begin with, or an error that names every
// setting out of its range.
func NewQuota(c QuotaConfig) (*Quota, error) { return driver.NewQuota(c) }

// Permanent marks err so that it is never retried, whatever the policy, and as
// no failure of the target: another attempt would be answered alike. The
// mark is seen however deep it is wrapped, does not change the text, and
// errors.Is and errors.As look through it. Permanent(nil) is nil.
func Permanent(err error) error { return permanent.Mark(err) }

// IsPermanent reports whether err carries the mark of [Permanent].
func IsPermanent(err error) bool { return permanent.In(err) }

// WithRetries returns a context under which all operations together make at most
// n retries, so that those of an operation within others do not multiply. Where ctx is
// bounded already, that bound holds too. n below 0 counts as 0. A retry
// that would be one too many ends its operation with [ErrQuota]. guardhttp.Transport
// and guardgrpc send the number on: see guardhttp.ReceiveRetries.
func WithRetries(ctx context.Context, n int) context.Context { return carried.WithRetries(ctx, n) }

// RetriesLeft returns how many retries the operations under ctx may still make,
// and whether [WithRetries] has bounded them.
func RetriesLeft(ctx context.Context) (n int, bounded bool) {
	r := carried.RetriesOf(ctx)
	if r == nil {
		return 0, false
	}
	return r.Left(), true
}

// AttemptFrom returns the number of the attempt that the context belongs to,
// from 1, or 0 if it belongs to none of a policy with NumberAttempts. Of nested
// operations it is the innermost.
func AttemptFrom(ctx context.Context) int { return carried.Number(ctx) }

// askedError has a wait that another error does not know of.
type askedError struct {
	err   error
	after time.Duration
}

func (e *askedError) Error() string                     { return e.err.Error() }
func (e *askedError) Unwrap() error                     { return e.err }
func (e *askedError) RetryAfter() (time.Duration, bool) { return e.after, true }

// After has err ask for a wait of d before the next attempt, as a server does
// with Retry-After; less than 0 asks for no retry. It does not change the text,
// and errors.Is and errors.As look through it. After(d, nil) is nil.
func After(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &askedError{err, d}
}
