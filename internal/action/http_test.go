package action

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/retry"
)

// TestProxyRefuses: what a proxy answers counts as the answer of a server does, with
// the wait that it asks for.
func TestProxyRefuses(t *testing.T) {
	for status, class := range map[int]string{503: "server_error", 502: "server_error", 429: "rate_limit", 407: "error"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
			}))
			t.Cleanup(proxy.Close)
			at, err := url.Parse(proxy.URL)
			if err != nil {
				t.Fatal(err)
			}
			transport := standard().Transport.(*http.Transport).Clone()
			transport.Proxy = http.ProxyURL(at)
			w := &World{HTTP: &http.Client{Transport: transport}}
			_, err = w.Send(t.Context(), &Request{Method: "GET", URL: "https://example.org/"}, &Call{})
			f := failure.From(err)
			if f == nil || f.Class != class || f.Status != status || f.RetryAfter != 7*time.Second {
				t.Errorf("%v: %+v", err, f)
			}
			if got, want := retry.Transient(err), class != "error"; got != want {
				t.Errorf("%v: Transient is %v", err, got)
			}
		})
	}
}

// TestDroppedRequestIsOfTheNetwork: also on record, where the error no longer exists.
func TestDroppedRequestIsOfTheNetwork(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(server.Close)
	_, err := (&World{}).Send(t.Context(), &Request{Method: "POST", URL: server.URL, Body: "x"}, &Call{})
	if f := failure.From(err); f == nil || f.Class != "network" || !f.Network || !retry.Network(f) {
		t.Errorf("%v: %+v", err, f)
	}
	var status interface{ HTTPStatus() int }
	if errors.As(err, &status) {
		t.Errorf("%v has the status %d", err, status.HTTPStatus())
	}
}
