package limit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/bide-dev/bide/retry"
)

// ThrottleConfig is the settings of a limit that refuses by itself, see
// [Throttle]. The zero value is usable: every zero field means its default.
type ThrottleConfig struct {
	// Multiple is how many attempts are let through for each that the target
	// accepts, at least 1; 0 means 2. With 1 a target that recovers is not seen to.
	Multiple float64
	// Max is the greatest share of attempts that is refused, up to 1; 0 means 0.9.
	// The rest keeps asking a target that accepts nothing.
	Max float64
	// MinCalls is how many attempts there must be in a window before any is
	// refused; 0 means 10.
	MinCalls int
	// Window is the time that is looked at; 0 means 30 s.
	Window time.Duration
	// RefusedIf says of the error of an attempt whether the target refused it; nil
	// means what [retry.Transient] accepts.
	RefusedIf func(error) bool
}

// Throttle refuses attempts at the client, in proportion to those that the target
// refuses: it lets through Multiple times as many as the target accepts, and so
// bounds what the target spends on refusing, however many clients there are. A
// breaker refuses all or none; a throttle finds the share. Nobody waits at it. A
// target that accepts half of the attempts or more meets no throttle.
//
// With n attempts in the window, its own refusals among them, of which the target
// accepted a, it refuses the share (n − Multiple·a)/(n + 1). It takes no chances:
// of ten attempts at a share of 0.3 it refuses three.
// (After the client-side throttling of Google's "Site Reliability Engineering",
// chapter 21.)
func Throttle() *Limit { return Must(New(Config{Throttle: &ThrottleConfig{}})) }

// throttle is the decision about the share that is refused.
type throttle struct {
	c ThrottleConfig

	mu      sync.Mutex
	slices  [windowSlices]tally
	begun   bool
	current int64   // number of the newest slice, once it has begun
	due     float64 // of a refusal
}

// tally is what happened in a slice of the window.
type tally struct{ attempts, accepted int }

// windowSlices is how many parts of the window are forgotten one by one.
const windowSlices = 10

func newThrottle(c ThrottleConfig) (*throttle, error) {
	c.Multiple, c.Max = cmp.Or(c.Multiple, 2), cmp.Or(c.Max, 0.9)
	c.MinCalls, c.Window = cmp.Or(c.MinCalls, 10), cmp.Or(c.Window, 30*time.Second)
	if c.RefusedIf == nil {
		c.RefusedIf = retry.Transient
	}
	var problems []error
	if !(c.Multiple >= 1) || math.IsInf(c.Multiple, 0) {
		problems = append(problems, fmt.Errorf("limit: Multiple is %v; it must be a finite number of 1.0 or more", c.Multiple))
	}
	if !(c.Max > 0 && c.Max <= 1) {
		problems = append(problems, fmt.Errorf("limit: Max is %v; it must be more than 0 and at most 1", c.Max))
	}
	if c.MinCalls < 1 {
		problems = append(problems, fmt.Errorf("limit: MinCalls is %d; it must be 1 or more", c.MinCalls))
	}
	if c.Window < windowSlices {
		problems = append(problems, fmt.Errorf("limit: Window is %v; it must be %v or more", c.Window, time.Duration(windowSlices)))
	}
	return &throttle{c: c}, errors.Join(problems...)
}

// at forgets what is older than the window and returns the slice of a time. t.mu
// is held.
func (t *throttle) at(now int64) *tally {
	slice := now / (int64(t.c.Window) / windowSlices)
	if !t.begun {
		t.begun, t.current = true, slice
	}
	for range min(slice-t.current, windowSlices) {
		t.current++
		t.slices[index(t.current)] = tally{}
	}
	t.current = max(t.current, slice)
	return &t.slices[index(t.current)]
}

// index is the place of a slice, whose number is negative before the epoch.
func index(slice int64) int64 { return (slice%windowSlices + windowSlices) % windowSlices }

// share is that of the attempts which are to be refused. t.mu is held.
func (t *throttle) share(now int64) float64 {
	t.at(now)
	var sum tally
	for _, s := range t.slices {
		sum.attempts += s.attempts
		sum.accepted += s.accepted
	}
	if sum.attempts < t.c.MinCalls {
		return 0
	}
	n := float64(sum.attempts)
	return min(max(n-t.c.Multiple*float64(sum.accepted), 0)/(n+1), t.c.Max)
}

// take reports whether an attempt may be made. What it refuses refuse counts.
func (t *throttle) take(now int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	share := t.share(now)
	if t.due+share >= 1 {
		return false
	}
	t.due += share
	return true
}

// untake is for an attempt that is not made after all.
func (t *throttle) untake(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due -= t.share(now)
}

// refuse counts a refusal, and returns the share of them.
func (t *throttle) refuse(now int64) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	share := t.share(now)
	t.due += share - 1
	t.at(now).attempts++
	return share
}

// sample takes the end of an attempt.
func (t *throttle) sample(now int64, r Result) {
	if r.Ignore {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	slice := t.at(now)
	slice.attempts++
	if r.Err == nil || !t.c.RefusedIf(r.Err) {
		slice.accepted++
	}
}

// Refusing returns the share of attempts that a throttle refuses now; 0 for any
// other limit.
func (l *Limit) Refusing() float64 {
	if l.kind != throttled {
		return 0
	}
	l.throttle.mu.Lock()
	defer l.throttle.mu.Unlock()
	return l.throttle.share(l.now())
}
