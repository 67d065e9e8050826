package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/diag"
)

// policy is what a page may load and do: our own script, style, connections
// and images, nothing inline, no frame around it. Scripts make no HTML of text
// (trusted types): the one policy, "bide", lets the address of our own worker
// through.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; worker-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types bide"

// guard refuses browsers that are not signed in. Journals are readable by their user
// alone, a port of this machine by all of its users, and through a browser by
// every page that it shows.
type guard struct {
	host    string          // with its port: that of the address that is printed
	proxies []string        // names under which a proxy in front is reached
	own     []string        // with the port: names that other machines may know, where it listens on all addresses
	hosts   map[string]bool // what Host may be
	cookie  string
	metrics string // the token of those who read /metrics; "": nobody without a cookie
	origin  *http.CrossOriginProtection
	told    func(url string)

	mu       sync.Mutex
	token    string            // lets the next browser in, once
	sessions map[[32]byte]bool // digests of the cookies that were given
}

// newGuard lets in under the names of the address that is listened on, as it was
// written and as it was opened, and under those of the proxies in front.
func newGuard(listen string, at *net.TCPAddr, proxies []string, told func(string)) (*guard, error) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}
	g := &guard{hosts: map[string]bool{}, cookie: "bide_" + strconv.Itoa(at.Port), origin: http.NewCrossOriginProtection(), told: told,
		token: rand.Text(), sessions: map[[32]byte]bool{}}
	names := []string{host, at.IP.String(), "127.0.0.1", "localhost", "::1"}
	if host == "" || at.IP.IsUnspecified() {
		own := ownNames()
		names = append(names[2:], own...)
		for _, n := range own {
			if ip := net.ParseIP(n); ip == nil || ip.IsGlobalUnicast() {
				g.own = append(g.own, net.JoinHostPort(n, strconv.Itoa(at.Port)))
			}
		}
	}
	g.host = net.JoinHostPort(names[0], strconv.Itoa(at.Port))
	for _, n := range names {
		g.hosts[strings.ToLower(net.JoinHostPort(n, strconv.Itoa(at.Port)))] = true
		if at.Port == 80 {
			g.hosts[strings.ToLower(bracketed(n))] = true
		}
	}
	for _, p := range proxies {
		name := strings.ToLower(bracketed(p))
		if u, err := url.Parse("//" + name); err != nil || u.Host != name || name == "" || strings.ContainsAny(name, "/?#@ ") {
			return nil, fmt.Errorf("%q is no name of a host; write NAME or NAME:PORT, as browsers send it", p)
		}
		g.hosts[name] = true
		g.proxies = append(g.proxies, name)
	}
	return g, nil
}

// bracketed is a host as it is in an address without a port.
func bracketed(host string) string {
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return "[" + host + "]"
	}
	return host
}

// ownNames are the names under which other machines know this one.
func ownNames() []string {
	var names []string
	if n, err := os.Hostname(); err == nil {
		names = append(names, n)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return names
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			names = append(names, n.IP.String())
		}
	}
	return names
}

// entrance is the address of a page that lets one browser in.
func (g *guard) entrance(path string) string { return g.entranceAt("http://"+g.host, path) }

// entranceAt is that address where browsers know this server as base.
func (g *guard) entranceAt(base, path string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	return base + path + sep + "token=" + g.token
}

// wrap serves what h serves to browsers that are signed in. refused shows why others are
// not.
func (g *guard) wrap(h http.Handler, refused func(w http.ResponseWriter, r *http.Request, status int, what, help string)) http.Handler {
	g.origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused(w, r, http.StatusForbidden, "Blocked: the request came from another site.", "Open the dashboard and press the button there.")
	}))
	inside := g.origin.Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if !g.hosts[strings.ToLower(r.Host)] {
			// A name of somebody else that leads here: no page of ours.
			http.Error(w, fmt.Sprintf("421: the dashboard is not served under the name %q; `bide ui --host NAME` admits the name of a proxy in front", diag.ClipBytes(r.Host, 100)), http.StatusMisdirectedRequest)
			return
		}
		if token := r.URL.Query().Get("token"); token != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			g.letIn(w, r, token)
			return
		}
		if !g.known(r) && !g.bearer(r) && !strings.HasPrefix(r.URL.Path, "/assets/") {
			refused(w, r, http.StatusUnauthorized, "This browser is not signed in.",
				"Open the address that `bide ui` printed in the terminal. It works once; then the terminal shows a new one.")
			return
		}
		inside.ServeHTTP(w, r)
	})
}

// letIn changes a token into a cookie and takes it out of the address. A token
// that was used leads to the same page: who has the cookie is in.
func (g *guard) letIn(w http.ResponseWriter, r *http.Request, token string) {
	g.mu.Lock()
	fits := subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) == 1
	session := ""
	if fits {
		session = rand.Text() + rand.Text()
		g.sessions[sha256.Sum256([]byte(session))] = true
		g.token = rand.Text()
	}
	g.mu.Unlock()
	if fits {
		http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		if g.told != nil {
			g.told(g.entrance("/"))
		}
	}
	// Never to another server: the path alone, which begins with one slash.
	to := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/\\")}
	q := r.URL.Query()
	q.Del("token")
	to.RawQuery = q.Encode()
	// A redirect would be part of what led here, perhaps the page of another site or
	// a file: browsers send no strict cookie then. What our own page leads to is ours.
	w.Header().Set("Refresh", "0; url="+to.String())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><html lang=\"en\"><title>bide</title><p><a href=\"%s\">Open the dashboard</a></p></html>\n", html.EscapeString(to.String()))
}

// known says whether a request is of a browser that is signed in.
func (g *guard) known(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(r.CookiesNamed(g.cookie), func(c *http.Cookie) bool { return g.sessions[sha256.Sum256([]byte(c.Value))] })
}
