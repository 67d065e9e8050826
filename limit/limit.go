// Package limit bounds how many attempts run at once and how many begin in a
// time.
//
//	slots := limit.Concurrency(8)
//	page, err := limit.Get(ctx, slots, fetch) // waits for a slot
//
// [Concurrency] is a number of slots, [Rate] a rate with a burst (the generic
// cell rate algorithm, ITU-T I.371), and [Adaptive] a number of slots that is
// found by trying, for a target whose capacity nobody knows. [Throttle] refuses by
// itself what the target would refuse. [New] makes any of them with more settings.
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
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/retry/driver"
)

// Config is the settings of a [Limit]. Just one of Concurrency, Rate,
// Adaptive and Throttle is set; every other zero field means its default.
type Config struct {
	// Name is for errors.
	Name string

	// Concurrency is how many attempts run at once.
	Concurrency int

	// Adaptive is a number of slots that is found by trying; see [Adaptive].
	Adaptive *AdaptiveConfig

	// Rate is how many attempts begin in each Per, evenly.
	Rate int
	// Per is the time of Rate; 0 means a second.
	Per time.Duration
	// Burst is how many of a rate may begin at once; 0 means Rate. A burst of 1
	// keeps them apart from the first.
	Burst int

	// Throttle is a limit that refuses by itself; see [Throttle].
	Throttle *ThrottleConfig

	// Queue is how many may wait; who comes when so many do is refused. 0 means
	// any number, and [NoQueue] none.
	Queue int

	// MaxWait is how long anybody waits before it is refused, at all limits of its
	// [Set] together; of a rate this is known at once. 0 means any time.
	MaxWait time.Duration

	// ShedAfter is how long the queue may have somebody in it at all times before it
	// counts as one that does not drain. From then on whoever has waited for a
	// twentieth of ShedAfter is refused, until the queue has been empty: who is let
	// through has not waited long, and the others know soon. 0 means never. A burst
	// that is over within ShedAfter refuses nobody.
	// (After CoDel, and "Fail at Scale" of Facebook.)
	ShedAfter time.Duration

	// Clock is the time of the limit; nil means the machine's. Who waits blocks in
	// Clock.Wait alone, in its own goroutine, so that the time may be that of a
	// simulation. The limits of a [Set] are on one clock.
	Clock driver.Clock
}

// NoQueue as Config.Queue means that nobody waits.
const NoQueue = -1

// Limit is one bound. It is made by [New], [Concurrency], [Rate], [Adaptive]
// or [Throttle], and is safe for concurrent use. The zero Limit lets nothing through.
type Limit struct {
	id   uint64 // orders the limits of a set; 0: it was not made
	bad  error  // why it was not made, if that is known
	c    Config
	kind kind

	slots    slots
	rate     rate
	adapt    *adaptive
	throttle *throttle

	mu      sync.Mutex
	waiting queue
	busy    atomic.Int64 // when the queue last ceased to be empty, in nanoseconds since epoch
}

type kind uint8

const (
	unmade    kind = iota // New did not make it: it lets nothing through
	throttled             // in the order in which a set takes them
	concurrency
	rated
)

// farAway is from where on the time of a clock could not be counted from epoch.
const farAway = 100 * 365 * 24 * time.Hour

var (
	lastLimit  atomic.Uint64
	lastWaiter atomic.Uint64
	epoch      = time.Now()
)

