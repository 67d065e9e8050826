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
	// maxWaiting is how many items may wait for their next attempt before no new ones are
	// begun. The coordinator has to hand its state over in one message, of which a server
	// takes up to 2 MB, compressed. The items of open leases may be added to that, about as
	// many.
	maxWaiting = 20_000
	// longBeat is how long a lane may be silent. It is longer than a server takes to
	// restart, because after a shorter time the server would find all lanes expired.
	// shortBeat is for short items, so that the items of a dead worker soon run again.
	longBeat  = 60 * time.Second
	shortBeat = 10 * time.Second
	shortItem = time.Second
)

// Coordinator decides about the map of a run whose items lanes run. It has no clock, no
// goroutine and no randomness, and acts on nothing: it says what is to be done. Several
// goroutines may not use it at once.
type Coordinator struct {
	run, store string
	cfg        Config
	m          *policy.Machine
	open       map[int]Lease
	last       map[int]string // the log that has the last failure of an item that waits
	item       time.Duration  // how long an item takes; 0: not known
	began      time.Time      // when this life of the run began
	used       engine.Usage
	broken     Broken
	paused     bool         // somebody asked for it
	again      map[int]bool // former dead letters that were run again, by index
	Order
}

// CoordinatorState is a coordinator as a value, with which another process continues.
type CoordinatorState struct {
	Run     string         `json:"run"`
	Store   string         `json:"store"`
	Config  Config         `json:"config"`
	Machine policy.State   `json:"machine"`
	Open    map[int]Lease  `json:"open,omitempty"` // without their items
	Last    map[int]string `json:"last,omitempty"`
	Item    time.Duration  `json:"item,omitempty"`
	Began   time.Time      `json:"began,omitzero"` // when this life of the run began
	Used    engine.Usage   `json:"used,omitzero"`  // by its agents, in all lives
	Broken  Broken         `json:"broken,omitzero"`
	Paused  bool           `json:"paused,omitempty"` // somebody asked for it
	Again   map[int]bool   `json:"again,omitempty"`  // former dead letters that were run again, by index
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

// State gives the state of the coordinator. The items of open leases are in the state of
// its machine.
func (c *Coordinator) State() CoordinatorState {
	open := map[int]Lease{}
	for _, l := range c.Leases() {
		l.Spans = nil
		open[l.ID] = l
	}
	return CoordinatorState{Run: c.run, Store: c.store, Config: c.cfg, Machine: c.m.State(), Open: open,
		Last: maps.Clone(c.last), Item: c.item, Began: c.began, Used: c.used, Broken: c.broken, Paused: c.paused, Again: maps.Clone(c.again), Order: c.Order}
}

// Lanes gives how many leases may be open at once.
func (c *Coordinator) Lanes() int { return c.cfg.MaxParallel }

// Open gives how many leases are open.
func (c *Coordinator) Open() int { return len(c.open) }

// Leases gives the open leases, the oldest first.
func (c *Coordinator) Leases() (list []Lease) {
	for _, id := range slices.Sorted(maps.Keys(c.open)) {
		list = append(list, c.open[id])
	}
	return list
}

// Has gives an open lease by its id.
func (c *Coordinator) Has(id int) (Lease, bool) {
	l, ok := c.open[id]
	return l, ok
}

// Lease hands out a lease, or says why there is none: until is when to ask again (the zero
// time: when a lease has ended), and over says that the map has ended.
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

// Late reports whether the time of the run is over: then running items are to be ended.
func (c *Coordinator) Late(now time.Time) bool {
	return c.cfg.Timeout > 0 && !now.Before(c.began.Add(c.cfg.Timeout))
}

// Until gives the earlier of two times: t, where the zero time means never, and the time at
// which the time of the run is over.
func (c *Coordinator) Until(t time.Time) time.Time {
	end := c.began.Add(c.cfg.Timeout)
	if c.cfg.Timeout > 0 && (t.IsZero() || t.After(end)) {
		return end
	}
	return t
}

// slice gives how long a lease lasts. It is longer if there are many leases, to limit the
// work of the coordinator.
func (c *Coordinator) slice() time.Duration {
	return min(max(time.Duration(c.Lanes())*time.Second/4, 5*time.Second), time.Minute)
}

// most gives how many items a lease has: what is likely to be done within its time, and
// never so many that other lanes have nothing left to do.
func (c *Coordinator) most() int {
	n := firstLease
	if c.item > 0 {
		n = int(c.slice() * 3 / 2 / c.item)
	}
	counts := c.m.Counts()
	share := (counts.Pending + counts.Retrying + 2*c.Lanes() - 1) / (2 * c.Lanes())
	return min(max(min(n, share), 1), maxLease)
}

// Keep lets a lane keep only the first items of its lease. Its present item takes longer
// than the lease, and other lanes can run the items after it.
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

// Settle ends a lease and takes its results.
func (c *Coordinator) Settle(id int, s Settled, now time.Time) error {
	return c.settle(id, s, now, false)
}

// Lost ends a lease whose lane is gone. s is what is known of it.
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

// learn updates how long an item takes.
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

// facts gives what is to be recorded for a verdict, in addition to what its lane has
// written.
func (c *Coordinator) facts(v policy.Verdict, log string, now time.Time) (facts []event.Event) {
	switch { // an item that is given back keeps what is known of its last attempt
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
	if v.GivenUp != "" {
		e := mapper.Lost(event.Item{Index: v.Item}, fmt.Sprintf("%s/%d", c.run, v.Item), v.Attempt, v.GivenUp)
		e.Time = now
		facts = append(facts, e)
	}
	facts = append(facts, shown(v.Show, now)...)
	if v.Stop != policy.NotStopped {
		facts = append(facts, event.Event{Type: event.Note, Time: now, Message: "the map stops: " + v.Stop.Text(c.m.Counts().FailedForGood, c.cfg.MaxFailures, *cmp.Or(c.cfg.FailureThreshold, new(float64)))})
	}
	return facts
}

// shown gives the facts for items whose errors are shown as error_collection says. The
// errors themselves are in the logs of lanes: the fold of these logs completes the facts.
func shown(list []policy.Report, now time.Time) (facts []event.Event) {
	for _, r := range list {
		facts = append(facts, event.Event{Type: event.Note, Time: now, Phase: "map", Index: r.Item, Attempts: r.Attempt, Class: r.Class})
	}
	return facts
}

// Over records what is left to be reported when the map is over.
func (c *Coordinator) Over(now time.Time) { c.Tell(now, shown(c.m.Unshown(), now)...) }

// breaker gives the fact for a change of the map's breaker.
func (c *Coordinator) breaker(b *policy.BreakerChange, now time.Time) []event.Event {
	if b == nil {
		return nil
	}
	return []event.Event{{Type: event.BreakerChanged, Time: now, Phase: "map", Label: mapper.Breaker, From: b.From.String(), To: b.To.String(),
		Data: step.Data(c.m.Snapshot().Breaker)}}
}

// Paused reports whether a rate limit holds all lanes back: then working lanes are to end
// after their present item.
func (c *Coordinator) Paused(now time.Time) bool {
	_, until := c.m.Ask(now)
	return !until.IsZero()
}

// Stop makes the coordinator hand out nothing more.
func (c *Coordinator) Stop() { c.m.Halt(Interrupted) }

// Interrupted is the reason when somebody stopped a map.
const Interrupted policy.StopReason = "interrupted"

// Stopped gives the reason why the map stops; "" if it does not.
func (c *Coordinator) Stopped() policy.StopReason { return c.m.Stopped() }
