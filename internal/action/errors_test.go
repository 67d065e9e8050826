package action_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/classify"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

func failed(text string, code int, stderr string) error {
	return &action.ExitError{Code: code, Stderr: stderr, Kind: classify.Command(text, code, "", stderr)}
}

// A command's failure matches by its kind, and so does the record of it.
func TestCommandsMatchByTheirKind(t *testing.T) {
	for _, c := range []struct {
		err     error
		network bool
		timeout bool
		server  bool
		limited bool
		class   string
		after   time.Duration
	}{
		{err: failed("curl -s x", 6, ""), network: true, class: "network"},
		{err: failed("curl x", 28, ""), network: true, timeout: true, class: "timeout"},
		{err: failed("npm ci", 1, "npm ERR! code ECONNRESET"), network: true, class: "network"},
		{err: failed("curl x", 22, "curl: (22) The requested URL returned error: 503"), server: true, class: "server_error"},
		{err: failed("curl -i x", 22, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3"), limited: true, class: "rate_limit", after: 3 * time.Second},
		{err: failed("./x", 1, "boom"), class: "exit"},
	} {
		for _, err := range []error{c.err, failure.From(c.err)} {
			if retry.Network(err) != c.network || retry.Timeout(err) != c.timeout || retry.ServerError(err) != c.server || retry.RateLimit(err) != c.limited {
				t.Errorf("%T %v: network %v, timeout %v, server error %v, rate limit %v", err, err, retry.Network(err), retry.Timeout(err), retry.ServerError(err), retry.RateLimit(err))
			}
			if got := driver.Class(err); got != c.class {
				t.Errorf("%T %v: class %s, want %s", err, err, got, c.class)
			}
			var hint interface{ RetryAfter() (time.Duration, bool) }
			d := time.Duration(0)
			if errors.As(err, &hint) {
				d, _ = hint.RetryAfter()
			}
			if d != c.after {
				t.Errorf("%T %v: retry after %v, want %v", err, err, d, c.after)
			}
		}
	}
}
