// Package limit bounds how many attempts run at once and how many begin in a
// time.
//
//	slots := limit.Concurrency(8)
//	rate := limit.Rate(10, time.Second)
//	both, err := limit.Join(slots, rate)
//	...
//	if err := both.Acquire(ctx, limit.Request{}); err != nil {
//		return err // ctx has ended, or an *Error: refused
//	}
//	defer both.Release(limit.Result{})
//
// [Concurrency] is a number of slots, [Rate] a rate with a burst (the generic
// cell rate algorithm, ITU-T I.371), and [Adaptive] a number of slots that is
// found by trying, for a target whose capacity nobody knows.
//
// What several limits bound together, a [Set], is taken as one reservation at
// the moment at which the attempt can begin: who waits for a slot has no token
// yet, and who waits for a token has no slot, so that a rate is never exceeded
// by those who come out of a queue together. Who is refused has taken nothing.
//
// Those who wait are let through by priority, and within a priority as they
// came; who waits gains two points of priority a second, so that nobody waits
// for ever. A waiter keeps its place when it goes from the queue of one limit to
// that of another. Who has gone to and fro too often keeps what it gets, limit
// by limit in one order, and so comes to its turn.
package limit

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Limit is one bound. It is made by [Concurrency], [Rate], [RateBurst] or
// [Adaptive]; one that is not possible, such as a rate of 0, is reported by
// [Limit.Validate], and so by [Join]. The methods that set something are to be
// called before its first use. All others are safe for concurrent use.
type Limit struct {
	name    string
	id      uint64 // orders the limits of a set
	kind    kind
	problem error
	clock   Clock // nil: the machine's

	maxQueue int           // how many may wait; negative: any number
	maxWait  time.Duration // 0: any time

	slots slots
	rate  rate
	adapt *adaptive

	mu      sync.Mutex
	waiting queue
}

type kind uint8

const (
	concurrency kind = iota
	rated
)

var (
	lastLimit  atomic.Uint64
	lastWaiter atomic.Uint64
	epoch      = time.Now()
)

func newLimit(k kind) *Limit {
	return &Limit{id: lastLimit.Add(1), kind: k, maxQueue: -1}
}

// Concurrency lets n attempts run at once; n is 1 or more.
func Concurrency(n int) *Limit {
	l := newLimit(concurrency)
	if n < 1 || n > maxSlots {
		l.problem = fmt.Errorf("limit: concurrency is %d; it must be from 1 to %d", n, maxSlots)
	}
	l.slots.most.Store(int64(n))
	return l
}

// Rate lets n attempts begin at once and then n in each per, evenly.
func Rate(n int, per time.Duration) *Limit { return RateBurst(n, per, n) }

// RateBurst lets burst attempts begin at once and then n in each per, evenly. A
// burst of 1 keeps them apart from the first.
func RateBurst(n int, per time.Duration, burst int) *Limit {
	l := newLimit(rated)
	switch {
	case n < 1 || per <= 0:
		l.problem = fmt.Errorf("limit: the rate is %d in %v; both must be positive", n, per)
	case burst < 1:
		l.problem = fmt.Errorf("limit: burst is %d; it must be 1 or more", burst)
	default:
		l.problem = l.rate.set(n, per, burst)
	}
	return l
}

// Named gives the limit a name for errors, and returns it.
func (l *Limit) Named(name string) *Limit { l.name = name; return l }

// Queue sets how many may wait; who comes when so many do is refused. 0 means
// that nobody waits. Without it any number waits. It returns the limit.
func (l *Limit) Queue(n int) *Limit {
	if n < 0 {
		l.problem = errors.Join(l.problem, fmt.Errorf("limit: the queue is %d long; it must be 0 or more", n))
	}
	l.maxQueue = n
	return l
}

// MaxWait sets how long anybody waits before it is refused, at all limits of its
// [Set] together; of a rate this is known at once. It returns the limit.
func (l *Limit) MaxWait(d time.Duration) *Limit {
	if d <= 0 {
		l.problem = errors.Join(l.problem, fmt.Errorf("limit: the longest wait is %v; it must be positive; use Queue(0) for none", d))
	}
	l.maxWait = d
	return l
}

// Validate returns every problem of what the limit was made with, joined, or
// nil.
func (l *Limit) Validate() error {
	if l == nil {
		return errors.New("limit: a limit is nil")
	}
	return l.problem
}

// Max returns how many attempts may run at once; 0 for a rate.
func (l *Limit) Max() int { return int(l.slots.most.Load()) }

// InUse returns how many attempts run; 0 for a rate.
func (l *Limit) InUse() int { return int(l.slots.word.Load() & useMask) }

// Waiting returns how many attempts wait at this limit.
func (l *Limit) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// GuardLayer marks what guard.New takes; it does nothing.
func (*Limit) GuardLayer() {}

// String names the limit.
func (l *Limit) String() string { return named(l.name) }

func named(name string) string {
	if name == "" {
		return "limit"
	}
	return fmt.Sprintf("limit %q", name)
}

// IsRate reports whether the limit is a rate.
func (l *Limit) IsRate() bool { return l.kind == rated }

// ErrRefused is what errors.Is finds in every [Error].
var ErrRefused = errors.New("limit: refused")

// Error says that an attempt was not let through.
type Error struct {
	// Name is that of the limit; it may be empty.
	Name string
	// Why says what stood against it.
	Why string
	// After is when to come back at the earliest, 0 if it is not known.
	After time.Duration
}

// Error names the limit and says why it refused.
func (e *Error) Error() string { return named(e.Name) + ": refused: " + e.Why }

// Is reports whether target is [ErrRefused].
func (e *Error) Is(target error) bool { return target == ErrRefused }

// Class returns "limit".
func (e *Error) Class() string { return "limit" }

// RetryAfter returns After, and whether it is known.
func (e *Error) RetryAfter() (time.Duration, bool) { return e.After, e.After > 0 }

func (l *Limit) refuse(after time.Duration, format string, args ...any) error {
	return &Error{Name: l.name, Why: fmt.Sprintf(format, args...), After: after}
}
