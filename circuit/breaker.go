package circuit

import (
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/circuit/driver"
)

// Breaker is a circuit breaker that any number of goroutines may use. It starts no
// goroutine and no timer. [New] makes it; it must not be copied.
//
// One that New did not make, and a nil one, lets nothing through: [Breaker.Acquire],
// [Breaker.Restore], [Get] and [Do] return an error that says so, its state is Open, and
// Open and Close do nothing.
type Breaker struct {
	noCopy noCopy
	driver *driver.Breaker
	epoch  time.Time
	now    func() time.Time // of a breaker that measures calls
}

// noCopy has go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// New returns a closed breaker, or the error of Config.Validate.
func New(config Config) (*Breaker, error) {
	d, err := driver.New(driver.Config(config))
	if err != nil {
		return nil, err
	}
	b := &Breaker{driver: d}
	if d.Timed() {
		if b.now = config.Now; b.now == nil {
			b.now = time.Now
		}
		b.epoch = b.now()
	}
	return b, nil
}

// Must returns the breaker, or panics if there is an error: for variables of a
// package.
func Must(b *Breaker, err error) *Breaker {
	if err != nil {
		panic(err)
	}
	return b
}

// Permit is the right to make one attempt, to be answered once with
// [Permit.Done]. It must not be copied; pass a pointer. The zero Permit has
// nothing to answer.
type Permit struct {
	breaker  *Breaker
	ticket   driver.Ticket
	began    time.Duration // since the epoch, of a breaker that measures calls
	answered atomic.Bool
}

// Acquire asks to let an attempt through. The error is an *[OpenError]; with
// it there is nothing to answer.
func (b *Breaker) Acquire() (Permit, error) {
	if !b.made() {
		return Permit{}, errUnmade
	}
	ticket, err := b.driver.Admit()
	if err != nil {
		return Permit{}, err
	}
	return Permit{breaker: b, ticket: ticket, began: b.start()}, nil
}

// made reports whether New has made b.
func (b *Breaker) made() bool { return b != nil && b.driver != nil }

// Done answers the permit; any further answer, by whomever, does nothing. It
// is safe for concurrent use.
func (p *Permit) Done(outcome Outcome) {
	if p.breaker == nil || p.answered.Swap(true) {
		return
	}
	p.breaker.driver.Answer(p.ticket, outcome, p.breaker.since(p.began))
}

// start reads the clock of a breaker that measures calls, and since it again.
func (b *Breaker) start() time.Duration {
	if b.now == nil {
		return 0
	}
	return b.now().Sub(b.epoch)
}

func (b *Breaker) since(began time.Duration) time.Duration { return b.start() - began }

// Open opens the breaker by hand: for Config.Timeout, or, if hold, until
// [Breaker.Close] is called. Calls that run change nothing any more.
func (b *Breaker) Open(hold bool) {
	if b.made() {
		b.driver.Open(hold)
	}
}

// Close closes the breaker by hand, with nothing counted.
func (b *Breaker) Close() {
	if b.made() {
		b.driver.Close()
	}
}

// State returns the state that a call would meet now: once the timeout is
// over that is HalfOpen, though the change is made, and told, by the next
// call.
func (b *Breaker) State() State {
	if !b.made() {
		return Open
	}
	return b.driver.State()
}

// Name returns Config.Name.
func (b *Breaker) Name() string {
	if !b.made() {
		return ""
	}
	return b.driver.Name()
}

// Counts returns how many answers there have been, the late ones included.
func (b *Breaker) Counts() Counts {
	if !b.made() {
		return Counts{}
	}
	return b.driver.Counts()
}

// Snapshot returns the state of the breaker, and [Breaker.Restore] puts it there.
func (b *Breaker) Snapshot() Snapshot {
	if !b.made() {
		return Snapshot{State: Open}
	}
	return b.driver.Snapshot()
}

// Restore puts the breaker into the state of a snapshot, or leaves it as it was and
// returns an error that names everything in it that no breaker can have. Permits that
// are out are of another life, and their answers change nothing unless the snapshot
// knows them.
func (b *Breaker) Restore(s Snapshot) error {
	if !b.made() {
		return errUnmade
	}
	return b.driver.Restore(s)
}

// GuardLayer marks what guard.New takes; it does nothing.
func (*Breaker) GuardLayer() {}

// Driver returns what is within, for those who drive attempts themselves and measure
// them: it gives tickets, and says what an error means. It is nil if New has not made b.
func (b *Breaker) Driver() *driver.Breaker {
	if b == nil {
		return nil
	}
	return b.driver
}
