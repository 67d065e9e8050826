package driver

import "reflect"

// history is the failed attempts, the first and the last of them. The first
// has its place here, so that one failure allocates nothing.
type history struct {
	total int
	first Attempt
	kept  []Attempt // once there are two
}

func (h *history) add(a Attempt) {
	h.total++
	switch {
	case h.total == 1:
		h.first = a
		return
	case h.total == 2:
		h.kept = append(make([]Attempt, 0, historyFirst), h.first)
	case len(h.kept) == historyFirst+historyLast:
		copy(h.kept[historyFirst:], h.kept[historyFirst+1:])
		h.kept[len(h.kept)-1] = a
		return
	}
	h.kept = append(h.kept, a)
}

func (h *history) newest() *Attempt {
	if h.total == 1 {
		return &h.first
	}
	return &h.kept[len(h.kept)-1]
}

// list returns the attempts, with class and message filled in.
func (h *history) list() []Attempt {
	list := h.kept
	if h.total == 1 {
		list = []Attempt{h.first}
	}
	for i := range list {
		a := &list[i]
		if i > 0 && same(a.Err, list[i-1].Err) {
			a.Class, a.Message = list[i-1].Class, list[i-1].Message
			continue
		}
		a.Class, a.Message = Class(a.Err), message(a.Err)
	}
	return list
}

// same reports whether two errors are one pointer.
func same(a, b error) bool {
	of := reflect.TypeOf(a)
	return of != nil && of == reflect.TypeOf(b) && of.Kind() == reflect.Pointer && a == b
}
