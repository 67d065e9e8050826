package event

import (
	"math/rand/v2"
	"strconv"

	"github.com/bide-dev/bide/backoff"
)

// Drawing is a source of jitter that remembers what was drawn, so that the wait can
// be recorded with it. It is for one operation at a time.
type Drawing struct {
	From  backoff.Rand // nil: the generator of math/rand/v2
	last  uint64
	drawn bool
}

// Uint64 draws a number.
func (d *Drawing) Uint64() uint64 {
	if d.From != nil {
		d.last = d.From.Uint64()
	} else {
		d.last = rand.Uint64()
	}
	d.drawn = true
	return d.last
}

// Take gives what was drawn last, as [Wait] has it, and forgets it.
func (d *Drawing) Take() string {
	if !d.drawn {
		return ""
	}
	d.drawn = false
	return strconv.FormatUint(d.last, 16)
}
