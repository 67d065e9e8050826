package guardhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/guard/guardhttp"
	"github.com/bide-dev/bide/retry"
)

// Three servers in a row, each of which tries the next four times; the last one is
// down. Alone that are 4, 16 and 64 requests; with three retries that travel it is
// what a first attempt may make at each level.
func TestRetriesTravel(t *testing.T) {
	for _, c := range []struct {
		name    string
		context func(context.Context) context.Context
		want    [3]int32
	}{
		{"unbounded", func(ctx context.Context) context.Context { return ctx }, [3]int32{4, 16, 64}},
		{"three", func(ctx context.Context) context.Context { return retry.WithRetries(ctx, 3) }, [3]int32{4, 7, 10}},
		{"none", func(ctx context.Context) context.Context { return retry.WithRetries(ctx, 0) }, [3]int32{1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls [3]atomic.Int32
			client := &http.Client{Transport: guardhttp.Transport(nil, guard.Must(guard.New(retry.Policy{Attempts: 4})))}
			next := ""
			for i := 2; i >= 0; i-- {
				to := next
				s := httptest.NewServer(guardhttp.ReceiveRetries(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					calls[i].Add(1)
					status := 503
					if to != "" {
						request, err := http.NewRequestWithContext(r.Context(), "GET", to, nil)
						if err != nil {
							t.Error(err)
							return
						}
						answer, err := client.Do(request)
						if err != nil {
							t.Error(err)
							return
						}
						answer.Body.Close()
						status = answer.StatusCode
					}
					w.WriteHeader(status)
				})))
				defer s.Close()
				next = s.URL
			}
			request, err := http.NewRequestWithContext(c.context(t.Context()), "GET", next, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(request)
			if err != nil || answer.StatusCode != 503 {
				t.Fatal(answer, err)
			}
			answer.Body.Close()
			if got := [3]int32{calls[0].Load(), calls[1].Load(), calls[2].Load()}; got != c.want {
				t.Errorf("the servers got %v requests, want %v", got, c.want)
			}
		})
	}
}

func TestReceiveRetries(t *testing.T) {
	var left int
	var bounded bool
	h := guardhttp.ReceiveRetries(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { left, bounded = retry.RetriesLeft(r.Context()) }))
	for text, want := range map[string]int{"": -1, "0": 0, "7": 7, "-1": 400, "many": 400, "99999999999": 400} {
		left, bounded = -1, false
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		if text != "" {
			r.Header.Set("Retries-Left", text)
		}
		h.ServeHTTP(w, r)
		switch {
		case want == 400:
			if w.Code != 400 || bounded {
				t.Errorf("%q: %d", text, w.Code)
			}
		case w.Code != 200 || bounded != (want >= 0) || bounded && left != want:
			t.Errorf("%q: %d, %d retries, %v", text, w.Code, left, bounded)
		}
	}
}

// All operations under a context take from the same retries, and one that finds none
// ends with its last error.
func TestRetriesOfAContext(t *testing.T) {
	down := errors.New("down")
	r := retry.Must(retry.New(retry.Policy{Attempts: 3}))
	ctx := retry.WithRetries(t.Context(), 3)
	for i, want := range []struct {
		calls int
		end   error
	}{{3, retry.ErrAttempts}, {2, retry.ErrQuota}, {1, retry.ErrQuota}} {
		calls := 0
		err := retry.Do(ctx, r, func(context.Context) error { calls++; return down })
		if calls != want.calls || !errors.Is(err, want.end) || !errors.Is(err, down) {
			t.Errorf("operation %d: %d calls, %v", i+1, calls, err)
		}
	}
	if n, ok := retry.RetriesLeft(ctx); n != 0 || !ok {
		t.Error(n, ok)
	}
}
