package simulate

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/failure"
)

// TestOutagesDoNotDependOnWhoAsks: when a target is down is the same for all who
// meet the same luck, however often they ask, and for as long as the means say.
func TestOutagesDoNotDependOnWhoAsks(t *testing.T) {
	t.Parallel()
	of := func() *twoState {
		x := &live{Target: &Target{Outages: []Outage{{MeanUp: 3 * time.Second, MeanDown: time.Second}}}}
		x.begin(7)
		return x.states[0]
	}
	often, down := of(), 0
	const n = 200_000
	for i := range n {
		now := time.Duration(i) * 100 * time.Millisecond // some eras
		is := often.down(now)
		if is {
			down++
		}
		if i%1000 == 0 && of().down(now) != is {
			t.Fatalf("at %v it is down for one and up for the other", now)
		}
	}
	if share := float64(down) / n; math.Abs(share-0.25) > 0.02 {
		t.Errorf("it is down for %v of the time", share)
	}
	if of().down(math.MaxInt64) == of().down(0) && of().down(0) {
		t.Error("it is down at first")
	}
}

// TestOutagesOfMany has so many failures in a row, so often, that who counts all
// attempts for each of them is not done before the test is over.
func TestOutagesOfMany(t *testing.T) {
	ok, failed := &recorded{}, &recorded{failure: &failure.Failure{Class: "network"}}
	var list []*recorded
	for range 250_000 {
		for range 11 {
			list = append(list, failed)
		}
		list = append(list, ok)
	}
	if found, inside := findOutages(list, nil, false); slices.Contains(inside, true) || len(found) != 0 {
		t.Errorf("there are %d outages", len(found))
	}
}
