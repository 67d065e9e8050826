package policy

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bide-dev/bide/circuit"
	circuitdriver "github.com/bide-dev/bide/circuit/driver"
	"github.com/bide-dev/bide/retry/driver"
)

// State is all of a [Machine], as a value that has a JSON text: a machine made
// of it by [FromState] decides on as the one it was taken from. It is not for
// a journal, in which what happened stands (see [Machine.Restore]), but for
// somebody who hands a map over in mid-work.
type State struct {
	Total int `json:"total"`
	// Through is the number of items from the first one on that have all begun, and
	// Begun marks, by index, those after them that have.
	Through int      `json:"through,omitempty"`
	Begun   []uint64 `json:"begun,omitempty"`
	Counts  Counts   `json:"counts"`
	// Waiting are the items that wait for their next attempt, 56 bytes each, and
	// Rules the states of the rules of those that have some.
	Waiting []byte                     `json:"waiting,omitempty"`
	Rules   map[int][]driver.RuleState `json:"rules,omitempty"`
	Running []RunningItem              `json:"running,omitempty"`
	Leases  []OpenLease                `json:"leases,omitempty"`
	Leased  int                        `json:"leased,omitempty"` // leases there were so far

	Breaker  *circuit.Snapshot `json:"breaker,omitempty"`
	Told     circuit.State     `json:"told,omitempty"`
	Stop     StopReason        `json:"stop,omitempty"`
	Limit    PauseState        `json:"limit,omitzero"`
	Shortage PauseState        `json:"shortage,omitzero"`
	Ramp     RampState         `json:"ramp,omitzero"`

	Held    []Report `json:"held,omitempty"`
	Started bool     `json:"started,omitempty"`
	Fresh   bool     `json:"fresh_failure,omitempty"`
}

// RunningItem is an item whose agent runs, but for those that are like the first one of
// their lease.
type RunningItem struct {
	Record []byte               `json:"record"`
	Ticket circuitdriver.Ticket `json:"ticket,omitzero"`
	Round  int                  `json:"round,omitempty"`
	Short  int                  `json:"short,omitempty"`
	Lease  int                  `json:"lease,omitempty"`
}

// OpenLease is a lease that has not been settled.
type OpenLease struct {
	ID int `json:"id"`
	// Spans are its items in their order: the first one of some that follow each other,
	// and their number.
	Spans    [][2]int `json:"spans"`
	Failures int      `json:"failures,omitempty"`
	Row      int      `json:"row,omitempty"`
}

// spans puts items together that follow each other.
func spans(items []int) (list [][2]int) {
	for _, it := range items {
		if n := len(list); n > 0 && it == list[n-1][0]+list[n-1][1] {
			list[n-1][1]++
			continue
		}
		list = append(list, [2]int{it, 1})
	}
	return list
}

// items are those of an open lease, in their order.
func (l *OpenLease) items() (list []int) {
	for _, s := range l.Spans {
		for i := range s[1] {
			list = append(list, s[0]+i)
		}
	}
	return list
}

// as is the state of an item like another one.
func (s slot) as(item int) slot {
	s.item = uint32(item)
	return s
}

// PauseState is a [RateLimit], its times as nanoseconds since 1970.
type PauseState struct {
	Until  int64 `json:"until,omitempty"`
	Since  int64 `json:"since,omitempty"`
	Streak int   `json:"streak,omitempty"`
	Round  int   `json:"round,omitempty"`
	Beyond bool  `json:"beyond,omitempty"` // nobody waits for its end
}

// RampState is how far the first starts are spaced.
type RampState struct {
	Left int   `json:"left,omitempty"`
	Last int64 `json:"last,omitempty"`
	Any  bool  `json:"any,omitempty"`
}

// State gives all of the machine. It shares nothing with it.
func (m *Machine) State() State {
	s := State{Total: m.n, Through: m.through, Begun: slices.Clone(m.begun), Counts: m.counts, Leased: m.lastLease, Told: m.told, Stop: m.stop,
		Limit: m.limit.state(), Shortage: m.shortage.state(), Ramp: RampState{m.ramp.left, int64(m.ramp.last), m.ramp.any},
		Held: slices.Clone(m.errs.held), Started: m.started, Fresh: m.freshFailure}
	rules := func(r record) {
		if r.rules != nil {
			if s.Rules == nil {
				s.Rules = map[int][]driver.RuleState{}
			}
			s.Rules[int(r.item)] = slices.Clone(*r.rules)
		}
	}
	for _, r := range m.waiting {
		s.Waiting = r.append(s.Waiting)
		rules(r)
	}
	for _, item := range slices.Sorted(maps.Keys(m.running)) {
		slot := m.running[item]
		if l := m.leases[slot.lease]; l != nil && item != l.items[0] && slot == m.running[l.items[0]].as(item) {
			continue
		}
		s.Running = append(s.Running, RunningItem{slot.append(nil), slot.ticket, slot.round, slot.short, slot.lease})
		rules(slot.record)
	}
	for _, id := range slices.Sorted(maps.Keys(m.leases)) {
		l := m.leases[id]
		s.Leases = append(s.Leases, OpenLease{id, spans(l.items), l.failures, l.row})
	}
	if m.breaker != nil {
		b := m.breaker.Snapshot()
		s.Breaker = &b
	}
	return s
}

