package policy

import (
	"slices"

	"github.com/bide-dev/bide/internal/failure"
)

// Repeated is that a map continued though the same thing kept failing: that it would have
// been held, or that nothing could hold it.
type Repeated struct {
	// Items is how many different items had failed alike when the map would have been
	// held, and Attempts how many failed so after that.
	Items, Attempts int
	// Message is the failure.
	Message string
	// Weak says that the failure names no cause, so that it holds no map.
	Weak bool
}

// repeats watches for what would hold a map that is not held: one without SameError, and
// for failures that name no cause every map.
type repeats struct {
	watch holding
	all   bool // there is no SameError
	sign  failure.Signature
	found Repeated
}

func newRepeats(c *SameError) *repeats {
	r := &repeats{all: c == nil}
	if c == nil {
		c = &SameError{}
	}
	r.watch.cfg = c.Defaults()
	return r
}

// note takes in how an agent ended.
func (r *repeats) note(item int, o *Outcome) {
	sign := o.Signature
	switch {
	case o.OK || !r.all && !sign.Weak():
		sign = failure.Signature{}
	case r.found.Items > 0:
		if sign == r.sign {
			r.found.Attempts++
		}
		return
	}
	if r.found.Items > 0 || sign == (failure.Signature{}) && len(r.watch.recent) == 0 {
		return
	}
	if r.watch.note(witness{item: item, sign: sign}) {
		r.sign, r.watch.recent = sign, nil
		r.found = Repeated{Items: r.watch.cfg.Count, Message: failureText(o.Err), Weak: sign.Weak()}
		return
	}
	// What succeeded before the first failure is of no account.
	for len(r.watch.recent) > 0 && r.watch.recent[0].sign == (failure.Signature{}) {
		r.watch.recent = slices.Delete(r.watch.recent, 0, 1)
	}
}

// Repeated tells what kept failing; ok is false where nothing did.
func (m *Machine) Repeated() (r Repeated, ok bool) {
	return m.repeats.found, m.repeats.found.Attempts > 0
}
