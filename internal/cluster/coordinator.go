package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
)

const (
	// maxLease is how many items a lease has at most.
	maxLease = 5000
	// firstLease is how many it has while nobody knows how long items take.
	firstLease = 8
	// maxWaiting is how many items may wait for their next attempt before no new
	// ones are begun: the coordinator has to hand its state over in one message,
	// which a server takes up to 2 MB, compressed. Those of open leases may come on
	// top, about as many.
	maxWaiting = 20_000
	// longBeat is how long nothing may be heard of a lane: longer than a server
	// takes to start again, which would find a shorter time expired. shortBeat is
	// for items that are short, so that a dead worker's are soon run again.
	longBeat  = 60 * time.Second
	shortBeat = 10 * time.Second
	shortItem = time.Second
)

// Coordinator decides about the map of a run that lanes work off. It has no clock,
// no goroutine and no randomness, and does nothing: it says what is to be done. It
// is not safe for use by several goroutines at once.
type Coordinator struct {
	run, store string
	cfg        Config
	m          *policy.Machine
	open       map[int]Lease
	last       map[int]string // where an item that waits has its last failure
	item       time.Duration  // how long an item takes; 0: not known
	began      time.Time      // the life of the run
	used       engine.Usage
	broken     Broken
	paused     bool         // somebody asked for it
	again      map[int]bool // dead letters that were run again, by index, and are none now
	Order
}

// CoordinatorState is a coordinator as a value, to continue with elsewhere.
type CoordinatorState struct {
	Run     string         `json:"run"`
	Store   string         `json:"store"`
	Config  Config         `json:"config"`
	Machine policy.State   `json:"machine"`
	Open    map[int]Lease  `json:"open,omitempty"` // without their items
	Last    map[int]string `json:"last,omitempty"`
	Item    time.Duration  `json:"item,omitempty"`
	Began   time.Time      `json:"began,omitzero"` // the life of the run
	Used    engine.Usage   `json:"used,omitzero"`  // by its agents, in all lives
	Broken  Broken         `json:"broken,omitzero"`
	Paused  bool           `json:"paused,omitempty"` // somebody asked for it
	Again   map[int]bool   `json:"again,omitempty"`  // dead letters that were run again, by index, and are none now
	Order   Order          `json:"order"`
}

// NewCoordinator gives the coordinator of a state.
func NewCoordinator(s CoordinatorState) (*Coordinator, error) {
	m, err := policy.FromState(s.Config.policy(), s.Machine)
	if err != nil {
		return nil, err
	}
	c := &Coordinator{run: s.Run, store: s.Store, cfg: s.Config, m: m, open: maps.Clone(s.Open), last: maps.Clone(s.Last),
		item: s.Item, began: s.Began, used: s.Used, broken: s.Broken, paused: s.Paused, again: maps.Clone(s.Again), Order: s.Order}
	if c.open == nil {
		c.open = map[int]Lease{}
	}
	if c.last == nil {
		c.last = map[int]string{}
	}
	if c.again == nil {
		c.again = map[int]bool{}
	}
	for _, l := range c.Leases() {
		l.Spans = spansOf(m.Leased(l.ID), c.last)
		c.open[l.ID] = l
	}
	return c, nil
}

// State gives all of the coordinator. The items of open leases are in that of its machine.
func (c *Coordinator) State() CoordinatorState {
	open := map[int]Lease{}
	for _, l := range c.Leases() {
		l.Spans = nil
		open[l.ID] = l
	}
	return CoordinatorState{Run: c.run, Store: c.store, Config: c.cfg, Machine: c.m.State(), Open: open,
		Last: maps.Clone(c.last), Item: c.item, Began: c.began, Used: c.used, Broken: c.broken, Paused: c.paused, Again: maps.Clone(c.again), Order: c.Order}
}

// Lanes is how many leases may be open at once.
func (c *Coordinator) Lanes() int { return c.cfg.MaxParallel }

// Open is how many leases are open.
func (c *Coordinator) Open() int { return len(c.open) }

// Leases are the open leases, the oldest first.
func (c *Coordinator) Leases() (list []Lease) {
	for _, id := range slices.Sorted(maps.Keys(c.open)) {
		list = append(list, c.open[id])
	}
	return list
}