// New returns a limit, or an error that names every setting that is not possible.
func New(c Config) (*Limit, error) {
	l := &Limit{id: lastLimit.Add(1), c: c, kind: concurrency}
	var problems []error
	problem := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf("limit: "+format, args...))
		}
	}
	if c.Clock != nil {
		away := c.Clock.Now().Sub(epoch).Abs()
		problem(away > farAway, "Clock says %v; it must be within 100 years of the machine's", c.Clock.Now())
	}
	set := 0
	for _, is := range []bool{c.Concurrency != 0, c.Rate != 0, c.Adaptive != nil, c.Throttle != nil} {
		if is {
			set++
		}
	}
	problem(set != 1, "%d of Concurrency, Rate, Adaptive and Throttle are set; set just one", set)
	problem(c.Throttle != nil && (c.Queue != 0 || c.MaxWait != 0 || c.ShedAfter != 0), "nobody waits at a Throttle; leave Queue, MaxWait and ShedAfter out")
	problem(c.Rate == 0 && (c.Per != 0 || c.Burst != 0), "Per and Burst belong to a Rate, and there is none; set it or leave them out")
	problem(c.Queue < NoQueue, "Queue is %d; it must be more than 0, 0 for any length, or NoQueue", c.Queue)
	problem(c.ShedAfter < 0, "ShedAfter is %v; it must be positive, or 0 for never", c.ShedAfter)
	problem(c.MaxWait < 0, "MaxWait is %v; it must be positive, or 0 for any", c.MaxWait)
	switch {
	case c.Throttle != nil:
		l.kind = throttled
		var err error
		if l.throttle, err = newThrottle(*c.Throttle); err != nil {
			problems = append(problems, err)
		}
	case c.Adaptive != nil:
		adapt, err := newAdaptive(*c.Adaptive)
		if err != nil {
			problems = append(problems, err)
			break
		}
		l.adapt = adapt
		l.slots.most.Store(int64(adapt.width.Width()))
	case c.Rate != 0:
		l.kind = rated
		per, burst := cmp.Or(c.Per, time.Second), cmp.Or(c.Burst, max(c.Rate, 1))
		problem(c.Rate < 1, "Rate is %d; it must be positive", c.Rate)
		problem(per < 0, "Per is %v; it must be positive, or 0 for a second", per)
		problem(burst < 0, "Burst is %d; it must be positive, or 0 for Rate", burst)
		if c.Rate < 1 || per < 0 || burst < 0 {
			break
		}
		if err := l.rate.set(c.Rate, per, burst); err != nil {
			problems = append(problems, err)
		}
	case c.Concurrency != 0:
		problem(c.Concurrency < 1 || c.Concurrency > maxSlots, "Concurrency is %d; it must be from 1 to %d", c.Concurrency, maxSlots)
		l.slots.most.Store(int64(c.Concurrency))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return l, nil
}

// Must returns the limit, or panics if there is an error: for variables of a
// package.
func Must(l *Limit, err error) *Limit {
	if err != nil {
		panic(err)
	}
	return l
}

// Concurrency lets n attempts run at once. If n is less than 1, the limit lets nothing
// through: [Join], [Get], [Do] and guard.New return the error that [New] returns.
func Concurrency(n int) *Limit {
	if n == 0 { // in a Config 0 is no concurrency at all
		return &Limit{bad: fmt.Errorf("limit: Concurrency is 0; it must be from 1 to %d", maxSlots)}
	}
	return short(Config{Concurrency: n})
}

// Rate lets n attempts begin at once and then n in each per, evenly. If one of the two
// is not positive, the limit lets nothing through: [Join], [Get], [Do] and guard.New
// return the error that [New] returns.
func Rate(n int, per time.Duration) *Limit {
	switch { // in a Config 0 is no rate at all, or a second
	case n == 0:
		return &Limit{bad: errors.New("limit: Rate is 0; it must be positive")}
	case per == 0:
		return &Limit{bad: errors.New("limit: Per is 0s; it must be positive")}
	}
	return short(Config{Rate: n, Per: per})
}

// short returns the limit of a configuration, or one that was not made and says why.
func short(c Config) *Limit {
	l, err := New(c)
	if err != nil {
		return &Limit{bad: err}
	}
	return l
}

// made returns nil, or why the limit was not made.
func (l *Limit) made() error {
	switch {
	case l == nil || l.id == 0 && l.bad == nil:
		return errUnmade
	case l.id == 0:
		return l.bad
	}
	return nil
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
func (l *Limit) String() string { return named(l.c.Name) }

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
	return &Error{Name: l.c.Name, Why: fmt.Sprintf(format, args...), After: after}
}
