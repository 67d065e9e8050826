package driver

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/internal/permanent"
)

// Breaker is a [Machine] with a clock that any number of goroutines may
// use. It starts no goroutine and no timer.
//
// A closed breaker whose last answer was a success, and an open one before its
// timeout, answer without taking the lock: neither call changes the machine,
// so reading a word that each change rewrites is enough.
type Breaker struct {
	// published is what the paths without the lock need of the machine:
	// generation<<2 | phase. It is written with mu held.
	published atomic.Uint64
	// openUntil is the end of the open state as nanoseconds since epoch.
	openUntil atomic.Int64
	// openFor is how long that lasts in all.
	openFor atomic.Int64
	// refusal is the error that was last given, for the next who would get
	// an equal one.
	refusal atomic.Pointer[OpenError]

	// The counters change with each call. They are kept away from what is
	// only read, or every call would wait for the other processors' caches.
	_         [cacheLine]byte
	successes atomic.Uint64
	failures  atomic.Uint64
	_         [cacheLine]byte

	epoch   time.Time
	clock   func() time.Time // nil: the machine's
	name    string
	grain   time.Duration // what RetryAfter is rounded up to
	observe func(Change)
	store   Store // nil: none
	key     string
	rated   bool             // every answer is counted
	timed   bool             // how long calls take is measured
	judge   func(error) bool // nil: every error is a failure
	ignore  func(error) bool

	mu      sync.Mutex
	machine *Machine
	changes []Change // not yet told
	telling bool     // someone is telling them
}

// What published says in its two low bits.
const (
	phaseHalfOpen = iota
	phaseClean    // closed, no failure since the last success
	phaseFailing  // closed, some failures
	phaseOpen
	phaseMask = 3
)

const cacheLine = 64

// Counts are the answers that a breaker has had since it was made.
type Counts struct {
	Successes uint64
	Failures  uint64
}

// New returns a closed breaker, or the error of Config.Validate.
func New(config Config) (*Breaker, error) {
	machine, err := NewMachine(config)
	if err != nil {
		return nil, err
	}
	if config.Store != nil {
		if s, ok := config.Store.Load(config.Key); ok {
			s.Probes = nil // nobody answers for them any more
			if err := machine.Restore(s); err != nil {
				return nil, err
			}
		}
	}
	b := &Breaker{
		store:   config.Store,
		key:     config.Key,
		clock:   config.Now,
		name:    config.Name,
		grain:   min(max(machine.config.Timeout/1000, time.Microsecond), time.Millisecond),
		observe: config.OnChange,
		rated:   config.rated(),
		timed:   config.SlowCall > 0,
		judge:   config.FailureIf,
		ignore:  config.IgnoreIf,
		machine: machine,
	}
	if b.clock != nil { // a simulation wants to know it exactly
		b.grain = 1
	}
	b.epoch = b.now()
	b.publish()
	return b, nil
}

func (b *Breaker) now() time.Time {
	if b.clock != nil {
		return b.clock()
	}
	return time.Now()
}

// elapsed is the time since the epoch.
func (b *Breaker) elapsed() time.Duration {
	if b.clock != nil {
		return b.clock().Sub(b.epoch)
	}
	return time.Since(b.epoch)
}

// Admit asks to let an attempt through. The error is an *[OpenError]. Each ticket is
// to be answered with [Breaker.Answer] once.
func (b *Breaker) Admit() (Ticket, error) {
	word := b.published.Load()
	switch word & phaseMask {
	case phaseClean, phaseFailing:
		return Ticket{Generation: word >> 2}, nil
	case phaseOpen:
		// More than all of it is left only where the clock was set back, which
		// the machine knows how to mend.
		if left := time.Duration(b.openUntil.Load()) - b.elapsed(); left > 0 && left <= time.Duration(b.openFor.Load()) {
			return Ticket{}, b.refuse(left)
		}
	}
	return b.acquire()
}

// Timed reports whether [Breaker.Answer] needs to know how long attempts took,
// since Config.SlowCall is set.
func (b *Breaker) Timed() bool { return b.timed }

// Answer answers a ticket of [Breaker.Admit]: how the attempt ended, and how long
// it took, which only a breaker that is [Breaker.Timed] looks at. It is safe for
// concurrent use.
func (b *Breaker) Answer(ticket Ticket, outcome Outcome, took time.Duration) {
	word := b.published.Load()
	switch outcome {
	case Success:
		b.successes.Add(1)
		if word == ticket.Generation<<2|phaseClean && !b.rated {
			return // nothing to clear
		}
	case Neutral:
	default:
		b.failures.Add(1)
	}
	if word>>2 != ticket.Generation {
		return // of an earlier generation
	}
	b.change(func(now time.Time) { b.machine.DoneAfter(ticket, outcome, took, now) })
}