// Has gives an open lease.
func (c *Coordinator) Has(id int) (Lease, bool) {
	l, ok := c.open[id]
	return l, ok
}

// Lease hands out a lease, or says why there is none: until is when to ask again,
// the zero time when a lease has ended; over says that the map has ended.
func (c *Coordinator) Lease(now time.Time) (l *Lease, until time.Time, over bool) {
	if c.Late(now) {
		c.m.Halt(engine.OutOfTime)
	}
	if reached(c.used, c.cfg.Budget) {
		c.m.Halt(Spent)
	}
	share, ok := c.share()
	if !ok && len(c.open) > 0 {
		return nil, time.Time{}, false
	}
	if until := c.held(now); !until.IsZero() {
		return nil, until, false
	}
	if c.paused && c.m.Next(now).Kind != policy.Finished {
		return nil, time.Time{}, false
	}
	got, change, d := c.m.Reserve(c.most(), now)
	switch {
	case d.Kind == policy.Finished:
		return nil, time.Time{}, true
	case d.Kind == policy.Wait:
		return nil, d.Until, false
	case len(got.Items) == 0:
		return nil, time.Time{}, false
	}
	c.Tell(now, c.breaker(change, now)...)
	lease := Lease{Run: c.run, Store: c.store, Life: c.Life, ID: got.ID, Log: LaneLog(c.Life, got.ID),
		Spans: spansOf(got.Items, c.last), Slice: c.slice(), Failures: got.Failures, Row: got.Row, Budget: share, Heartbeat: longBeat}
	if n := maxWaiting / c.Lanes(); n < maxOdd {
		lease.Odd = max(n, 10)
	}
	if c.item > 0 && c.item < shortItem {
		lease.Heartbeat = shortBeat
	}
	c.open[got.ID] = lease
	return &lease, time.Time{}, false
}

// Late reports whether the time of the run is over: then what runs is to be ended.
func (c *Coordinator) Late(now time.Time) bool {
	return c.cfg.Timeout > 0 && !now.Before(c.began.Add(c.cfg.Timeout))
}

// Until is the earlier of a time, which may be the zero time for never, and of the
// one at which the time of the run is over.
func (c *Coordinator) Until(t time.Time) time.Time {
	end := c.began.Add(c.cfg.Timeout)
	if c.cfg.Timeout > 0 && (t.IsZero() || t.After(end)) {
		return end
	}
	return t
}

// slice is how long a lease lasts: longer, where there are many, so that the
// coordinator has not too much to do.
func (c *Coordinator) slice() time.Duration {
	return min(max(time.Duration(c.Lanes())*time.Second/4, 5*time.Second), time.Minute)
}

// most is how many items a lease has: what is likely to be done within its time,
// and never so many that the others have nothing left to do.
func (c *Coordinator) most() int {
	n := firstLease
	if c.item > 0 {
		n = int(c.slice() * 3 / 2 / c.item)
	}
	counts := c.m.Counts()
	share := (counts.Pending + counts.Retrying + 2*c.Lanes() - 1) / (2 * c.Lanes())
	return min(max(min(n, share), 1), maxLease)
}

// Keep has a lane keep the first items of its lease only: the one that it is at takes
// longer than the lease, and others can run those behind it.
func (c *Coordinator) Keep(id, first int, now time.Time) error {
	l, ok := c.open[id]
	if !ok {
		return fmt.Errorf("%w: %d", policy.ErrNoLease, id)
	}
	if err := c.m.Keep(id, max(first, 1), now); err != nil {
		return err
	}
	l.Spans = spansOf(c.m.Leased(id), c.last)
	c.open[id] = l
	return nil
}

// Settle takes how a lease ended.
func (c *Coordinator) Settle(id int, s Settled, now time.Time) error {
	return c.settle(id, s, now, false)
}

// Lost takes what is known of a lease whose lane is gone.
func (c *Coordinator) Lost(id int, s Settled, now time.Time) error { return c.settle(id, s, now, true) }