// FromState gives the machine of a configuration as it was. The configuration
// is the same one; what it cannot be is an error.
func FromState(cfg Config, s State) (*Machine, error) {
	m, err := New(cfg, s.Total)
	if err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	m.through, m.begun, m.counts, m.lastLease = s.Through, slices.Clone(s.Begun), s.Counts, s.Leased
	m.told, m.stop, m.started, m.freshFailure = s.Told, s.Stop, s.Started, s.Fresh
	m.limit.restoreState(s.Limit)
	m.shortage.restoreState(s.Shortage)
	m.ramp = ramp{s.Ramp.Left, instant(s.Ramp.Last), s.Ramp.Any}
	for b := s.Waiting; len(b) > 0; b = b[recordSize:] {
		r := recordOf(b)
		s.rules(&r)
		m.waiting = append(m.waiting, r) // it was a heap, and is one
	}
	for _, it := range s.Running {
		r := recordOf(it.Record)
		s.rules(&r)
		m.running[int(r.item)] = slot{record: r, ticket: it.Ticket, round: it.Round, short: it.Short, lease: it.Lease}
		if it.Lease == 0 {
			m.busy++
		}
	}
	for _, l := range s.Leases {
		if m.leases == nil {
			m.leases = map[int]*lease{}
		}
		items := l.items()
		m.leases[l.ID] = &lease{items, l.Failures, l.Row}
		m.busy++
		for _, it := range items {
			if _, told := m.running[it]; !told {
				m.running[it] = m.running[items[0]].as(it)
			}
		}
	}
	if s.Breaker != nil && m.breaker != nil {
		if err := m.breaker.Restore(*s.Breaker); err != nil {
			return nil, fmt.Errorf("policy: the state's breaker: %w", err)
		}
	}
	m.errs.held = slices.Clone(s.Held)
	return m, nil
}

// check reports what cannot be a machine: a state comes from outside.
func (s *State) check() error {
	c := s.Counts
	open := len(s.Waiting) / recordSize
	switch {
	case len(s.Waiting)%recordSize != 0, s.Through < 0, s.Through > s.Total, len(s.Begun) > s.Total/64+1, s.Leased < 0:
	case c.Total != s.Total, c.Pending < 0, c.Pending+c.Running+c.Retrying+c.Finished() != s.Total:
	case c.Retrying != open:
	default:
		return s.checkItems()
	}
	return fmt.Errorf("policy: a state that cannot be: counts %+v, %d items wait", c, open)
}

func (s *State) checkItems() error {
	seen := map[int]bool{}
	item := func(b []byte) error {
		i := int(binary.LittleEndian.Uint32(b))
		if i < 1 || i > s.Total || seen[i] {
			return fmt.Errorf("policy: a state that cannot be: item %d of %d, or twice", i, s.Total)
		}
		seen[i] = true
		return nil
	}
	for b := s.Waiting; len(b) > 0; b = b[recordSize:] {
		if err := item(b); err != nil {
			return err
		}
	}
	leased := map[int]int{} // by item: the lease, of those that Running has
	for _, r := range s.Running {
		if len(r.Record) != recordSize {
			return fmt.Errorf("policy: a state that cannot be: a record of %d bytes", len(r.Record))
		}
		if err := item(r.Record); err != nil {
			return err
		}
		leased[int(binary.LittleEndian.Uint32(r.Record))] = r.Lease
	}
	running := len(s.Running)
	for _, l := range s.Leases {
		for n, span := range l.Spans {
			if span[0] < 1 || span[1] < 1 || span[0]-1 > s.Total-span[1] {
				return fmt.Errorf("policy: a state that cannot be: items %d to %d of %d in lease %d", span[0], span[0]+span[1]-1, s.Total, l.ID)
			}
			for i := span[0]; i < span[0]+span[1]; i++ {
				of, told := leased[i]
				if told && of != l.ID || !told && (seen[i] || n == 0 && i == span[0]) {
					return fmt.Errorf("policy: a state that cannot be: item %d of lease %d does not run", i, l.ID)
				}
				if !told {
					seen[i] = true
					running++
				}
			}
		}
	}
	if running != s.Counts.Running {
		return fmt.Errorf("policy: a state that cannot be: %d items run, and %d are named", s.Counts.Running, running)
	}
	return nil
}

func (s *State) rules(r *record) {
	if rules, ok := s.Rules[int(r.item)]; ok {
		rules = slices.Clone(rules)
		r.rules = &rules
	}
}

// recordSize is the number of bytes of a record without its rules.
const recordSize = 4*4 + 5*8

func (r *record) append(b []byte) []byte {
	for _, n := range [...]uint32{r.item, r.failed, r.recoveries, r.tried} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	for _, n := range [...]int64{int64(r.slept), int64(r.prev), int64(r.began), int64(r.first), int64(r.notBefore)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

func recordOf(b []byte) (r record) {
	for i, n := range [...]*uint32{&r.item, &r.failed, &r.recoveries, &r.tried} {
		*n = binary.LittleEndian.Uint32(b[4*i:])
	}
	long := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[16+8*i:])) }
	r.slept, r.prev = time.Duration(long(0)), time.Duration(long(1))
	r.began, r.first, r.notBefore = instant(long(2)), instant(long(3)), instant(long(4))
	return r
}

func (l *RateLimit) state() PauseState {
	return PauseState{int64(l.until), int64(l.since), l.streak, l.round, l.beyond}
}

func (l *RateLimit) restoreState(s PauseState) {
	l.until, l.since, l.streak, l.round, l.beyond = instant(s.Until), instant(s.Since), s.Streak, s.Round, s.Beyond
}
