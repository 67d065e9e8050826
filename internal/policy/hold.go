package policy

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/retry/driver"
)

// A map is held when the same thing keeps failing: when Count different items, of those
// whose attempt ended, have failed with one signature, and they are at least Share of
// them. Then no item starts but a probe, one at a time; what failed so is given back, as
// if it had not been tried; and when Close probes in a row have succeeded, all continues.

// SameError is when a map is held, and how it finds out that it need not be any longer.
// Zero fields mean the defaults.
type SameError struct {
	// Count is how many different items must have failed alike; 0 means 10, at most
	// MaxSameError.
	Count int
	// Share is the least part that they make up of the items whose attempt has ended
	// since the first of them, above 0 and up to 1; 0 means 0.9.
	Share float64
	// Probe gives the waits before the probes; the zero value means 30s, doubled up to 10m.
	Probe backoff.Schedule
	// Close is how many probes in a row must succeed; 0 means 3.
	Close int
	// MaxHold is how long a hold lasts at most; then the map stops, and a resume goes
	// on. 0 means 6h.
	MaxHold time.Duration
	// Stop stops the map where it would be held.
	Stop bool
}

// The defaults of SameError.
const (
	DefaultSameErrorCount = 10
	DefaultSameErrorShare = 0.9
	DefaultSameErrorClose = 3
	DefaultMaxHold        = 6 * time.Hour
	// MaxSameError is the largest Count, and MaxSameErrorWindow bounds Count / Share.
	MaxSameError       = 1000
	MaxSameErrorWindow = 10_000
)

// DefaultProbe gives the waits before probes: 30s, doubled up to 10m.
func DefaultProbe() backoff.Schedule {
	return backoff.Schedule{Strategy: backoff.Exponential{Base: 2}, Initial: 30 * time.Second, Max: 10 * time.Minute}
}

// Defaults gives the configuration with its defaults in place of what is zero.
func (c SameError) Defaults() SameError {
	if c.Count == 0 {
		c.Count = DefaultSameErrorCount
	}
	if c.Share == 0 {
		c.Share = DefaultSameErrorShare
	}
	if c.Probe.Strategy == nil && c.Probe.Initial == 0 {
		c.Probe = DefaultProbe()
	}
	if c.Close == 0 {
		c.Close = DefaultSameErrorClose
	}
	if c.MaxHold == 0 {
		c.MaxHold = DefaultMaxHold
	}
	return c
}

func (c SameError) validate() (errs []error) {
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf("same_error: "+format, a...)) }
	if c.Count < 0 || c.Count > MaxSameError {
		bad("count: %d: must be from 1 to %d", c.Count, MaxSameError)
	}
	if !(c.Share >= 0 && c.Share <= 1) {
		bad("share: %v: must be above 0 and at most 1", c.Share)
	}
	if c.Close < 0 {
		bad("close: %d: must be at least 1", c.Close)
	}
	if c.MaxHold < 0 {
		bad("max_hold: %v: must be positive", c.MaxHold)
	}
	if d := c.Defaults(); len(errs) == 0 && float64(d.Count)/d.Share > MaxSameErrorWindow {
		bad("count: %d of a share of %v: the %d items that are looked at must not be more than %d", d.Count, d.Share, d.window(), MaxSameErrorWindow)
	}
	if c.Probe.Jitter != backoff.None {
		bad("probe: jitter: one probe at a time needs none")
	}
	if err := c.Probe.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("same_error: probe: %w", err))
	}
	if len(errs) == 0 && c.Defaults().Probe.Delay(1, 0, nil) <= 0 {
		bad("probe: there must be a wait before a probe")
	}
	return errs
}

// window is how many of the items whose attempt has ended are looked at: among more of
// them, Count are less than Share.
func (c SameError) window() int { return int(math.Floor(float64(c.Count)/c.Share + 1e-9)) }

