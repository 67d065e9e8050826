package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// world is what all tests share: the program, a browser, and runs.
type world struct {
	*Bide
	ctx    context.Context // the browser's
	origin string
}

var shared *world

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if _, err := Chromium(); errors.Is(err, ErrNoBrowser) {
		fmt.Println("The browser tests are left out:", err)
		if os.Getenv("BIDE_NEED_BROWSER") != "" {
			return 1
		}
		return 0
	}
	dir, err := os.MkdirTemp("", "bide-browser-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	end, err := begin(dir)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer end()
	return m.Run()
}

// begin builds the program, makes the runs, and starts server and browser.
func begin(dir string) (end func(), err error) {
	ctx := context.Background()
	b, err := Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	hostile := filepath.Join(dir, "hostile.yml")
	if err := os.WriteFile(hostile, []byte(hostileFile), 0o600); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"run", hostile, "-q"},
		{"run", filepath.Join(source(), "..", "..", "..", "examples", "quickstart.yml"), "-q"},
		{"run", filepath.Join(source(), "..", "..", "..", "examples", "flaky", "pages.cst"), "-q"},
	} {
		if _, err := b.Run(ctx, args...); err != nil {
			return nil, err
		}
	}
	address, stop, err := b.Serve(ctx)
	if err != nil {
		return nil, err
	}
	tab, cancel, err := Start(ctx)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	if err := chromedp.Do(tab, chromedp.Navigate(address)); err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	shared = &world{Bide: b, ctx: tab, origin: "http://" + u.Host}
	return func() {
		cancel()
		if err := stop(); err != nil {
			fmt.Println("bide ui ended with", err)
		}
	}, nil
}

// hostileFile has markup in every name, item, message and output.
const hostileFile = `
name: '"><img src=x onerror=alert(1)><b>hostile'
mode: mapreduce
setup:
  - name: '<script>window.pwned=1</script> </script>'
    shell: "printf '<img src=x onerror=\"window.pwned=2\">\\033[31m<b>red</b>\\033]8;;javascript:alert(1)\\007x\\033]8;;\\007\\n'; echo '</div><script>window.pwned=3</script>' >&2"
map:
  input: 'printf "%s\n" "{\"id\":\"<i>one</i>\",\"x\":\"</pre><script>window.pwned=4</script>\"}" "{\"id\":\"two\",\"x\":\"javascript:alert(2)\"}"'
  agent_template:
    - name: '<a href="javascript:window.pwned=5">step</a>'
      shell: "echo \"</textarea><svg onload=window.pwned=6> \" >&2; exit 3"
  retry_config: {attempts: 2, initial_delay: 10ms}
error_policy:
  on_item_failure: dlq
  continue_on_failure: true
`

// tab opens a tab of its own, whose errors fail the test.
func (w *world) tab(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(w.ctx)
	ctx, stop := context.WithTimeout(ctx, 8*time.Minute) // other checks may have the machine meanwhile
	t.Cleanup(func() { stop(); cancel() })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	err := chromedp.Listen(ctx, func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("a script failed: %v %s", e.ExceptionDetails, e.ExceptionDetails.Exception.Description)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError {
				t.Errorf("the console says: %s (%s)", e.Entry.Text, e.Entry.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

func do(t *testing.T, ctx context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// eval asks a page that is loaded. A page may be replaced between any two calls, so the
// question itself looks whether the page is whole.
func eval[T any](t *testing.T, ctx context.Context, js string) T {
	t.Helper()
	whole := `if (document.readyState !== "complete") throw new Error("` + replaced + `");` + "\n" + js
	deadline := time.Now().Add(60 * time.Second)
	for {
		until(t, ctx, `document.documentElement && document.readyState === "complete"`)
		v, err := chromedp.Run(ctx, chromedp.Evaluate[T](whole, chromedp.EvalAwaitPromise))
		switch {
		case err == nil:
			return v
		case time.Now().After(deadline) || !strings.Contains(err.Error(), navigated) && !strings.Contains(err.Error(), replaced) && !strings.Contains(err.Error(), "properties of null"): // the document is being replaced
			t.Fatalf("%.500s: %v", js, err)
		}
	}
}

// replaced is what a question says that came to a page which is still being loaded.
const replaced = "the page is being replaced"

// navigated is what the browser says of a question that a navigation cut off: the answer
// is that of the page which comes.
const navigated = "Inspected target navigated or closed"

// until waits for a condition of the page.
func until(t *testing.T, ctx context.Context, js string) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		held, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+js+")", chromedp.EvalAwaitPromise))
		switch {
		case held && err == nil:
			return
		case err != nil && !strings.Contains(err.Error(), navigated):
			t.Fatalf("%s: %v", js, err)
		case time.Now().After(deadline):
			says, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText.slice(0, 1500)"))
			t.Fatalf("it never held that %s; the page says:\n%s (%v)", js, says, err)
		}
		time.Sleep(50 * time.Millisecond) // a browser has no virtual time
	}
}

func theme(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	})
}

