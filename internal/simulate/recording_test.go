package simulate

import (
	"reflect"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/failure"
)

// TestFitIsTheSame: a recording gives the same model each time, also where
// attempts began at one moment.
func TestFitIsTheSame(t *testing.T) {
	t.Parallel()
	r := &Recording{attempts: map[attemptKey]*recorded{}, static: static}
	for item := 1; item <= 400; item++ {
		l := luck(mix(uint64(item)))
		a := &recorded{from: time.Duration(item/40) * time.Second, took: time.Second}
		if item/40 == 5 && l.unit() < 0.75 {
			a.failure = &failure.Failure{Class: "network"}
		}
		r.attempts[attemptKey{0, item, 1, "map.agent_template[0]", 1, 0}] = a
	}
	want := r.Fit()
	for range 50 {
		if got := r.Fit(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v and %+v", got.Steps["map.agent_template[0]"], want.Steps["map.agent_template[0]"])
		}
	}
}