func (c *Coordinator) settle(id int, s Settled, now time.Time, lost bool) error {
	l, ok := c.open[id]
	if !ok {
		return fmt.Errorf("%w: %d", policy.ErrNoLease, id)
	}
	if s.Log != l.Log {
		return fmt.Errorf("the lease %d has the log %s, and not %s", id, l.Log, s.Log)
	}
	items, _ := l.items()
	ends := s.ends(items)
	paused := c.m.Snapshot().Pause
	settle := c.m.Settle
	if lost {
		settle = c.m.Lost
	}
	verdicts, err := settle(id, ends, now)
	if err != nil {
		return err
	}
	delete(c.open, id)
	if len(ends) > 0 {
		c.mended(now)
	}
	c.used = plus(c.used, s.Used)
	c.learn(len(ends), s.Took)
	var facts []event.Event
	for _, v := range verdicts {
		facts = append(facts, c.facts(v, s.Log, now)...)
	}
	if paused.Streak > 0 && c.m.Snapshot().Pause.Streak == 0 {
		facts = append(facts, event.Event{Type: event.PauseEnded, Time: now})
	}
	c.add(Decision{Time: now, Accepted: &s.Prefix, Events: facts})
	return nil
}

// learn keeps how long an item takes.
func (c *Coordinator) learn(done int, took time.Duration) {
	if done == 0 || took <= 0 {
		return
	}
	each := max(took/time.Duration(done), time.Microsecond)
	if c.item == 0 {
		c.item = each
		return
	}
	c.item = (3*c.item + each) / 4
}

// facts are what a verdict has to be told of, beside what its lane has written.
func (c *Coordinator) facts(v policy.Verdict, log string, now time.Time) (facts []event.Event) {
	switch { // one that is given back keeps what is known of its last attempt
	case v.Fate == policy.ItemRetry:
		c.last[v.Item] = log
	case v.Fate.Final():
		delete(c.last, v.Item)
	}
	if v.Fate == policy.ItemDeadLettered {
		delete(c.again, v.Item)
	}
	facts = c.breaker(v.Breaker, now)
	if !v.PausedUntil.IsZero() {
		facts = append(facts, step.PausedFact(c.m.Snapshot().Pause, v.Stop != policy.ByRateLimit, step.MetLimit(fmt.Sprintf("the agent of item %d", v.Item)), now))
	}
	if v.Exhausted {
		why := fmt.Sprintf("its worker went down while it ran (%d times)", v.Recoveries)
		e := mapper.Lost(event.Item{Index: v.Item}, fmt.Sprintf("%s/%d", c.run, v.Item), v.Attempt, why)
		e.Time = now
		facts = append(facts, e)
	}
	facts = append(facts, shown(v.Show, now)...)
	if v.Stop != policy.NotStopped {
		facts = append(facts, event.Event{Type: event.Note, Time: now, Message: "the map stops: " + v.Stop.Text(c.cfg.MaxFailures, *cmp.Or(c.cfg.FailureThreshold, new(float64)))})
	}
	return facts
}

// shown are the errors of items that are told of as error_collection says. What they
// are stands in the logs of lanes: whoever folds them completes these facts.
func shown(list []policy.Report, now time.Time) (facts []event.Event) {
	for _, r := range list {
		facts = append(facts, event.Event{Type: event.Note, Time: now, Phase: "map", Index: r.Item, Attempts: r.Attempt, Class: r.Class})
	}
	return facts
}

// Over tells what is left to be told when the map is.
func (c *Coordinator) Over(now time.Time) { c.Tell(now, shown(c.m.Summary().Show, now)...) }

// breaker is the fact of a change of the map's breaker.
func (c *Coordinator) breaker(b *policy.BreakerChange, now time.Time) []event.Event {
	if b == nil {
		return nil
	}
	return []event.Event{{Type: event.BreakerChanged, Time: now, Phase: "map", Label: mapper.Breaker, From: b.From.String(), To: b.To.String(),
		Data: step.Data(c.m.Snapshot().Breaker)}}
}

// Paused reports whether a rate limit holds all lanes back, so that those that work
// are to come to the end of their item.
func (c *Coordinator) Paused(now time.Time) bool {
	_, until := c.m.Ask(now)
	return !until.IsZero()
}

// Stop has nothing more handed out.
func (c *Coordinator) Stop() { c.m.Halt(Interrupted) }

// Interrupted is the reason of a map that somebody stopped.
const Interrupted policy.StopReason = "interrupted"

// Stopped is why the map stops; "" where it does not.
func (c *Coordinator) Stopped() policy.StopReason { return c.m.Stopped() }