// run gives the id of the nth run, from 0, in the order in which they began.
func (w *world) run(t *testing.T, n int) string {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(w.Home, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	return list[n].Name()
}

// pages are all pages of the hostile run, and those that others add.
func (w *world) pages(t *testing.T) []string {
	hostile, quick, pipeline := "/runs/"+w.run(t, 0), "/runs/"+w.run(t, 1), "/runs/"+w.run(t, 2)
	step := "/step?" + url.Values{"path": {"setup[0]"}}.Encode()
	return []string{
		"/", hostile, hostile + step, hostile + "/map", hostile + "/items/0", hostile + "/dlq", hostile + "/graph", hostile + "/retries", hostile + "/foresight",
		hostile + "/file", quick, quick + "/graph", quick + "/retries", quick + "/foresight", pipeline, pipeline + "/foresight", pipeline + "/graph", "/compare",
		"/compare?a=" + w.run(t, 0) + "&b=" + w.run(t, 1),
	}
}

// axe fails the test where axe-core finds something on the page.
func axe(t *testing.T, ctx context.Context, what string) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("testdata", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	// In one call, as a page may load itself again between two.
	js := string(script) + `
;axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.map(v => ({id: v.id, help: v.help, at: v.nodes.slice(0, 4).map(n => n.html.slice(0, 160) + " | " + n.any.map(a => a.message).join("; ").slice(0, 200))}))))`
	found := eval[string](t, ctx, js)
	var list []any
	if err := json.Unmarshal([]byte(found), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) > 0 {
		t.Errorf("%s:\n%s", what, found)
	}
	if eval[bool](t, ctx, `window.pwned !== undefined || document.querySelector("main img, main b.x, main script") !== null`) {
		t.Errorf("%s: what a run said became markup", what)
	}
}

// TestAskedWhileReplaced: a page that loads itself anew is asked when it is whole, though the
// next one comes in parts.
func TestAskedWhileReplaced(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><head><title>In parts</title><script>setTimeout(() => location.reload(), 1 + 60 * Math.random())</script></head>`+strings.Repeat(" ", 2000))
		_ = http.NewResponseController(w).Flush()
		time.Sleep(5 * time.Millisecond) // a browser has no virtual time
		_, _ = io.WriteString(w, "<body><h1>Whole</h1></body></html>")
	}))
	defer slow.Close()
	ctx := shared.tab(t)
	do(t, ctx, chromedp.Navigate(slow.URL))
	for n := range 40 {
		if !eval[bool](t, ctx, `document.querySelector("h1") !== null`) {
			t.Fatalf("question %d was answered by a part of a page", n)
		}
	}
}

// TestAccessible: axe-core finds nothing on any page in either theme, and
// nothing hostile has run.
func TestAccessible(t *testing.T) {
	ctx := shared.tab(t)
	for _, look := range []string{"light", "dark"} {
		for _, path := range shared.pages(t) {
			do(t, ctx, theme(look), chromedp.Navigate(shared.origin+path))
			axe(t, ctx, path+" in "+look)
		}
		// The page that shows what an edit changes is the answer to a form.
		for data, part := range map[string]string{`{"id": "<i>one</i>", "x": "</textarea><img src=x onerror=window.pwned=7>"}`: ".diff", "{no JSON<img src=x>": ".notice.bad"} {
			do(t, ctx, chromedp.Navigate(shared.origin+"/runs/"+shared.run(t, 0)+"/items/0"))
			eval[any](t, ctx, fmt.Sprintf(`document.querySelector(".editform textarea").value = %q; document.querySelector(".editform").requestSubmit(); null`, data))
			until(t, ctx, `document.querySelector("h1")?.textContent.startsWith("Edit item ") && document.querySelector("`+part+`")`)
			axe(t, ctx, "the edit page in "+look)
		}
	}
}

// TestPhone: no page is wider than a phone's window, no two labels of a plot and no two words
// of its head touch, and what
// is pressed is at least 24 pixels high and wide: all but links in a sentence, and those of
// the lines of a text.
func TestPhone(t *testing.T) {
	ctx := shared.tab(t)
	for _, width := range []int64{390, 320} {
		do(t, ctx, chromedp.EmulateViewport(width, 800))
		for _, path := range shared.pages(t) {
			do(t, ctx, chromedp.Navigate(shared.origin+path))
			if over := eval[int](t, ctx, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%s is %d pixels too wide for %d: %s", path, over, width,
					eval[string](t, ctx, `Array.from(document.querySelectorAll("main *")).filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll,.log,.tabs,pre,.grid")).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).join("\n")`))
			}
			if wrong := eval[string](t, ctx, crowded); wrong != "" {
				t.Errorf("%s, %d pixels wide:\n%s", path, width, wrong)
			}
		}
	}
}

