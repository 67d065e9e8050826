package web

import (
	"encoding/json"
	"html"
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
	items := func(yield func(event.Item, error) bool) {
		yield(event.Item{ID: "one", Data: []byte(`{"shard":7}`)}, nil)
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
	if code, _ := post("retry", url.Values{"index": {"1"}, "data": {`{"shard": `}}); code != http.StatusBadRequest {
		t.Errorf("a retry with what is no JSON gives status %d", code)
	}
	if code, body := post("retry", url.Values{"index": {"1"}, "data": {`{"shard": 8}`}}); code != http.StatusSeeOther {
		t.Errorf("the retry gives status %d:\n%s", code, body)
	}
	b, err := os.ReadFile(said)
	if want := "dlq retry " + j.Run() + " -q --item=one --data=-\n{\"shard\": 8}"; err != nil || string(b) != want {
		t.Errorf("the program was given %q (%v), want %q", b, err, want)
	}
	// Of a run that other machines continue with, the file is theirs.
	if err := os.WriteFile(filepath.Join(s.store.RunDir(j.Run()), journal.Elsewhere), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, body := post("retry", url.Values{"index": {"1"}}); code != http.StatusSeeOther {
		t.Errorf("the retry gives status %d:\n%s", code, body)
	}
	b, err = os.ReadFile(said)
	if want := "dlq retry " + j.Run() + " -q --as-recorded --item=one\n"; err != nil || string(b) != want {
		t.Errorf("the program was given %q (%v), want %q", b, err, want)
	}
}

// TestEditOfLargeItems: an item that is larger than what its page shows is edited
// whole, and one that is too large for the page says so and how else to do it.
func TestEditOfLargeItems(t *testing.T) {
	t.Parallel()
	said := filepath.Join(t.TempDir(), "said")
	s := serve(t, Options{Program: []string{"/bin/sh", "-c", `cat > "$0"`, said}})
	j, err := s.store.Create(journal.Header{Name: "m", Kind: "mapreduce"})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("<a & \u00e9>", 3*maxShown/10) // what a form makes much longer
	large, err := json.Marshal(map[string]any{"lines": make([]int, 6000), "text": text, "when": "the end"})
	if err != nil {
		t.Fatal(err)
	}
	huge := []byte(`"` + strings.Repeat("x", maxEdit) + `"`)
	items := func(yield func(event.Item, error) bool) {
		_ = yield(event.Item{ID: "large", Data: large}, nil) && yield(event.Item{ID: "huge", Data: huge}, nil)
	}
	if _, _, err := j.PutItems(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	events := []event.Event{{Type: event.RunStarted}, {Type: event.ItemsReady, Total: 2}}
	for i, id := range []string{"large", "huge"} {
		events = append(events, event.Event{Type: event.ItemStarted, Item: id, Index: i + 1, Attempt: 1},
			event.Event{Type: event.ItemFinished, Item: id, Index: i + 1, Status: event.DeadLettered, Attempts: 1, Class: "exit", Message: "no", Data: json.RawMessage(`{}`)})
	}
	for _, e := range events {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	page := s.page("/runs/" + j.Run() + "/items/0")
	if strings.Contains(page, "the end") || !strings.Contains(page, "64.0 KiB of ") {
		t.Error("the page shows all of a large item, or does not say that it shows a part")
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
	code, body := post("edit", url.Values{"index": {"1"}})
	_, rest, _ := strings.Cut(body, `spellcheck="false">`)
	data, _, _ := strings.Cut(rest, "</textarea>")
	data = html.UnescapeString(data)
	var got map[string]any
	if err := json.Unmarshal([]byte(data), &got); code != http.StatusOK || err != nil || got["text"] != text || got["when"] != "the end" {
		t.Fatalf("the form has %d bytes (status %d, %v)", len(data), code, err)
	}
	data = strings.Replace(data, "the end", "the new end", 1)
	if code, body = post("edit", url.Values{"index": {"1"}, "data": {data}}); code != http.StatusOK || strings.Count(body, "d-plus") != 1 || !strings.Contains(body, "the new end") {
		t.Errorf("the difference is not one line (status %d):\n%.3000s", code, body)
	}
	if code, body = post("retry", url.Values{"index": {"1"}, "data": {data}}); code != http.StatusSeeOther {
		t.Fatalf("it is not run again (status %d): %.500s", code, body)
	}
	if b, err := os.ReadFile(said); err != nil || string(b) != data {
		t.Errorf("the program reads %d bytes, want %d (%v)", len(b), len(data), err)
	}
	if page = s.page("/runs/" + j.Run() + "/items/1"); !strings.Contains(page, "bide dlq retry "+j.Run()+" --item huge --data FILE") {
		t.Error("an item that is too large for the page does not say how to edit it")
	}
	if code, body = post("retry", url.Values{"index": {"2"}, "data": {string(huge)}}); code != http.StatusRequestEntityTooLarge || !strings.Contains(body, "--data FILE") {
		t.Errorf("data that is too large gives status %d: %.300s", code, body)
	}
}
