package event

import (
	"math"
	"testing"

	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// TestAttemptsBound: a wait tells how many attempts there are at most, and nothing where
// nothing bounds them.
func TestAttemptsBound(t *testing.T) {
	for _, row := range []struct{ attempts, want int }{
		{0, retry.DefaultAttempts}, {1, 1}, {7, 7}, {retry.Unlimited, 0}, {math.MaxInt32, 0},
	} {
		p := retry.Policy{Attempts: row.attempts}
		if got := Waited(&p, driver.State{Attempt: 1}, 0, 0, 0, "").Attempts; got != row.want {
			t.Errorf("attempts %d: the bound that is told is %d, want %d", row.attempts, got, row.want)
		}
	}
}
