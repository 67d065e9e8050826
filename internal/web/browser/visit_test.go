package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestEntranceFromAFile: the page that `bide ui` gives a browser lets it in, and
// the token is in no address that the browser keeps.
func TestEntranceFromAFile(t *testing.T) {
	dir := t.TempDir()
	copied := filepath.Join(dir, "page.html")
	for _, name := range []string{"xdg-open", "open"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\ncp \"$1\" '"+copied+".part' && mv '"+copied+".part' '"+copied+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := shared.Command(context.Background(), "ui")
	cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	ctx := shared.tab(t)
	do(t, ctx, chromedp.Navigate("about:blank"))
	waitFor(t, func() bool { _, err := os.Stat(copied); return err == nil })
	do(t, ctx, chromedp.Navigate("file://"+copied))
	until(t, ctx, `document.querySelector("h1")?.textContent === "Runs"`)
	if at := eval[string](t, ctx, `location.href + " " + document.referrer`); strings.Contains(at, "token") {
		t.Errorf("the token stays in %s", at)
	}
}

// TestSearchOfManyLines: a search shows more than the first matches when they are
// asked for, and ends.
func TestSearchOfManyLines(t *testing.T) {
	id := shared.file(t, "many.yml", "commands:\n  - shell: 'seq -f \"a needle %g\" 1 450'\n")
	ctx := shared.tab(t)
	do(t, ctx, chromedp.Navigate(shared.origin+"/runs/"+id+"/step?q=needle&"+url.Values{"path": {"commands[0]"}}.Encode()))
	const list, state = `document.querySelectorAll(".results li").length`, `document.querySelector(".results .none").textContent`
	for _, want := range []int{200, 400, 450} {
		until(t, ctx, fmt.Sprintf(`%s === %d`, list, want))
		until(t, ctx, fmt.Sprintf(`%s.startsWith("%d lines found")`, state, want))
		if want < 450 {
			eval[any](t, ctx, `document.querySelector(".results button").click(); null`)
		}
	}
	if eval[bool](t, ctx, `!!document.querySelector(".results button")`) {
		t.Error("it offers more after the last line")
	}
	if n := eval[int](t, ctx, `new Set(Array.from(document.querySelectorAll(".results a"), a => a.textContent)).size`); n != 450 {
		t.Errorf("%d different lines are found, want 450", n)
	}
}

// TestLogRests: the outputs of an attempt that is over are asked for no more.
func TestLogRests(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rests.yml")
	if err := os.WriteFile(path, []byte("commands:\n  - shell: 'echo begun; until test -e "+dir+"/go; do sleep 0.02; done; echo over'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := shared.Last()
	cmd := shared.Command(context.Background(), "run", path, "-q")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return shared.Last() != before })
	ctx := shared.tab(t)
	onEveryPage(t, ctx, `
		window.asked = 0; window.timers = 0;
		const open = XMLHttpRequest.prototype.open, fetched = window.fetch;
		XMLHttpRequest.prototype.open = function (how, where) { if (String(where).includes("/lines?")) asked++; return open.apply(this, arguments); };
		window.fetch = function (where) { if (String(where).includes("/lines?")) asked++; return fetched.apply(this, arguments); };
		const every = setInterval, clear = clearInterval;
		window.setInterval = (...a) => ((a[1] === 250 && timers++), every(...a));
		window.clearInterval = t => (timers--, clear(t));`)
	do(t, ctx, chromedp.Navigate(shared.origin+"/runs/"+shared.Last()+"/step?"+url.Values{"path": {"commands[0]"}}.Encode()))
	until(t, ctx, `asked > 1 && document.querySelector(".log").textContent.includes("begun")`)
	hide := func(hidden bool) {
		eval[any](t, ctx, fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %v, configurable: true}); document.dispatchEvent(new Event("visibilitychange")); null`, hidden))
	}
	hide(true)
	eval[any](t, ctx, `new Promise(r => setTimeout(r, 300))`) // what was asked for before is answered
	was := eval[int](t, ctx, `asked`)
	eval[any](t, ctx, `new Promise(r => setTimeout(r, 1200))`)
	if n := eval[int](t, ctx, `asked`); n != was {
		t.Errorf("a page that nobody sees asked %d times", n-was)
	}
	hide(false)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, `document.querySelector(".log").textContent.includes("over")`)
	until(t, ctx, `timers === 0`)
}

// waitFor waits for what another process does.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never happened")
		}
	}
}
