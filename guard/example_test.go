package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/guard/guardhttp"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// One HTTP call: no type of error of one's own, and the body can be read after
// the timeout of the attempt.
func Example_http() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "42 €")
	}))
	defer server.Close()

	g := guard.Must(guard.New(
		retry.Policy{Attempts: 4, Backoff: backoff.Schedule{Initial: time.Millisecond}, If: retry.Transient},
		guard.Timeout(5*time.Second)))
	client := &http.Client{Transport: guardhttp.Transport(nil, g)}

	answer, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	if err := guardhttp.Check(answer); err != nil {
		fmt.Println(err)
		return
	}
	price, _ := io.ReadAll(answer.Body)
	fmt.Println(string(price), "after", calls, "calls")
	// Output: 42 € after 3 calls
}

// What is no failure of the database does not open its breaker.
func Example_breaker() {
	breaker, err := circuit.New(circuit.Config{Name: "db", FailureThreshold: 3,
		FailureIf: func(err error) bool { return !errors.Is(err, sql.ErrNoRows) }})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := guard.Must(guard.New(breaker))
	for range 6 {
		err = guard.Do(context.Background(), g, func(context.Context) error { return sql.ErrNoRows })
	}
	fmt.Println(err, "–", breaker.State())
	// Output: sql: no rows in result set – closed
}

// A function without a value needs none, and an adaptive limit no number.
func ExampleDo() {
	g := guard.Must(guard.New(retry.Policy{Attempts: 3}, limit.Adaptive(), limit.Rate(100, time.Second)))
	tries := 0
	err := guard.Do(context.Background(), g, func(context.Context) error {
		if tries++; tries < 2 {
			return errors.New("busy")
		}
		return nil
	})
	fmt.Println(tries, err)
	// Output: 2 <nil>
}

// A second call beside a slow one.
func Example_hedge() {
	h, err := hedge.New(hedge.Config{Delay: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	calls := make(chan int, 2)
	calls <- 1
	calls <- 2
	ask := hedge.Func(h, func(ctx context.Context) (string, error) {
		if <-calls == 1 {
			<-ctx.Done() // this one hangs
			return "", ctx.Err()
		}
		return "the second", nil
	})
	answer, err := guard.Get(context.Background(), guard.Must(guard.New(guard.Timeout(time.Minute))), ask)
	fmt.Println(answer, err)
	// Output: the second <nil>
}

// A log of what happens, and a fallback.
func ExampleOr() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "took" {
			return slog.Attr{}
		}
		return a
	}}))
	g := guard.Must(guard.New(retry.Policy{Attempts: 2}, guard.Log(logger)))
	price, err := guard.Or(context.Background(), g,
		func(context.Context) (float64, error) { return 0, errors.New("down") },
		func(context.Context, error) (float64, error) { return 9.99, nil })
	fmt.Println(price, err)
	// Output:
	// level=INFO msg="attempt failed" attempt=1 class=error error=down
	// level=INFO msg="attempt failed" attempt=2 class=error error=down
	// level=WARN msg="call failed" attempt=2 reason=attempts error="attempts used up after 2 attempts: down"
	// 9.99 <nil>
}

// Why a call was cancelled is in its error.
func Example_cancelled() {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the customer went away"))
	_, err := guard.Get(ctx, guard.Must(guard.New(retry.Policy{})), func(context.Context) (int, error) { return 1, nil })
	fmt.Println(err)
	// Output: operation cancelled after 0 attempts: the customer went away
}
