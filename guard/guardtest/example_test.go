package guardtest_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/guard/guardtest"
	"github.com/bide-dev/bide/retry"
)

// Which policy gets through an outage of 20 s, and what does it cost the target?
// In a test of yours t is that of the test; here one is made up.
func ExampleSimulate() {
	asTest(func(t *testing.T, out io.Writer) {
		world := guardtest.World{Calls: 300, Every: 200 * time.Millisecond, Latency: 20 * time.Millisecond,
			Outages: []guardtest.Outage{{From: 10 * time.Second, For: 20 * time.Second}}}
		jitter := backoff.Schedule{Initial: time.Second, Max: 8 * time.Second, Jitter: backoff.Full}
		for _, c := range []struct {
			name     string
			attempts int
			breaker  bool
		}{{"3 attempts", 3, false}, {"8 attempts", 8, false}, {"8 attempts, breaker", 8, true}} {
			got := guardtest.Simulate(t, world, func() *guard.Guard {
				policy := retry.Policy{Attempts: c.attempts, Backoff: jitter, Rand: backoff.NewRand(1)}
				if !c.breaker {
					return guard.Must(guard.New(policy))
				}
				policy.If = func(error) bool { return true } // a refusal of the breaker, too, is waited out
				b, err := circuit.New(circuit.Config{FailureThreshold: 5, Timeout: 2 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				return guard.Must(guard.New(policy, b))
			})
			fmt.Fprintf(out, "%s: %d of %d fail, %.1f attempts a call, at most %d at once, back after %v\n",
				c.name, got.Failed, got.Calls, got.Amplification(), got.Peak, got.RecoveredAfter.Round(time.Second))
		}
	})
	// Output:
	// 3 attempts: 92 of 300 fail, 1.7 attempts a call, at most 5 at once, back after 0s
	// 8 attempts: 13 of 300 fail, 2.7 attempts a call, at most 9 at once, back after 0s
	// 8 attempts, breaker: 2 of 300 fail, 1.1 attempts a call, at most 5 at once, back after 1s
}

// asTest runs f as a test of its own, and prints what f has printed.
func asTest(f func(t *testing.T, out io.Writer)) {
	var out strings.Builder
	shown := os.Stdout
	os.Stdout = os.NewFile(^uintptr(0), "nowhere") // for what -v tells of the test
	testing.RunTests(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "Example", F: func(t *testing.T) {
			out.Reset() // with -count it runs that often
			f(t, &out)
		}}})
	os.Stdout = shown
	fmt.Print(out.String())
}