// HoldState is a hold, as it is recorded and given back by a resume.
type HoldState struct {
	Signature failure.Signature `json:"signature"`
	// Message is the failure of the last of the items that caused the hold.
	Message string `json:"message"`
	// Items is how many different items have failed so, and Attempts how many attempts.
	Items    int       `json:"items"`
	Attempts int       `json:"attempts"`
	Since    time.Time `json:"since"`
	// Probes is how many have failed since one succeeded, Good how many have succeeded
	// in a row of Close, and Next when there is the next one.
	Probes int       `json:"probes"`
	Good   int       `json:"good"`
	Close  int       `json:"close,omitempty"` // so many end the hold
	Next   time.Time `json:"until"`
	// First are the items that are probed first.
	First []int `json:"first,omitempty"`
	// Canary says that the map is held because too many of its first items failed,
	// whatever they failed of: Signature is that of the last one.
	Canary bool `json:"canary,omitempty"`
	// Queue says that it is the merge queue that is held: what is merged so far fails its
	// verify. Items is how many wait to be merged, and Attempts is 0.
	Queue bool `json:"queue,omitempty"`
}

// String says in a sentence what holds the map.
func (s HoldState) String() string {
	if s.Queue {
		return fmt.Sprintf("the merge queue is held: what is merged so far fails the verify, and no item is to blame: %s", s.Message)
	}
	if s.Canary {
		return fmt.Sprintf("the map is held: %d of its first items failed, the last with %q", s.Items, s.Message)
	}
	return fmt.Sprintf("the map is held: %d items failed with %q", s.Items, s.Message)
}

// HoldKind is what happened to a hold.
type HoldKind uint8

// The kinds of change of a hold.
const (
	HoldStarted HoldKind = iota
	HoldProbed           // a probe has ended, and the hold lasts
	HoldEnded
	HoldStopped // the map stops by it
)

// HoldChange is a change of the hold, part of a [Verdict].
type HoldChange struct {
	Kind  HoldKind
	State HoldState
	// Why is why the hold ended: "probes", "another", "continue", "over"; of HoldStopped,
	// what stops the map: "action", "max_hold".
	Why string
	// Given are the other items that are given back, of HoldStarted.
	Given []Given
}

// Given is an item whose failed attempts were counted before the hold, and are not any
// more.
type Given struct {
	Item int
	// Taken is how many of them are taken back.
	Taken int
	// Was is ItemDeadLettered or ItemSkipped of an item that had ended so, and runs again;
	// else 0.
	Was Fate
	// Running says that the item runs already again.
	Running bool
	// Retry is what its retries continue with.
	Retry driver.State
}

// holding is the state of [Machine] for holds.
type holding struct {
	cfg    SameError
	recent []witness // of the last items whose attempt ended, the oldest first; at most cfg.window()
	on     *HoldState
	seen   map[int]struct{}  // items that have failed so, while held
	last   failure.Signature // what the map stopped for
	probe  int               // the item that is probed; 0: none
	order  int64             // of items that were held: those that failed first start first
}

// witness is an item whose attempt ended.
type witness struct {
	item  int
	sign  failure.Signature // zero: it succeeded, or failed without a cause that can be known
	prior record            // as it was before its first failure of those
	fate  Fate
	tries int // failed attempts that counted
}

func newHolding(c SameError) *holding { return &holding{cfg: c.Defaults()} }

// probing reports whether the map is held, and a probe runs.
func (m *Machine) probing() bool { return m.hold != nil && m.hold.on != nil && m.hold.probe > 0 }

// alike reports whether an outcome is what the map is held for.
func (m *Machine) alike(o *Outcome) bool { return m.hold != nil && m.hold.on.causes(o) }

// causes reports whether an outcome is what the hold is for.
func (s *HoldState) causes(o *Outcome) bool {
	return s != nil && !o.OK && !o.Cancelled && (s.Canary || o.sign() == s.Signature)
}

