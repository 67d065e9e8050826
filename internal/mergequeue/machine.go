package mergequeue

import (
	"maps"
	"math/bits"
	"slices"
)

// Commit is a commit with its tree.
type Commit struct{ ID, Tree string }

// Merge is the merge of an item's work on top of a commit. Item is the item's index.
type Merge struct {
	Commit
	Item int
}

// Kind is what an [Action] asks for.
type Kind uint8

// The kinds of action.
const (
	Idle   Kind = iota // no item waits
	Base               // say where the run's branch is
	Join               // merge Item onto Onto, on no branch
	Verify             // verify Commit, which has Items on top of Onto
	Hold               // Commit, the base, is red: wait before it is verified again
	Land               // move the run's branch from Onto to the last of Merges
	Refuse             // Item breaks its merge onto Onto, which is Commit
)

// Action is the next thing to do.
type Action struct {
	Kind   Kind
	Item   int
	Onto   string
	Commit Commit
	Items  []int   // of Verify; none if the base is verified
	Merges []Merge // of Land
	With   string  // of Refuse: the landed merge before which the item is good; "" for none
}

// Config says how a queue works.
type Config struct {
	Batch   int  // how many items are verified together, at most
	ByIndex bool // items with a lower index come first; otherwise items that were added first
}

// Machine decides about the items of one queue. Make one with [New]. Several goroutines may
// not use it at once.
type Machine struct {
	cfg     Config
	waiting []int
	todo    []group // the last comes next
	now     *chain  // nil: no chain is being built or verified
	search  *search // nil: no search for a conflicting landed item
	guilty  *Action // an item that is red alone; nil: none
	sure    bool    // it is refused, whatever else is red

	results  map[string]bool // of verifies, by tree
	believed map[string]bool // trees that a search takes for good
	verifies int
	green    int            // the last verify that was green
	red      map[string]int // the first verify of a tree that was red
	start    string         // the commit onto which the first item landed
	landed   []string       // merges since then, oldest first
}

// group is items that are merged together. If suspect, one or more of them broke a merge. If
// alone, its only item did, and is verified once more, whatever is known about it.
type group struct {
	items          []int
	suspect, alone bool
}

// chain is the part of a group that is merged so far.
type chain struct {
	group
	base   *Commit // nil: not known yet
	next   int     // of items, to be merged next
	merges []Merge
	later  []int // in conflict with others of the group
	// red: the base is to be verified, because the chain has failed or an item is to be
	// refused. held: the base failed too, and a wait is due. waited: there has been a wait.
	red, held, waited bool
}

// Most gives the greatest number of verifies that a queue makes for so many items, verifies
// of bases included, if nothing is red by chance or because of an outage.
func Most(items, batch int) int {
	halvings := bits.Len(uint(max(batch, 1) - 1))
	searches := bits.Len(uint(items))
	return items * (halvings + searches + 5)
}

// New gives the machine of a queue in which no item waits.
func New(c Config) *Machine {
	c.Batch = max(c.Batch, 1)
	return &Machine{cfg: c, results: map[string]bool{}, believed: map[string]bool{}, red: map[string]int{}}
}

// Add adds items that wait.
func (m *Machine) Add(items ...int) { m.waiting = append(m.waiting, items...) }

// Recall reports what an earlier life of the run has landed, the oldest first, and onto
// which commit.
func (m *Machine) Recall(start string, landed []string) { m.start, m.landed = start, landed }

// Believe lets a search take a tree for good without a verify.
func (m *Machine) Believe(tree string) { m.believed[tree] = true }

// Green reports whether the last verify of a tree was green.
func (m *Machine) Green(tree string) bool { return m.results[tree] }

// Held reports that the base was red in an earlier life of the run: a wait is due before
// anything else is verified. Like [Machine.Recall], it is called before the first Next.
func (m *Machine) Held() { m.now = &chain{red: true, held: true} }

