package policy

import "slices"

// Counts are the numbers of items by where they are. Every item is in
// exactly one of Pending, Running, Retrying, Succeeded, Failed, Skipped and
// Unchanged; their sum is Total.
type Counts struct {
	Total     int `json:"total"`
	Pending   int `json:"pending"`  // not started yet
	Running   int `json:"running"`  // an agent runs
	Retrying  int `json:"retrying"` // wait for their next attempt
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`  // failed for good, and not skipped by the policy
	Skipped   int `json:"skipped"` // failed for good, and left out by the policy
	// Unchanged are those that an earlier run has ended well; they are no part of
	// the rate of failures.
	Unchanged int `json:"unchanged,omitempty"`

	DeadLettered  int `json:"dead_lettered"`   // those of Failed that are dead letters
	FailedForGood int `json:"failed_for_good"` // those of Failed and Skipped that count for the bounds
}

// Finished is how many items have ended.
func (c Counts) Finished() int { return c.ran() + c.Unchanged }

// ran is how many items have ended in this run.
func (c Counts) ran() int { return c.Succeeded + c.Failed + c.Skipped }

func (c *Counts) add(f Fate) {
	switch f {
	case ItemSucceeded:
		c.Succeeded++
	case ItemSkipped:
		c.Skipped++
	case ItemUnchanged:
		c.Unchanged++
	case ItemDeadLettered:
		c.DeadLettered++
		c.Failed++
	case ItemHandled, ItemFailed:
		c.Failed++
	default:
		c.Retrying++
	}
	if f.FailedForGood() {
		c.FailedForGood++
	}
}

// Counts gives the numbers of items by where they are.
func (m *Machine) Counts() Counts { return m.counts }

// Unshown gives the errors of an unfilled batch, which have not been shown yet.
func (m *Machine) Unshown() []Report { return slices.Clone(m.errs.held) }

// collection holds back the errors that are to be shown later: the others are in the journal.
type collection struct {
	when ErrorCollection
	held []Report
}

// forget takes an item's error out of those that are to be shown.
func (c *collection) forget(item int) {
	c.held = slices.DeleteFunc(c.held, func(r Report) bool { return r.Item == item })
}

// item takes the error of an item that failed for good, and gives the errors to show now.
func (c *collection) item(v *Verdict, class, message string) []Report {
	if c.when.When == Aggregate {
		return nil
	}
	c.held = append(c.held, Report{Item: v.Item, Attempt: v.Attempt, Fate: v.Fate, Class: class, Message: message})
	if c.when.When == Batched && len(c.held) < c.when.Size {
		return nil
	}
	show := c.held
	c.held = nil
	return show
}
