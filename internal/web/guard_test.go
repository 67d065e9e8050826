package web

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// served is a server that runs on loopback until the test ends.
type served struct {
	*Server
	t     testing.TB
	store *journal.Store
	// in is a browser that is signed in, out one that was not. Neither follows a
	// redirect.
	in, out *http.Client
}

func serve(t testing.TB, opt Options) *served {
	t.Helper()
	st, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	opt.Store = st
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	out := &served{Server: s, t: t, store: st, in: browser(t), out: browser(t)}
	out.out.Jar = nil
	out.letIn(s.URL("/"))
	return out
}

// letIn opens an address that lets the browser in, and gives the address that it
// leads to.
func (s *served) letIn(address string) string {
	s.t.Helper()
	code, header, body := s.get(s.in, address)
	_, to, ok := strings.Cut(header.Get("Refresh"), "0; url=")
	if code != http.StatusOK || !ok {
		s.t.Fatalf("the token gave status %d, refresh %q:\n%s", code, header.Get("Refresh"), body)
	}
	return to
}

// browser keeps cookies and follows no redirect.
func browser(t testing.TB) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// at is the address of a path.
func (s *served) at(path string) string {
	u, err := url.Parse(s.URL("/"))
	if err != nil {
		s.t.Fatal(err)
	}
	return "http://" + u.Host + path
}

func (s *served) get(c *http.Client, address string) (int, http.Header, string) {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do(c, r)
}

func (s *served) do(c *http.Client, r *http.Request) (int, http.Header, string) {
	s.t.Helper()
	res, err := c.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

// run records a run of these events, and gives its id.
func (s *served) run(h journal.Header, events ...event.Event) string {
	s.t.Helper()
	// Elsewhere, and moved when it is whole: a server that saw it while it was written may
	// take half a second to notice that nobody has it any more.
	elsewhere, err := journal.OpenStore(s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	j, err := elsewhere.Create(h)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		if err := j.Append(e); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(elsewhere.RunDir(j.Run()), s.store.RunDir(j.Run())); err != nil {
		s.t.Fatal(err)
	}
	return j.Run()
}

// page gives a page that has to be there.
func (s *served) page(path string) string {
	s.t.Helper()
	code, _, body := s.get(s.in, s.at(path))
	if code != http.StatusOK {
		s.t.Fatalf("%s gave status %d:\n%s", path, code, body)
	}
	return body
}

func TestTokenBecomesACookieOnce(t *testing.T) {
	t.Parallel()
	reissued := make(chan string, 10)
	s := serve(t, Options{Reissued: func(u string) { reissued <- u }})
	next := <-reissued // serve has let a browser in
	code, header, _ := s.get(s.out, s.at("/"))
	if code != http.StatusUnauthorized {
		t.Errorf("a browser without a cookie gets status %d, want 401", code)
	}
	if header.Get("Set-Cookie") != "" {
		t.Error("and a cookie")
	}
	u, err := url.Parse(next)
	if err != nil {
		t.Fatal(err)
	}
	code, header, _ = s.get(s.out, s.at("/compare?a=1&token="+u.Query().Get("token")))
	cookie := header.Get("Set-Cookie")
	if code != http.StatusOK || header.Get("Refresh") != "0; url=/compare?a=1" {
		t.Errorf("the token gives status %d to %q, want 200 and the address without it", code, header.Get("Refresh"))
	}
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q lacks %s", cookie, want)
		}
	}
	if code, header, _ = s.get(s.out, next); header.Get("Set-Cookie") != "" {
		t.Errorf("the token let a second browser in (status %d)", code)
	}
	for _, evil := range []string{"//evil.example/?token=x", "/%5Cevil.example/?token=x", "/%0a//evil.example/?token=x"} {
		code, header, _ = s.get(s.out, s.at(evil))
		if to, ok := strings.CutPrefix(header.Get("Refresh"), "0; url=/"); ok && strings.HasPrefix(to, "/") || strings.Contains(header.Get("Refresh"), "\\") {
			t.Errorf("a token leads to %q (status %d)", header.Get("Refresh"), code)
		}
	}
}

// TestAddressIsServed: the address that is printed opens the dashboard, whatever it
// listens on.
func TestAddressIsServed(t *testing.T) {
	t.Parallel()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	listen := []string{"", "127.0.0.1:0", "localhost:0", ":0", "0.0.0.0:0"}
	if runtime.GOOS == "linux" {
		listen = append(listen, "127.0.0.2:0") // all of 127/8 is there
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			listen = append(listen, net.JoinHostPort(n.IP.String(), "0"))
		}
	}
	if name, err := os.Hostname(); err == nil {
		if _, err := net.LookupHost(name); err == nil {
			listen = append(listen, net.JoinHostPort(name, "0"))
		}
	}
	for _, l := range listen {
		t.Run(l, func(t *testing.T) {
			s := serve(t, Options{Listen: l}) // it opens the address
			if code, _, body := s.get(s.in, s.at("/")); code != http.StatusOK {
				t.Errorf("%s then gives status %d:\n%s", s.at("/"), code, body)
			}
		})
	}
}

