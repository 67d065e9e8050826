// Package policy is the pure machine of a map: given what became of the work
// items so far and the time, it says which item starts next, which one is
// tried again and when, which one has failed for good and what then becomes
// of it, and when the map as a whole stops.
//
// It has no clock, no goroutine and does no I/O; its only randomness is the
// jitter of the item-level retry policy, whose source is injected. So a
// driver, a simulator in virtual time and a resume that replays the journal
// all come to the same decisions. The loop of a driver is
//
//	for {
//		switch d := m.Next(now()); d.Kind {
//		case policy.Start: // record it, then
//			m.Started(d.Item, now()) // and run the agent; later
//			v, err := m.Finished(item, outcome, now())
//		case policy.Wait: // until d.Until, or until an agent ends
//		case policy.Idle: // until an agent ends
//		case policy.Finished: // d.Status
//		}
//	}
//
// Items are known by their place in the list, from 1, as in event.Index.
//
// Next changes nothing: asked again, it says the same. A machine must not be
// used by two goroutines at once.
//
// # Memory
//
// Items that have not started are a range of indexes and cost nothing, or one
// bit each after a resume. Running items cost a map entry, items that wait for
// their next attempt 64 bytes in a heap. Ended items are counted, not kept.
//
// # Failed attempts, failed items
//
// An agent that ends badly is a failed attempt. The item has failed for good
// when the retry policy gives it no further attempt; then OnItemFailure says
// what becomes of it, and whatever that is, it counts for MaxFailures,
// FailureThreshold and ContinueOnFailure. The breaker counts attempts: each
// agent that ends well or badly is one success or failure to it.
package policy

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/retry"
)

// Action is what becomes of an item that has failed for good.
type Action uint8

// The actions of on_item_failure.
const (
	// DeadLetter keeps the item as a dead letter. The default.
	DeadLetter Action = iota
	// Retry tries the item again by Config.Retry, or by the default retry
	// policy where there is none, and then makes it a dead letter.
	Retry
	// Skip leaves the item out of the results.
	Skip
	// Stop ends the map.
	Stop
	// Custom hands the item to the handler that Config.Handler names.
	Custom
)

var actionNames = [...]string{"dlq", "retry", "skip", "stop", "custom"}

// String gives the spelling of workflow files: dlq, retry, skip, stop, custom.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return fmt.Sprintf("action(%d)", uint8(a))
}

// Collect says when the errors of failed items are shown.
type Collect uint8

// The ways of error_collection.
const (
	// Aggregate shows them at the end: see [Machine.Summary].
	Aggregate Collect = iota
	// Immediate shows each as it comes.
	Immediate
	// Batched shows them Size at a time, the rest at the end.
	Batched
)

// ErrorCollection is error_collection.
type ErrorCollection struct {
	When Collect
	// Size is how many errors make a batch; at least 1. Only Batched uses it.
	Size int
}

// The defaults of fields that are zero.
const (
	DefaultMaxParallel   = 10
	DefaultMaxRecoveries = 5
	// DefaultRateLimitMaxWait is longer than the windows of five hours in
	// which agent providers count usage.
	DefaultRateLimitMaxWait = 6 * time.Hour
	// DefaultRateLimitPause is the first pause after a rate-limit answer
	// that does not say how long it lasts. It doubles with each pause that
	// did not help.
	DefaultRateLimitPause = 30 * time.Second
	// MinFinishedForThreshold is how many items must have finished before
	// FailureThreshold can stop the map.
	MinFinishedForThreshold = 10
)

// MaxItems is the largest number of items of one map.
const MaxItems = math.MaxInt32

// Config is the policy of a map. The zero value is the default policy: ten
// agents at once, no item-level retry, failed items become dead letters, and
// nothing stops the map.
type Config struct {
	// MaxParallel is how many agents may run at once; 0 means 10.
	MaxParallel int `json:"max_parallel"`
	// Adaptive has the machine find how many agents may run at once, in place of
	// MaxParallel, which is not looked at then; nil means that it does not.
	Adaptive *Adaptive `json:"adaptive,omitempty"`
	// OnItemFailure is what becomes of an item that failed for good.
	OnItemFailure Action `json:"on_item_failure,omitempty"`
	// Handler names the handler of Custom.
	Handler string `json:"handler,omitempty"`
	// Retry is the item-level retry policy; nil means that the first failed
	// attempt is final, unless OnItemFailure is Retry. The machine uses its
	// attempts, backoff, budget, matchers and random source. What belongs to
	// the one who runs attempts (timeout, breaker, quota, observer) is refused
	// by Validate.
	Retry *retry.Policy `json:"-"`
	// ContinueOnFailure false lets the first item that failed for good end the
	// map; nil means true.
	ContinueOnFailure *bool `json:"continue_on_failure,omitempty"`
	// MaxFailures stops the map when that many items have failed for good; 0
	// means no bound.
	MaxFailures int `json:"max_failures,omitempty"`
	// FailureThreshold, from 0 to 1, stops the map when that part of
	// the finished items has failed for good, once 10 items have finished; nil
	// means no bound. It is compared exactly, as the decimal number that
	// was written.
	FailureThreshold *float64 `json:"failure_threshold,omitempty"`
	// ErrorCollection says when errors are shown.
	ErrorCollection ErrorCollection `json:"error_collection,omitzero"`
	// Breaker holds back the start of agents while they fail one after the
	// other; nil means none. Its Lease and OnChange must be left zero: the
	// machine knows of each agent whether it still runs, and tells changes
	// of state in its answers.
	Breaker *circuit.Config `json:"breaker,omitempty"`
	// SameError holds the map while the same thing keeps failing; nil means never.
	SameError *SameError `json:"-"`
	// Canary has the first items run alone; nil means that all may start.
	Canary *Canary `json:"canary,omitempty"`
	// StartDelay is the least time between two starts until MaxParallel agents
	// have been started, at the beginning and after each rate-limit pause; 0
	// means none.
	StartDelay time.Duration `json:"start_delay,omitempty"`
	// MaxRecoveries is how many times an item may have been running when the
	// whole run went down; at that number it is a dead letter. 0 means 5,
	// negative means no bound. These are not attempts.
	MaxRecoveries int `json:"max_recoveries,omitempty"`
	// RateLimitMaxWait bounds the time from a rate-limit answer to the end of
	// the pauses it causes, until an agent gets a different answer. A
	// rate-limit answer that would go beyond it stops the map, and a resume
	// continues: no item fails because a quota is used up. 0 means 6 h; negative
	// means no pauses: a rate-limit answer is a failed attempt like any other.
	RateLimitMaxWait time.Duration `json:"rate_limit_max_wait,omitempty"`
	// MaxWaiting is how many items may wait for their next attempt before no more
	// are begun for the first time; 0 means no bound.
	MaxWaiting int `json:"max_waiting,omitempty"`
}

