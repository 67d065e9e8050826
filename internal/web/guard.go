package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// policy is what a page may load and do: our own script, style, connections
// and images, nothing inline, no frame around it. Scripts make no HTML of text
// (trusted types): the one policy, "bide", lets the address of our own worker
// through.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; worker-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types bide"

// guard keeps out who was not let in. Journals are readable by their user
// alone, a port of this machine by all of its users, and through a browser by
// every page that it shows.
type guard struct {
	port    int
	hosts   map[string]bool // what Host may be
	cookie  string
	metrics string // the token of those who read /metrics; "": nobody without a cookie
	origin  *http.CrossOriginProtection
	told    func(url string)

	mu       sync.Mutex
	token    string            // lets the next browser in, once
	sessions map[[32]byte]bool // digests of the cookies that were given
}

func newGuard(host string, port int, told func(string)) *guard {
	g := &guard{port: port, hosts: map[string]bool{}, cookie: "bide_" + strconv.Itoa(port), origin: http.NewCrossOriginProtection(), told: told,
		token: rand.Text(), sessions: map[[32]byte]bool{}}
	names := []string{host, "127.0.0.1", "localhost", "::1"}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		names = append(names[1:], ownNames()...)
	}
	for _, n := range names {
		g.hosts[strings.ToLower(net.JoinHostPort(n, strconv.Itoa(port)))] = true
		if port == 80 {
			g.hosts[strings.ToLower(n)] = true
		}
	}
	return g
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
func (g *guard) entrance(path string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	host := "127.0.0.1"
	if !g.hosts[net.JoinHostPort(host, strconv.Itoa(g.port))] {
		host = "localhost"
	}
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(g.port)) + path + sep + "token=" + g.token
}

// wrap serves what h serves to who was let in. refused shows why others are
// not.
func (g *guard) wrap(h http.Handler, refused func(w http.ResponseWriter, r *http.Request, status int, what, help string)) http.Handler {
	g.origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused(w, r, http.StatusForbidden, "This change was asked for by another page.", "Go back to the dashboard and ask for it there.")
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
			http.Error(w, fmt.Sprintf("421: nothing is served here under the name %q", clip(r.Host, 100)), http.StatusMisdirectedRequest)
			return
		}
		if token := r.URL.Query().Get("token"); token != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			g.letIn(w, r, token)
			return
		}
		if !g.known(r) && !g.bearer(r) && !strings.HasPrefix(r.URL.Path, "/assets/") {
			refused(w, r, http.StatusUnauthorized, "This browser was not let in.",
				"Open the address that `bide ui` printed in the terminal. It works once; after that the terminal shows a new one.")
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
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

// known says whether a request is of a browser that was let in.
func (g *guard) known(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(r.CookiesNamed(g.cookie), func(c *http.Cookie) bool { return g.sessions[sha256.Sum256([]byte(c.Value))] })
}
