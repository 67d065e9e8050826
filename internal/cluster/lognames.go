package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// logName is the name of a log: its kind of writer, the life of the run, and a number among
// logs of this kind.
type logName struct {
	kind string // homeLog or laneLog
	life int
	n    int // from 1
}

const (
	homeLog = "home"
	laneLog = "lane"
)

func (l logName) String() string { return fmt.Sprintf("%s-%d-%d", l.kind, l.life, l.n) }

// HomeLog is the name of the log of a home task.
func HomeLog(life, n int) string { return logName{homeLog, life, n}.String() }

// LaneLog is the name of the log of a lease.
func LaneLog(life, lease int) string { return logName{laneLog, life, lease}.String() }

// logNameOf reads a name. ok is false if it is not the name of a log.
func logNameOf(text string) (l logName, ok bool) {
	for _, kind := range []string{homeLog, laneLog} {
		l = logName{kind: kind}
		if _, err := fmt.Sscanf(text, kind+"-%d-%d", &l.life, &l.n); err == nil && l.String() == text {
			return l, true
		}
	}
	return l, false
}

// logs gives the logs of a run in the order in which they were begun. They are ordered by
// their numbers: lane-1-10 is later than lane-1-9. While a home task is open, no lane is.
func (r Shared) logs() ([]logName, error) {
	files, err := r.o.List(r.name("lanes"))
	if err != nil {
		return nil, err
	}
	var list []logName
	for _, f := range files {
		if l, ok := logNameOf(strings.TrimSuffix(f, ".log")); ok {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b logName) int {
		return cmp.Or(cmp.Compare(a.life, b.life), cmp.Compare(a.kind, b.kind), cmp.Compare(a.n, b.n))
	})
	return list, nil
}
