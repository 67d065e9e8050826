// Package classify says what kind of failure a command met, from what a
// command leaves behind: its exit status and the ends of its outputs.
//
// The exit status counts where the program gives it a meaning (curl 6, wget 4,
// ssh 255); otherwise phrases that real programs print count, in the lines in
// which they stand. A single word never does: "processed 503 records" is no
// server error, and "file timeout.txt not found" no timeout. The corpus in
// testdata/failures.tsv holds failures of real programs, and texts that only
// look like them.
package classify

import (
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/retry/driver"
)

// Verdict is what kind of failure it was. A connection that timed out is both
// a network failure and a timeout. The zero Verdict says that nothing is known.
type Verdict struct {
	Network     bool // no connection, or one that broke
	Timeout     bool
	RateLimited bool
	Status      int // the HTTP status of a server error; 0: none
	// RetryAfter is the wait that a header line of the output asks for; 0: none.
	RetryAfter time.Duration
}

// Class is the one word for it, as driver.Class has it; "" where nothing is known.
func (v Verdict) Class() string {
	switch {
	case v.RateLimited:
		return "rate_limit"
	case v.Status != 0:
		return "server_error"
	case v.Timeout:
		return "timeout"
	case v.Network:
		return "network"
	}
	return ""
}

// known reports whether anything is.
func (v Verdict) known() bool { return v.Class() != "" }

// Command classifies a command that failed. text is its shell text, or its
// words with blanks between them; exit is its status, stdout and stderr are
// the ends of its outputs.
func Command(text string, exit int, stdout, stderr string) Verdict {
	v := Text(stderr)
	if !v.known() {
		v = Text(stdout)
	}
	if !v.known() && exit > 0 && exit < 256 && statuses()[exit] {
		v = byStatus(text, exit, stderr+"\n"+stdout)
	}
	v.RetryAfter = retryAfter(stderr + "\n" + stdout)
	return v
}

// Text classifies by the phrases of a text alone. The last line that tells
// something decides, together with those of the same kind.
func Text(s string) Verdict {
	var v Verdict
	for line := range lines(strings.ToLower(s)) {
		if w := ofLine(line); w.known() && !about().MatchString(line) {
			v = v.or(w)
		}
	}
	return v
}

func (v Verdict) or(w Verdict) Verdict {
	if w.known() && w.Class() != v.Class() && !(v.Network && w.Network) {
		return w
	}
	return Verdict{Network: v.Network || w.Network, Timeout: v.Timeout || w.Timeout,
		RateLimited: v.RateLimited || w.RateLimited, Status: max(v.Status, w.Status)}
}

// ofLine classifies one line in lower case.
func ofLine(line string) Verdict {
	if limited().MatchString(line) {
		return Verdict{RateLimited: true}
	}
	if n := serverError(line); n != 0 {
		return Verdict{Status: n}
	}
	return Verdict{Network: network().MatchString(line), Timeout: timeout().MatchString(line)}
}

// serverError is the status of a server error that is in a line.
func serverError(line string) int {
	if !slices.ContainsFunc(statusWords, func(w string) bool { return strings.Contains(line, w) }) {
		return 0
	}
	m := serverStatus().FindStringSubmatch(line)
	if m == nil {
		if serverWords().MatchString(line) {
			return 500
		}
		return 0
	}
	for _, digits := range m[1:] {
		if len(digits) == 3 {
			return int(digits[0]-'0')*100 + int(digits[1]-'0')*10 + int(digits[2]-'0')
		}
	}
	return 500
}

// maxLine is the length in bytes from which a line is data and no message.
const maxLine = 4 << 10

func lines(s string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.SplitSeq(s, "\n") {
			if len(line) <= maxLine && len(line) > 3 && !yield(line) {
				return
			}
		}
	}
}

var header = pattern.Lazy(`(?im)^[<*> \t]*retry-after:[ \t]*([^\r\n]+)`)

// retryAfter reads the last header line that asks for a wait.
func retryAfter(text string) time.Duration {
	if !strings.Contains(text, "etry-") && !strings.Contains(text, "ETRY-") {
		return 0
	}
	all := header().FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return 0
	}
	d, ok := driver.ParseRetryAfter(strings.TrimSpace(all[len(all)-1][1]), time.Now())
	if !ok {
		return 0
	}
	return max(d, 0)
}
