package event

import "github.com/bide-dev/bide/retry/driver"

// GaveUp says why no further attempt followed, of a [driver.Reason]; "" if the number of
// attempts says it. option gives the name by which the reader knows an option of a policy.
func GaveUp(r driver.Reason, option func(name string) string) string {
	switch r {
	case driver.ReasonNone, driver.ReasonAttempts:
		return ""
	case driver.ReasonNotRetryable:
		return "this failure is not retried"
	case driver.ReasonAborted:
		return option("abort_on") + " names this failure"
	case driver.ReasonBudget:
		return "the next delay would exceed " + option("budget")
	case driver.ReasonDeadline:
		return "no time is left before " + option("deadline")
	case driver.ReasonCircuitOpen:
		return "the circuit breaker is open"
	case driver.ReasonRetryAfter:
		return "it was asked to wait for longer than is allowed"
	}
	return r.Err().Error()
}

// RetriesEnded says why the retries of a step or an item ended: [GaveUp] of the reason that a
// fact names, in the words of a workflow file. It is "" for a text that names no reason.
func RetriesEnded(reason string) string {
	for r := driver.ReasonNone; r.Err() != nil || r == driver.ReasonNone; r++ {
		if r.String() == reason {
			return GaveUp(r, func(name string) string {
				switch name {
				case "budget":
					return "the retry budget"
				case "deadline":
					return "the deadline of the retries"
				}
				return name
			})
		}
	}
	return ""
}
