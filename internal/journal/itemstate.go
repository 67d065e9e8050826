package journal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// maxUnlisted is the highest index of an item that is believed where no item
// list is recorded; where one is, its length is the limit. A damaged number
// must not make us ask for all the memory there is.
const maxUnlisted = 1 << 24

// Items is where every work item is: five bytes for each, seven where some have
// failed, and a record for those that wait for a retry or were recovered.
type Items struct {
	limit    int // highest index allowed
	status   []ItemStatus
	attempts []uint32
	special  map[int]special
	edited   map[int]json.RawMessage
	counts   [ItemUnchanged + 1]int
	causes   Causes
	kinds    map[int]int64 // the items that ended well and otherwise than they were meant to: the number of their item_finished
}

// special is what only few items have.
type special struct {
	retry      Retry
	recoveries int
	before     int
	merging    string
	handler    int64
	since      int64 // where the steps of the item in flight begin
	left       bool  // the process in which it was in flight has ended
	failed     int64
	used       event.Used
}

// Len is the number of items: of the recorded list, or without one, of those
// that events told of.
func (t *Items) Len() int { return len(t.status) }

// Causes gives what the items that failed for good have failed of. It is the state's own.
func (t *Items) Causes() *Causes { return &t.causes }

// At gives the record of an item, from 1. An index that is none gives the zero
// record, which is that of an item never started.
func (t *Items) At(index int) ItemRecord {
	if index < 1 || index > len(t.status) {
		return ItemRecord{}
	}
	s := t.special[index]
	return ItemRecord{
		Status: t.status[index-1], Attempts: int(t.attempts[index-1]), Retry: s.retry, Recoveries: s.recoveries, Before: s.before,
		Merging: s.merging, Handler: s.handler, Since: s.since, Failed: s.failed, Used: s.used,
	}
}

// Edited gives the data that an item has since it was edited, the latest; nil
// for an item that has its data of the list.
func (t *Items) Edited(index int) json.RawMessage { return t.edited[index] }

// Kinds gives, in the order of items, the numbers of the item_finished whose data has a
// kind: of items that ended otherwise than they were meant to. An item that is unchanged
// has none.
func (t *Items) Kinds() []int64 {
	out := make([]int64, 0, len(t.kinds))
	for _, index := range slices.Sorted(maps.Keys(t.kinds)) {
		out = append(out, t.kinds[index])
	}
	return out
}

// All gives every item in order.
func (t *Items) All() iter.Seq2[int, ItemRecord] {
	return func(yield func(int, ItemRecord) bool) {
		for i := range t.status {
			if !yield(i+1, t.At(i+1)) {
				return
			}
		}
	}
}

// Counts is how many items are in each status.
func (t *Items) Counts() Counts {
	n := &t.counts
	return Counts{
		Total:        len(t.status),
		Succeeded:    n[ItemSucceeded],
		Failed:       n[ItemFailed] + n[ItemDeadLettered],
		Skipped:      n[ItemSkipped],
		Unchanged:    n[ItemUnchanged],
		Pending:      n[ItemPending] + n[ItemWaiting] + n[ItemRunning] + n[ItemHandling],
		Running:      n[ItemRunning],
		Waiting:      n[ItemWaiting],
		DeadLettered: n[ItemDeadLettered],
	}
}

// grow makes room for the items up to index.
func (t *Items) grow(index int) error {
	limit := cmp.Or(t.limit, maxUnlisted)
	if index < 1 || index > limit {
		return fmt.Errorf("there is no item %d: the list has %d", index, limit)
	}
	if more := index - len(t.status); more > 0 {
		t.counts[ItemPending] += more
		t.status = slices.Grow(t.status, more)[:index]
		t.attempts = slices.Grow(t.attempts, more)[:index]
	}
	return nil
}

func (t *Items) set(index int, s ItemStatus) {
	t.counts[t.status[index-1]]--
	t.counts[s]++
	t.status[index-1] = s
	if s.Done() {
		delete(t.special, index)
	}
}

// attempt notes that an attempt of that number has started.
func (t *Items) attempt(index, number int) {
	if number > 0 && uint64(number) <= 1<<32-1 {
		t.attempts[index-1] = max(t.attempts[index-1], uint32(number))
	}
}

func (t *Items) update(index int, f func(*special)) {
	if t.special == nil {
		t.special = map[int]special{}
	}
	s := t.special[index]
	f(&s)
	t.special[index] = s
}

// giveBack takes back failed attempts of an item: its retries continue with what the event
// carries, and its attempts are numbered on.
func (t *Items) giveBack(e event.Event) {
	if e.Retry == nil {
		return
	}
	t.update(e.Index, func(x *special) {
		began := x.retry.Began
		x.retry = Retry{Failures: e.Retry.Attempt}
		x.retry.wait(e)
		x.retry.NotBefore = time.Time{}
		if x.retry.Began.IsZero() {
			x.retry.Began = began
		}
		x.before = cmp.Or(max(e.Attempt, e.Attempts), int(t.attempts[e.Index-1])) - e.Retry.Attempt
		if e.Status != event.Running {
			x.since, x.left = 0, false
		}
		if e.Attempt > 0 {
			x.failed = e.Seq
		}
	})
}
