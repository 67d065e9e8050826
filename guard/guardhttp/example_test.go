package guardhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/guard/guardhttp"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

func ExampleTransport() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	g := guard.Must(guard.New(retry.Policy{Attempts: 4, Backoff: backoff.Schedule{Initial: time.Millisecond}, If: retry.Transient}))
	client := &http.Client{Transport: guardhttp.Transport(nil, g)}
	answer, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status, "after", calls, "calls")
	// Output: 200 OK after 3 calls
}

// A job is asked for until it is done.
func ExampleUntil() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer server.Close()
	done := func(answer *http.Response) bool { return answer.StatusCode != http.StatusAccepted }
	g := guard.Must(guard.New(retry.Policy{Attempts: 10, Backoff: backoff.Schedule{Initial: time.Millisecond}}))
	client := &http.Client{Transport: guardhttp.Transport(guardhttp.Until(nil, done), g)}
	answer, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status, "after", calls, "calls")
	// Output: 200 OK after 3 calls
}

func ExampleCheck() {
	answer := httptest.NewRecorder()
	answer.WriteHeader(http.StatusNotFound)
	answer.WriteString("no such price")
	err := guardhttp.Check(answer.Result())
	fmt.Println(retry.IsPermanent(err), driver.Class(err))
	// Output: true error
}

// What the handler asks of others with its context is given what is left.
func ExampleSendDeadline() {
	server := httptest.NewServer(guardhttp.ReceiveDeadline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline, ok := r.Context().Deadline()
		fmt.Println(ok, time.Until(deadline) < time.Minute)
	})))
	defer server.Close()
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	defer end()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: guardhttp.SendDeadline(nil)}
	answer, err := client.Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer.Body.Close()
	// Output: true true
}

// A request that comes too late is not worked on.
func ExampleReceiveDeadline() {
	h := guardhttp.ReceiveDeadline(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fmt.Println("worked on") }))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Grpc-Timeout", "0m")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output: 504
}

// A second request beside a slow one, over another connection.
func ExampleHedge() {
	slow := make(chan struct{}, 1)
	slow <- struct{}{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-slow:
			<-r.Context().Done() // it never answers
		default:
			fmt.Fprint(w, "hello")
		}
	}))
	defer s.Close()
	h := hedge.Must(hedge.New(hedge.Config{Delay: 10 * time.Millisecond}))
	g := guard.Must(guard.New(retry.Policy{Attempts: 3}, guard.Timeout(time.Minute)))
	c := &http.Client{Transport: guardhttp.Transport(guardhttp.Hedge(nil, h), g)}
	answer, err := c.Get(s.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Println(string(text), err)
	// Output: hello <nil>
}

// What a caller allows is what the handler may repeat, all that it asks of others
// included.
func ExampleReceiveRetries() {
	h := guardhttp.ReceiveRetries(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := retry.RetriesLeft(r.Context())
		fmt.Fprintf(w, "I may retry %d times", n)
	}))
	s := httptest.NewServer(h)
	defer s.Close()
	c := &http.Client{Transport: guardhttp.Transport(nil, guard.Must(guard.New(retry.Policy{})))}
	request, err := http.NewRequestWithContext(retry.WithRetries(context.Background(), 2), "GET", s.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	fmt.Println(string(text))
	// Output: I may retry 2 times
}

// perHost has a round tripper for each host that is asked.
type perHost struct {
	make func() http.RoundTripper
	all  sync.Map // by host; for programs that ask a bounded number of them
}

func (p *perHost) RoundTrip(r *http.Request) (*http.Response, error) {
	t, ok := p.all.Load(r.URL.Host)
	if !ok {
		t, _ = p.all.LoadOrStore(r.URL.Host, p.make())
	}
	return t.(http.RoundTripper).RoundTrip(r)
}

// A guard for each host: the breaker of one that is down leaves the others alone. A
// breaker counts 429 and 5xx, unless IgnoreIf says otherwise; a POST is sent once.
func Example_perHost() {
	server := func(status int) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	}
	down, busy, up := server(500), server(429), server(200)
	defer down.Close()
	defer busy.Close()
	defer up.Close()
	client := &http.Client{Transport: &perHost{make: func() http.RoundTripper {
		breaker := circuit.Must(circuit.New(circuit.Config{FailureThreshold: 2, IgnoreIf: retry.RateLimit}))
		return guardhttp.Transport(nil, guard.Must(guard.New(retry.Policy{Attempts: 1, If: retry.Transient}, breaker)))
	}}}
	for _, s := range []*httptest.Server{down, busy, up} {
		for range 3 {
			answer, err := client.Post(s.URL, "text/plain", nil)
			if err != nil {
				fmt.Println(errors.Is(err, circuit.ErrOpen))
				continue
			}
			fmt.Println(answer.StatusCode)
			answer.Body.Close()
		}
	}
	// Output:
	// 500
	// 500
	// true
	// 429
	// 429
	// 429
	// 200
	// 200
	// 200
}
