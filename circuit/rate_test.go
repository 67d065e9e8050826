package circuit_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/circuit/driver"
)

// answer makes calls, one a step, F failed, S slow, N neutral, . well.
func answer(t testing.TB, m *driver.Machine, now time.Time, step time.Duration, calls string) time.Time {
	t.Helper()
	for _, call := range calls {
		took, outcome := time.Duration(0), circuit.Success
		switch call {
		case 'F':
			outcome = circuit.Failure
		case 'S':
			took = time.Minute
		case 'N':
			outcome = circuit.Neutral
		}
		m.DoneAfter(admit(t, m, now), outcome, took, now)
		now = now.Add(step)
	}
	return now
}

func TestRates(t *testing.T) {
	tests := []struct {
		name   string
		config circuit.Config
		step   time.Duration
		calls  string
		want   circuit.State
	}{
		{"too few calls", circuit.Config{FailureRate: 0.5}, 0, "FFFFFFFFF", circuit.Closed},
		{"enough", circuit.Config{FailureRate: 0.5}, 0, ".F.F.F.F.F", circuit.Open},
		{"49.5% is not 50%", circuit.Config{FailureRate: 0.5, Window: 200, MinCalls: 200}, 0, strings.Repeat(".", 101) + strings.Repeat("F", 99), circuit.Closed},
		{"30% is 30%", circuit.Config{FailureRate: 0.3, Window: 30, MinCalls: 30}, 0, strings.Repeat(".", 21) + strings.Repeat("F", 9), circuit.Open},
		{"the share counts, not the last call", circuit.Config{FailureRate: 0.5, MinCalls: 2}, 0, "F.", circuit.Open},
		{"below it", circuit.Config{FailureRate: 0.5, MinCalls: 3}, 0, "F..", circuit.Closed},
		{"old calls leave", circuit.Config{FailureRate: 0.5, Window: 4, MinCalls: 4}, 0, "F...F...F.F", circuit.Open},
		{"and count no more", circuit.Config{FailureRate: 0.5, Window: 4, MinCalls: 4}, 0, "F...F...F...F...F", circuit.Closed},
		{"neutral is no call", circuit.Config{FailureRate: 0.5, Window: 4, MinCalls: 2}, 0, "FNNNNNNN", circuit.Closed},
		{"window of time", circuit.Config{FailureRate: 0.5, WindowTime: 10 * time.Second, MinCalls: 4}, time.Second, "FFF", circuit.Closed},
		{"within the time", circuit.Config{FailureRate: 0.5, WindowTime: 10 * time.Second, MinCalls: 4}, 2 * time.Second, "FFFF", circuit.Open},
		{"not within the time", circuit.Config{FailureRate: 0.5, WindowTime: 10 * time.Second, MinCalls: 4}, 4 * time.Second, "FFFFFFFF", circuit.Closed},
		{"slow calls", circuit.Config{SlowCall: time.Second, SlowRate: 0.5, MinCalls: 4, Window: 4}, 0, "..SS", circuit.Open},
		{"failed ones are not slow", circuit.Config{SlowCall: time.Second, SlowRate: 0.5, MinCalls: 4, Window: 4}, 0, "FFFF", circuit.Closed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := machine(t, test.config)
			now := answer(t, m, start, test.step, test.calls)
			expect(t, m, now, test.want)
			if test.want == circuit.Open {
				return
			}
			// What is saved is what continues.
			text, err := json.Marshal(m.Snapshot())
			if err != nil {
				t.Fatal(err)
			}
			var s circuit.Snapshot
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			other := machine(t, test.config)
			if err := other.Restore(s); err != nil {
				t.Fatal(err)
			}
			for range 300 {
				if m.State(now) != other.State(now) {
					t.Fatal("the restored machine opens at another call")
				}
				if m.State(now) == circuit.Open {
					return
				}
				answer(t, m, now, test.step, "F")
				now = answer(t, other, now, test.step, "F")
			}
		})
	}
}

// A slow success in half-open is a failure.
func TestSlowProbe(t *testing.T) {
	m := machine(t, circuit.Config{SlowCall: time.Second, SlowRate: 1, Window: 1, SuccessThreshold: 1})
	now := answer(t, m, start, 30*time.Second, "SS")
	expect(t, m, now.Add(-1), circuit.Open)
	answer(t, m, now, 0, ".")
	expect(t, m, now, circuit.Closed)
}

func TestBreakerByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		b := breaker(t, circuit.Config{Name: "db", OnChange: func(c circuit.Change) { told = append(told, c.To.String()) }})
		old, err := b.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		b.Open(true)
		old.Done(circuit.Success) // of before
		time.Sleep(24 * time.Hour)
		_, err = b.Acquire()
		var refusal *circuit.OpenError
		if !errors.As(err, &refusal) || !refusal.Held || err.Error() != `circuit "db" is held open by hand` {
			t.Errorf("held open it says %v", err)
		}
		other := breaker(t, circuit.Config{})
		if err := other.Restore(b.Snapshot()); err != nil || other.State() != circuit.Open {
			t.Errorf("%v, restored it is %v", err, other.State())
		}
		b.Close()
		if err := circuit.Do(context.Background(), b, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		b.Open(false)
		time.Sleep(30 * time.Second)
		if b.State() != circuit.HalfOpen || strings.Join(told, " ") != "open closed open" {
			t.Errorf("it is %v, told %v", b.State(), told)
		}
	})
}

var errNoRows = errors.New("no rows")

// What is no failure to the target is said by FailureIf.
func TestFailureIf(t *testing.T) {
	b := breaker(t, circuit.Config{FailureThreshold: 2, FailureIf: func(err error) bool { return err != errNoRows }})
	for range 6 {
		if err := circuit.Do(context.Background(), b, func(context.Context) error { return errNoRows }); err != errNoRows {
			t.Fatal(err)
		}
	}
	fail(t, b, 2)
	if b.State() != circuit.Open {
		t.Error("it is not open")
	}
}

// Slow calls are measured.
func TestSlowCallsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(t, circuit.Config{SlowCall: time.Second, SlowRate: 0.5, Window: 2})
		for range 2 {
			if err := circuit.Do(context.Background(), b, func(context.Context) error { time.Sleep(time.Second); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if b.State() != circuit.Open {
			t.Error("it is not open")
		}
	})
}
