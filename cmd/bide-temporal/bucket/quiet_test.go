package bucket

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// impatient opens the objects below a prefix of the bucket, and waits only a moment for each answer.
func (s *server) impatient(t *testing.T, moment time.Duration) *objects {
	t.Helper()
	o := s.open(t, "runs", "p")
	transport := s.Client().Transport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = moment
	o.patience = 6 * moment
	if err := o.connect(minio.Options{Creds: o.creds, Region: "us-east-1", BucketLookup: minio.BucketLookupPath, Transport: quiet{transport, moment}, MaxRetries: tries}); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestFrozenServer: each call ends within a time of its own, where the server begins an answer
// and does not go on, and where it does not answer at all.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	for name, begins := range map[string]bool{"amid an answer": true, "before it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			o := s.impatient(t, 200*time.Millisecond)
			if err := s.open(t, "runs", "p").Create("a/b", text(strings.Repeat("x", 1<<20))); err != nil {
				t.Fatal(err)
			}
			over := make(chan struct{})
			t.Cleanup(func() { close(over) })
			s.before = func(w http.ResponseWriter, _ *http.Request) bool {
				if begins {
					w.Header().Set("Content-Length", "1048576")
					w.Header().Set("Last-Modified", "Thu, 26 Nov 2026 07:00:00 GMT")
					w.WriteHeader(http.StatusOK)
					_ = http.NewResponseController(w).Flush() // the client may be gone
				}
				<-over
				return true
			}
			f, err := o.Read("a/b", 0)
			if err == nil {
				_, err = io.ReadAll(f)
				_ = f.Close() // it has failed
			}
			if err == nil || !strings.Contains(err.Error(), "within 200ms") && !strings.Contains(err.Error(), "no answer within") {
				t.Errorf("read: %v", err)
			}
			if f, err := o.Read("a/b", 0); err == nil {
				_ = f.Close() // without a read before
			}
			if _, err := o.List("a"); err == nil {
				t.Error("list: no error")
			}
			if err := o.Remove("a"); err == nil {
				t.Error("remove: no error")
			}
			if err := o.Create("a/c", text("x")); !begins && err == nil {
				t.Error("create: no error")
			}
		})
	}
}

// TestDeadConnection: a write to which no answer comes is tried again, by another connection.
func TestDeadConnection(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	o := s.impatient(t, 2*time.Second) // in which a busy machine answers
	if err := o.Create("a/b", text("x")); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	var n atomic.Int32
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || n.Add(1) > 1 {
			return false
		}
		<-over
		return true
	}
	if err := o.Create("a/c", text("x")); err != nil {
		t.Errorf("after %d tries: %v", n.Load(), err)
	}
}

// TestRenewedCredentials: credentials that have ended are read anew, where another program
// has renewed them meanwhile; a write is not lost by it.
func TestRenewedCredentials(t *testing.T) {
	s := newServer(t)
	file := filepath.Join(t.TempDir(), "credentials")
	renew := func(key string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = "+key+"\naws_secret_access_key = secret\naws_session_token = token\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	renew("first")
	var valid atomic.Value
	valid.Store("first")
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.Header.Get("Authorization"), "Credential="+valid.Load().(string)+"/") {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>")
		return true
	}
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": s.URL, "AWS_SHARED_CREDENTIALS_FILE": file, "AWS_CONFIG_FILE": file, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""} {
		t.Setenv(name, value)
	}
	o, err := Open("s3:runs/p")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Create("a/b", text("x")); err != nil {
		t.Fatal(err)
	}
	valid.Store("second")
	if err := o.Create("a/c", text("x")); err == nil || !strings.Contains(err.Error(), "ExpiredToken") || !strings.Contains(err.Error(), "AWS_SESSION_TOKEN") {
		t.Errorf("%v", err)
	}
	renew("second")
	if err := o.Create("a/c", text("x")); err != nil {
		t.Error(err)
	}
	valid.Store("third")
	renew("third")
	if err := o.Create("a/d", text("x")); err != nil {
		t.Error(err)
	}
}

// TestCertificates: a server whose certificate nobody vouches for is refused, with what to do;
// AWS_CA_BUNDLE names who does.
func TestCertificates(t *testing.T) {
	plain := newServer(t)
	s := httptest.NewUnstartedServer(plain.Config.Handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": s.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_CA_BUNDLE": ""} {
		t.Setenv(name, value)
	}
	create := func() error {
		o, err := Open("s3:runs/p")
		if err != nil {
			return err
		}
		return o.Create("a/b", text("x"))
	}
	if err := create(); err == nil || !strings.Contains(err.Error(), "unknown authority: AWS_CA_BUNDLE names") {
		t.Errorf("%v", err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	t.Setenv("AWS_CA_BUNDLE", file)
	if err := create(); err == nil || !strings.Contains(err.Error(), "AWS_CA_BUNDLE: open") {
		t.Errorf("%v", err)
	}
	write := func(content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte("nothing"))
	if err := create(); err == nil || !strings.Contains(err.Error(), "has no certificate") {
		t.Errorf("%v", err)
	}
	write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	if err := create(); err != nil {
		t.Error(err)
	}
	t.Setenv("AWS_ENDPOINT_URL", strings.Replace(s.URL, "127.0.0.1", "localhost", 1))
	if err := create(); err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "localhost") {
		t.Errorf("another name: %v", err)
	}
}
