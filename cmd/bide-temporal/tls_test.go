package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	tmpl := &x509.Certificate{Subject: pkix.Name{CommonName: "an authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = a.sign(tmpl, time.Hour)
	return a
}

// sign makes a certificate that is valid for some time from now on, or was until then.
func (a *authority) sign(c *x509.Certificate, valid time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(1), time.Now().Add(-24*time.Hour), time.Now().Add(valid)
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// server is a certificate for a name or an address.
func (a *authority) server(name string, valid time.Duration) tls.Certificate {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(name); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{name}
	}
	cert, key := a.sign(c, valid)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func pemFile(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (a *authority) file() string { return pemFile(a.t, "CERTIFICATE", a.cert.Raw) }

// client gives the files of a certificate for who connects.
func (a *authority) client(valid time.Duration) (cert, key string) {
	a.t.Helper()
	c, k := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "worker"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, valid)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pemFile(a.t, "CERTIFICATE", c.Raw), pemFile(a.t, "PRIVATE KEY", der)
}

// front is an address that speaks TLS, before what answers.
func front(t *testing.T, cfg *tls.Config, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS, s.EnableHTTP2 = cfg, true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// refuses answers each call with a code of gRPC and a message.
func refuses(code, message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", code)
		w.Header().Set("Grpc-Message", message)
	})
}

// TestConnectionIsRefused: why no connection came about, and what to do about it.
func TestConnectionIsRefused(t *testing.T) {
	withoutServer(t)
	a, other := newAuthority(t), newAuthority(t)
	good := a.server("127.0.0.1", time.Hour)
	none := refuses("12", "no such call")
	wants := &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool()}
	expired, expiredKey := a.client(-time.Hour)
	foreign, foreignKey := other.client(time.Hour)
	plain := httptest.NewServer(none)
	t.Cleanup(plain.Close)
	trusting := map[string]string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH": a.file()}
	with := func(more ...string) map[string]string {
		m := map[string]string{}
		for k, v := range trusting {
			m[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	for name, c := range map[string]struct {
		address string
		env     map[string]string
		want    []string
	}{
		"nobody vouches for the server": {front(t, &tls.Config{Certificates: []tls.Certificate{good}}, none), map[string]string{"TEMPORAL_TLS": "true"}, []string{"unknown authority", "TEMPORAL_TLS_SERVER_CA_CERT_PATH"}},
		"another name":                  {front(t, &tls.Config{Certificates: []tls.Certificate{a.server("temporal.example.org", time.Hour)}}, none), trusting, []string{"127.0.0.1", "TEMPORAL_TLS_SERVER_NAME"}},
		"the server's has expired":      {front(t, &tls.Config{Certificates: []tls.Certificate{a.server("127.0.0.1", -time.Hour)}}, none), trusting, []string{"expired"}},
		"no certificate of ours":        {front(t, wants, none), trusting, []string{"TEMPORAL_TLS_CLIENT_CERT_PATH"}},
		"ours has expired":              {front(t, wants, none), with("TEMPORAL_TLS_CLIENT_CERT_PATH", expired, "TEMPORAL_TLS_CLIENT_KEY_PATH", expiredKey), []string{"TEMPORAL_TLS_CLIENT_CERT_PATH"}},
		"ours is of another authority":  {front(t, wants, none), with("TEMPORAL_TLS_CLIENT_CERT_PATH", foreign, "TEMPORAL_TLS_CLIENT_KEY_PATH", foreignKey), []string{"TEMPORAL_TLS_CLIENT_CERT_PATH"}},
		"the file is away":              {"127.0.0.1:1", map[string]string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "/nowhere/ca.pem"}, []string{"TEMPORAL_*", "/nowhere/ca.pem"}},
		"a wrong key":                   {front(t, &tls.Config{Certificates: []tls.Certificate{good}}, refuses("16", "invalid API key")), with("TEMPORAL_API_KEY", "secret-of-mine"), []string{"invalid API key", "TEMPORAL_API_KEY"}},
		"no right":                      {front(t, &tls.Config{Certificates: []tls.Certificate{good}}, refuses("7", "not allowed")), with("TEMPORAL_API_KEY", "secret-of-mine"), []string{"not allowed", "TEMPORAL_API_KEY"}},
		"TLS is not spoken":             {plain.Listener.Addr().String(), map[string]string{"TEMPORAL_TLS": "true"}, []string{"TEMPORAL_TLS"}},
		"TLS is wanted":                 {front(t, &tls.Config{Certificates: []tls.Certificate{good}}, none), nil, []string{"TEMPORAL_TLS"}},
		"nobody is there":               {"127.0.0.1:1", nil, []string{"TEMPORAL_ADDRESS", "bide cluster dev"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TEMPORAL_ADDRESS", c.address)
			t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			begin := time.Now()
			conn, err := connect(io.Discard)
			if err == nil {
				conn.Close()
				err = errors.New("nothing is refused")
			}
			t.Logf("%.1fs %v", time.Since(begin).Seconds(), err)
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwant %s", err, want)
				}
			}
			if strings.Contains(err.Error(), "secret-of-mine") {
				t.Error(err)
			}
		})
	}
}

// TestRenewedCertificate: a worker whose certificate is renewed on the disk shows the new one
// when it connects again.
func TestRenewedCertificate(t *testing.T) {
	withoutServer(t)
	a := newAuthority(t)
	address := front(t, &tls.Config{Certificates: []tls.Certificate{a.server("127.0.0.1", time.Hour)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool()},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(r.TLS.PeerCertificates[0].Raw) }))
	cert, key := a.client(time.Hour)
	t.Setenv("TEMPORAL_ADDRESS", address)
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	t.Setenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH", a.file())
	t.Setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", cert)
	t.Setenv("TEMPORAL_TLS_CLIENT_KEY_PATH", key)
	opt, err := options()
	if err != nil {
		t.Fatal(err)
	}
	seen := func() []byte { // by the server, over a new connection
		t.Helper()
		c := http.Client{Transport: &http.Transport{TLSClientConfig: opt.ConnectionOptions.TLS, DisableKeepAlives: true}}
		r, err := c.Get("https://" + address)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	was := seen()
	newCert, newKey := a.client(time.Hour)
	if err := errors.Join(os.Rename(newCert, cert), os.Rename(newKey, key)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if now := seen(); bytes.Equal(was, now) || !bytes.Equal(now, block.Bytes) {
		t.Error("the server saw the old certificate")
	}
}

// TestServerDoesNotAnswerAtOnce: a worker that starts while the server is busy waits for it.
func TestServerDoesNotAnswerAtOnce(t *testing.T) {
	busy, gone := serviceerror.NewDeadlineExceeded("context deadline exceeded"), serviceerror.NewUnavailable("connection refused")
	for name, c := range map[string]struct {
		comes func(error) bool
		says  []error // the last one for ever
		want  error
		tries int
	}{
		"it is slow":               {slow, []error{busy, fmt.Errorf("failed reaching server: %w", busy), nil}, nil, 3},
		"nobody is there":          {slow, []error{gone}, gone, 1},
		"it starts anew meanwhile": {away, []error{busy, gone, nil}, nil, 3},
		"it never answers":         {away, []error{busy}, busy, 9}, // 1, 2, 4, 8, 16 and three times 30 s
		"another error":            {away, []error{io.EOF}, io.EOF, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				err := patiently(c.comes, func() error {
					n++
					return c.says[min(n, len(c.says))-1]
				})
				if !errors.Is(err, c.want) || n != c.tries {
					t.Errorf("%v after %d tries", err, n)
				}
			})
		})
	}
}
