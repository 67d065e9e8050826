package guardtest_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/guard/guardtest"
	"github.com/bide-dev/bide/retry"
)

func policy(attempts int) func() *guard.Guard {
	return func() *guard.Guard {
		return guard.Must(guard.New(retry.Policy{Attempts: attempts, Backoff: backoff.Schedule{Initial: time.Second, Jitter: backoff.Full}, Rand: backoff.NewRand(1)}))
	}
}

// TestRate: of many calls as many fail as the rates of attempts say.
func TestRate(t *testing.T) {
	const n = 4000
	got := guardtest.Simulate(t, guardtest.World{Calls: n, Every: time.Millisecond, FailureRate: 0.3, Seed: 7}, policy(3))
	want := math.Pow(0.3, 3)
	if p := float64(got.Failed) / n; math.Abs(p-want) > 3*math.Sqrt(want*(1-want)/n) {
		t.Errorf("%v fail, want %v", p, want)
	}
	if a := got.Amplification(); math.Abs(a-1.39) > 0.05 {
		t.Errorf("%v attempts for each call", a)
	}
}

// TestOutage: a breaker keeps the load of retries away from a target that is
// down, and calls continue after it.
func TestOutage(t *testing.T) {
	w := guardtest.World{Calls: 600, Every: 100 * time.Millisecond, Latency: 20 * time.Millisecond,
		Outages: []guardtest.Outage{{From: 10 * time.Second, For: 20 * time.Second}}}
	bare := guardtest.Simulate(t, w, policy(4))
	broken := guardtest.Simulate(t, w, func() *guard.Guard {
		b, err := circuit.New(circuit.Config{FailureThreshold: 5, Timeout: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return guard.Must(guard.New(retry.Policy{Attempts: 4, Backoff: backoff.Schedule{Initial: time.Second, Jitter: backoff.Full}, Rand: backoff.NewRand(1)}, b))
	})
	if broken.Attempts >= bare.Attempts {
		t.Errorf("%d attempts with a breaker, %d without", broken.Attempts, bare.Attempts)
	}
	if broken.RecoveredAfter < 0 || broken.RecoveredAfter > 4*time.Second {
		t.Errorf("it recovers after %v", broken.RecoveredAfter)
	}
	if bare.Succeeded == 0 || bare.Failed == 0 {
		t.Errorf("%d succeed, %d fail", bare.Succeeded, bare.Failed)
	}
}

// TestSame: the same world gives the same, another seed something else.
func TestSame(t *testing.T) {
	run := func(seed uint64) *guardtest.Result {
		return guardtest.Simulate(t, guardtest.World{Calls: 50, Every: 70 * time.Millisecond, FailureRate: 0.5, Seed: seed}, policy(4))
	}
	a, b := run(1), run(1)
	a.Errors, b.Errors = nil, nil // which have the times of the machine in them
	if a.Succeeded != b.Succeeded || a.Attempts != b.Attempts || !reflect.DeepEqual(a.Load, b.Load) {
		t.Errorf("%+v\n%+v", a, b)
	}
	if c := run(2); c.Attempts == a.Attempts && reflect.DeepEqual(c.Load, a.Load) {
		t.Error("another seed gives the same")
	}
}
