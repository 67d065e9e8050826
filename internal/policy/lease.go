package policy

import (
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/retry/driver"
)

// A lease is work for a lane, which works its items off one after the other and
// tells of them together. So a machine decides for lanes that it hears from
// seldom. What it would stop for (max_failures, the threshold, failures in a
// row) is handed out as credits: a lane that has spent its credits ends its
// lease. Each open lease has at least one, that of the item in flight, and all
// together no more than is left beyond that; so no bound is overstepped by
// more than the items in flight, as where every end is told at once.

// Lease is what Reserve hands to a lane.
type Lease struct {
	ID    int
	Items []Leased
	// Failures is how many items of the lease may fail for good, and Row how many
	// agents one after another, before the lane ends it. 0 means no bound.
	Failures, Row int
}

// Leased is an item of a lease, as a Decision has it.
type Leased struct {
	Item, Attempt, Recoveries int
	// Retry is the state of the item's retries; nil before its first failure.
	Retry *driver.State
}

// End is how an agent of a lease ended.
type End struct {
	Item    int
	Outcome Outcome
}

// ErrNoLease: the lease is not open.
var ErrNoLease = errors.New("policy: this lease is not open")

// lease is an open lease.
type lease struct {
	items         []int
	failures, row int
}

// Reserve hands up to most items to a lane, which counts as one of the
// MaxParallel agents. The decision is that of Next; where it is not Start, there
// is no lease. While starts are spaced by StartDelay, or the breaker is not
// closed, a lease is as small as that asks for.
func (m *Machine) Reserve(most int, now time.Time) (Lease, *BreakerChange, Decision) {
	first := m.Next(now)
	if first.Kind != Start {
		return Lease{}, nil, first
	}
	failures, row, ok := m.credits()
	if !ok {
		return Lease{}, nil, Decision{Kind: Idle}
	}
	if m.nextEndMayStop() {
		most = 1
	}
	m.lastLease++
	l := Lease{ID: m.lastLease, Failures: failures, Row: row}
	open := &lease{}
	var change *BreakerChange
	for d := first; len(l.Items) < max(most, 1) && d.Kind == Start; d = m.nextStart(instantOf(now), now) {
		c, err := m.begin(d, now, l.ID)
		if err != nil {
			break // the breaker lets no more in
		}
		if c != nil {
			change = c
		}
		l.Items = append(l.Items, m.leased(d.Item))
		open.items = append(open.items, d.Item)
		if m.counts.Pending+m.counts.Retrying == 0 {
			break
		}
	}
	// More than all of its items cannot fail.
	l.Failures, l.Row = min(l.Failures, len(l.Items)), min(l.Row, len(l.Items))
	open.failures, open.row = l.Failures, l.Row
	if m.leases == nil {
		m.leases = map[int]*lease{}
	}
	m.leases[l.ID] = open
	m.busy++
	return l, change, first
}

// leased is an item that runs, as its lease has it.
func (m *Machine) leased(item int) Leased {
	r := m.running[item]
	it := Leased{Item: item, Attempt: int(r.failed) + 1, Recoveries: int(r.recoveries)}
	if r.tried > 0 {
		st := r.state()
		it.Retry = &st
	}
	return it
}

// Leased gives the items of an open lease as Reserve did; none where it is not open.
func (m *Machine) Leased(id int) (items []Leased) {
	if l := m.leases[id]; l != nil {
		for _, it := range l.items {
			items = append(items, m.leased(it))
		}
	}
	return items
}

// Keep has a lane keep the first items of its lease only: the others were not begun, and
// can start again. The error is ErrNoLease.
func (m *Machine) Keep(id, first int, now time.Time) error {
	l := m.leases[id]
	if l == nil {
		return fmt.Errorf("%w: %d", ErrNoLease, id)
	}
	first = min(max(first, 0), len(l.items))
	for _, item := range l.items[first:] {
		m.finish(item, Outcome{Cancelled: true}, now)
	}
	l.items = l.items[:first]
	return nil
}

// Settle tells how the agents of a lease ended, in their order, and ends the
// lease. Items that are not among them were not begun, and can start again.
// The verdicts are those of the ends. The error is ErrNoLease, or ErrNotRunning
// for an end of an item that is not of the lease; then nothing has changed.
func (m *Machine) Settle(id int, ends []End, now time.Time) ([]Verdict, error) {
	return m.settle(id, ends, now, false)
}

// Lost is Settle for a lane that is gone: ends are what is known of its lease.
// The first item of which no end is known was running, which counts as a
// recovery; its verdict is the last one.
func (m *Machine) Lost(id int, ends []End, now time.Time) ([]Verdict, error) {
	return m.settle(id, ends, now, true)
}

