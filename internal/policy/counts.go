package policy

import (
	"cmp"
	"maps"
	"slices"
)

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

// ClassCount is how often an error class was seen, with one example.
type ClassCount struct {
	Class string `json:"class"`
	// Attempts is the number of failed attempts of the class, Items that of
	// items that failed for good by it.
	Attempts int `json:"attempts"`
	Items    int `json:"items"`
	// Example is the first error of the class, and ExampleItem its item.
	Example     string `json:"example"`
	ExampleItem int    `json:"example_item"`
}

// Summary is what is to be told at the end of a map.
type Summary struct {
	Counts Counts     `json:"counts"`
	Stop   StopReason `json:"stop,omitempty"`
	// Classes are the error classes, the one with most failed items first.
	Classes []ClassCount `json:"classes,omitempty"`
	// Show are the errors of an unfilled batch, which have not been shown yet.
	Show []Report `json:"-"`
}

// Summary gives the counts, the classes of errors and what is left to be
// shown. It may be called at any time, and changes nothing.
func (m *Machine) Summary() Summary {
	s := Summary{Counts: m.counts, Stop: m.stop, Show: slices.Clone(m.errs.held)}
	for _, class := range slices.Sorted(maps.Keys(m.errs.classes)) {
		s.Classes = append(s.Classes, *m.errs.classes[class])
	}
	slices.SortStableFunc(s.Classes, func(a, b ClassCount) int {
		return cmp.Or(cmp.Compare(b.Items, a.Items), cmp.Compare(b.Attempts, a.Attempts))
	})
	return s
}

// collection gathers errors by class, and holds back those to be shown later.
// It keeps one example of each class, not the errors: those are in the journal.
type collection struct {
	when    ErrorCollection
	classes map[string]*ClassCount
	held    []Report
}

func (c *collection) init(when ErrorCollection) {
	c.when = when
	c.classes = map[string]*ClassCount{}
}

func (c *collection) count(class string) *ClassCount {
	cc := c.classes[class]
	if cc == nil {
		cc = &ClassCount{Class: class}
		c.classes[class] = cc
	}
	return cc
}

// attempt counts a failed attempt. The text of an error is only asked for
// where it becomes the example.
func (c *collection) attempt(item int, class string, err error) {
	cc := c.count(class)
	cc.Attempts++
	if cc.Example == "" {
		cc.Example, cc.ExampleItem = err.Error(), item
	}
}

// restored counts an item that had failed for good before a resume.
func (c *collection) restored(item int, s ItemState) {
	cc := c.count(s.Class)
	cc.Attempts++
	cc.Items++
	if cc.Example == "" {
		cc.Example, cc.ExampleItem = s.Message, item
	}
}

// forget takes an item's error out of those that are to be shown.
func (c *collection) forget(item int) {
	c.held = slices.DeleteFunc(c.held, func(r Report) bool { return r.Item == item })
}

// item counts an item that failed for good, and gives the errors to show now.
func (c *collection) item(v *Verdict, class, message string) []Report {
	cc := c.count(class)
	cc.Items++
	if cc.Example == "" {
		cc.Example, cc.ExampleItem = message, v.Item
	}
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
