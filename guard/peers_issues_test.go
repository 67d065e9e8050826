package guard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/guard/guardhttp"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/retry"
)

// What failsafe-go was told of in its issues, tried with ours.
func TestPeersIssues(t *testing.T) {
	type key struct{}
	// 122: what the caller's context has, the call has. 134: the context that a
	// layer makes ends with the call, also when it succeeded.
	for name, layer := range map[string]guard.Layer{"timeout": guard.Timeout(sec), "deadline": retry.Policy{Deadline: sec}, "hedge": nil} {
		var inner context.Context
		look := func(ctx context.Context) (any, error) {
			inner = ctx
			return ctx.Value(key{}), nil
		}
		layers := []guard.Layer{layer}
		if layer == nil {
			look, layers = hedge.Func(mustHedge(t, hedge.Config{Delay: sec}), look), nil
		}
		v, err := guard.Get(context.WithValue(t.Context(), key{}, "foo"), newGuard(t, layers...), look)
		if v != "foo" || err != nil || inner.Err() == nil {
			t.Errorf("%s: %v, %v; the context of the call has ended with %v", name, v, err, inner.Err())
		}
	}
	// 65: the body of a hedged answer comes long after its header.
	for name, layers := range map[string][]guard.Layer{"alone": nil, "in a retry": {retry.Policy{}}, "in a timeout": {guard.Timeout(sec * 60)}} {
		headerIn := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			select {
			case <-headerIn:
				io.WriteString(w, "foo")
			case <-r.Context().Done():
			}
		}))
		twice := guardhttp.Hedge(nil, mustHedge(t, hedge.Config{Delay: 1, Ratio: 1}))
		answer, err := (&http.Client{Transport: guardhttp.Transport(twice, newGuard(t, layers...))}).Get(s.URL)
		if err != nil {
			t.Fatal(name, err)
		}
		close(headerIn)
		body, err := io.ReadAll(answer.Body)
		if string(body) != "foo" || err != nil {
			t.Errorf("hedged, %s: %q, %v", name, body, err)
		}
		answer.Body.Close()
		s.Close()
	}
	// Nor does the body of a failed answer hold back the next attempt.
	hangs := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs {
			hangs = false
			w.WriteHeader(503)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	answer, err := (&http.Client{Transport: guardhttp.Transport(nil, newGuard(t, retry.Policy{}))}).Get(s.URL)
	if err != nil || answer.StatusCode != 200 {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	// 73: an answer that is not good enough is asked for again, with the body.
	var bodies atomic.Int32
	pong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); string(b) == "ping" {
			bodies.Add(1)
		}
		io.WriteString(w, "pong")
	}))
	defer pong.Close()
	request, err := http.NewRequestWithContext(t.Context(), "GET", pong.URL, strings.NewReader("ping"))
	if err != nil {
		t.Fatal(err)
	}
	g := newGuard(t, retry.Policy{Attempts: 3})
	ready := guardhttp.Until(nil, func(answer *http.Response) bool { return answer.Header.Get("Ready") != "" })
	answer, err = (&http.Client{Transport: guardhttp.Transport(ready, g)}).Do(request)
	var unmet *retry.UnmetError
	if !errors.As(err, &unmet) || bodies.Load() != 3 {
		t.Errorf("%v, %v after %d bodies", answer, err, bodies.Load())
	}
}
