package guardhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/guard/guardhttp"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/retry"
)

// site answers with the statuses one after the other, then 200, with the number
// of the request and its body.
type site struct {
	*httptest.Server
	calls, connections atomic.Int32
}

func newSite(t *testing.T, statuses ...int) *site {
	s := &site{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(s.calls.Add(1))
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if n <= len(statuses) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(statuses[n-1])
		}
		fmt.Fprintf(w, "%d %s", n, text)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *site) client(layers ...guard.Layer) *http.Client {
	return &http.Client{Transport: guardhttp.Transport(s.Server.Client().Transport, guard.Must(guard.New(layers...)))}
}

func send(t *testing.T, c *http.Client, method, url, body string, header ...string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		request.Header.Set(h, "x")
	}
	answer, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(all)
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		method   string
		header   []string
		statuses []int
		status   int
		text     string
	}{
		{"well at once", "GET", nil, nil, 200, "1 body"},
		{"rewound body", "PUT", nil, []int{503, 500}, 200, "3 body"},
		{"too many requests", "GET", nil, []int{429}, 200, "2 body"},
		{"the last answer comes as it is", "GET", nil, []int{503, 502, 503, 503}, 503, "3 body"},
		{"not found is an answer", "GET", nil, []int{404}, 404, "1 body"},
		{"not implemented too", "GET", nil, []int{501}, 501, "1 body"},
		{"a post is sent once", "POST", nil, []int{503}, 503, "1 body"},
		{"unless it has a key", "POST", []string{"Idempotency-Key"}, []int{503}, 200, "2 body"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, test.statuses...)
			status, text := send(t, s.client(retry.Policy{Attempts: 3, If: retry.Transient}), test.method, s.URL, "body", test.header...)
			if status != test.status || text != test.text {
				t.Errorf("%d %q", status, text)
			}
			if n := s.connections.Load(); n != 1 {
				t.Errorf("%d connections: an answer was not drained", n)
			}
		})
	}
}

// A body that cannot be sent again is sent once; what is not repeated counts for
// the breaker all the same.
func TestWhatIsSentOnce(t *testing.T) {
	s := newSite(t, 503, 503, 503)
	b, err := circuit.New(circuit.Config{FailureThreshold: 2})
	if err != nil {
		t.Fatal(err)
	}
	c := s.client(retry.Policy{Attempts: 3}, b)
	for range 2 {
		request, _ := http.NewRequestWithContext(t.Context(), "PUT", s.URL, io.MultiReader(strings.NewReader("once")))
		answer, err := c.Do(request)
		if err != nil || answer.StatusCode != 503 {
			t.Fatal(answer, err)
		}
		answer.Body.Close()
	}
	if _, err := c.Get(s.URL); !errors.Is(err, circuit.ErrOpen) || s.calls.Load() != 2 {
		t.Errorf("after %d calls: %v", s.calls.Load(), err)
	}
}

// A timeout ends a wait for the header, and not the reading of the body. Where the
// machine is slow it ends more of them.
func TestTimeoutIsOfTheHeader(t *testing.T) {
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			<-r.Context().Done() // it hangs
			return
		}
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		time.Sleep(200 * time.Millisecond) // longer than the timeout
		fmt.Fprint(w, "late")
	}))
	defer s.Close()
	c := &http.Client{Transport: guardhttp.Transport(nil, guard.Must(guard.New(retry.Policy{Attempts: 100}, guard.Timeout(100*time.Millisecond))))}
	if status, text := send(t, c, "GET", s.URL, ""); status != 200 || text != "late" || calls.Load() < 2 {
		t.Errorf("%d %q after %d calls", status, text, calls.Load())
	}
}

// Of two answers one is given, and the other's connection is not lost.
func TestHedgedRequests(t *testing.T) {
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := calls.Add(1); n == 1 {
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Second):
			}
		}
		fmt.Fprint(w, calls.Load())
	}))
	defer s.Close()
	h, err := hedge.New(hedge.Config{Delay: 20 * time.Millisecond, Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: guardhttp.Transport(guardhttp.Hedge(nil, h), guard.Must(guard.New(retry.Policy{})))}
	if status, text := send(t, c, "GET", s.URL, ""); status != 200 || text != "2" {
		t.Errorf("%d %q", status, text)
	}
}