// Leave gives the items that have neither landed nor been refused, and removes them.
func (m *Machine) Leave() (items []int) {
	if m.guilty != nil {
		items = append(items, m.guilty.Item)
	}
	if m.now != nil {
		items = append(items, m.now.items...)
	}
	for _, g := range slices.Backward(m.todo) {
		items = append(items, g.items...)
	}
	items = append(items, m.waiting...)
	m.guilty, m.now, m.search, m.todo, m.waiting = nil, nil, nil, nil, nil
	return items
}

// Ahead gives the items of the next batch, and the commit that they are merged onto if the
// present verify is green. It gives none while that verify is not of a batch.
func (m *Machine) Ahead() (onto string, items []int) {
	c := m.now
	if c == nil || c.suspect || c.red || len(c.merges) == 0 || c.next < len(c.items) || len(m.todo) > 0 {
		return "", nil
	}
	m.sort()
	return c.last().ID, slices.Clone(m.waiting[:min(m.cfg.Batch, len(m.waiting))])
}

func (m *Machine) sort() {
	if m.cfg.ByIndex {
		slices.Sort(m.waiting)
	}
}

// Next gives the next action. Asked again, it gives the same one.
func (m *Machine) Next() Action {
	switch {
	case m.search != nil:
		return m.seek()
	case m.guilty != nil && m.sure:
		return *m.guilty
	case m.now == nil && !m.take():
		return Action{Kind: Idle}
	}
	c := m.now
	switch {
	case c.base == nil:
		return Action{Kind: Base}
	case c.next < len(c.items):
		return Action{Kind: Join, Item: c.items[c.next], Onto: c.last().ID}
	case c.held:
		return Action{Kind: Hold, Onto: c.base.ID, Commit: *c.base}
	case c.red:
		return Action{Kind: Verify, Onto: c.base.ID, Commit: *c.base}
	case m.results[c.last().Tree]:
		return Action{Kind: Land, Onto: c.base.ID, Commit: c.last(), Merges: c.merges}
	}
	return Action{Kind: Verify, Onto: c.base.ID, Commit: c.last(), Items: c.merged()}
}

// take begins with the next group. It is false if there is none.
func (m *Machine) take() bool {
	switch n := len(m.todo); {
	case n > 0:
		m.now, m.todo = &chain{group: m.todo[n-1]}, m.todo[:n-1]
	case m.guilty != nil: // nothing else is left that could be green
		m.now = &chain{red: true}
	case len(m.waiting) > 0:
		m.sort()
		n := min(m.cfg.Batch, len(m.waiting))
		m.now = &chain{group: group{items: slices.Clone(m.waiting[:n])}}
		m.waiting = slices.Delete(m.waiting, 0, n)
	default:
		return false
	}
	return true
}

// last gives the commit that has all of the chain.
func (c *chain) last() Commit {
	if n := len(c.merges); n > 0 {
		return c.merges[n-1].Commit
	}
	return *c.base
}

// merged gives the items of the chain.
func (c *chain) merged() []int {
	list := make([]int, len(c.merges))
	for i, m := range c.merges {
		list[i] = m.Item
	}
	return list
}

// OnBase reports where the run's branch is.
func (m *Machine) OnBase(at Commit) {
	m.now.base = &at
	if m.start == "" {
		m.start = at.ID
	}
}

// Merged reports the merge of an item.
func (m *Machine) Merged(at Commit) {
	if m.search != nil {
		m.built(at)
		return
	}
	c := m.now
	c.merges = append(c.merges, Merge{at, c.items[c.next]})
	m.step()
}

// Nothing reports that an item has nothing to merge. If ended is true, the item has ended.
func (m *Machine) Nothing() (ended bool) {
	if m.search != nil {
		m.found(true) // the search learns nothing from that commit
		return false
	}
	m.step()
	return true
}

// Conflicted reports that an item is in conflict with the commit that it was to be merged
// onto. It is refused if that commit has landed. Otherwise it comes later, because the item
// that it is in conflict with may not land.
func (m *Machine) Conflicted() (refused bool) {
	if m.search != nil {
		m.found(true)
		return false
	}
	c := m.now
	if refused = len(c.merges) == 0; !refused {
		c.later = append(c.later, c.items[c.next])
	}
	m.step()
	return refused
}

