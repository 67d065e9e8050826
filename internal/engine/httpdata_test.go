package engine_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/bide-dev/bide/internal/event"
)

// got is a request as a server read it.
type got struct {
	path, query string // as sent
	body        string
	header      http.Header
}

// readingServer keeps the requests that it gets, and redirects those for /redirect to
// another address.
func readingServer(t *testing.T, to string, code int) (address string, all func() []got) {
	t.Helper()
	var mu sync.Mutex
	var list []got
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a test compares it
		mu.Lock()
		list = append(list, got{r.URL.EscapedPath(), r.URL.RawQuery, string(body), r.Header.Clone()})
		mu.Unlock()
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, to, code)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []got {
		mu.Lock()
		defer mu.Unlock()
		return list
	}
}

// Data in an address stays in the part of the address where the file has it, whatever it
// contains.
func TestDataInAnAddress(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"a b", "../../admin", "x?delete=1", "y#frag", "@localhost/echo", "%2e%2e/up", "a&b=c", "a+b", "ä/ö", `\..\x`, ";v=1", "a//b", ":1"} {
		t.Run(data, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var all func() []got
			b.url, all = readingServer(t, "", 0)
			item, err := json.Marshal(data)
			if err != nil {
				t.Fatal(err)
			}
			b.run("map: {input: [" + string(item) + "], agent_template: [{http: '@URL@/items/${item}/get?q=${item}&n=1#${item}'}]}").status(event.Succeeded)
			list := all()
			if len(list) != 1 {
				t.Fatalf("%d requests", len(list))
			}
			parts := strings.Split(list[0].path, "/")
			query, err := url.ParseQuery(list[0].query)
			if len(parts) != 4 || parts[1] != "items" || parts[3] != "get" || err != nil || len(query) != 2 {
				t.Fatalf("it is %s?%s", list[0].path, list[0].query)
			}
			if in, err := url.PathUnescape(parts[2]); err != nil || in != data || query.Get("q") != data || query.Get("n") != "1" {
				t.Errorf("%q and %q came of %q (%v)", in, query.Get("q"), data, err)
			}
		})
	}
}

// Data cannot choose the server or another path; text from the author or the caller can.
func TestDataChooseNoServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ address, item, says string }{
		{"${item}", "@URL@/x?q=1", ""},
		{"${item}/x", "@URL@/base", ""},
		{"${item}/x", "@URL@/base?y=", "would choose the server"},
		{"${item}x", "ftp://a/", "would choose the server"},
		{"${item}://127.0.0.1/x", "http", "would choose the server"},
		{"http://${item}/x", "@HOST@", ""},
		{"http://127.0.0.${item}:@PORT@/x", "1", ""},
		{"http://127.0.0.1:${item}/x", "@PORT@", ""},
		{"http://127.0.0.${item}/x", "1@localhost", "would choose the server"},
		{"http://127.0.0.${item}/x", "1.evil.example", "would choose the server"},
		{"http://${item}/x", "a:b@localhost", "would choose the server"},
		{"http://${item}/x", "localhost/admin", "would choose the server"},
		{"http://${item}/x", "localhost#", "would choose the server"},
		{"http://user:${item}/x", "1@localhost", "would choose the server"},
		{"@URL@${item}/x", "@localhost", "would choose the server"},
		{"@URL@${item}/x", "0", "would choose the server"},
		{"@URL@${item}", "/x/y?", ""},
		{"@URL@${item}", "/x/../y", "leads to another"},
		{"@URL@/a/${item}/x", "..", "leads to another"},
		{"@URL@/a/.${item}/x", ".", "leads to another"},
		{"${item|raw}", "@URL@/x", ""},
		{"@URL@/${item|raw}", "a/x", ""},
		{"${B}/${item}", "x", ""},
	} {
		t.Run(c.address+" "+c.item, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var all func() []got
			b.url, all = readingServer(t, "", 0)
			host := strings.TrimPrefix(b.url, "http://")
			_, port, _ := strings.Cut(host, ":")
			at := strings.NewReplacer("@HOST@", host, "@PORT@", port)
			c.address, c.item = at.Replace(c.address), at.Replace(c.item)
			r := b.run("env: {B: '@URL@'}\nmap: {input: ['" + c.item + "'], agent_template: [{http: '" + c.address + "', retry: {attempts: 2, initial_delay: 1ms}}]}")
			if refused := r.sum.Status != event.Succeeded; refused != (c.says != "") || !strings.Contains(r.story(), c.says) || len(all()) != map[bool]int{false: 1}[refused] {
				t.Errorf("%s, %d requests\n%s", r.sum.Status, len(all()), r.story())
			}
		})
	}
}

