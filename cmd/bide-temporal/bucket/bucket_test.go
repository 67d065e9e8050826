package bucket

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/bide-dev/bide/internal/cluster/storetest"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// server is an S3 server in this process. before may answer a request itself, and tells
// whether it did; after may swallow the answer to one that was carried out.
type server struct {
	*httptest.Server
	backend       gofakes3.Backend
	before, after func(w http.ResponseWriter, r *http.Request) bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{backend: s3mem.New()}
	if err := s.backend.CreateBucket("runs"); err != nil {
		t.Fatal(err)
	}
	h := gofakes3.New(s.backend, gofakes3.WithIntegrityCheck(true)).Server()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.before != nil && s.before(w, r) {
			return
		}
		a := httptest.NewRecorder()
		h.ServeHTTP(a, r)
		if s.after != nil && s.after(w, r) {
			return
		}
		maps.Copy(w.Header(), a.Header())
		w.WriteHeader(a.Code)
		_, _ = w.Write(a.Body.Bytes()) // the client may be gone
	}))
	t.Cleanup(s.Close)
	return s
}

// tries is how often the client tries something in these tests.
const tries = 3

// open gives the objects below a prefix of the bucket.
func (s *server) open(t *testing.T, bucket, prefix string) *objects {
	t.Helper()
	host := strings.TrimPrefix(s.URL, "http://")
	o := &objects{server: host, bucket: bucket, prefix: prefix, patience: patience, creds: credentials.NewStaticV4("key", "secret", "")}
	if err := o.connect(minio.Options{Creds: o.creds, Region: "us-east-1", BucketLookup: minio.BucketLookupPath, Transport: s.Client().Transport, MaxRetries: tries}); err != nil {
		t.Fatal(err)
	}
	return o
}

// files gives what a run has in the bucket, past the client.
func (s *server) files(t *testing.T, prefix, run string) map[string][]byte {
	t.Helper()
	below := prefix + "/runs/" + run + "/"
	list, err := s.backend.ListBucket("runs", &gofakes3.Prefix{Prefix: below, HasPrefix: true}, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, c := range list.Contents {
		f, err := s.backend.GetObject("runs", c.Key, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f.Contents)
		if err := errors.Join(err, f.Contents.Close()); err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(c.Key, below)] = text
	}
	return files
}

func TestBucket(t *testing.T) {
	t.Parallel()
	storetest.Conform(t, newServer(t).open(t, "runs", "deep/below"), 1100)
}

func TestOrderModel(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	orders := 20
	if os.Getenv("BIDE_CLUSTER") == "long" {
		orders = 0
	}
	storetest.Model(t, s.open(t, "runs", "model"), 1, orders, func(run string) map[string][]byte { return s.files(t, "model", run) })
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// TestLostAnswers: where the server has written an object and the answer is lost, or says
// that it could not, its writer has created it all the same, and nobody else has.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	o := s.open(t, "runs", "p")
	if err := o.Create("a/first", text("")); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	lost := map[string]int{}
	s.after = func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if lost[r.URL.Path]++; r.Method != http.MethodPut || lost[r.URL.Path] > 1 {
			return false
		}
		if strings.HasSuffix(r.URL.Path, "cut") {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	for _, name := range []string{"a/cut", "a/error"} {
		if err := o.Create(name, text("mine")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := o.Create(name, text("mine")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s again: %v", name, err)
		}
	}
	if lost["/runs/p/a/cut"] < 2 || lost["/runs/p/a/error"] < 2 {
		t.Errorf("%v: nothing was tried again", lost)
	}
}

// TestTroubledServer: a server that cannot decide or is busy for a moment costs nothing,
// and one that is in the middle of an object does not give a half of it.
func TestTroubledServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	o := s.open(t, "runs", "p")
	large := strings.Repeat("0123456789", 1<<20)
	if err := o.Create("a/large", text(large)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	times := map[string]int{}
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		times[r.Method+r.URL.Path]++
		n := times[r.Method+r.URL.Path]
		put := r.Method == http.MethodPut
		switch {
		case put && strings.HasSuffix(r.URL.Path, "conflict") && n < 3:
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, "<Error><Code>ConditionalRequestConflict</Code></Error>")
		case put && strings.HasSuffix(r.URL.Path, "busy") && n < 3:
			_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 1000))
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasSuffix(r.URL.Path, "large") && !put:
			w.Header().Set("Content-Length", "10485760")
			w.Header().Set("Last-Modified", "Thu, 26 Nov 2026 07:00:00 GMT")
			_, _ = io.WriteString(w, large[:5000])
			panic(http.ErrAbortHandler)
		default:
			return false
		}
		return true
	}
	for _, name := range []string{"a/conflict", "a/busy"} {
		if err := o.Create(name, text(large)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f, err := o.Read(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); err != nil || string(got) != large {
			t.Errorf("%s has %d bytes, %v", name, len(got), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	f, err := o.Read("a/large", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err == nil {
		t.Errorf("%d bytes of %d are taken for all", len(got), len(large))
	}
	_ = f.Close() // it has failed
}

// TestServerWithoutConditions: a server that overwrites where it was told not to is found
// out before anything is written to it.
func TestServerWithoutConditions(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.before = func(_ http.ResponseWriter, r *http.Request) bool { r.Header.Del("If-None-Match"); return false }
	o := s.open(t, "runs", "p")
	if err := o.Create("a/b", text("x")); err == nil || !strings.Contains(err.Error(), "does not know conditional writes") {
		t.Errorf("%v", err)
	}
	if _, err := o.Read("a/b", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestMessages: what is wrong, where, and what to do, without anything secret.
func TestMessages(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	denied := newServer(t)
	denied.before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>")
		return true
	}
	away := newServer(t)
	away.Close()
	for name, c := range map[string]struct {
		o    *objects
		want []string
	}{
		"no bucket": {s.open(t, "none", "p"), []string{"s3:none/p/", "has no bucket none: make it"}},
		"denied":    {denied.open(t, "runs", "p"), []string{"s3:runs/p/", "AccessDenied", "AWS_ACCESS_KEY_ID"}},
		"away":      {away.open(t, "runs", "p"), []string{"s3:runs/p/", "refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := map[string]error{"create": c.o.Create("a/b", text("x"))}
			_, errs["read"] = c.o.Read("a/b", 0)
			if name != "away" { // each of which takes its time
				errs["remove"] = c.o.Remove("a")
				_, errs["list"] = c.o.List("a")
			}
			for verb, err := range errs {
				for _, want := range c.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %v, want %s", verb, err, want)
					}
				}
				if err != nil && strings.Contains(err.Error(), "secret") || errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v", verb, err)
				}
			}
		})
	}
}

// TestOpen: the server comes from the environment.
func TestOpen(t *testing.T) {
	s := newServer(t)
	t.Setenv("AWS_ENDPOINT_URL", s.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	o, err := Open("s3:runs/some/where")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Create("runs/1/a", text("x")); err != nil {
		t.Fatal(err)
	}
	if got := s.files(t, "some/where", "1"); !bytes.Equal(got["a"], []byte("x")) {
		t.Errorf("%q", got)
	}
	t.Setenv("AWS_ENDPOINT_URL", "minio:9000")
	if _, err := Open("s3:runs"); err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL is not the address of a server: write https://HOST") {
		t.Errorf("%v", err)
	}
}
