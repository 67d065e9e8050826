package circuit_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/circuit/driver"
)

// A nanosecond before its time an open machine is open, also after a restart.
func TestNotBeforeItsTime(t *testing.T) {
	m := machine(t, circuit.Config{Timeout: time.Minute})
	open(t, m, 5, start)
	restored := machine(t, circuit.Config{Timeout: time.Minute})
	if err := restored.Restore(m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*driver.Machine{m, restored} {
		early := start.Add(time.Minute - 1)
		expect(t, m, early, circuit.Open)
		refuse(t, m, early, circuit.Open, 1)
		expect(t, m, early.Add(1), circuit.HalfOpen)
		admit(t, m, early.Add(1))
	}
	before := machine(t, circuit.Config{Timeout: time.Minute})
	open(t, before, 5, start)
	refuse(t, before, start.Add(-1), circuit.Open, time.Minute) // a clock that was set back a little
	expect(t, before, start.Add(-1), circuit.Open)
}

// Asking how long to wait changes nothing: it lets no further probe in.
func TestRetryAfterChangesNothing(t *testing.T) {
	m, now := machine(t, circuit.Config{HalfOpenRequests: 1, Timeout: time.Second, Lease: time.Minute}), start
	open(t, m, 5, now)
	for _, step := range []time.Duration{0, time.Second, 0, time.Minute - 1, 1, time.Hour} {
		now = now.Add(step)
		before := m.Snapshot()
		m.RetryAfter(now)
		m.State(now)
		if after := m.Snapshot(); !reflect.DeepEqual(before, after) {
			t.Fatalf("after %v: %+v became %+v", now.Sub(start), before, after)
		}
		if step == time.Second { // half-open: one probe, whatever is asked
			admit(t, m, now)
			refuse(t, m, now, circuit.HalfOpen, time.Minute)
		}
	}
}