// note takes in that an attempt at an item ended, and reports whether the map is to be
// held for it.
func (h *holding) note(w witness) bool {
	if i := slices.IndexFunc(h.recent, func(o witness) bool { return o.item == w.item }); i >= 0 {
		old := h.recent[i]
		if old.sign == w.sign && w.sign != (failure.Signature{}) { // no second witness
			return false
		}
		h.recent = slices.Delete(h.recent, i, i+1)
	}
	if n := len(h.recent) - h.cfg.window() + 1; n > 0 {
		h.recent = slices.Delete(h.recent, 0, n)
	}
	h.recent = append(h.recent, w)
	if w.sign == (failure.Signature{}) {
		return false
	}
	// Since the first of the last Count witnesses, they have to be the Share.
	alike := 0
	for i := len(h.recent) - 1; i >= 0; i-- {
		if h.recent[i].sign == w.sign {
			alike++
		}
		if alike == h.cfg.Count {
			return true
		}
	}
	return false
}

// place gives the time from which a held item may start: those that failed first come
// first, all before those that wait for a time.
func (h *holding) place() instant {
	h.order++
	return longAgo + instant(h.order)
}

// sign is the signature of an outcome where that can cause a hold.
func (o *Outcome) sign() failure.Signature {
	if o.Signature.Weak() {
		return failure.Signature{}
	}
	return o.Signature
}

// observe tells the holding how an agent ended, and settles what that makes of the item.
// It is false where the item is to be judged as always.
func (m *Machine) observe(v *Verdict, s *slot, o Outcome, limited bool, now time.Time) bool {
	h := m.hold
	probe := h.probe == v.Item
	if probe {
		h.probe = 0
	}
	switch {
	case m.stop == BySameError && !o.OK && o.sign() == h.last && h.last != (failure.Signature{}):
		s.notBefore = h.place()
		v.Fate, v.Retry = ItemHeld, s.state()
		return true
	case o.Cancelled, limited:
		return false
	case m.alike(&o): // also while the map stops; then a probe is made again in the next life of the run
		if h.on.Canary {
			h.on.Signature, h.on.Message = o.sign(), failureText(o.Err)
		}
		m.failedAlike(v, s, probe && m.stop == NotStopped, now)
		return true
	case s.held.causes(&o): // it began before that hold ended
		s.notBefore = h.place()
		v.Fate, v.Retry = ItemHeld, s.state()
		return true
	case probe && o.OK:
		m.probeSucceeded(v, now)
		return false
	case m.stop != NotStopped:
		return false
	case h.on == nil:
		return m.witnessed(v, s, o, now)
	case probe:
		m.endHold(v, "another")
		return m.witnessed(v, s, o, now)
	}
	return false
}

// witnessed notes how an agent ended while the map is not held. It is true where that
// holds it.
func (m *Machine) witnessed(v *Verdict, s *slot, o Outcome, now time.Time) bool {
	h := m.hold
	w := witness{item: v.Item, prior: s.record}
	if !o.OK {
		w.sign = o.sign()
	}
	if i := slices.IndexFunc(h.recent, func(o witness) bool { return o.item == w.item && o.sign == w.sign }); i >= 0 {
		w.prior = h.recent[i].prior
	}
	if !h.note(w) {
		return false
	}
	m.holdFor(v, s, o, now)
	return true
}

// settled notes what became of an item that failed, for what is given back later.
func (h *holding) settled(item int, fate Fate, tries int) {
	for i := range h.recent {
		if h.recent[i].item == item {
			h.recent[i].fate, h.recent[i].tries = fate, tries
		}
	}
}

// begin begins a hold.
func (h *holding) begin(sign failure.Signature, o Outcome, now time.Time) {
	h.on = &HoldState{Signature: sign, Message: failureText(o.Err), Close: h.cfg.Close, Since: now, Next: now.Add(h.cfg.Probe.Delay(1, 0, nil))}
	h.seen = map[int]struct{}{}
}

