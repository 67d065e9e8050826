package guardhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/guard/guardhttp"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/limit"
	"github.com/bide-dev/bide/retry"
)

// A client with four layers, a hedge, and a deadline that travels, as
// docs/library.md has it, and a service that is down at first.
func Example() {
	var calls atomic.Int32
	service := httptest.NewServer(guardhttp.ReceiveDeadline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, bounded := r.Context().Deadline(); calls.Add(1) < 3 || !bounded {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "9.99")
	})))
	defer service.Close()

	g := guard.Must(guard.New( // outermost first
		retry.Policy{Attempts: 4, Backoff: backoff.Schedule{Initial: time.Millisecond}, If: retry.Transient},
		circuit.Must(circuit.New(circuit.Config{Name: "prices"})),
		limit.Concurrency(8),
		guard.Timeout(5*time.Second)))
	second := hedge.Must(hedge.New(hedge.Config{}))
	client := &http.Client{Transport: guardhttp.Transport(guardhttp.Hedge(guardhttp.SendDeadline(nil), second), g)}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", service.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := client.Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	price, err := io.ReadAll(answer.Body)
	fmt.Println(string(price), err, calls.Load(), "requests")
	// Output: 9.99 <nil> 3 requests
}