// Validate reports all that is wrong with the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if c.MaxParallel < 0 {
		bad("max_parallel: %d: must be at least 1", c.MaxParallel)
	}
	if c.Adaptive != nil {
		if err := c.Adaptive.Validate(); err != nil {
			bad("max_parallel: %w", err)
		}
	}
	if int(c.OnItemFailure) >= len(actionNames) {
		bad("on_item_failure: unknown action %d", c.OnItemFailure)
	}
	if c.OnItemFailure == Custom && c.Handler == "" {
		bad("on_item_failure: custom needs the name of a handler")
	}
	if c.OnItemFailure != Custom && c.Handler != "" {
		bad("on_item_failure: handler %q is used only by custom, not by %s", c.Handler, c.OnItemFailure)
	}
	if c.MaxFailures < 0 {
		bad("max_failures: %d: must not be negative", c.MaxFailures)
	}
	if t := c.FailureThreshold; t != nil && !(*t >= 0 && *t <= 1) {
		bad("failure_threshold: %v: must be from 0.0 to 1.0", *t)
	}
	switch ec := c.ErrorCollection; {
	case ec.When > Batched:
		bad("error_collection: unknown way %d", ec.When)
	case ec.When == Batched && ec.Size < 1:
		bad("error_collection: batch size %d: must be at least 1", ec.Size)
	}
	if c.MaxWaiting < 0 {
		bad("max_waiting: %d: must not be negative", c.MaxWaiting)
	}
	if c.StartDelay < 0 {
		bad("start_delay: %v: must not be negative", c.StartDelay)
	}
	if r := c.Retry; r != nil {
		errs = append(errs, validateRetry(r)...)
	}
	if c.SameError != nil {
		errs = append(errs, c.SameError.validate()...)
	}
	if c.Canary != nil {
		if err := c.Canary.validate(); err != nil {
			errs = append(errs, err)
		} else if c.OnItemFailure == Stop && c.Canary.Need > 0 && c.Canary.Need < c.Canary.Items {
			errs = append(errs, errCanaryStop)
		}
	}
	if b := c.Breaker; b != nil {
		if b.Lease != 0 || b.OnChange != nil || b.Store != nil || b.Now != nil || b.OpenFor != nil {
			bad("circuit_breaker: a map's breaker has no lease, no listener, no store, no clock and no function for how long it stays open")
		}
		if err := b.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("circuit_breaker: %w", err))
		}
	}
	return errors.Join(errs...)
}

func validateRetry(r *retry.Policy) (errs []error) {
	if err := r.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("retry_config: %w", err))
	}
	if r.Timeout != 0 || r.Breaker != nil || r.Quota != nil || r.Observer != nil {
		errs = append(errs, errors.New("retry_config: timeout, breaker, quota and observer belong to the one who runs the attempts, not to the map"))
	}
	return errs
}

// DefaultRetry is the item-level policy of OnItemFailure Retry where none is
// given: the defaults of a retry policy in workflow files.
func DefaultRetry() retry.Policy {
	p := retry.Policy{Attempts: 3}
	p.Backoff.Initial = time.Second
	return p
}

// withDefaults fills in what is zero. The result is valid where c is.
func (c Config) withDefaults() Config {
	if c.Adaptive != nil {
		a := c.Adaptive.Defaults()
		c.Adaptive, c.MaxParallel = &a, a.Initial
	}
	if c.MaxParallel == 0 {
		c.MaxParallel = DefaultMaxParallel
	}
	if c.MaxRecoveries == 0 {
		c.MaxRecoveries = DefaultMaxRecoveries
	}
	if c.RateLimitMaxWait == 0 {
		c.RateLimitMaxWait = DefaultRateLimitMaxWait
	}
	if c.OnItemFailure == Retry && c.Retry == nil {
		p := DefaultRetry()
		c.Retry = &p
	}
	if c.Retry != nil && c.Retry.If == nil {
		// Without matchers every failed agent is tried again, also one whose
		// command was refused by that command's own breaker: to package retry
		// such an error is a refusal of the operation itself. One whose command is
		// not there is not: no agent finds it.
		p := *c.Retry
		p.If = func(err error) bool { return !failure.Unrunnable(err) }
		c.Retry = &p
	}
	return c
}
