package driver

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
		h.kept = append(make([]Attempt, 0, HistoryFirst), h.first)
	case len(h.kept) == HistoryFirst+HistoryLast:
		copy(h.kept[HistoryFirst:], h.kept[HistoryFirst+1:])
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
		list[i].Class = Class(list[i].Err)
		list[i].Message = message(list[i].Err)
	}
	return list
}