// TestNamesOfAProxy: a name that was admitted is served with any port that it was
// admitted with, and no other.
func TestNamesOfAProxy(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Hosts: []string{"Bide.Example.org", "other.example:8443", "2001:db8::7"}})
	for host, want := range map[string]int{
		"bide.example.org": 200, "BIDE.example.org": 200, "bide.example.org:443": 421, "other.example:8443": 200, "other.example": 421, "[2001:db8::7]": 200,
		"evil.example": 421, "bide.example.org.evil.example": 421,
	} {
		r, err := http.NewRequest(http.MethodGet, s.at("/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.in.Jar.Cookies(r.URL) { // a client keeps its cookies by name
			r.AddCookie(c)
		}
		r.Host = host
		if code, _, _ := s.do(s.out, r); code != want {
			t.Errorf("Host %q gives status %d, want %d", host, code, want)
		}
	}
	if _, err := New(Options{Store: s.store, Hosts: []string{"https://bide.example.org"}}); err == nil || !strings.Contains(err.Error(), "bide.example.org") {
		t.Errorf("an address instead of a name gives %v", err)
	}
	if got := s.Outside("/runs/1"); len(got) != 3 || !strings.HasPrefix(got[0], "https://bide.example.org/runs/1?token=") {
		t.Errorf("the addresses of the proxy are %q", got)
	}
}

func TestHostHasToBeOurs(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	// A client keeps its cookies by name, so that localhost is not signed in.
	for host, want := range map[string]int{
		"": 200, "localhost": 401, "evil.example": 421, "127.0.0.1.evil.example": 421,
	} {
		r, err := http.NewRequest(http.MethodGet, s.at("/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := strings.Cut(r.URL.Host, ":")
		if host != "" {
			r.Host = host + ":" + port
		}
		if code, _, _ := s.do(s.in, r); code != want {
			t.Errorf("Host %q gives status %d, want %d", r.Host, code, want)
		}
	}
	r, _ := http.NewRequest(http.MethodGet, s.at("/"), nil)
	r.Host = "127.0.0.1:1"
	if code, _, _ := s.do(s.in, r); code != http.StatusMisdirectedRequest {
		t.Errorf("another port gives status %d, want 421", code)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	for _, path := range []string{"/", "/nothing", "/runs/none"} {
		_, h, body := s.get(s.in, s.at(path))
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"X-Frame-Options": "DENY", "Cache-Control": "no-store",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		inline(t, path, body)
	}
	for _, part := range []string{"default-src 'none'", "require-trusted-types-for 'script'", "frame-ancestors 'none'", "form-action 'self'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy lacks %s", part)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Error("the policy lets something unsafe through")
	}
}

// inline reports scripts, styles and handlers that are in a page.
func inline(t *testing.T, path, body string) {
	t.Helper()
	for _, bad := range []string{"<script>", " style=", "<style", "javascript:", " onclick=", " onload=", " onerror="} {
		if strings.Contains(body, bad) {
			t.Errorf("%s has %q in it", path, bad)
		}
	}
}

func TestChangesFromOtherPages(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Program: []string{"/bin/false"}})
	id := s.run(journal.Header{Name: "n", Kind: "workflow"}, event.Event{Type: event.RunStarted})
	post := func(site, origin string) int {
		r, err := http.NewRequest(http.MethodPost, s.at("/runs/"+id+"/resume"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		code, _, _ := s.do(s.in, r)
		return code
	}
	if code := post("cross-site", ""); code != http.StatusForbidden {
		t.Errorf("another site's form gives status %d, want 403", code)
	}
	if code := post("same-site", ""); code != http.StatusForbidden {
		t.Errorf("a form of another port gives status %d, want 403", code)
	}
	if code := post("", "http://evil.example"); code != http.StatusForbidden {
		t.Errorf("another origin gives status %d, want 403", code)
	}
	if code := post("same-origin", ""); code != http.StatusSeeOther {
		t.Errorf("our own form gives status %d, want 303", code)
	}
	if code, _, _ := s.get(s.in, s.at("/runs/"+id+"/resume")); code != http.StatusNotFound {
		t.Errorf("GET of an action gives status %d, want 404", code)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{ReadOnly: true, Program: []string{"/bin/false"}})
	id := s.run(journal.Header{Name: "n", Kind: "workflow"}, event.Event{Type: event.RunStarted})
	r, err := http.NewRequest(http.MethodPost, s.at("/runs/"+id+"/resume"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if code, _, _ := s.do(s.in, r); code != http.StatusForbidden {
		t.Errorf("a change gives status %d, want 403", code)
	}
	if body := s.page("/runs/" + id); strings.Contains(body, "method=\"post\"") {
		t.Error("the page has a form that changes something")
	}
}
