package guardhttp

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/bide-dev/bide/internal/fastest"
	"github.com/bide-dev/bide/retry"
)

// timeoutHeader and its format are those of gRPC, which servers behind a gateway
// read already: up to 8 digits and a unit.
const timeoutHeader = "Grpc-Timeout"

var timeoutUnits = []struct {
	name byte
	unit time.Duration
}{{'n', time.Nanosecond}, {'u', time.Microsecond}, {'m', time.Millisecond}, {'S', time.Second}, {'M', time.Minute}, {'H', time.Hour}}

const mostDigits = 8

// formatTimeout writes a time, rounded down, in the smallest unit that has room.
func formatTimeout(d time.Duration) string {
	for _, u := range timeoutUnits {
		if text := strconv.FormatInt(int64(d/u.unit), 10); len(text) <= mostDigits {
			return text + string(u.name)
		}
	}
	panic("a time.Duration has fewer than 10⁸ hours")
}

func parseTimeout(text string) (time.Duration, error) {
	if n := len(text) - 1; n >= 1 && n <= mostDigits {
		count, err := strconv.ParseUint(text[:n], 10, 32)
		for _, u := range timeoutUnits {
			if err == nil && u.name == text[n] {
				if u.unit > 0 && time.Duration(count) > (1<<63-1)/u.unit {
					return 1<<63 - 1, nil
				}
				return time.Duration(count) * u.unit, nil
			}
		}
	}
	return 0, fmt.Errorf("the header %s is %q; it must be 1 to 8 digits and one of n, u, m, S, M, H, as in 250m", timeoutHeader, text)
}

// SendDeadline returns a round tripper that tells the server how much time the
// context of a request leaves, so that nobody works for an answer that comes too
// late. The time goes as one that remains, in the header Grpc-Timeout: the clocks
// of the two need not agree. It is to be the base of [Transport], so that each
// attempt sends what is left then; base nil is http.DefaultTransport. What bounds
// the time until the header alone, a guard.Timeout or the Deadline of a policy, is
// not sent: the body may take longer.
//
// A request that has less time left than the fastest answer of its host took is not
// sent. Its error is a [context.DeadlineExceeded] that is [retry.Permanent]: no
// attempt follows, and a breaker does not count it.
//
//	guardhttp.Transport(guardhttp.SendDeadline(nil), g)
func SendDeadline(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &deadlines{base: base, answers: new(fastest.Answers)}
}

type deadlines struct {
	base    http.RoundTripper
	answers *fastest.Answers
}

// RoundTrip implements http.RoundTripper.
func (d *deadlines) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	if deadline, ok := request.Context().Deadline(); ok {
		left := max(deadline.Sub(began), 0)
		if least := d.answers.Least(request.URL.Host); left == 0 || left < least {
			closeBody(request)
			return nil, retry.Permanent(fmt.Errorf("guardhttp: %v are left, and no answer of %s took less than %v: %w",
				left, request.URL.Host, least, context.DeadlineExceeded))
		}
		request = request.Clone(request.Context())
		request.Header.Set(timeoutHeader, formatTimeout(left))
	}
	answer, err := d.base.RoundTrip(request)
	if err == nil {
		d.answers.Took(request.URL.Host, time.Since(began))
	}
	return answer, err
}

// ReceiveDeadline returns a handler that ends the context of a request when its
// sender no longer waits, as [SendDeadline] and gRPC say it: what the handler asks of
// others with that context is given what is left. A request that comes too late is
// answered with 504, one whose header cannot be read with 400, and the handler does
// not see either.
func ReceiveDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := r.Header.Get(timeoutHeader)
		if text == "" {
			next.ServeHTTP(w, r)
			return
		}
		left, err := parseTimeout(text)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		case left == 0:
			http.Error(w, "the sender no longer waits for this", http.StatusGatewayTimeout)
			return
		}
		ctx, end := context.WithTimeout(r.Context(), left)
		defer end()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