// holdFor holds the map for the signature of an outcome.
func (m *Machine) holdFor(v *Verdict, s *slot, o Outcome, now time.Time) {
	h := m.hold
	sign := o.sign()
	h.begin(sign, o, now)
	change := HoldChange{Kind: HoldStarted}
	for _, w := range h.recent {
		if w.sign != sign {
			continue
		}
		h.seen[w.item] = struct{}{}
		h.on.Attempts++
		at := h.place()
		if w.item == v.Item {
			h.on.Attempts += int(s.failed - w.prior.failed)
			recoveries := s.recoveries
			s.record = w.prior
			s.recoveries, s.notBefore = recoveries, at
			h.on.First = append(h.on.First, w.item)
			continue
		}
		if g, ok := m.giveBack(w, at, now); ok {
			change.Given = append(change.Given, g)
			h.on.Attempts += max(g.Taken-1, 0)
			h.on.First = append(h.on.First, w.item)
		}
	}
	h.on.Items = len(h.seen)
	v.Fate, v.Retry = ItemHeld, s.state()
	h.recent = nil
	change.State = h.state()
	if h.cfg.Stop {
		change.Kind, change.Why = HoldStopped, "action"
		m.Halt(BySameError)
		v.Stop, h.last = m.stop, sign
		h.clear()
	}
	v.Holds = append(v.Holds, change)
}

func (h *holding) clear() { h.on, h.seen, h.recent, h.probe = nil, nil, nil, 0 }

// giveBack takes back the failed attempts of a witness.
func (m *Machine) giveBack(w witness, at instant, now time.Time) (Given, bool) {
	g := Given{Item: w.item}
	restore := func(r *record) {
		g.Taken = int(r.failed - w.prior.failed)
		recoveries := r.recoveries
		*r = w.prior
		r.recoveries, r.notBefore = recoveries, at
		g.Retry = r.state()
	}
	if s, ok := m.running[w.item]; ok {
		restore(&s.record)
		m.running[w.item] = s
		g.Running = true
		return g, true
	}
	if i := m.waiting.find(w.item); i >= 0 {
		r := m.waiting.remove(i)
		restore(&r)
		m.waiting.push(r)
		return g, true
	}
	if w.fate != ItemDeadLettered && w.fate != ItemSkipped { // what its handler did stays done
		return g, false
	}
	m.requeue(w.item, w.fate, at, now)
	r := m.waiting.remove(m.waiting.find(w.item))
	r.failed = clamp32(w.tries)
	restore(&r)
	m.waiting.push(r)
	g.Was = w.fate
	m.errs.forget(w.item)
	return g, true
}

// failedAlike gives an item back that failed with the signature of the hold.
func (m *Machine) failedAlike(v *Verdict, s *slot, probe bool, now time.Time) {
	h := m.hold
	h.seen[v.Item] = struct{}{}
	h.on.Items = max(len(h.seen), h.on.Items)
	h.on.Attempts++
	s.notBefore = h.place()
	v.Fate, v.Retry = ItemHeld, s.state()
	if !probe {
		return
	}
	if h.on.failed(&h.cfg, now) {
		v.Holds = append(v.Holds, HoldChange{Kind: HoldStopped, State: h.state(), Why: "max_hold"})
		m.Halt(BySameError)
		v.Stop, h.last = m.stop, h.on.Signature
		h.clear()
		return
	}
	v.Holds = append(v.Holds, HoldChange{Kind: HoldProbed, State: h.state()})
}

// failed notes that a probe has failed. It is true where the hold has lasted too long, else
// there is a next one, after a longer wait.
func (s *HoldState) failed(c *SameError, now time.Time) (over bool) {
	s.Good = 0
	s.Probes++
	end := s.Since.Add(c.MaxHold)
	if !now.Before(end) {
		return true
	}
	s.Next = now.Add(c.Probe.Delay(s.Probes+1, 0, nil))
	if s.Next.After(end) {
		s.Next = end
	}
	return false
}

func (m *Machine) probeSucceeded(v *Verdict, now time.Time) {
	h := m.hold
	h.on.Good++
	h.on.Probes = 0
	if h.on.Good >= h.cfg.Close {
		m.endHold(v, "probes")
		return
	}
	h.on.Next = now
	v.Holds = append(v.Holds, HoldChange{Kind: HoldProbed, State: h.state()})
}

func (m *Machine) endHold(v *Verdict, why string) {
	v.Holds = append(v.Holds, HoldChange{Kind: HoldEnded, State: m.hold.state(), Why: why})
	if m.hold.on.Canary && m.canary != nil {
		m.canary.passed = true
	}
	for item, s := range m.running {
		s.held = m.hold.on
		m.running[item] = s
	}
	m.hold.clear()
}

