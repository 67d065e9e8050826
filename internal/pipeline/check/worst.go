package check

import (
	"cmp"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/bound"
)

// Retries is what the policy of a call with the options leads to at most; without
// options it is one attempt.
func (o *Options) Retries() bound.Retries {
	if o == nil {
		return bound.Retries{Attempts: bound.Number(1)}
	}
	return o.retries()
}

func (o *Plain) retries() bound.Retries {
	p := o.Retry
	p.Deadline = o.Deadline
	by := bound.Asked{}
	if o.Breaker != nil {
		by.Breaker = cmp.Or(o.Breaker.Timeout, circuit.DefaultTimeout)
	}
	return bound.Of(p, by)
}

// Worst is the longest that a call can take, waits for others (for a throttle, a slot,
// its inputs) aside.
func (o *Options) Worst() bound.Cost {
	attempt := bound.Attempt(0, bound.Span{})
	if o != nil {
		attempt = bound.Attempt(o.Retry.Timeout, bound.Span{})
	}
	return o.Retries().Cost(attempt)
}
