package action_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
)

func TestMain(m *testing.M) {
	proc.CompanionMain()
	os.Exit(m.Run())
}

func world(t *testing.T) *action.World {
	t.Helper()
	sup, err := proc.New(t.TempDir(), proc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	return &action.World{Proc: sup, HTTP: http.DefaultClient}
}

// Where a text is cut, it was masked before: wherever the cut falls, no piece
// of a secret is left.
func TestNoCutLeavesASecret(t *testing.T) {
	const secret = "abcdefghijklmnopqrstuvwxyz"
	m, _ := mask.New(map[string]string{"S": secret})
	w := world(t)
	check := func(what, text string) {
		t.Helper()
		for i := 0; i+mask.MinLength <= len(secret); i++ {
			if strings.Contains(text, secret[i:i+mask.MinLength]) {
				t.Fatalf("%s has %q of the secret", what, secret[i:i+mask.MinLength])
			}
		}
	}
	status := http.NewServeMux()
	status.HandleFunc("/{n}", func(w http.ResponseWriter, r *http.Request) {
		n := 0
		if _, err := fmt.Sscan(r.PathValue("n"), &n); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusTeapot)
		if _, err := w.Write([]byte(strings.Repeat("X", n) + secret)); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(status)
	defer server.Close()
	for n := 1; n < len(secret)+3; n += 3 {
		for name, size := range map[string]int{"64 KiB": 64<<10 - n, "1 MiB": 1<<20 - n} {
			text := fmt.Sprintf("printf %%s %s >&2; head -c %d /dev/zero | tr '\\0' X >&2; exit 1", secret, size)
			_, err := w.Command(t.Context(), &action.Call{Env: os.Environ(), Mask: m}, []string{"sh", "-c", text}, nil)
			var e *action.ExitError
			if !errors.As(err, &e) || len(e.Stderr) < 60<<10 {
				t.Fatalf("%s: %v", name, err)
			}
			check(name, e.Stderr)
		}
		url, err := template.Parse(fmt.Sprintf("%s/%d", server.URL, 1024-n))
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Run(t.Context(), &workflow.HTTP{URL: url}, &action.Call{Scope: vars.New(nil), Mask: m})
		var h *action.HTTPError
		if !errors.As(err, &h) || h.Body == "" {
			t.Fatal(err)
		}
		check("the body", h.Body)
	}
}

// No error about a URL quotes a secret in it that cannot be at its place, nor
// any piece of it.
func TestSecretsInURLs(t *testing.T) {
	w := world(t)
	for _, secret := range []string{"s3cr3t-Val/behind", "before/s3cr3t-Val", "s3cr3t-Val:behind", "s3cr3t-Val?behind", "s3cr3t-Val#behind", "s3cr3t-Val@behind", "[s3cr3t-Val", "s3cr3t-Val%zz", "s3cr3t-Val behind"} {
		m, _ := mask.New(map[string]string{"S": secret})
		for _, url := range []string{"http://user:%s@127.0.0.1:1/x", "http://%s@127.0.0.1:1/", "http://%s/x", "http://127.0.0.1:%s/x", "http://127.0.0.1:1/%s", "%s", "http://127.0.0.1:1/?q=%s"} {
			_, err := w.Send(t.Context(), &action.Request{Method: "GET", URL: strings.ReplaceAll(url, "%s", secret)}, &action.Call{Mask: m})
			if err == nil {
				t.Fatalf("%s: no error", url)
			}
			for _, piece := range []string{"s3cr3t", "behind", "before"} {
				if text := m.String(err.Error()); strings.Contains(text, piece) {
					t.Errorf("%q in %s: %s", secret, url, text)
				}
			}
		}
	}
}
