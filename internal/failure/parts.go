package failure

import (
	"net"
	"time"
)

// The parts of a failure. Their texts are never read: the failure's own
// message comes first.

type silent struct{}

func (silent) Error() string { return "" }

type class string

func (c class) Error() string { return string(c) }
func (c class) Class() string { return string(c) }

type exit int

func (exit) Error() string   { return "" }
func (e exit) ExitCode() int { return int(e) }

type status int

func (status) Error() string     { return "" }
func (s status) HTTPStatus() int { return int(s) }

type retryAfter time.Duration

func (retryAfter) Error() string { return "" }
func (r retryAfter) RetryAfter() (time.Duration, bool) {
	return time.Duration(r), true
}

type rateLimited struct{ silent }

func (rateLimited) RateLimited() bool { return true }

type timeout struct{ silent }

func (timeout) Timeout() bool { return true }

// network is known to the matchers by the type that it wraps.
type network struct{ silent }

func (network) Unwrap() error { return net.UnknownNetworkError("") }

type printed struct{ stdout, stderr string }

func (printed) Error() string                    { return "" }
func (p printed) Output() string                 { return Output(p.stdout, p.stderr) }
func (p printed) Tails() (stdout, stderr string) { return p.stdout, p.stderr }

// untold is an error without its texts.
type untold struct{ error }

func (untold) Error() string   { return "" }
func (untold) Output() string  { return "" }
func (u untold) Unwrap() error { return u.error }

type input struct{ silent }

func (input) Input() bool { return true }

type noRoom struct{ silent }

func (noRoom) Shortage() bool { return true }
