package policy

import (
	"fmt"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/retry/driver"
)

// Kind is what [Machine.Next] tells the driver to do.
type Kind uint8

// The kinds of decision.
const (
	// Start an agent for Item, now.
	Start Kind = iota
	// Wait until Until, or until an agent ends, and ask again.
	Wait
	// Idle until an agent ends, and ask again: no worker is free, or all that
	// is left runs already, or the map stops and lets its agents end.
	Idle
	// Finished: no agent runs and none will start. Status says how it went.
	Finished
)

// Hold is why something that could run has to wait.
type Hold uint8

// The holds of a Wait.
const (
	NoHold        Hold = iota
	HoldRetry          // all items that are left wait for their next attempt
	HoldRamp           // start_delay
	HoldRateLimit      // a rate limit pauses all agents
	HoldResources      // the system has no room for another process
	HoldBreaker        // the breaker is open, or lets no further probe in
	HoldSameError      // the same thing keeps failing: see [SameError]
	HoldCanary         // the first items run alone: see [Canary]
)

var holdNames = [...]string{"", "retry", "start_delay", "rate_limit", "resources", "circuit_open", "same_error", "canary"}

// String gives "", "retry", "start_delay", "rate_limit", "resources",
// "circuit_open", "same_error" or "canary".
func (h Hold) String() string {
	if int(h) < len(holdNames) {
		return holdNames[h]
	}
	return "unknown"
}

// Status is how a map ended.
type Status string

// The statuses of a map.
const (
	// Succeeded: every item ended well.
	Succeeded Status = "succeeded"
	// CompletedWithFailures: every item has finished, some failed for good.
	CompletedWithFailures Status = "completed_with_failures"
	// Stopped: the policy or the driver ended the map; see [Machine.Stopped].
	Stopped Status = "stopped"
)

// StopReason is why a map stopped before its end. The driver's own reasons
// (an interrupt, a cost budget) are words of its choice given to [Machine.Halt].
type StopReason string

// The reasons of the policy.
const (
	NotStopped         StopReason = ""
	ByMaxFailures      StopReason = "max_failures"
	ByFailureThreshold StopReason = "failure_threshold"
	ByFirstFailure     StopReason = "continue_on_failure"
	ByItemFailure      StopReason = "on_item_failure"
	// ByRateLimit: a rate limit lasts longer than RateLimitMaxWait. No item has
	// failed by it; a resume continues with them.
	ByRateLimit StopReason = "rate_limit"
	// ByShortage: the system had no room to start anything for a minute. No item
	// has failed by it; a resume continues with them.
	ByShortage StopReason = "resources"
	// BySameError: the same thing kept failing, by same_error. What failed so is
	// pending; a resume continues with it.
	BySameError StopReason = "same_error"
	// ByCanary: too few of the first items succeeded, by canary. The others are
	// pending; a resume begins with as many of them.
	ByCanary StopReason = "canary"
)

// Text says why, for people, of a map of which so many items have failed for good: after a
// resume they may be more than maxFailures. A word of the driver's own is as it is.
func (r StopReason) Text(failed, maxFailures int, threshold float64) string {
	switch r {
	case ByMaxFailures:
		return fmt.Sprintf("%s %s failed for good (max_failures: %d)", diag.Count(failed, "item"), diag.Plural(failed, "has", "have"), maxFailures)
	case ByFailureThreshold:
		return fmt.Sprintf("the rate of failed items has reached %.4g (failure_threshold)", threshold)
	case ByFirstFailure:
		return "an item failed for good (continue_on_failure: false)"
	case ByItemFailure:
		return "an item failed for good (on_item_failure: stop)"
	case BySameError:
		return "the same thing keeps failing (same_error)"
	case ByCanary:
		return "too few of the first items succeeded (canary)"
	case ByRateLimit:
		return "agents would have to wait longer than max_wait"
	case ByShortage:
		return "for a minute the system had no room for another process (ulimit -u, ulimit -n, memory): run fewer at once (max_parallel), or raise the limit"
	}
	return string(r)
}

// Decision is the answer of [Machine.Next].
type Decision struct {
	Kind Kind
	// Item is the index of the item to start and Attempt the number of the attempt
	// that this will be, both from 1.
	Item, Attempt int
	// Recoveries is how many times the item was running when the run went down.
	Recoveries int
	// Probe says that the map is held, and this start finds out whether it need be.
	Probe bool
	// Until is when to ask again; only of Wait.
	Until time.Time
	// Hold is what holds back the next start; of Wait, and of Idle where it
	// is the breaker, or a lack of room in the system, and not the number of workers.
	Hold Hold
	// Status is how the map ended; only of Finished.
	Status Status
}

