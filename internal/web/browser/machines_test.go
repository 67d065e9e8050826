package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestMachines: the page of the machines in both themes and on a phone, of a server that tells of
// much and of one that is gone; it follows what the server says without a reload, as do the list
// of runs and the page of a run that is held up.
func TestMachines(t *testing.T) {
	dir := t.TempDir()
	b := &Bide{Program: shared.Program, Home: filepath.Join(dir, "home")}
	run := b.onMachines(t, dir)
	say := func(state string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "next"), []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "state")); err != nil {
			t.Fatal(err)
		}
	}
	state := func(trouble string) string {
		return fmt.Sprintf(`{"address": "temporal.a-long-name-of-a-host.example.org:7233", "namespace": "night", "protocol": 4, "slots": 12, "waiting": 40, "for": 61000000000,
"workers": [{"name": "a-machine-with-a-long-name.example.org, process 123456", "slots": 8, "heard": %q}, {"name": "<img src=x onerror=window.pwned=8>", "slots": 4, "heard": %[1]q}],
"runs": [{"run": %q, "since": "2026-11-26T01:02:03Z", "leases": 3, "trouble": %q}, {"run": "01KB0000000000000000000000", "since": "2026-11-26T01:02:03Z", "leases": 7}]}`,
			time.Now().UTC().Format(time.RFC3339), run, trouble)
	}
	const trouble = "no worker takes work of protocol 4 (the queue bide.p4): start bide worker there, or one of this version"
	say(state(trouble))
	program := "#!/bin/sh\ncat '" + dir + "/state' 2>/dev/null || { echo 'bide: no Temporal server at temporal.example.org:7233: refused; TEMPORAL_ADDRESS names another, and `bide cluster dev` starts one' >&2; exit 1; }\n"
	if err := os.WriteFile(filepath.Join(dir, "bide-temporal"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	address, stop, err := b.Serve(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	origin := "http://" + u.Host
	ctx := shared.tab(t)
	do(t, ctx, chromedp.Navigate(address))
	// look holds pages against axe-core and a phone's window, each when it has a text.
	look := func(what, text string, paths ...string) {
		t.Helper()
		for _, path := range paths {
			for _, width := range []int64{1360, 390, 320} {
				do(t, ctx, chromedp.EmulateViewport(width, 800))
				for _, of := range []string{"light", "dark"} {
					do(t, ctx, theme(of), chromedp.Navigate(origin+path))
					until(t, ctx, fmt.Sprintf("document.body.innerText.includes(%q)", text))
					if width > 320 {
						axe(t, ctx, fmt.Sprintf("%s of %s in %s, %d wide", path, what, of, width))
					}
				}
				if over := eval[int](t, ctx, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
					t.Errorf("%s of %s is %d pixels too wide for %d", path, what, over, width)
				}
				if wrong := eval[string](t, ctx, crowded); wrong != "" {
					t.Errorf("%s of %s, %d pixels wide:\n%s", path, what, width, wrong)
				}
			}
		}
	}
	look("a server", trouble, "/machines", "/", "/runs/"+run)
	if err := os.Remove(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	look("no server", "Temporal cannot be asked: no Temporal server at temporal.example.org:7233", "/machines")
	do(t, ctx, chromedp.Navigate("about:blank")) // it asks nothing any more
	ctx = shared.tab(t)
	held := false
	for _, path := range []string{"/machines", "/", "/runs/" + run} {
		do(t, ctx, chromedp.Navigate(origin+path))
		held = !held
		text, says := "", `!document.body.innerText.includes("held up")`
		if held {
			text, says = trouble, `document.body.innerText.includes("held up: no worker")`
		}
		say(state(text))
		until(t, ctx, says) // without a reload
	}
	// Without a connection the head of a page says so, and nothing of it is under another.
	do(t, ctx, chromedp.Navigate(origin+"/"))
	end()
	until(t, ctx, `document.querySelector("#link").textContent === "○ not connected"`)
	for _, width := range []int64{1360, 390, 320} {
		do(t, ctx, chromedp.EmulateViewport(width, 800))
		if wrong := eval[string](t, ctx, crowded); wrong != "" {
			t.Errorf("not connected, %d pixels wide:\n%s", width, wrong)
		}
	}
}

// onMachines makes a run that other machines continue with, as this one sees it.
func (b *Bide) onMachines(t *testing.T, dir string) string {
	t.Helper()
	file, begun := filepath.Join(dir, "import.yml"), filepath.Join(dir, "begun")
	if err := os.WriteFile(file, []byte("name: import\ncommands:\n  - name: fetch\n    shell: touch "+begun+"; sleep 600\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := b.Command(context.Background(), "run", file, "-q")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
		time.Sleep(10 * time.Millisecond) // another process makes it
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	run := b.Last()
	for name, text := range map[string]string{"goes-on": "", "elsewhere.json": fmt.Sprintf(`{"store": "dir:%s/store", "on": "temporal"}`, dir)} {
		if err := os.WriteFile(filepath.Join(b.Home, "runs", run, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return run
}
