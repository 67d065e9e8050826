package guardhttp_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bide-dev/bide/guard"
	"github.com/bide-dev/bide/guard/guardhttp"
	"github.com/bide-dev/bide/hedge"
	"github.com/bide-dev/bide/retry"
)

// Over HTTP/2 all requests to a host share a connection. That which is made beside
// one that is stuck does not; and all connections can be closed.
func TestAHedgeTakesAnotherConnection(t *testing.T) {
	for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
		"guarded": func(base http.RoundTripper) http.RoundTripper {
			return guardhttp.Transport(base, guard.Must(guard.New(retry.Policy{})))
		},
		"bare": func(base http.RoundTripper) http.RoundTripper { return base },
		"wrapped": func(base http.RoundTripper) http.RoundTripper {
			return guardhttp.SendDeadline(guardhttp.Until(base, func(*http.Response) bool { return true }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, stuck := make(chan string, 10), make(chan struct{}, 1)
			closed := make(chan net.Conn, 10)
			stuck <- struct{}{}
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/slow" {
					return
				}
				from <- r.Proto + " " + r.RemoteAddr
				select {
				case <-stuck: // the first one, which never ends by itself
					<-r.Context().Done()
				default:
				}
			}))
			s.EnableHTTP2 = true
			s.Config.ConnState = func(c net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					closed <- c
				}
			}
			s.StartTLS()
			defer s.Close()
			h, err := hedge.New(hedge.Config{Delay: 20 * time.Millisecond, Ratio: 1})
			if err != nil {
				t.Fatal(err)
			}
			c := &http.Client{Transport: guardhttp.Hedge(wrap(s.Client().Transport), h)}
			do := func(path string) {
				t.Helper()
				if status, _ := send(t, c, "GET", s.URL+path, ""); status != 200 {
					t.Fatal(status)
				}
			}
			do("/first")
			do("/slow")
			if first, beside := <-from, <-from; first[:8] != "HTTP/2.0" || first == beside {
				t.Fatalf("the requests came from %s, and beside it %s", first, beside)
			}
			for n := 0; n < 2; { // the one that was stuck is idle once it knows that it lost
				c.CloseIdleConnections()
				select {
				case <-closed:
					n++
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
}
