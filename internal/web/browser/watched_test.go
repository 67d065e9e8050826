package browser

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestWatchedThroughput prints how fast a map is that a page shows live, beside
// one that nobody looks at, in pairs: the ratio of the times, and of the CPU
// time of the process of the run. BIDE_FIGURES=1 runs it; where the machine has
// something else to do, the second ratio is the one to read.
func TestWatchedThroughput(t *testing.T) {
	if os.Getenv("BIDE_FIGURES") == "" {
		t.Skip("a measurement: set BIDE_FIGURES=1")
	}
	path := filepath.Join(t.TempDir(), "map.yml")
	text := "name: measured\nmode: mapreduce\nmap:\n  input: 'seq 1 30000'\n  max_parallel: 4\n  agent_template:\n    - shell: \"true\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// run gives the time of a run, and the CPU time of its process and of the
	// commands that it waited for.
	run := func(watch func() func()) (wall, cpu time.Duration) {
		cmd := shared.Command(context.Background(), "run", path, "-q")
		before := shared.Last()
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for shared.Last() == before {
			time.Sleep(time.Millisecond) // another process makes it
		}
		end := watch()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		wall = time.Since(began)
		end()
		return wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	visit := visitor(t)
	for _, who := range []struct {
		name  string
		watch func() (end func())
	}{{"a page in Chromium on this machine", func() func() {
		ctx := shared.tab(t)
		do(t, ctx, chromedp.Navigate(shared.origin+"/runs/"+shared.Last()+"/map"))
		until(t, ctx, `document.querySelector("#link").textContent === "● live"`)
		return func() { do(t, ctx, chromedp.Navigate("about:blank")) }
	}}, {"what a page asks for, the browser elsewhere", func() func() { return visit(shared.Last()) }}} {
		var walls, cpus []float64
		for n := range 6 {
			w0, c0 := run(func() func() { return func() {} })
			w1, c1 := run(who.watch)
			if n > 0 { // the first pair warms up
				walls, cpus = append(walls, float64(w0)/float64(w1)), append(cpus, float64(c0)/float64(c1))
			}
		}
		slices.Sort(walls)
		slices.Sort(cpus)
		t.Logf("%s: throughput of a watched map beside an unwatched one, %d pairs: median %.3f (%.3f to %.3f); by the CPU time of the run: median %.3f (%.3f to %.3f)",
			who.name, len(walls), walls[len(walls)/2], walls[0], walls[len(walls)-1], cpus[len(cpus)/2], cpus[0], cpus[len(cpus)-1])
	}
}

// visitor gives what asks a `bide ui` of its own for what the page of a map asks
// for: the page, the grid, the stream, and the page again each second.
func visitor(t *testing.T) func(id string) (end func()) {
	t.Helper()
	address, stop, err := shared.Serve(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	get := func(ctx context.Context, address string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			t.Error(err)
			return
		}
		res, err := client.Do(r)
		if err != nil {
			return // it ends
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body) // it ends in the middle
	}
	get(context.Background(), address)
	origin := address[:strings.Index(address, "/?")]
	return func(id string) func() {
		ctx, cancel := context.WithCancel(context.Background())
		page := origin + "/runs/" + id
		get(ctx, page+"/cells")
		var group sync.WaitGroup
		group.Go(func() { get(ctx, origin+"/stream?topics=map:"+id) })
		group.Go(func() {
			for ctx.Err() == nil {
				get(ctx, page+"/map")
				get(ctx, page+"/series")
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
		return func() {
			cancel()
			group.Wait()
		}
	}
}

// TestStreamComesLate: what happens between a page and its stream is on the page,
// though nothing more is told; and a page that could not be had is asked for
// again.
func TestStreamComesLate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "late.yml")
	text := "name: late\ncommands:\n  - shell: \"until test -e " + dir + "/go; do sleep 0.02; done\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := shared.Command(context.Background(), "run", file, "-q")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx := shared.tab(t)
	do(t, ctx, chromedp.Navigate(shared.origin+"/"))
	until(t, ctx, `Array.from(document.querySelectorAll(".runs a")).some(a => a.textContent === "late")`)
	onEveryPage(t, ctx, `
		delete window.SharedWorker;
		window.failures = 0;
		const Source = EventSource, send = XMLHttpRequest.prototype.send;
		window.EventSource = function (address) {
			const later = { close() {} };
			window.connect = () => {
				const source = new Source(address);
				source.onopen = e => later.onopen(e);
				source.onmessage = e => later.onmessage(e);
				later.close = () => source.close();
			};
			return later;
		};
		XMLHttpRequest.prototype.send = function () {
			if (++failures > 2) send.call(this);
			else setTimeout(() => this.onerror());
		};`)
	do(t, ctx, chromedp.Navigate(shared.origin+"/runs/"+shared.Last()))
	until(t, ctx, `window.connect && document.querySelector(".head .badge.s-running")`)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	eval[any](t, ctx, `connect(); null`)
	until(t, ctx, `document.querySelector(".head .badge.s-succeeded")`)
	if n := eval[int](t, ctx, `failures`); n < 3 {
		t.Errorf("the page was asked for %d times", n)
	}
}
