package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// evidence is what a recording says of one step.
type evidence struct {
	list    []*recorded // by their beginning
	order   []int       // of them, by how long they took
	units   []int       // whose luck each has in common with others of its unit
	tries   int         // the most attempts in a row
	inside  []bool      // of an outage
	outages []Outage
	limit   *limitFit
	queue   *queued     // nil: none is found
	items   *itemCounts // nil: there are too few
	stopped time.Duration
}

// unit is what attempts have in common: a work item, or an element of a list. Attempts of
// anything else have nothing in common.
func (k attemptKey) unit() (string, bool) {
	element := strings.LastIndexByte(k.path, ']')
	switch {
	case k.index > 0:
		return fmt.Sprint(k.index), true
	case element >= 0 && !strings.Contains(k.path, "commands["): // a call of a pipeline
		return k.path[:element], true
	}
	return "", false
}

// evidence gives what the recording says of each step, and how many units there are.
func (r *Recording) evidence() (steps map[string]*evidence, units int) {
	keys := slices.SortedFunc(maps.Keys(r.attempts), func(a, b attemptKey) int {
		return cmp.Or(cmp.Compare(r.attempts[a].from, r.attempts[b].from), a.compare(b))
	})
	steps = map[string]*evidence{}
	names := map[string]int{}
	alone := map[string]bool{} // steps whose attempts have nothing in common
	for _, k := range keys {
		p := r.static(k.path)
		e := steps[p]
		if e == nil {
			e = &evidence{}
			steps[p] = e
		}
		unit := units
		if name, is := k.unit(); is {
			if n, known := names[name]; known {
				unit = n
			} else {
				names[name] = units
			}
		} else {
			alone[p] = true
		}
		if unit == units {
			units++
		}
		e.list, e.units = append(e.list, r.attempts[k]), append(e.units, unit)
		e.tries = max(e.tries, k.n)
	}
	for p, e := range steps {
		e.prepare(!alone[p])
	}
	return steps, units
}

// prepare finds what does not depend on how much each unit counts.
func (e *evidence) prepare(items bool) {
	e.order = make([]int, len(e.list))
	for i := range e.order {
		e.order[i] = i
	}
	slices.SortStableFunc(e.order, func(i, j int) int {
		a, b := e.list[i], e.list[j]
		if c := cmp.Compare(a.took, b.took); c != 0 || a.cut == b.cut {
			return c
		}
		if a.cut {
			return 1
		}
		return -1
	})
	e.outages, e.inside = findOutages(e.list, e.units, items)
	e.limit = fitLimit(e.list, e.inside)
	e.queue = findQueue(e)
	e.stopped = stoppedAfter(e.list)
	if items {
		e.items = e.count()
	}
}

// stoppedAfter is the timeout that has ended attempts: 0 where there is none, or where
// others continued for longer.
func stoppedAfter(list []*recorded) time.Duration {
	least, longest := time.Duration(0), time.Duration(0)
	for _, a := range list {
		f := a.failure
		switch {
		case f != nil && f.Timeout && f.Exit == 0 && f.Status == 0:
			if least == 0 || a.took < least {
				least = a.took
			}
		case !a.cut:
			longest = max(longest, a.took)
		}
	}
	if longest > least+least/20 {
		return 0
	}
	return least
}
