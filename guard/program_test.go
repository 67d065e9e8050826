package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

var errClosed = errors.New("the warehouse is closed")

// warehouse is closed from its third request to its eighth.
type warehouse struct{ requests int }

func (w *warehouse) stock(_ context.Context, item string) (int, error) {
	if w.requests++; w.requests >= 3 && w.requests <= 8 {
		return 0, fmt.Errorf("stock of %s: %w", item, errClosed)
	}
	return 7, nil
}

// Four layers and a fallback: what the warehouse does not say is what it said before,
// and while its breaker is open it is not asked.
func Example() {
	now := time.Now()
	breaker := circuit.Must(circuit.New(circuit.Config{Name: "warehouse", FailureThreshold: 5, SuccessThreshold: 1, Now: func() time.Time { return now }}))
	g := guard.Must(guard.New( // outermost first
		retry.Policy{Attempts: 3, Backoff: backoff.Schedule{Initial: time.Millisecond}, If: retry.Is(errClosed)},
		breaker,
		limit.Must(limit.New(limit.Config{Name: "warehouse", Concurrency: 4, Queue: 100, MaxWait: time.Second})),
		guard.Timeout(time.Second)))

	w, known := &warehouse{}, map[string]int{}
	ask := func(item string) {
		why := "asked"
		n, err := guard.Or(context.Background(), g,
			func(ctx context.Context) (int, error) { return w.stock(ctx, item) },
			func(_ context.Context, err error) (int, error) {
				switch {
				case errors.Is(err, circuit.ErrOpen):
					why = "not asked"
				case errors.Is(err, retry.ErrAttempts):
					why = "asked in vain"
				}
				n, ok := known[item]
				if !ok {
					return 0, errors.New("it was never known")
				}
				return n, nil
			})
		if err == nil {
			known[item] = n
		}
		fmt.Println(item, n, why, w.requests, errors.Is(err, errClosed))
	}
	for _, item := range []string{"tea", "cups", "tea", "pots", "cups"} {
		ask(item)
	}
	for breaker.State() != circuit.Closed { // after 30 s one request asks whether it has opened
		now = now.Add(30 * time.Second)
		ask("cups")
	}
	// Output:
	// tea 7 asked 1 false
	// cups 7 asked 2 false
	// tea 7 asked in vain 5 false
	// pots 0 not asked 7 true
	// cups 7 not asked 7 false
	// cups 7 not asked 8 false
	// cups 7 asked 9 false
}