// crowded finds labels that touch, and targets that are too small.
const crowded = `(() => {
	const out = [], box = e => e.getBoundingClientRect();
	for (const svg of document.querySelectorAll(".along, .axis svg, .over")) {
		const labels = Array.from(svg.querySelectorAll("text")).filter(t => box(t).width > 0);
		for (const a of labels) for (const b of labels)
			if (a !== b && box(a).left <= box(b).left && box(b).left < box(a).right + 2) out.push(a.textContent + " touches " + b.textContent);
	}
	const head = Array.from(document.querySelectorAll(".top > *, .top nav > *")).filter(e => box(e).width > 0 && !e.matches("nav, .grow"));
	for (const a of head) for (const b of head)
		if (a !== b && box(a).left <= box(b).left && box(b).left < box(a).left + Math.max(box(a).width, a.matches(".crumbname") ? 0 : a.scrollWidth)) out.push(a.textContent + " is under " + b.textContent);
	for (const e of document.querySelectorAll("a, button, summary, select, input:not([type=hidden])")) {
		const r = box(e), inText = e.tagName === "A" && getComputedStyle(e).display === "inline" && e.parentElement.textContent.trim() !== e.textContent.trim();
		if (r.width === 0 || e.closest(".skip, .hide, svg, dialog, .l, .results") || inText || e.matches(".at, .ln")) continue;
		if (r.height < 24 || r.width < 24) out.push(Math.round(r.width) + " by " + r.height + ": " + e.outerHTML.slice(0, 100));
	}
	return out.slice(0, 8).join("\n");
})()`

