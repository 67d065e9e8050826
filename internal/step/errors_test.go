package step_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/retry/driver"
)

// A wait that is asked for and is too long to be obeyed is why no attempt
// follows, so the error names it.
func TestTooLongAWaitIsInTheError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason driver.Reason
		err    error
		want   string
	}{
		{driver.ReasonRetryAfter, &action.HTTPError{Method: "GET", URL: "u", Status: 429, After: 26 * time.Hour, HasAfter: true},
			`step "s" failed (retry_after: a wait of 1d2h is asked for, longer than retry_after_max): GET u: unexpected status 429`},
		{driver.ReasonAttempts, &action.HTTPError{Method: "GET", URL: "u", Status: 429, After: time.Second, HasAfter: true},
			`step "s" failed: GET u: unexpected status 429`},
	} {
		if got := (&step.Error{Label: "s", Reason: c.reason, Err: c.err}).Error(); !strings.Contains(got, c.want) {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
