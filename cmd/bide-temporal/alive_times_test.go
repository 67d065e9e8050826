package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
)

// TestDrainsBeforeItIsLost: where the server's answers are swallowed, a lane is told to
// begin nothing more before the server gives it up, whatever its lease allows.
func TestDrainsBeforeItIsLost(t *testing.T) {
	for _, timeout := range []time.Duration{shortBeat, 10 * time.Second, homeBeat} {
		synctest.Test(t, func(t *testing.T) {
			answers := 3
			var last time.Time // that the server heard of it
			a := &activities{worker: &cluster.Worker{}, heartbeat: func(ctx context.Context, _ []byte) error {
				if answers--; answers >= 0 {
					last = time.Now()
					time.Sleep(time.Second) // the answer takes its time
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}}
			_, drain, end := a.beats(t.Context(), nil, nil, "", timeout)
			<-drain
			if silent := time.Since(last); silent >= timeout*9/10 || silent < timeout/2 {
				t.Errorf("%v: it is told after %v", timeout, silent)
			}
			end()
		})
	}
}