func TestCancelledRequest(t *testing.T) {
	s := newSite(t, 503, 503, 503)
	ctx, cancel := context.WithCancel(t.Context())
	c := s.client(retry.Policy{Attempts: 3}, guard.Observe(func(e retry.Event) {
		if e.Type == retry.AttemptFailed {
			cancel()
		}
	}))
	request, _ := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
	if _, err := c.Do(request); !errors.Is(err, context.Canceled) || s.calls.Load() != 1 {
		t.Errorf("after %d calls: %v", s.calls.Load(), err)
	}
	if _, err := (&http.Client{Transport: guardhttp.Transport(nil, nil)}).Get(s.URL); err == nil {
		t.Error("a nil guard is taken")
	}
}

func TestCheck(t *testing.T) {
	s := newSite(t, 503, 404)
	for _, permanent := range []bool{false, true} {
		answer, err := http.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		err = guardhttp.Check(answer)
		var status *guardhttp.StatusError
		if !errors.As(err, &status) || retry.IsPermanent(err) != permanent || !status.HasAfter || !strings.Contains(err.Error(), http.StatusText(status.Status)) {
			t.Errorf("the error is %v", err)
		}
	}
	answer, err := http.Get(s.URL)
	if err != nil || guardhttp.Check(answer) != nil {
		t.Error(err)
	}
	answer.Body.Close()
}

// TestUpgrade sends words through a reverse proxy whose transport is guarded, after
// the protocol was switched.
func TestUpgrade(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, err := rw.ReadString('\n')
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(rw, "echo "+line)
		rw.Flush()
	}))
	defer backend.Close()
	target, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = guardhttp.Transport(guardhttp.Hedge(nil, hedge.Must(hedge.New(hedge.Config{}))), guard.Must(guard.New(retry.Policy{Attempts: 2}, guard.Timeout(time.Minute))))
	front := httptest.NewServer(proxy)
	defer front.Close()

	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", answer, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := in.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// late is a transport whose header comes when the attempt has just ended.
type late struct{ base http.RoundTripper }

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.base.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
	<-r.Context().Done()
	answer.Body = struct {
		io.Reader
		io.Closer
	}{cancelled{r.Context(), answer.Body}, answer.Body}
	return answer, err
}

// cancelled reads as the body of a request does whose context has ended.
type cancelled struct {
	ctx  context.Context
	body io.Reader
}

func (c cancelled) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.body.Read(b)
}

// TestNoCancelledBody: an answer whose header comes with the timeout is a failed
// attempt, and not an answer that cannot be read.
func TestNoCancelledBody(t *testing.T) {
	s := newSite(t)
	client := &http.Client{Transport: guardhttp.Transport(late{http.DefaultTransport}, guard.Must(guard.New(guard.Timeout(20*time.Millisecond))))}
	answer, err := client.Get(s.URL)
	if err == nil {
		_, err := io.ReadAll(answer.Body)
		t.Fatalf("an answer, whose body reads as: %v", err)
	}
	var timedOut *retry.TimeoutError
	if !errors.As(err, &timedOut) {
		t.Errorf("the error is %v", err)
	}
}

type panicking struct{ contexts []context.Context }

func (p *panicking) RoundTrip(r *http.Request) (*http.Response, error) {
	p.contexts = append(p.contexts, r.Context())
	panic("boom")
}

// A base that panics is a failed attempt; its context ends, though the request's continues.
func TestABaseThatPanics(t *testing.T) {
	base := &panicking{}
	client := guardhttp.Transport(base, guard.Must(guard.New(retry.Policy{Attempts: 2}, guard.Timeout(time.Hour))))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.RoundTrip(request); !errors.As(err, new(*retry.PanicError)) {
		t.Errorf("the error is %v", err)
	}
	for i, ctx := range base.contexts {
		if ctx.Err() == nil {
			t.Errorf("the context of attempt %d has not ended", i+1)
		}
	}
	if len(base.contexts) != 2 {
		t.Errorf("%d attempts", len(base.contexts))
	}
}
