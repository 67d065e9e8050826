package limit

import "sync/atomic"

// slots are those of a limit of concurrency. As long as nobody waits, they are
// taken and given back without the lock of the limit.
type slots struct {
	most atomic.Int64
	// word is how many are in use, and the bit that says that somebody waits.
	// While it is set, a slot is given by dispatch alone, in the order of the
	// queue.
	word atomic.Int64
}

const (
	maxSlots = 1<<31 - 1
	useMask  = 1<<32 - 1
	queued   = 1 << 32
)

// take takes a slot if there is one and nobody waits.
func (s *slots) take() bool {
	for {
		word := s.word.Load()
		if word >= s.most.Load() { // which is so with the bit too
			return false
		}
		if s.word.CompareAndSwap(word, word+1) {
			return true
		}
	}
}

// free gives a slot back and reports whether somebody waits.
func (s *slots) free() bool { return s.word.Add(-1)&queued != 0 }

// dispatch gives free slots to those who wait first. l.mu is held.
func (l *Limit) dispatch() {
	for len(l.waiting) > 0 && l.slots.word.Load()&useMask < l.slots.most.Load() {
		l.slots.word.Add(1)
		l.waiting.next()
	}
	l.markWaiting()
}

// markWaiting says to who comes whether somebody waits. l.mu is held.
func (l *Limit) markWaiting() {
	if len(l.waiting) > 0 {
		l.slots.word.Or(queued)
	} else {
		l.slots.word.And(^queued)
	}
}
