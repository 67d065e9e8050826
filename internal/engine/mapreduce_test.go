package engine_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// The tests in virtual time run the whole engine with its journal in a bubble
// of package synctest; what an agent does is an HTTP request that a function
// answers, so that there is no process to wait for.

// answers is a function as the other side of all requests.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func reply(status int, text string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text))}, nil
}

// visit is one request: what was asked for, and when since the beginning.
type visit struct {
	path string
	at   time.Duration
}

// virtual answers requests, each after some time, and keeps when they came.
type virtual struct {
	mu     sync.Mutex
	begin  time.Time
	visits []visit
	now    int // requests in flight
	most   int
}

func (v *virtual) serve(took func(path string, n int) time.Duration, ok func(path string, n int) bool) *http.Client {
	v.begin = time.Now()
	count := map[string]int{}
	return &http.Client{Transport: answers(func(r *http.Request) (*http.Response, error) {
		v.mu.Lock()
		v.visits = append(v.visits, visit{r.URL.Path, time.Since(v.begin).Round(time.Millisecond)})
		count[r.URL.Path]++
		n := count[r.URL.Path]
		v.now++
		v.most = max(v.most, v.now)
		v.mu.Unlock()
		defer func() { v.mu.Lock(); v.now--; v.mu.Unlock() }()
		select {
		case <-time.After(took(r.URL.Path, n)):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		if ok(r.URL.Path, n) {
			return reply(200, "ok "+r.URL.Path)
		}
		return reply(500, "broken")
	})}
}

func always(d time.Duration) func(string, int) time.Duration {
	return func(string, int) time.Duration { return d }
}

func TestMapBreakerHoldsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var v virtual
		b.opt.HTTP = v.serve(always(time.Second), func(path string, n int) bool { return time.Since(v.begin) > 40*time.Second })
		r, err := b.try(context.Background(), `
mode: mapreduce
error_policy:
  circuit_breaker: {failure_threshold: 5, timeout: 30s, success_threshold: 3, half_open_requests: 3}
map:
  input: seq 1 20
  max_parallel: 1
  agent_template:
    - http: "http://example.test/${item}"
`)
		if err != nil {
			t.Fatal(err)
		}
		r.status(event.CompletedWithFailures)
		fmt.Println(v.visits)
	})
}
