package policy

import (
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/retry/driver"
)

// Standing is where an item stood when the run went down.
type Standing uint8

// The standings of items that have begun. Of an item that had not begun,
// nothing is restored.
const (
	// WasWaiting: between two attempts.
	WasWaiting Standing = iota
	// WasRunning: its agent ran. The attempt is done again, under its number.
	WasRunning
	// WasFinished: it had ended.
	WasFinished
	// WasParked: what it did waited to be merged, and still does.
	WasParked
)

// ItemState is what the journal knows of an item that has begun.
type ItemState struct {
	Standing Standing
	// Attempts is the number of failed attempts.
	Attempts int
	// Recoveries is how many times the run went down before while the item
	// ran, this time not counted.
	Recoveries int
	// Retry is the Verdict.Retry of its latest failed attempt, and NotBefore
	// that Verdict's NotBefore.
	Retry     driver.State
	NotBefore time.Time
	// Fate is the end of an item that WasFinished.
	Fate Fate
}

// errStarted is the error of a machine that is restored while it runs.
var errStarted = errors.New("policy: items are restored before the first one starts")

// Restore puts an item where it stood when the run went down, and decides what
// becomes of it: an item that was running too often when the run went down is
// a dead letter, one whose retry budget has expired on the wall clock gets no
// further attempt. Restore is called once for each item that had begun, in any
// order, then [Machine.Resume] once, before the first Started.
//
// The verdict's Fate is ItemRetry for an item that continues, and its Recoveries
// are to be recorded.
func (m *Machine) Restore(item int, s ItemState, now time.Time) (Verdict, error) {
	v := Verdict{Item: item, Attempt: s.Attempts, Recoveries: s.Recoveries, Retry: s.Retry}
	switch {
	case m.started:
		return v, errStarted
	case item < 1 || item > m.n:
		return v, fmt.Errorf("policy: item %d: the map has %d items; is it the list that the run began with?", item, m.n)
	case m.begun.has(item):
		return v, fmt.Errorf("policy: item %d is restored twice", item)
	case s.Standing > WasParked, s.Standing == WasFinished && !s.Fate.Final(), s.Attempts < 0, s.Recoveries < 0:
		return v, fmt.Errorf("policy: item %d: its recorded state makes no sense: %+v", item, s)
	}
	m.begun.set(item, m.n)
	m.counts.Pending--
	if s.Standing == WasFinished {
		v.Fate = s.Fate
		m.counts.add(s.Fate)
		return v, nil
	}
	if s.Standing == WasParked {
		r := record{item: uint32(item), failed: clamp32(s.Attempts), recoveries: clamp32(s.Recoveries), first: longAgo}
		r.setState(s.Retry)
		m.running[item] = slot{record: r, parked: true}
		m.parked++
		m.counts.Running++
		v.Fate = ItemReturned
		return v, nil
	}
	m.reopen(&v, s, now)
	return v, nil
}

// reopen decides about an item that was not finished.
func (m *Machine) reopen(v *Verdict, s ItemState, now time.Time) {
	exhausted := false
	if s.Standing == WasRunning {
		v.Recoveries++
		exhausted = m.cfg.MaxRecoveries > 0 && v.Recoveries >= m.cfg.MaxRecoveries
	}
	// Where the clock was set back since, the wait is no longer than all that were decided.
	if most := now.Add(s.Retry.Slept); s.Retry.Slept > 0 && s.NotBefore.After(most) {
		s.NotBefore = most
	}
	v.Fate, v.NotBefore = ItemRetry, s.NotBefore
	switch {
	case exhausted:
		v.Fate = ItemDeadLettered
		v.GivenUp = fmt.Sprintf("it was running %s when the run went down, so that it may be what brings it down (error_policy.max_recoveries): look at what it does, then bide dlq retry runs it again",
			diag.Count(v.Recoveries, "time"))
	case m.cfg.Retry != nil && s.Retry.Attempt > 0:
		if _, d := driver.ResumeMachine(m.cfg.Retry, s.Retry, now); d.Action == driver.ActionStop {
			v.Reason = d.Reason
			v.Fate, v.Handler = m.fateOfFailed()
			v.GivenUp = fmt.Sprintf("the retries that are recorded allow no further attempt (%s)", d.Reason)
		}
	}
	m.counts.add(v.Fate)
	if v.Fate.FailedForGood() {
		m.freshFailure = true
		v.NotBefore = time.Time{}
		v.Show = m.errs.item(v, ClassRecovery, v.GivenUp)
		return
	}
	r := record{item: uint32(v.Item), failed: clamp32(s.Attempts), recoveries: clamp32(v.Recoveries), notBefore: instantOf(s.NotBefore)}
	r.setState(s.Retry)
	m.waiting.push(r)
	if wait := s.NotBefore.Sub(now); wait > 0 {
		v.Delay = wait
	}
}

// ClassRecovery is the error class of an item that is given up without a further attempt: it
// was running too often when the run, or its worker, went down.
const ClassRecovery = "recovery"

// Resume ends the restoring. A run that went down before it could record that
// its map stops is judged by the restored counts, as if it had never gone down.
// With goOn, the run had stopped and somebody asks to continue: the bounds
// that the restored items have reached are let pass, and looked at again when
// the next item fails for good. It gives the reason if the map stops. A hold that lasts
// and canaries that have passed are restored before.
func (m *Machine) Resume(goOn bool) StopReason {
	m.resumeBounds(goOn)
	m.resumeCanaries(goOn)
	return m.stop
}

func (m *Machine) resumeBounds(goOn bool) {
	if m.stop != NotStopped || goOn && !m.freshFailure {
		return
	}
	c := m.counts
	switch {
	case c.FailedForGood == 0:
	case m.cfg.OnItemFailure == Stop && c.Failed > 0:
		m.stop = ByItemFailure
	default:
		m.stop = m.bound()
	}
}

// Snapshot is what of a machine does not belong to one item: it is recorded, and
// given back to RestoreSnapshot by a resume. It changes with every Finished, by
// the breaker's count of failures in a row. One that is recorded only with the
// verdicts that have Breaker or PausedUntil set loses no more than that count.
type Snapshot struct {
	Breaker *circuit.Snapshot `json:"breaker,omitempty"`
	Pause   event.Pause       `json:"pause,omitzero"` // after rate limits
}

// Snapshot gives the state of the breaker and of the rate-limit pause.
func (m *Machine) Snapshot() Snapshot {
	s := Snapshot{Pause: m.limit.Pause()}
	if m.breaker != nil {
		b := m.breaker.Snapshot()
		s.Breaker = &b
	}
	return s
}
