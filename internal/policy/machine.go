package policy

import (
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/circuit"
	circuitdriver "github.com/bide-dev/bide/circuit/driver"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Machine decides about the items of one map. Make one with [New]; it is not
// safe for use by several goroutines at once.
type Machine struct {
	cfg       Config
	threshold *rate
	n         int

	// through is the number of items from the first one on that have all begun; begun
	// marks those after them that a resume found begun or finished.
	through int
	begun   bitset
	running map[int]slot
	busy    int // agents and open leases
	parked  int // of running: no agent works on them any more
	waiting waiting

	leases    map[int]*lease
	lastLease int

	breaker *circuitdriver.Machine // nil without one
	told    circuit.State          // the breaker's state as last told to the driver

	hold    *holding   // nil without SameError
	queue   *HoldState // of the merge queue; nil while it is not held
	canary  *canaries  // nil without Canary
	repeats *repeats

	finder *Finder // nil where the number of agents at once is given

	stop     StopReason
	reached  StopReason // of the policy, also where the driver stopped the map before
	ramp     ramp
	limit    RateLimit
	shortage RateLimit
	room     room
	counts   Counts
	errs     collection

	started      bool
	freshFailure bool // an item failed for good while it was restored
}

// slot is a running agent.
type slot struct {
	record
	ticket circuitdriver.Ticket
	round  int // of limit, when it started
	short  int // the round of shortage
	lease  int // 0: none
	parked bool
	held   *HoldState // the hold that ended while it ran; nil: none did
}

// New gives the machine of a map over n items, all of them pending. An invalid
// configuration or number of items is an error.
func New(cfg Config, n int) (*Machine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if n < 0 || n > MaxItems {
		return nil, fmt.Errorf("a map over %d items: must be from 0 to %d", n, MaxItems)
	}
	cfg = cfg.withDefaults()
	m := &Machine{cfg: cfg, n: n, running: make(map[int]slot, min(cfg.MaxParallel, n))}
	if cfg.FailureThreshold != nil {
		r := newRate(*cfg.FailureThreshold)
		m.threshold = &r
	}
	if cfg.Breaker != nil {
		b, err := newBreaker(*cfg.Breaker)
		if err != nil {
			return nil, err
		}
		m.breaker = b
	}
	if cfg.SameError != nil {
		m.hold = newHolding(*cfg.SameError)
	}
	if cfg.Canary != nil {
		m.canary = newCanaries(*cfg.Canary)
	}
	if cfg.Adaptive != nil {
		m.finder = NewFinder(*cfg.Adaptive)
	}
	m.repeats = newRepeats(cfg.SameError)
	m.ramp.left = cfg.MaxParallel
	m.limit, m.shortage = NewRateLimit(cfg.RateLimitMaxWait), newShortage()
	m.counts = Counts{Total: n, Pending: n}
	m.errs.when = cfg.ErrorCollection
	return m, nil
}

// Next says what to do now. It changes nothing.
func (m *Machine) Next(now time.Time) Decision {
	t := instantOf(now)
	open := m.counts.Pending + m.counts.Retrying
	switch {
	case m.busy > 0 && (m.stop != NotStopped || open == 0 || m.busy >= m.cfg.MaxParallel):
		return Decision{Kind: Idle}
	case m.busy > 0 && m.room.full(m.busy):
		return Decision{Kind: Idle, Hold: HoldResources}
	case m.busy > 0 && m.stop == NotStopped && m.probing():
		return Decision{Kind: Idle, Hold: HoldSameError}
	case m.busy > 0 && m.stop == NotStopped && len(m.waiting) == 0 && m.canariesFull():
		return Decision{Kind: Idle, Hold: HoldCanary}
	case m.parked > 0 && (m.stop != NotStopped || open == 0):
		return Decision{Kind: Idle}
	case m.stop != NotStopped:
		return Decision{Kind: Finished, Status: Stopped}
	case open == 0 && m.counts.FailedForGood > 0:
		return Decision{Kind: Finished, Status: CompletedWithFailures}
	case open == 0:
		return Decision{Kind: Finished, Status: Succeeded}
	}
	return m.nextStart(t, now)
}

// nextStart gives the start of an item that is open, or what holds it back.
func (m *Machine) nextStart(t instant, now time.Time) Decision {
	d := Decision{Kind: Start, Attempt: 1}
	var until instant = longAgo
	hold := func(by Hold, at instant) {
		if at > t && at > until {
			until, d.Hold = at, by
		}
	}
	switch {
	case m.due(t) || m.pending() > m.n || m.cfg.MaxWaiting > 0 && len(m.waiting) >= m.cfg.MaxWaiting || len(m.waiting) > 0 && m.canariesFull():
		top := m.waiting[0]
		d.Item, d.Attempt, d.Recoveries = int(top.item), int(top.failed)+1, int(top.recoveries)
		hold(HoldRetry, top.notBefore)
	default:
		d.Item = m.pending()
	}
	hold(HoldRamp, m.ramp.notBefore(m.cfg.StartDelay))
	hold(HoldRateLimit, m.limit.until)
	hold(HoldResources, m.shortage.until)
	if m.hold != nil && m.hold.on != nil {
		d.Probe = true
		hold(HoldSameError, instantOf(m.hold.on.Next))
	}
	wait, busy := m.breakerHold(now)
	if busy {
		return Decision{Kind: Idle, Hold: HoldBreaker}
	}
	hold(HoldBreaker, t.add(wait))
	if until > t {
		return Decision{Kind: Wait, Until: until.time(), Hold: d.Hold}
	}
	return d
}

// due reports whether an item that waited may start.
func (m *Machine) due(t instant) bool {
	return len(m.waiting) > 0 && m.waiting[0].notBefore <= t
}

// pending gives the first item that has never begun, or n+1. It remembers how
// far it got: what has begun once is never pending again.
func (m *Machine) pending() int {
	first := m.begun.nextClear(m.through+1, m.n+1)
	m.through = first - 1
	return first
}

// Errors of a driver that does not keep to the protocol.
var (
	// ErrNotOffered: Started was called with an item that Next does not offer.
	ErrNotOffered = errors.New("policy: this item is not the one to start now")
	// ErrNotRunning: Finished was called with an item whose agent does not run.
	ErrNotRunning = errors.New("policy: no agent runs for this item")
)

// Started tells that an agent has been started for the item that Next
// offered at the same instant. It gives the change of the breaker's state
// that this makes (from open to half-open), or nil. The error is
// [ErrNotOffered], and then nothing has changed.
func (m *Machine) Started(item int, now time.Time) (*BreakerChange, error) {
	d := m.Next(now)
	if d.Kind != Start || d.Item != item {
		return nil, fmt.Errorf("%w: item %d", ErrNotOffered, item)
	}
	change, err := m.begin(d, now, 0)
	if err == nil {
		m.busy++
	}
	return change, err
}

// begin takes an item that is offered.
func (m *Machine) begin(d Decision, now time.Time, lease int) (*BreakerChange, error) {
	item := d.Item
	s := slot{lease: lease, round: m.limit.round, short: m.shortage.round}
	if m.breaker != nil {
		ticket, err := m.breaker.Acquire(now)
		if err != nil {
			return nil, fmt.Errorf("%w: item %d: %w", ErrNotOffered, item, err)
		}
		s.ticket = ticket
	}
	if d.Item == m.pending() {
		s.record = record{item: uint32(item), first: longAgo, began: instantOf(now)}
		m.through = item
		m.counts.Pending--
	} else {
		s.record = m.waiting.pop()
		m.counts.Retrying--
	}
	if d.Probe {
		m.hold.probe = item
	}
	m.started = true
	m.running[item] = s
	m.counts.Running++
	m.ramp.started(instantOf(now))
	return m.breakerChange(now), nil
}

// Finished tells how the agent of an item ended, and decides about the item
// and the map. The error is [ErrNotRunning], and then nothing has changed.
func (m *Machine) Finished(item int, o Outcome, now time.Time) (Verdict, error) {
	s, ok := m.running[item]
	if !ok || s.lease != 0 {
		return Verdict{}, fmt.Errorf("%w: item %d", ErrNotRunning, item)
	}
	if s.parked {
		m.parked--
		return m.finish(item, o, now), nil
	}
	m.measure(o, m.busy, now)
	m.busy--
	m.room.ended(o, m.busy, m.cfg.MaxParallel)
	if o.Shortage && m.busy > 0 { // what runs will make room
		o.Shortage, o.Cancelled = false, true
	}
	return m.finish(item, o, now), nil
}

// Park tells that the agent of an item has ended well, and that it is not known yet
// whether the item has: what it did waits to be merged. Another agent may start; the item
// counts as running until Finished tells of it. The error is [ErrNotRunning], and then
// nothing has changed.
func (m *Machine) Park(item int, took time.Duration, now time.Time) (*BreakerChange, error) {
	s, ok := m.running[item]
	if !ok || s.lease != 0 || s.parked {
		return nil, fmt.Errorf("%w: item %d", ErrNotRunning, item)
	}
	o := Outcome{OK: true, Took: took}
	m.measure(o, m.busy, now)
	m.busy--
	m.room.ended(o, m.busy, m.cfg.MaxParallel)
	m.shortage.Answered(s.short)
	m.limit.Answered(s.round)
	change := m.answerBreaker(s.ticket, o, false, now)
	s.parked, s.ticket = true, circuitdriver.Ticket{}
	m.parked++
	m.running[item] = s
	return change, nil
}

// finish decides about an item that runs.
func (m *Machine) finish(item int, o Outcome, now time.Time) Verdict {
	s := m.running[item]
	delete(m.running, item)
	m.counts.Running--
	if o.Shortage {
		o.Cancelled = true
		if !m.shortage.Limited(s.short, 0, now) {
			m.Halt(ByShortage)
		}
	} else if !o.Cancelled {
		m.shortage.Answered(s.short)
	}
	limited := o.RateLimited && !o.OK && !o.Cancelled && m.cfg.RateLimitMaxWait > 0
	v := Verdict{Item: item, Attempt: int(s.failed) + 1}
	if !limited && !o.Cancelled {
		m.repeats.note(item, &o)
	}
	if !s.parked {
		v.Breaker = m.answerBreaker(s.ticket, o, limited || m.alike(&o) || s.held.causes(&o), now)
	}
	if !limited && !o.Cancelled {
		m.limit.Answered(s.round)
	}
	switch {
	case m.hold != nil && m.observe(&v, &s, o, limited, now):
	case o.OK:
		v.Fate = ItemSucceeded
	case o.Cancelled:
		v.Fate = ItemReturned
		s.notBefore = longAgo
	case limited:
		m.pause(&v, s, o, now)
		s.notBefore = instantOf(v.NotBefore)
	default:
		m.failed(&v, &s.record, o, now)
		if m.hold != nil {
			m.hold.settled(item, v.Fate, int(s.failed))
		}
	}
	if !v.Fate.Final() {
		m.waiting.push(s.record)
	}
	m.counts.add(v.Fate)
	if v.Fate.Final() {
		m.stopAfter(&v)
	}
	if o.Halt != NotStopped {
		m.Halt(o.Halt)
	}
	m.judgeCanaries(&v, o, now)
	m.overHold(&v)
	return v
}

// failed decides about an item whose attempt failed.
func (m *Machine) failed(v *Verdict, r *record, o Outcome, now time.Time) {
	r.failed++
	if o.Err == nil {
		o.Err = errNoReason
	}
	j := m.judge(r.state(), o, now)
	m.apply(v, j, now)
	if m.cfg.Retry == nil {
		v.Retry = driver.State{}
	} else {
		r.setState(j.State)
	}
	if v.Fate == ItemRetry {
		r.notBefore = instantOf(now).add(j.Delay)
		return
	}
	v.Show = m.errs.item(v, j.Class, o.Err.Error())
}

// errNoReason stands for the missing error of a failed agent.
var errNoReason = errors.New("the agent failed and gave no reason")

func (m *Machine) fateOfFailed() (Fate, string) {
	switch m.cfg.OnItemFailure {
	case Skip:
		return ItemSkipped, ""
	case Stop:
		return ItemFailed, ""
	case Custom:
		return ItemHandled, m.cfg.Handler
	}
	return ItemDeadLettered, ""
}

// stopAfter has the map stop where an item that has finished is a reason for it. A map that
// stops already keeps its reason.
func (m *Machine) stopAfter(v *Verdict) {
	reason := m.reasonToStop(v.Fate)
	if m.reached == NotStopped {
		m.reached = reason
	}
	if m.stop == NotStopped {
		m.stop, v.Stop = reason, reason
	}
}

// reasonToStop looks at the bounds after an item has finished. A success only
// lowers the rate of failures, so that it can pass no bound, except as the
// one that makes the rate count.
func (m *Machine) reasonToStop(f Fate) StopReason {
	switch {
	case f == ItemFailed:
		return ByItemFailure
	case f.FailedForGood():
		return m.bound()
	case m.counts.ran() == MinFinishedForThreshold && m.rateReached():
		return ByFailureThreshold
	}
	return NotStopped
}

// bound gives the bound that the failed items have reached.
func (m *Machine) bound() StopReason {
	failed := m.counts.FailedForGood
	switch {
	case failed == 0:
	case m.cfg.ContinueOnFailure != nil && !*m.cfg.ContinueOnFailure:
		return ByFirstFailure
	case m.cfg.MaxFailures > 0 && failed >= m.cfg.MaxFailures:
		return ByMaxFailures
	case m.rateReached():
		return ByFailureThreshold
	}
	return NotStopped
}

func (m *Machine) rateReached() bool {
	finished := m.counts.ran()
	return m.threshold != nil && finished >= MinFinishedForThreshold && m.threshold.reachedBy(m.counts.FailedForGood, finished)
}

// Halt stops the map for a reason of the driver's: no item starts any more,
// those that run are let to their end. A map that stops already keeps
// its first reason.
func (m *Machine) Halt(reason StopReason) {
	if m.stop == NotStopped {
		m.stop = reason
	}
}

// Stopped gives the reason why the map stops or has stopped, or NotStopped.
func (m *Machine) Stopped() StopReason { return m.stop }

// Reached gives the first reason to stop that the policy has found in an item that has
// finished, or NotStopped. Where the driver had stopped the map before, but no item is left,
// this is the reason why the map has stopped.
func (m *Machine) Reached() StopReason { return m.reached }

// decideRetry asks the item-level policy about a failed attempt. The state is
// that of an item of this same run, so that the expiry on the wall clock, which
// is for resumes, is not looked at: the machine is rebuilt as of the first
// failure.
func decideRetry(p *retry.Policy, st driver.State, err error, now time.Time) (driver.Decision, driver.State) {
	began := st.Began
	if began.IsZero() {
		began = now
	}
	rm := driver.NewMachine(p, began)
	if st.Attempt > 0 {
		rm, _ = driver.ResumeMachine(p, st, st.FirstFailure)
	}
	d := rm.Next(err, now)
	return d, rm.State()
}

// hinted is an error with the Retry-After that came beside it.
type hinted struct {
	error
	after time.Duration
}

func (h hinted) Unwrap() error { return h.error }

// RetryAfter is how package retry finds the hint.
func (h hinted) RetryAfter() (time.Duration, bool) { return h.after, true }

func withHint(err error, after time.Duration) error {
	if after <= 0 {
		return err
	}
	return hinted{err, after}
}
