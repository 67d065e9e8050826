// Package breaker is a circuit breaker that outlives its process: a
// circuit.Machine behind a lock, which begins where a record says that it was
// and tells each change to whoever keeps the record. It is a guard.Breaker.
package breaker

import (
	"sync"
	"time"

	"github.com/bide-dev/bide/circuit"
)

// Record is where the states of breakers are kept. Each function may be nil.
type Record struct {
	// Now is the time; nil means time.Now.
	Now func() time.Time
	// Last gives the recorded state of a breaker, if there is one.
	Last func(name string) (circuit.Snapshot, bool)
	// Changed is told each change of state and of the counts that lead to one,
	// in order.
	Changed func(name string, before, after circuit.Snapshot)
}

// Breaker is one breaker. It is safe for concurrent use.
type Breaker struct {
	name    string
	now     func() time.Time
	changed func(name string, before, after circuit.Snapshot)
	mu      sync.Mutex
	m       *circuit.Machine
}

// New returns the breaker of a name in the record. The error is that of a
// configuration or of a recorded state that cannot be.
func New(name string, config circuit.Config, record Record) (*Breaker, error) {
	m, err := circuit.NewMachine(config)
	if err != nil {
		return nil, err
	}
	if record.Last != nil {
		if s, ok := record.Last(name); ok {
			s.Probes = nil // no one answers for them any more
			if err := m.Restore(s); err != nil {
				return nil, err
			}
		}
	}
	now := record.Now
	if now == nil {
		now = time.Now
	}
	return &Breaker{name: name, now: now, changed: record.Changed, m: m}, nil
}

// Admit asks to let an attempt through; the error is a *circuit.OpenError.
func (b *Breaker) Admit() (t circuit.Ticket, err error) {
	b.change(func() { t, err = b.m.Acquire(b.now()) })
	return t, err
}

// Answer says what became of the attempt.
func (b *Breaker) Answer(t circuit.Ticket, o circuit.Outcome) {
	b.change(func() { b.m.Done(t, o, b.now()) })
}

// change does something to the machine and tells what it changed, under the
// lock, so that the last that is told is the last there was.
func (b *Breaker) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		f()
		return
	}
	before := b.m.Snapshot()
	f()
	after := b.m.Snapshot()
	if before.State != after.State || before.Failures != after.Failures || before.Successes != after.Successes {
		b.changed(b.name, before, after)
	}
}
