package web

import (
	"container/heap"
	"time"

	"github.com/bide-dev/bide/internal/value"
)

// waiting is the items that wait for a retry, of which there may be a million: which is
// the first, and how many are due when, is asked for with each page.
type waiting struct {
	at    map[int]int64 // when the wait of an item ends, in ns since 1970
	order ends          // the same by time, and waits that are over or were changed
	sums  []int         // what within told last
	told  time.Time     // and when
}

// end is the end of the wait of an item.
type end struct {
	at    int64
	index int
}

type ends []end

func (h ends) Len() int           { return len(h) }
func (h ends) Less(i, j int) bool { return h[i].at < h[j].at }
func (h ends) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ends) Push(x any)        { *h = append(*h, x.(end)) }
func (h *ends) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (w *waiting) len() int { return len(w.at) }

func (w *waiting) put(index int, at int64) {
	value.Put(&w.at, index, at)
	heap.Push(&w.order, end{at, index})
	w.tidy()
}

func (w *waiting) drop(index int) {
	if _, ok := w.at[index]; ok {
		delete(w.at, index)
		w.tidy()
	}
}

// tidy takes out what is over where that is most of it.
func (w *waiting) tidy() {
	if len(w.order) <= 2*len(w.at)+1000 {
		return
	}
	w.order = w.order[:0]
	for index, at := range w.at {
		w.order = append(w.order, end{at, index})
	}
	heap.Init(&w.order)
}

// begin ends all waits at a time.
func (w *waiting) begin(at int64) {
	for index, due := range w.at {
		if due > at {
			w.put(index, at)
		}
	}
}

// first is when the first of the waits ends; zero for none.
func (w *waiting) first() time.Time {
	for len(w.order) > 0 {
		first := w.order[0]
		if at, ok := w.at[first.index]; ok && at == first.at {
			return time.Unix(0, at)
		}
		heap.Pop(&w.order)
	}
	return time.Time{}
}

// sumsFor is how long what within told is told again.
const sumsFor = time.Second

// within counts the waits that end within each of some times, and not within the one
// before it.
func (w *waiting) within(now time.Time, times []time.Duration) []int {
	if now.Sub(w.told) < sumsFor && len(w.sums) == len(times) {
		return w.sums
	}
	w.sums, w.told = make([]int, len(times)), now
	for _, at := range w.at {
		for i, d := range times {
			if at-now.UnixNano() <= int64(d) {
				w.sums[i]++
				break
			}
		}
	}
	return w.sums
}