// step continues with the next item of the group.
func (m *Machine) step() {
	c := m.now
	if c.next++; c.next < len(c.items) {
		return
	}
	if len(c.later) > 0 {
		m.todo = append(m.todo, group{items: c.later, suspect: c.suspect})
		c.items = c.merged()
		c.next = len(c.items)
	}
	switch green, known := m.results[c.last().Tree]; {
	case len(c.merges) == 0:
		m.now = nil
	case known && !green && c.suspect && !c.alone:
		m.split()
	}
}

// Verified reports how a verify went.
func (m *Machine) Verified(green bool) {
	a := m.Next()
	m.verifies++
	tree := a.Commit.Tree
	if m.results[tree] = green; green {
		m.green = m.verifies
		delete(m.red, tree)
	} else if m.red[tree] == 0 {
		m.red[tree] = m.verifies
	}
	c := m.now
	switch {
	case m.search != nil:
		m.found(!green)
	case c.red:
		m.baseVerified(green)
	case green:
		m.sure = m.guilty != nil && !c.suspect
	case c.alone:
		m.accuse()
	case c.suspect:
		m.split()
	default:
		c.red, c.waited = true, false
	}
}

// accuse notes that an item is red alone. The rest of its batch is verified without it,
// which shows whether the item is why the batch was red.
func (m *Machine) accuse() {
	c := m.now
	m.guilty = &Action{Kind: Refuse, Item: c.items[0], Onto: c.base.ID, Commit: c.last()}
	m.sure = m.green > m.red[c.last().Tree] // something was green after the item was first red
	if m.now = nil; len(m.landed) > 0 {
		m.search = &search{item: c.items[0], hi: -1}
	}
	var rest []int
	for n := len(m.todo) - 1; n >= 0 && m.todo[n].suspect; n-- {
		rest = append(rest, m.todo[n].items...)
		m.todo = m.todo[:n]
	}
	if len(rest) > 0 {
		m.todo = append(m.todo, group{items: rest})
	}
}

// baseVerified takes the result of verifying the base, which was verified because others
// were red.
func (m *Machine) baseVerified(green bool) {
	c := m.now
	switch {
	case !green: // the red results say nothing about the items
		maps.DeleteFunc(m.results, func(_ string, green bool) bool { return !green })
		clear(m.red)
		if m.guilty != nil {
			m.waiting = slices.Insert(m.waiting, 0, m.guilty.Item)
		}
		m.guilty, c.held, c.waited = nil, true, true
	case len(c.merges) == 0:
		m.now, m.sure = nil, m.guilty != nil
	case c.waited: // what was red may be green by now
		c.red = false
	default:
		m.split()
		if m.guilty != nil { // others are red as well, so the item is verified again
			m.todo = append(m.todo, group{[]int{m.guilty.Item}, true, true})
			m.guilty = nil
		}
	}
}

// Probe has the base verified again, after a hold.
func (m *Machine) Probe() { m.now.held = false }

// Moved reports that commits of others have changed the base during a hold. The new base is
// verified next, instead of the one that was red. Then all that has not landed is merged on
// top of it.
func (m *Machine) Moved() {
	m.waiting = slices.Insert(m.waiting, 0, m.now.merged()...)
	m.now = &chain{red: true}
}

// split has the two halves of the chain verified, one after the other.
func (m *Machine) split() {
	list := m.now.merged()
	m.now = nil
	half := (len(list) + 1) / 2
	for _, part := range [][]int{list[half:], list[:half]} {
		if len(part) > 0 {
			m.todo = append(m.todo, group{part, true, len(part) == 1})
		}
	}
}

// Landed reports that the run's branch is at the last of the merges.
func (m *Machine) Landed() {
	for _, b := range m.now.merges {
		m.landed = append(m.landed, b.ID)
	}
	m.now = nil
}

// Refused reports that the item that breaks the merge has ended.
func (m *Machine) Refused() { m.guilty, m.sure = nil, false }
