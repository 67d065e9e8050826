package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/retry/driver"
)

// Until returns fn as one that fails, with an *[UnmetError], when ok does not
// accept its value. Whatever looks at errors then looks at values too: whether to
// retry, what a breaker counts, when a fallback is due.
//
//	job, err := retry.Get(ctx, r, retry.Until(poll, func(j Job) bool { return j.Done }))
//
// Of a nil fn it is nil; with a nil ok it fails for good.
func Until[T any](fn func(context.Context) (T, error), ok func(T) bool) func(context.Context) (T, error) {
	switch {
	case fn == nil:
		return nil
	case ok == nil:
		return func(context.Context) (v T, err error) { return v, Permanent(errNilCondition) }
	}
	return func(ctx context.Context) (T, error) {
		v, err := fn(ctx)
		if err == nil && !ok(v) {
			err = &UnmetError{Value: v}
		}
		return v, err
	}
}

var errNilCondition = errors.New("retry: the condition of Until is nil")

// Unmet returns the value that [Until] did not accept last, if it is how a call
// ended: for a caller who takes it after all.
func Unmet[T any](err error) (v T, ok bool) {
	driver.Visit(err, func(err error) bool {
		if unmet, is := err.(*UnmetError); is {
			v, ok = unmet.Value.(T)
		}
		return ok
	})
	return v, ok
}

// UnmetError is the failure of an attempt that succeeded with a value which
// [Until] does not accept.
type UnmetError struct{ Value any }

// Error says that the condition was not met, and by what value.
func (e *UnmetError) Error() string { return fmt.Sprintf("the condition is not met by %v", e.Value) }

// Class returns "until".
func (e *UnmetError) Class() string { return "until" }

// RetryAfter returns what the value asks for, if it is a driver.RetryAfterer.
func (e *UnmetError) RetryAfter() (time.Duration, bool) {
	if v, ok := e.Value.(driver.RetryAfterer); ok {
		return v.RetryAfter()
	}
	return 0, false
}