// TestWatched watches a run from its start over a dead letter to its retry.
func TestWatched(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "watched.yml")
	text := `
name: watched
mode: mapreduce
map:
  input: 'printf "%s\n" "{\"n\":1}" "{\"n\":2}" "{\"n\":3}"'
  max_parallel: 1
  agent_template:
    - name: work
      shell: "until test -e ` + dir + `/seen; do sleep 0.05; done; test ${item.n} != 2 || test -e ` + dir + `/mended || { echo 'no such shard 22' >&2; exit 9; }"
error_policy: {on_item_failure: dlq, continue_on_failure: true}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := shared.tab(t)
	do(t, ctx, chromedp.Navigate(shared.origin+"/"))
	cmd := shared.Command(context.Background(), "run", file, "-q")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, `Array.from(document.querySelectorAll(".runs a")).some(a => a.textContent === "watched")`)
	do(t, ctx, chromedp.Navigate(shared.origin+"/runs/"+shared.Last()+"/map"))
	until(t, ctx, `document.querySelector('[data-count="2"]')?.textContent === "1"`) // running
	if err := os.WriteFile(filepath.Join(dir, "seen"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, `document.querySelector('[data-count="7"]')?.textContent === "1"`)                                // dead lettered
	until(t, ctx, `document.querySelector(".badge.s-completed_with_failures") && document.querySelector(".count")`) // without a reload
	_ = cmd.Wait()                                                                                                  // its status is that of the run
	if err := os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, ctx, chromedp.Navigate(shared.origin+"/runs/"+shared.Last()+"/dlq"))
	eval[any](t, ctx, `window.confirm = () => true; document.querySelector(".groups form button").click(); null`)
	until(t, ctx, `document.querySelector(".head .badge.s-succeeded") && document.body.innerText.includes("No dead letters.")`)
}

// TestEightTabs: a browser has six connections for a server, and a stream takes
// one for good; all tabs share it.
func TestEightTabs(t *testing.T) {
	for i := range 8 {
		ctx := shared.tab(t)
		do(t, ctx, chromedp.Navigate(shared.origin+"/runs/"+shared.run(t, i%3)))
		until(t, ctx, `document.querySelector("#link").textContent === "● live"`)
	}
}

// TestLog: an output is opened at its end, by ranges, and searched on the
// server.
func TestLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log.yml")
	if err := os.WriteFile(file, []byte("name: log\ncommands:\n  - name: talk\n    shell: seq 1 2000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Run(context.Background(), "run", file, "-q"); err != nil {
		t.Fatal(err)
	}
	ctx := shared.tab(t)
	do(t, ctx, chromedp.Navigate(shared.origin+"/runs/"+shared.Last()+"/step?path=commands%5B0%5D"))
	until(t, ctx, `document.querySelector(".log").innerText.includes("2000000\n")`)
	if n := eval[int](t, ctx, `document.querySelectorAll(".l").length`); n > 20000 {
		t.Errorf("the page has %d lines of it", n)
	}
	if eval[float64](t, ctx, `(b => b.scrollHeight - b.scrollTop - b.clientHeight)(document.querySelector(".log"))`) > 2 {
		t.Error("it is not at the end")
	}
	eval[any](t, ctx, `document.querySelector("#lq").value = "1234567"; document.querySelector("[data-find]").requestSubmit(); null`)
	until(t, ctx, `document.querySelector(".results a")?.textContent === "1234567"`)
	eval[any](t, ctx, `document.querySelector(".results a").click(); null`)
	until(t, ctx, `document.querySelector(".l.aim")?.textContent.trim() === "1234567"`)
	if !strings.HasPrefix(eval[string](t, ctx, `location.hash`), "#stdout-") {
		t.Error("the address has no link to the line")
	}
}

// TestKeys: rows are chosen and opened, pages gone to, without a mouse.
func TestKeys(t *testing.T) {
	ctx := shared.tab(t)
	do(t, ctx, chromedp.Navigate(shared.origin+"/"))
	until(t, ctx, `document.querySelector("[data-row]")`)
	press := func(keys string) {
		eval[any](t, ctx, `for (const key of `+fmt.Sprintf("%q", keys)+`) document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})); null`)
	}
	press("jj")
	if eval[int](t, ctx, `Array.from(document.querySelectorAll("[data-row]")).findIndex(r => r.classList.contains("here"))`) != 1 {
		t.Error("jj is not at the second row")
	}
	press("?")
	if !eval[bool](t, ctx, `document.querySelector("#help").open`) {
		t.Error("? shows no keys")
	}
	eval[any](t, ctx, `document.querySelector("#help").close(); null`)
	press("/")
	if eval[string](t, ctx, `document.activeElement.id`) != "q" {
		t.Error("/ is not in the search")
	}
}

// TestFirstPaint: each page is painted at once.
func TestFirstPaint(t *testing.T) {
	ctx := shared.tab(t)
	for _, path := range shared.pages(t) {
		holds(t, "the first paint of "+path, 300, func() float64 {
			do(t, ctx, chromedp.Navigate(shared.origin+path))
			return eval[float64](t, ctx, `new Promise(done => new PerformanceObserver(l => done(l.getEntries()[0].startTime)).observe({type: "paint", buffered: true}))`)
		})
	}
}
