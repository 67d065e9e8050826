package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestEdit: an edit is shown as a difference, refused where it is no JSON, and
// reaches the program as its standard input.
func TestEdit(t *testing.T) {
	t.Parallel()
	said := filepath.Join(t.TempDir(), "said")
	s := serve(t, Options{Program: []string{"/bin/sh", "-c", `echo "$@" > "$0"; cat >> "$0"`, said}})
	j, err := s.store.Create(journal.Header{Name: "m", Kind: "mapreduce"})
	if err != nil {
		t.Fatal(err)
	}
	items := func(yield func(journal.Item, error) bool) {
		yield(journal.Item{ID: "one", Data: []byte(`{"shard":7}`)}, nil)
	}
	if _, _, err := j.PutItems(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	for _, e := range []event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: 1}, {Type: event.ItemStarted, Item: "one", Index: 1, Attempt: 1},
		{Type: event.ItemFinished, Item: "one", Index: 1, Status: event.DeadLettered, Attempts: 1, Class: "exit", Message: "no", Data: json.RawMessage(`{}`)}} {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	post := func(action string, form url.Values) (int, string) {
		r, err := http.NewRequest(http.MethodPost, s.at("/runs/"+j.Run()+"/"+action), strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		code, _, body := s.do(s.in, r)
		return code, body
	}
	if code, body := post("edit", url.Values{"index": {"1"}, "data": {`{"shard": 8}`}}); code != http.StatusOK ||
		!strings.Contains(body, `<span class="d-minus">-   &#34;shard&#34;: 7</span>`) || !strings.Contains(body, `<span class="d-plus">&#43;   &#34;shard&#34;: 8</span>`) {
		t.Errorf("the difference is not there (status %d):\n%s", code, body)
	}
	if _, body := post("edit", url.Values{"index": {"1"}, "data": {`{"shard": `}}); !strings.Contains(body, "This is no JSON") || strings.Contains(body, "Run it again") {
		t.Errorf("what is no JSON is taken:\n%s", body)
	}
	if code, _ := post("retry", url.Values{"item": {"one"}, "data": {`{"shard": `}}); code != http.StatusBadRequest {
		t.Errorf("a retry with what is no JSON gives status %d", code)
	}
	if code, body := post("retry", url.Values{"item": {"one"}, "data": {`{"shard": 8}`}}); code != http.StatusSeeOther {
		t.Errorf("the retry gives status %d:\n%s", code, body)
	}
	b, err := os.ReadFile(said)
	if want := "dlq retry " + j.Run() + " --progress none --item=one --data=-\n{\"shard\": 8}"; err != nil || string(b) != want {
		t.Errorf("the program was given %q (%v), want %q", b, err, want)
	}
	// Of a run that other machines go on with, the file is theirs.
	if err := os.WriteFile(filepath.Join(s.store.RunDir(j.Run()), journal.Elsewhere), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, body := post("retry", url.Values{"item": {"one"}}); code != http.StatusSeeOther {
		t.Errorf("the retry gives status %d:\n%s", code, body)
	}
	b, err = os.ReadFile(said)
	if want := "dlq retry " + j.Run() + " --progress none --as-recorded --item=one\n"; err != nil || string(b) != want {
		t.Errorf("the program was given %q (%v), want %q", b, err, want)
	}
}