func (m *Machine) settle(id int, ends []End, now time.Time, lost bool) ([]Verdict, error) {
	l := m.leases[id]
	if l == nil {
		return nil, fmt.Errorf("%w: %d", ErrNoLease, id)
	}
	told := make(map[int]bool, len(ends))
	for _, e := range ends {
		if s, ok := m.running[e.Item]; !ok || s.lease != id || told[e.Item] {
			return nil, fmt.Errorf("%w: item %d of lease %d", ErrNotRunning, e.Item, id)
		}
		told[e.Item] = true
	}
	delete(m.leases, id)
	m.busy--
	verdicts := make([]Verdict, 0, len(ends)+1)
	for _, e := range ends {
		verdicts = append(verdicts, m.finish(e.Item, e.Outcome, now))
	}
	for _, item := range l.items {
		if told[item] {
			continue
		}
		if lost {
			lost = false
			verdicts = append(verdicts, m.recovered(item, now))
		} else {
			m.finish(item, Outcome{Cancelled: true}, now)
		}
	}
	return verdicts, nil
}

// recovered gives back an item that ran on a lane that is gone, or makes a dead
// letter of it where that has happened too often.
func (m *Machine) recovered(item int, now time.Time) Verdict {
	s := m.running[item]
	s.recoveries++
	m.running[item] = s
	if m.cfg.MaxRecoveries <= 0 || int(s.recoveries) < m.cfg.MaxRecoveries {
		v := m.finish(item, Outcome{Cancelled: true}, now)
		v.Recoveries = int(s.recoveries)
		return v
	}
	delete(m.running, item)
	m.counts.Running--
	v := Verdict{Item: item, Attempt: int(s.failed) + 1, Fate: ItemDeadLettered, Recoveries: int(s.recoveries),
		GivenUp: fmt.Sprintf("its worker went down while it ran (%s)", diag.Count(int(s.recoveries), "time"))}
	v.Breaker = m.answerBreaker(s.ticket, Outcome{Cancelled: true}, false, now)
	v.Show = m.errs.item(&v, ClassRecovery, v.GivenUp)
	m.counts.add(v.Fate)
	m.stopAfter(&v)
	return v
}

// credits gives a new lease its share of what is left of the bounds, 0 where there
// is no bound. What open leases have is spent, as if all of it failed. ok is
// false where so much is handed out already that a lease has to end first.
func (m *Machine) credits() (failures, row int, ok bool) {
	given, rows := 0, 0
	for _, l := range m.leases {
		given += l.failures
		rows += l.row
	}
	if m.breaker != nil {
		threshold := m.cfg.Breaker.FailureThreshold
		if threshold == 0 {
			threshold = circuit.DefaultFailureThreshold
		}
		row = max(threshold-m.breaker.Snapshot().Failures-rows, 1)
	}
	bound := m.failuresToStop()
	if bound == 0 {
		return 0, row, true
	}
	left := bound - m.counts.FailedForGood - given
	failures = min(max(left, 1), left+m.cfg.MaxParallel-1) // beside one in flight on each other lane
	if failures < 1 {
		return 1, row, len(m.leases) == 0 // where somebody asked to continue past a bound
	}
	return failures, row, true
}

// nextEndMayStop reports whether a success may stop the map, as the one that makes
// the rate of failures count: then a lane must not continue after it.
func (m *Machine) nextEndMayStop() bool {
	return m.threshold != nil && m.counts.Finished() < MinFinishedForThreshold
}

// failuresToStop is the least number of items failed for good, in all, with
// which the map may stop, whatever happens next; 0 where nothing stops it.
func (m *Machine) failuresToStop() (least int) {
	bound := func(n int) {
		if least == 0 || n < least {
			least = n
		}
	}
	failed := m.counts.FailedForGood
	if c := m.cfg.ContinueOnFailure; c != nil && !*c || m.cfg.OnItemFailure == Stop {
		bound(1)
	}
	if m.cfg.MaxFailures > 0 {
		bound(m.cfg.MaxFailures)
	}
	if m.threshold != nil {
		bound(failed + m.threshold.left(failed, m.counts.Finished()))
	}
	return least
}

// left gives the number of further failures with which the rate may be reached:
// others may succeed until MinFinishedForThreshold items have finished.
func (r rate) left(failed, finished int) int {
	least, most := 1, MaxItems
	for least < most {
		k := (least + most) / 2
		if r.reachedBy(failed+k, max(finished+k, MinFinishedForThreshold)) {
			most = k
		} else {
			least = k + 1
		}
	}
	return least
}