// Outcome is how an agent ended.
type Outcome struct {
	// OK says that it ended well. Err is not read then.
	OK bool
	// LeftOut says that the item gets no further attempt and is left out, whatever
	// Config.OnItemFailure says. It is read of an agent that failed.
	LeftOut bool
	// Cancelled says that the agent was ended from outside before its time: the
	// item is as it was before, uses up no attempt and can start again.
	Cancelled bool
	// Shortage says that the system had no room to start what the agent needed
	// (processes, file descriptors): the item is as it was before, as if it was
	// cancelled. No more agents run at once than there was room for, until that
	// proves to be more; where there is room for none, starts are held back for a
	// moment, or the map stops where that lasts.
	Shortage bool
	// Took is how long the agent took, 0 if that is not known. The breaker alone
	// looks at it.
	Took time.Duration
	// RateLimited says that the agent was turned away by a rate limit. All
	// agents pause, and the item uses up no attempt.
	RateLimited bool
	// RetryAfter is how long the other side asked to be left alone; 0 means
	// that it did not say. Of an ordinary failure it raises the delay, as in
	// package retry.
	RetryAfter time.Duration
	// Err is why it failed.
	Err error
	// Signature is what the failure has in common with others of its cause, for
	// SameError.
	Signature failure.Signature
	// Judged is what the item-level retry policy said of it where the agent ran;
	// nil where the machine is to ask it.
	Judged *Judged
	// Halt stops the map for a reason of the file's, as [Machine.Halt]; "" for
	// none.
	Halt StopReason
}

// Fate is what becomes of an item after an agent ended.
type Fate uint8

// The fates.
const (
	// ItemSucceeded: finished, well.
	ItemSucceeded Fate = iota
	// ItemRetry: starts again at Verdict.NotBefore or later, as a new attempt.
	ItemRetry
	// ItemPaused: a rate limit; starts again after the pause, as the same attempt.
	ItemPaused
	// ItemReturned: cancelled; may start again, as the same attempt.
	ItemReturned
	// ItemDeadLettered: failed for good, to be kept as a dead letter.
	ItemDeadLettered
	// ItemSkipped: failed for good, left out.
	ItemSkipped
	// ItemHandled: failed for good, to be given to the handler Verdict.Handler.
	ItemHandled
	// ItemFailed: failed for good, and ended the map (on_item_failure: stop).
	ItemFailed
	// ItemUnchanged: finished, by an earlier run; only of Restore.
	ItemUnchanged
	// ItemHeld: failed as others did before it, by which the map is held; starts again
	// as if it had not been tried.
	ItemHeld
)

var fateNames = [...]string{"succeeded", "retry", "paused", "returned", "dead_lettered", "skipped", "handled", "failed", "unchanged", "held"}

// String gives the fate as one word.
func (f Fate) String() string {
	if int(f) < len(fateNames) {
		return fateNames[f]
	}
	return "unknown"
}

// FailedForGood reports whether the item has failed and gets no further attempt.
func (f Fate) FailedForGood() bool { return f >= ItemDeadLettered && f <= ItemFailed }

// Final reports whether the item is finished, well or not.
func (f Fate) Final() bool { return f == ItemSucceeded || f.FailedForGood() || f == ItemUnchanged }

// BreakerChange is a change of state of the map's breaker.
type BreakerChange struct {
	From, To circuit.State
}

// Verdict is what [Machine.Finished] and [Machine.Restore] decided.
type Verdict struct {
	Item int
	// Attempt is the number of the attempt that ended.
	Attempt int
	Fate    Fate
	// Delay is the wait before the next attempt and NotBefore its end; of
	// ItemRetry and ItemPaused.
	Delay     time.Duration
	NotBefore time.Time
	// Reason is why there is no further attempt; ReasonNone where the item
	// failed for good without an item-level retry policy.
	Reason driver.Reason
	// GivenUp says why the item failed for good without an attempt that failed: the run, or
	// its worker, went down too often while it ran, or its retries are over; "" for others.
	GivenUp string
	// Recoveries is how many times the run went down while the item ran; of Restore.
	Recoveries int
	// Retry is the state of the item's retries, to be recorded for a resume.
	Retry driver.State
	// Wait is why the item waits as long as it does; of ItemRetry after a failed
	// attempt.
	Wait event.Wait
	// Handler is the handler to run; of ItemHandled.
	Handler string
	// Stop is set where this ended the map.
	Stop StopReason
	// PausedUntil is set where this made or prolonged a rate-limit pause.
	PausedUntil time.Time
	// Breaker is set where this changed the state of the breaker.
	Breaker *BreakerChange
	// Holds are set where this changed the hold of the map.
	Holds []HoldChange
	// Canary is set where the canaries are judged.
	Canary *CanaryEnd
	// Show are the errors to be shown now, by Config.ErrorCollection.
	Show []Report
}

// Report is the error of one item that failed for good.
type Report struct {
	Item, Attempt  int
	Fate           Fate
	Class, Message string
}
