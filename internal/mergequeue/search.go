package mergequeue

// search looks for the landed merge that an item breaks on: the first one on top of which
// the item is red. On top of the last one, it is known to be red.
type search struct {
	item   int
	lo, hi int     // the first red one is between these landed merges; hi is -1 until the item is good on top of the start
	merge  *Commit // of the item, to be verified; nil: not made yet
}

// at gives the place among the landed merges on top of which the item is tried; -1 is the
// start.
func (s *search) at() int {
	if s.hi < 0 {
		return -1
	}
	return (s.lo + s.hi) / 2
}

// seek gives the next action of the search.
func (m *Machine) seek() Action {
	s, onto := m.search, m.start
	if i := s.at(); i >= 0 {
		onto = m.landed[i]
	}
	if s.merge == nil {
		return Action{Kind: Join, Item: s.item, Onto: onto}
	}
	return Action{Kind: Verify, Onto: onto, Commit: *s.merge, Items: []int{s.item}}
}

// built takes the merge that is tried.
func (m *Machine) built(at Commit) {
	m.search.merge = &at
	green, known := m.results[at.Tree]
	switch {
	case m.believed[at.Tree]:
		m.found(false)
	case known:
		m.found(!green)
	}
}

// found takes whether the item is red where it was tried, or cannot be merged there.
func (m *Machine) found(red bool) {
	s := m.search
	s.merge = nil
	switch i := s.at(); {
	case i < 0 && red: // it is red by itself
		m.search = nil
		return
	case i < 0:
		s.hi = len(m.landed) - 1
	case red:
		s.hi = i
	default:
		s.lo = i + 1
	}
	if s.lo >= s.hi {
		m.guilty.With = m.landed[s.hi]
		m.search = nil
	}
}
