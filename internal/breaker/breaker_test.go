package breaker_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/breaker"
)

// TestLives takes a breaker through two lives: what the first told, the second
// begins with.
func TestLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := map[string]circuit.Snapshot{}
		var told []string
		keep := breaker.Record{
			Last: func(name string) (s circuit.Snapshot, ok bool) { s, ok = record[name]; return },
			Changed: func(name string, before, after circuit.Snapshot) {
				record[name] = after
				told = append(told, fmt.Sprintf("%s %v %d→%v %d", name, before.State, before.Failures, after.State, after.Failures))
			},
		}
		config := circuit.Config{FailureThreshold: 2, SuccessThreshold: 1, Timeout: time.Minute, HalfOpenRequests: 1}
		life := func() *breaker.Breaker {
			b, err := breaker.New("b", config, keep)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		use := func(b *breaker.Breaker, o circuit.Outcome) error {
			ticket, err := b.Admit()
			if err == nil {
				b.Answer(ticket, o)
			}
			return err
		}
		first := life()
		for _, o := range []circuit.Outcome{circuit.Success, circuit.Failure, circuit.Neutral} {
			if err := use(first, o); err != nil {
				t.Fatal(err)
			}
		}
		second := life() // one failure is recorded: one more opens it
		if err := use(second, circuit.Failure); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		third := life()
		var open *circuit.OpenError
		if err := use(third, circuit.Success); !errors.As(err, &open) {
			t.Errorf("the open breaker let an attempt through: %v", err)
		}
		time.Sleep(40 * time.Second)
		if _, err := third.Admit(); err != nil { // a probe whose process dies
			t.Fatal(err)
		}
		fourth := life()
		if err := use(fourth, circuit.Success); err != nil {
			t.Errorf("the probe of a former life holds the breaker: %v", err)
		}
		want := []string{"b closed 0→closed 1", "b closed 1→open 0", "b open 0→half_open 0", "b half_open 0→closed 0"}
		if !slices.Equal(told, want) {
			t.Errorf("told %q\nwant %q", told, want)
		}
	})
	if _, err := breaker.New("b", circuit.Config{FailureThreshold: -1}, breaker.Record{}); err == nil {
		t.Error("a configuration that cannot be was accepted")
	}
}