func (b *Breaker) acquire() (ticket Ticket, err error) {
	b.change(func(now time.Time) { ticket, err = b.machine.Acquire(now) })
	return ticket, err
}

// Judge says what the error of a call that returned, or nil, means to the
// breaker: by Config.IgnoreIf and Config.FailureIf, or else every error is a
// failure that is not marked with retry.Permanent.
func (b *Breaker) Judge(err error) Outcome {
	switch {
	case err == nil:
		return Success
	case b.ignore != nil && b.ignore(err):
		return Neutral
	case b.judge != nil && !b.judge(err):
		return Success
	case !b.Judges() && permanent.In(err):
		return Neutral
	}
	return Failure
}

// Judges reports whether there is a Config.FailureIf or Config.IgnoreIf.
func (b *Breaker) Judges() bool { return b.judge != nil || b.ignore != nil }

// Open opens the breaker by hand: for Config.Timeout, or, if hold, until
// [Breaker.Close] is called. Calls that run change nothing any more.
func (b *Breaker) Open(hold bool) {
	b.change(func(now time.Time) { b.machine.Open(now, hold) })
}

// Close closes the breaker by hand, with nothing counted.
func (b *Breaker) Close() { b.change(func(time.Time) { b.machine.Close() }) }

// Restore puts the breaker into the state of a snapshot, as Machine.Restore
// does. Permits that are out are of another life, and their answers change
// nothing unless the snapshot knows them.
func (b *Breaker) Restore(s Snapshot) (err error) {
	b.change(func(time.Time) { err = b.machine.Restore(s) })
	return err
}

// change has f change the machine, and stores and publishes what it has become.
func (b *Breaker) change(f func(now time.Time)) {
	b.mu.Lock()
	defer b.tell() // unlocks
	from, now := b.machine.state, b.now()
	if b.store == nil {
		f(now)
	} else {
		before := b.machine.Snapshot()
		f(now)
		if after := b.machine.Snapshot(); !after.Same(&before) {
			b.store.Save(b.key, before, after)
		}
	}
	b.changed(from, now)
}

// State returns the state that a call would meet now: once the timeout is
// over that is HalfOpen, though the change is made, and told, by the next
// call.
func (b *Breaker) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.State(b.now())
}

// Name returns Config.Name.
func (b *Breaker) Name() string { return b.name }

// Counts returns how many answers there have been, the late ones included.
func (b *Breaker) Counts() Counts {
	return Counts{Successes: b.successes.Load(), Failures: b.failures.Load()}
}

// Snapshot returns the state of the breaker's machine.
func (b *Breaker) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.Snapshot()
}

// refuse returns the error of an open breaker without allocating one for each
// caller: those within one grain of time get the same.
func (b *Breaker) refuse(left time.Duration) error {
	if last := b.refusal.Load(); last != nil && last.RetryAfter >= left && last.RetryAfter-left < b.grain {
		return last
	}
	rounded := left
	if left < math.MaxInt64-b.grain {
		rounded = (left + b.grain - 1) / b.grain * b.grain
	}
	fresh := &OpenError{Name: b.name, State: Open, RetryAfter: rounded}
	b.refusal.Store(fresh)
	return fresh
}

// changed publishes what the machine has become and notes a change of state.
// mu is held.
func (b *Breaker) changed(before State, now time.Time) {
	b.publish()
	if after := b.machine.state; after != before && b.observe != nil {
		b.changes = append(b.changes, Change{Name: b.name, From: before, To: after, Time: now})
	}
}

// publish rewrites the word for the paths without the lock. mu is held.
func (b *Breaker) publish() {
	phase := uint64(phaseHalfOpen)
	switch {
	case b.machine.state == Open:
		phase = phaseOpen
		b.openUntil.Store(int64(b.machine.until.Sub(b.epoch)))
		b.openFor.Store(int64(b.machine.span))
		if b.machine.held {
			phase = phaseHalfOpen // whose refusals come from the machine
		}
	case b.machine.state == Closed && b.machine.failures == 0:
		phase = phaseClean
	case b.machine.state == Closed:
		phase = phaseFailing
	}
	b.published.Store(b.machine.generation<<2 | phase)
}

// tell releases the lock and tells the changes that have gathered, unless
// another goroutine is already at it and will tell them too. If the listener
// panics, what is left is told with the next change.
func (b *Breaker) tell() {
	if b.telling || len(b.changes) == 0 {
		b.mu.Unlock()
		return
	}
	b.telling = true
	defer func() {
		b.telling = false
		b.mu.Unlock()
	}()
	for len(b.changes) > 0 {
		next := b.changes[0]
		b.changes = b.changes[1:]
		b.tellOne(next)
	}
}

// tellOne calls the listener with the lock released, and holds the lock again
// however the listener ends.
func (b *Breaker) tellOne(change Change) {
	b.mu.Unlock()
	defer b.mu.Lock()
	b.observe(change)
}
