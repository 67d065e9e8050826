package main

import (
	"crypto/tls"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// before is a proxy in front of a server: it lets calls with the key pass, unless it refuses all.
type before struct {
	proxy   *httputil.ReverseProxy
	key     string
	revoked atomic.Bool
	refused atomic.Int32
}

func newBefore(address, key string) *before {
	p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	p.FlushInterval = -1
	plain := new(http.Protocols)
	plain.SetUnencryptedHTTP2(true)
	p.Transport = &http.Transport{Protocols: plain}
	p.ErrorHandler = func(w http.ResponseWriter, r *http.Request, _ error) {
		refuses("14", "the server is away").ServeHTTP(w, r)
	}
	return &before{proxy: p, key: key}
}

func (b *before) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.revoked.Load() || r.Header.Get("Authorization") != "Bearer "+b.key {
		b.refused.Add(1)
		refuses("16", "the API key has expired").ServeHTTP(w, r)
		return
	}
	b.proxy.ServeHTTP(w, r)
}

// TestTLSAndKey: a run with certificates on both sides and an API key. In the long form, the
// server refuses the key for a while, and the run continues by itself when it takes the key
// again: nothing is done twice.
func TestTLSAndKey(t *testing.T) {
	t.Parallel()
	const items, slots = 60, 2
	s := newSite(t, `
name: refused
mode: mapreduce
map:
  input: items.jsonl
  max_parallel: 2
  agent_template:
    - shell: echo "$BIDE_ITEM" >> ran; sleep 0.2
reduce:
  - shell: echo "${map.successful} of ${map.total}" > result
`, items)
	a := newAuthority(t)
	b := newBefore(s.address, "a-key")
	address := front(t, &tls.Config{Certificates: []tls.Certificate{a.server("127.0.0.1", time.Hour)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool()}, b)
	cert, key := a.client(time.Hour)
	s.env = append(s.env, "TEMPORAL_ADDRESS="+address, "TEMPORAL_API_KEY=a-key", "TEMPORAL_TLS_SERVER_CA_CERT_PATH="+a.file(), "TEMPORAL_TLS_CLIENT_CERT_PATH="+cert, "TEMPORAL_TLS_CLIENT_KEY_PATH="+key)
	s.worker(slots)
	cmd, out := s.follow("run", "--on", "temporal", "flow.yml")
	s.wait("some items", func() bool { return s.lines("ran") > 3 })
	if os.Getenv("BIDE_CLUSTER") == "long" { // how lanes ended is not heard, and they are given up after a minute
		b.revoked.Store(true)
		was := b.refused.Load()
		s.wait("calls that are refused", func() bool { return b.refused.Load() > was+20 })
		b.revoked.Store(false)
	}
	if status := s.status(cmd); status != 0 {
		t.Errorf("exit status %d: %s", status, out)
	}
	if sum := s.summary(); sum.Status != event.Succeeded || sum.Items.Succeeded != items || s.lines("ran") != items || s.lines("result") != 1 {
		t.Errorf("%+v, %d attempts", sum, s.lines("ran"))
	}
	s.once(items)
	if text := s.must("cluster", "status"); !strings.Contains(text, address) {
		t.Error(text)
	}
}

// TestNamespaceIsGone: a worker ends, with an error, when the server does not know its
// namespace any more: one that lives on would only seem to work. It takes two minutes.
func TestNamespaceIsGone(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	s := newSite(t, "name: none\ncommands: [{shell: 'true'}]\n", 0)
	program, err := serverProgram()
	if err != nil {
		t.Fatal(err)
	}
	namespace := func(args ...string) bool {
		cmd := exec.Command(program, append([]string{"operator", "namespace"}, append(args, "--address", s.address, "-n", "night")...)...)
		cmd.Env = s.env
		return cmd.Run() == nil
	}
	s.env = append(s.env, "TEMPORAL_NAMESPACE=night")
	const advice = "TEMPORAL_NAMESPACE names another"
	if out, err := s.bide("worker").CombinedOutput(); err == nil || strings.Count(string(out), advice) != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if !namespace("create") {
		t.Fatal("no namespace")
	}
	s.wait("the namespace", func() bool { return s.bide("cluster", "status").Run() == nil })
	cmd, out := s.follow("worker")
	s.wait("the worker", func() bool { return out.has(", ready\n") })
	if !namespace("delete", "--yes") {
		t.Fatal("the namespace is not deleted")
	}
	if status := s.status(cmd); status != 1 || !out.has("gives this worker no more work") || !out.has(advice) {
		t.Errorf("exit status %d: %s", status, out)
	}
}
