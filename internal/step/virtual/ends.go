package virtual

import (
	"cmp"
	"slices"

	"github.com/bide-dev/bide/internal/value"
)

// ends are the ends of contexts for which tasks wait. Many tasks wait under one
// context, which is looked at once for all of them.
type ends struct {
	list  []*end
	by    map[<-chan struct{}]*end
	spare *end // one that is no longer in use
}

// end is that of one context, or of several that end together.
type end struct {
	done  <-chan struct{}
	place int      // in the list
	tasks []waiter // some of them wait no more
	live  int      // so many do
}

// waiter is a task in one of its waits.
type waiter struct {
	*task
	in uint64 // its turn
}

func (w waiter) waits() bool { return w.turn == w.in && !w.over }

// add has a task wait for an end. A context without one gives nil.
func (s *ends) add(done <-chan struct{}, t *task) *end {
	if done == nil {
		return nil
	}
	e := s.by[done]
	if e == nil {
		if e = s.spare; e == nil {
			e = &end{}
		}
		s.spare = nil
		e.done, e.place = done, len(s.list)
		value.Put(&s.by, done, e)
		s.list = append(s.list, e)
	}
	e.tasks = append(e.tasks, waiter{t, t.turn})
	e.live++
	return e
}

// remove says that one of the tasks waits no more, which it knows itself.
func (s *ends) remove(e *end) {
	if e.live--; e.live > 0 {
		if len(e.tasks) > 2*e.live+8 {
			e.tasks = slices.DeleteFunc(e.tasks, func(w waiter) bool { return !w.waits() })
		}
		return
	}
	last := s.list[len(s.list)-1]
	s.list[e.place], last.place = last, e.place
	s.list[len(s.list)-1] = nil
	s.list = s.list[:len(s.list)-1]
	delete(s.by, e.done)
	clear(e.tasks)
	e.done, e.tasks, s.spare = nil, e.tasks[:0], e
}

// poll wakes the tasks whose context has ended, in the order of their waits.
func (s *ends) poll(wake func(*task)) {
	var woken []waiter
	for _, e := range s.list {
		if !taken(e.done) {
			continue
		}
		for _, w := range e.tasks {
			if w.waits() {
				woken = append(woken, w)
			}
		}
	}
	slices.SortFunc(woken, func(a, b waiter) int { return cmp.Compare(a.in, b.in) })
	for _, w := range woken {
		if w.waits() { // not woken for its other context
			wake(w.task)
		}
	}
}