// Data in a JSON body stays one value, and changes nothing before or after it.
func TestDataInAJSONBody(t *testing.T) {
	t.Parallel()
	const hostile = "say \"hi\", \"admin\": \"1\\\n"
	for _, c := range []struct {
		step string
		want any // as JSON; a string that begins with = is the body itself
	}{
		{`body: '{"text": "${item.t}"}'`, map[string]any{"text": hostile}},
		{`body: '{"text": "<${item.t}>", "${item.t}": "\"${item.t}"}'`, map[string]any{"text": "<" + hostile + ">", hostile: `"` + hostile}},
		{`body: '{"text": ${item.t}, "n": ${item.n}, "l": ${item.l}, "s": ${item.l|json}}'`, map[string]any{"text": hostile, "n": 3.0, "l": "1, a", "s": []any{1.0, "a"}}},
		{`body: '["${item.t}"', headers: {Content-Type: application/json; charset=utf-8}`, `=["say \"hi\", \"admin\": \"1\\\n"`},
		{`body: '{"text": "${item.q|raw}"}'`, map[string]any{"text": "a", "b": "c"}},
		{`body: '{"text": "${P}"}'`, map[string]any{"text": "x", "y": "z"}},
		{`body: {text: '${item.t}'}`, map[string]any{"text": hostile}},
		{`body: 'plain "${item.t}"'`, "=plain \"" + hostile + `"`},
		{`body: '${item.t}'`, "=" + hostile},
		{`body: '${item.t}', headers: {Content-Type: application/json}`, "=" + hostile},
		{`body: 'a=${item.t}&b=1', headers: {content-type: application/x-www-form-urlencoded}`, "=a=" + url.QueryEscape(hostile) + "&b=1"},
	} {
		t.Run(c.step, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var all func() []got
			b.url, all = readingServer(t, "", 0)
			item, err := json.Marshal(map[string]any{"t": hostile, "n": 3, "l": []any{1, "a"}, "q": `a", "b": "c`})
			if err != nil {
				t.Fatal(err)
			}
			b.run("env: {P: 'x\", \"y\": \"z'}\nmap:\n  input: [" + string(item) + "]\n  agent_template:\n    - http: {url: '@URL@/x', method: POST, " + c.step + "}").status(event.Succeeded)
			body := all()[0].body
			if text, is := c.want.(string); is {
				if "="+body != text {
					t.Errorf("sent: %q", body)
				}
				return
			}
			var v any
			if err := json.Unmarshal([]byte(body), &v); err != nil || !reflect.DeepEqual(v, c.want) {
				t.Errorf("sent: %s (%v)", body, err)
			}
		})
	}
}

// If an answer redirects to another server, that server gets no secret from the step's
// headers or body.
func TestRedirectToAnotherServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   int
		body   string
		other  bool // the redirect leads to another server
		status string
		says   string
	}{
		{http.StatusFound, "", true, event.Succeeded, ""},
		{http.StatusFound, "${TOKEN}", true, event.Succeeded, ""}, // the redirected request is a GET
		{http.StatusTemporaryRedirect, "plain", true, event.Succeeded, ""},
		{http.StatusTemporaryRedirect, "${TOKEN}", true, event.Failed, "its body has a secret in it"},
		{http.StatusTemporaryRedirect, "${TOKEN}", false, event.Succeeded, ""},
	} {
		b := newBench(t)
		b.setenv("API_TOKEN", "tr0ub4dor-and-3")
		there, second := readingServer(t, "", 0)
		to := there + "/x"
		if !c.other {
			to = "/x"
		}
		var first func() []got
		b.url, first = readingServer(t, to, c.code)
		r := b.run("secrets: {TOKEN: '${env:API_TOKEN}'}\ncommands:\n  - http: {method: POST, url: '@URL@/redirect?k=${TOKEN}', body: '" + c.body + "', headers: {X-Plain: a, X-Secret: 'k ${TOKEN}'}}")
		r.status(c.status)
		if !strings.Contains(r.story(), c.says) {
			t.Error(r.story())
		}
		if list := first(); list[0].header.Get("X-Secret") != "k tr0ub4dor-and-3" || !c.other && (list[1].header.Get("X-Secret") == "" || list[1].body != "tr0ub4dor-and-3") {
			t.Errorf("the server itself got %+v", list)
		}
		for _, g := range second() {
			if all, err := json.Marshal(g.header); err != nil || strings.Contains(string(all)+g.body+g.query, "tr0ub4dor") || g.header.Get("X-Plain") != "a" {
				t.Errorf("the other server got %+v", g)
			}
		}
		if n := len(second()); c.other && c.status == event.Succeeded && n != 1 {
			t.Errorf("the other server got %d requests", n)
		}
	}
}