// overHold ends a hold of a map whose items have all ended.
func (m *Machine) overHold(v *Verdict) {
	h := m.hold
	if h == nil || h.on == nil || m.counts.Pending+m.counts.Retrying+m.counts.Running > 0 {
		return
	}
	m.endHold(v, "over")
}

// state is a copy of the hold.
func (h *holding) state() HoldState { return h.on.clone() }

// restored has a hold of an earlier life of the run be no longer than what was decided, where
// the clock was set back since.
func (s *HoldState) restored(c *SameError, now time.Time) {
	if s.Since.After(now) {
		s.Since = now
	}
	if latest := now.Add(c.Probe.Delay(s.Probes+1, 0, nil)); s.Next.After(latest) {
		s.Next = latest
	}
}

// clone is a copy that later changes do not reach.
func (s *HoldState) clone() HoldState {
	c := *s
	c.First = slices.Clone(s.First)
	return c
}

// Held gives the hold of the map; ok is false where it is not held.
func (m *Machine) Held() (s HoldState, ok bool) {
	if m.hold == nil || m.hold.on == nil {
		return s, false
	}
	return m.hold.state(), true
}

// Probe lets the next probe of each hold start now. There is none where nothing is held.
func (m *Machine) Probe(now time.Time) (changes []HoldChange) {
	for _, s := range m.holds() {
		if s.Next.After(now) {
			s.Next = now
		}
		changes = append(changes, HoldChange{Kind: HoldProbed, State: s.clone()})
	}
	return changes
}

// EndHold ends the holds because somebody asks for it. There is none where nothing is held.
func (m *Machine) EndHold() []HoldChange {
	var v Verdict
	if m.hold != nil && m.hold.on != nil {
		m.endHold(&v, "continue")
	}
	if m.queue != nil {
		v.Holds = append(v.Holds, m.endQueueHold("continue"))
	}
	return v.Holds
}

// holds are those that last: of the map, and of the merge queue.
func (m *Machine) holds() (list []*HoldState) {
	if m.hold != nil && m.hold.on != nil {
		list = append(list, m.hold.on)
	}
	if m.queue != nil {
		list = append(list, m.queue)
	}
	return list
}

// Ended is an item whose attempt ended before the run went down.
type Ended struct {
	Item int
	// Signature is that of its failure; zero where it succeeded.
	Signature failure.Signature
	Fate      Fate
	Attempts  int // that failed
}

// RestoreEnds tells the machine how the last attempts ended, in their order, so that what
// begins to fail alike is known after a resume as well. It is called after all items are
// restored, before the first Started. What is given back of them begins again.
func (m *Machine) RestoreEnds(ends []Ended) {
	h := m.hold
	if h == nil || h.on != nil {
		return
	}
	for _, e := range ends[max(len(ends)-h.cfg.window(), 0):] {
		if e.Signature.Weak() {
			e.Signature = failure.Signature{}
		}
		w := witness{item: e.Item, sign: e.Signature, fate: e.Fate, tries: e.Attempts, prior: record{item: uint32(e.Item), first: longAgo}}
		if i := m.waiting.find(e.Item); i >= 0 {
			w.prior.began, w.prior.recoveries = m.waiting[i].began, m.waiting[i].recoveries
		}
		h.recent = append(h.recent, w)
	}
}

// RestoreHold puts the hold where it stood when the run went down. It is called after
// all items are restored, before Resume.
func (m *Machine) RestoreHold(s HoldState, now time.Time) error {
	switch {
	case m.started:
		return errStarted
	case m.hold == nil: // the file says nothing of holds any more
		return nil
	}
	s.First = slices.Clone(s.First)
	h := m.hold
	s.Close = h.cfg.Close
	s.restored(&h.cfg, now)
	h.on, h.seen, h.probe = &s, map[int]struct{}{}, 0
	for _, item := range s.First {
		h.seen[item] = struct{}{}
		if i := m.waiting.find(item); i >= 0 {
			r := m.waiting.remove(i)
			r.notBefore = h.place()
			m.waiting.push(r)
		}
	}
	return nil
}

func failureText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
