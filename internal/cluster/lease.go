package cluster

import (
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Lease is work for a lane: items that it runs one after another, until all are done, the
// lease's time is over, or its credits are spent.
type Lease struct {
	Run   string `json:"run"`
	Store string `json:"store"` // as OpenStore takes it
	Life  int    `json:"life"`  // of the run, from 1
	ID    int    `json:"id"`
	Log   string `json:"log"`
	Spans []Span `json:"spans,omitempty"`
	// Slice is how long it lasts. The item that is running then is completed.
	Slice time.Duration `json:"slice"`
	// Failures and Row are its credits, as in policy.Lease, and Budget is what its agents
	// may use. The lease ends with the item that spends one of them.
	Failures int          `json:"failures,omitempty"`
	Row      int          `json:"row,omitempty"`
	Budget   engine.Usage `json:"budget,omitzero"`
	// Odd is after how many ends that are no successes it ends; 0 means maxOdd.
	Odd int `json:"odd,omitempty"`
	// Heartbeat is how long the lane may be silent.
	Heartbeat time.Duration `json:"heartbeat"`
}

// Span is some consecutive items of a lease.
type Span struct {
	Item       int           `json:"item"`        // the first, from 1
	N          int           `json:"n,omitempty"` // how many; 0 is 1
	Attempt    int           `json:"attempt,omitempty"`
	Recoveries int           `json:"recoveries,omitempty"`
	Retry      *driver.State `json:"retry,omitempty"`
	Last       string        `json:"last,omitempty"` // the log that has the attempt before
}

// spansOf combines the items of a lease into spans.
func spansOf(items []policy.Leased, last map[int]string) (spans []Span) {
	for _, it := range items {
		s := Span{Item: it.Item, N: 1, Attempt: it.Attempt, Recoveries: it.Recoveries, Retry: it.Retry, Last: last[it.Item]}
		if n := len(spans) - 1; n >= 0 {
			p := &spans[n]
			if s.Retry == nil && p.Retry == nil && s.Last == "" && p.Last == "" && s.Attempt == p.Attempt && s.Recoveries == p.Recoveries && s.Item == p.Item+p.N {
				p.N++
				continue
			}
		}
		spans = append(spans, s)
	}
	return spans
}

// items gives the items of a lease, in its order.
func (l *Lease) items() (items []policy.Leased, last []string) {
	for _, s := range l.Spans {
		for i := range max(s.N, 1) {
			items = append(items, policy.Leased{Item: s.Item + i, Attempt: max(s.Attempt, 1), Recoveries: s.Recoveries, Retry: s.Retry})
			last = append(last, s.Last)
		}
	}
	return items, last
}

// Settled is how a lease ended: the first Done of its items have ended, all of them well
// except for those in Odd.
type Settled struct {
	Prefix
	Done int   `json:"done"`
	Odd  []Odd `json:"odd,omitempty"`
	// Took is how long the lane worked.
	Took time.Duration `json:"took,omitempty"`
	// Used is what its agents have used.
	Used engine.Usage `json:"used,omitzero"`
}

// Odd is an end of an attempt at an item that is no success.
type Odd struct {
	At         int            `json:"at"` // the item's place in the lease, from 0
	Kind       string         `json:"kind"`
	Judged     *policy.Judged `json:"judged,omitempty"` // of one that failed
	RetryAfter time.Duration  `json:"retry_after,omitempty"`
	// Halt is why the file makes the map stop at this item; usually "".
	Halt policy.StopReason `json:"halt,omitempty"`
}

// The kinds of odd ends.
const (
	oddFailed   = "failed"
	oddLimited  = "limited"  // a rate limit turned its agent away
	oddShortage = "shortage" // the machine had no room for it
)

// oddOf gives the end of an agent, if it is no success.
func oddOf(at int, o policy.Outcome) (Odd, bool) {
	odd := Odd{At: at, RetryAfter: o.RetryAfter, Halt: o.Halt}
	switch {
	case o.OK:
		return odd, false
	case o.Shortage:
		odd.Kind = oddShortage
	case o.RateLimited:
		odd.Kind = oddLimited
	default:
		odd.Kind, odd.Judged = oddFailed, o.Judged
	}
	return odd, true
}

func (o *Odd) outcome() policy.Outcome {
	switch o.Kind {
	case oddShortage:
		return policy.Outcome{Cancelled: true, Shortage: true}
	case oddLimited:
		return policy.Outcome{RateLimited: true, RetryAfter: o.RetryAfter, Err: &failure.Failure{Class: "rate_limit", Message: "a rate limit turned its agent away"}}
	}
	j := o.Judged
	if j == nil {
		j = &policy.Judged{Class: "error"}
	}
	return policy.Outcome{Judged: j, RetryAfter: o.RetryAfter, Halt: o.Halt, Err: &failure.Failure{Class: j.Class, Message: "see the dead letters"}}
}

// ends gives the ends of a lease's items, in the form that the machine takes.
func (s *Settled) ends(items []policy.Leased) []policy.End {
	n := min(max(s.Done, 0), len(items))
	ends := make([]policy.End, n)
	for i := range ends {
		ends[i] = policy.End{Item: items[i].Item, Outcome: policy.Outcome{OK: true}}
	}
	for i := range s.Odd {
		if o := &s.Odd[i]; o.At >= 0 && o.At < n {
			ends[o.At].Outcome = o.outcome()
		}
	}
	return ends
}

// Config is what the coordinator needs to know about a map, as a value that can be sent.
type Config struct {
	// Config has no retry policy for items, because lanes decide about attempts.
	policy.Config
	Retried bool `json:"retry,omitempty"` // items are tried again
	// Timeout is that of the workflow, for one life of the run, and Budget is that of its
	// agents; 0 means none.
	Timeout time.Duration `json:"timeout,omitempty"`
	Budget  engine.Usage  `json:"budget,omitzero"`
	// Paused says that somebody paused the run in an earlier life.
	Paused bool `json:"paused,omitempty"`
}

// configOf gives what can be sent of a map.
func configOf(m *engine.PartMap) Config {
	c := Config{Config: m.Policy, Timeout: m.Timeout, Budget: m.Budget, Paused: m.Paused}
	c.Retried, c.Retry = c.Retry != nil || c.OnItemFailure == policy.Retry, nil
	return c
}

func (c *Config) policy() policy.Config {
	p := c.Config
	p.MaxWaiting = maxWaiting
	if c.Retried {
		p.Retry = &retry.Policy{Attempts: 1} // lanes decide; this only says that there is a policy
	}
	return p
}
