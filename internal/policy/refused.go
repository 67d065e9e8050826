package policy

import (
	"math"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Refused is the longest that an operation waits whose attempts a breaker refuses
// that stays open for a time; 0 where a refusal is its end.
func Refused(p retry.Policy, open time.Duration) time.Duration {
	p.Breaker, p.Quota, p.Rand = nil, nil, longest{}
	if p.Attempts == retry.Unlimited {
		p.Attempts = option.MaxAttempts
	}
	began := time.Unix(0, 0)
	m := driver.NewMachine(&p, began)
	for m.Next(&circuit.OpenError{State: circuit.Open, RetryAfter: open}, began.Add(m.State().Slept)).Action == driver.ActionRetry {
	}
	return m.State().Slept
}

// longest draws the longest delay each time.
type longest struct{}

func (longest) Uint64() uint64 { return math.MaxUint64 }
