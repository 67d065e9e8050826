package guardhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/guard/guardhttp"
	"github.com/bide-dev/bide/retry"
)

// wire carries requests to a handler, each way in so much time. The two have no
// clock in common as far as they know.
type wire struct {
	handler http.Handler
	delay   time.Duration
}

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(w.delay)
	sent := r.Clone(context.WithoutCancel(r.Context()))
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, sent)
	time.Sleep(w.delay)
	if r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	return answer.Result(), nil
}

func get(t *testing.T, c http.RoundTripper, ctx context.Context) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://prices.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// What is left travels over two servers, and each sees less than the one before.
func TestDeadlineTravels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []time.Duration
		note := func(r *http.Request) {
			deadline, ok := r.Context().Deadline()
			if !ok {
				t.Error("there is no deadline")
			}
			seen = append(seen, time.Until(deadline))
		}
		last := guardhttp.ReceiveDeadline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { note(r) }))
		next := guardhttp.Transport(guardhttp.SendDeadline(wire{last, 100 * time.Millisecond}), guard.Must(guard.New(retry.Policy{})))
		first := guardhttp.ReceiveDeadline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			note(r)
			time.Sleep(time.Second)
			if _, err := get(t, next, r.Context()); err != nil {
				w.WriteHeader(http.StatusBadGateway)
			}
		}))
		c := guardhttp.SendDeadline(wire{first, 200 * time.Millisecond})
		ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
		defer end()
		if status, err := get(t, c, ctx); status != http.StatusOK || err != nil {
			t.Fatal(status, err)
		}
		// Neither knows how long a request was under way.
		if len(seen) != 2 || seen[0] != 10*time.Second || seen[1] != 9*time.Second {
			t.Errorf("what was left is %v", seen)
		}
	})
}

// An attempt of a retry sends what is left to it. A request that cannot be
// answered in time is not sent, is not retried, and says nothing about its target.
func TestTooLateIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var headers []string
		calls := 0
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			headers = append(headers, r.Header.Get("Grpc-Timeout"))
			time.Sleep(time.Second)
			if calls++; calls == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		breaker, err := circuit.New(circuit.Config{FailureThreshold: 2})
		if err != nil {
			t.Fatal(err)
		}
		observed := 0
		c := guardhttp.Transport(guardhttp.SendDeadline(wire{handler, 0}), guard.Must(guard.New(
			retry.Policy{Attempts: 5, Observer: func(e retry.Event) {
				if e.Type == retry.AttemptStarted {
					observed++
				}
			}}, breaker)))
		ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
		defer end()
		if status, err := get(t, c, ctx); status != http.StatusOK || err != nil {
			t.Fatal(status, err)
		}
		if got := strings.Join(headers, " "); got != "10000000u 9000000u" {
			t.Errorf("the headers are %s", got)
		}
		if _, err := get(t, c, t.Context()); err != nil || headers[2] != "" {
			t.Errorf("without a deadline: %v, header %q", err, headers[2])
		}
		for range 3 {
			observed = 0
			began := time.Now()
			short, end := context.WithTimeout(t.Context(), 999*time.Millisecond)
			_, err = get(t, c, short)
			end()
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer of prices.example took less than 1s") ||
				time.Since(began) != 0 || observed != 1 || len(headers) != 3 {
				t.Errorf("after %v, %d attempts, %d requests: %v", time.Since(began), observed, len(headers), err)
			}
		}
		if breaker.State() != circuit.Closed {
			t.Error("what was not sent opens the breaker")
		}
	})
}

func TestReceivedDeadlines(t *testing.T) {
	for header, want := range map[string]struct {
		status int
		left   time.Duration
	}{
		"":           {200, 0},
		"1n":         {200, 1},
		"250m":       {200, 250 * time.Millisecond},
		"99999999H":  {200, 1<<63 - 1},
		"3M":         {200, 3 * time.Minute},
		"7u":         {200, 7 * time.Microsecond},
		"2S":         {200, 2 * time.Second},
		"0m":         {504, 0},
		"m":          {400, 0},
		"10":         {400, 0},
		"-1m":        {400, 0},
		"+1m":        {400, 0},
		"1 m":        {400, 0},
		"1d":         {400, 0},
		"123456789m": {400, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var left time.Duration
			h := guardhttp.ReceiveDeadline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if deadline, ok := r.Context().Deadline(); ok {
					left = time.Until(deadline)
				}
			}))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			if header != "" {
				r.Header.Set("Grpc-Timeout", header)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want.status || left != want.left {
				t.Errorf("%q: status %d, %v left, not %v: %s", header, w.Code, left, want, w.Body)
			}
		})
	}
}
