// Command shots makes the pictures of the dashboard for the documentation: three
// real runs, every page, in both themes and some at a phone's width.
//
//	cd internal/web/browser && go run ./shots -out ../../../docs/dashboard
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/web/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

func main() {
	out := flag.String("out", "../../../docs/dashboard", "directory for the pictures")
	items := flag.Int("items", 100_000, "items of the map")
	format := flag.String("format", "webp", "webp, or png to look at them with simple tools")
	home := flag.String("home", "", "keep the runs here, and use those that are there")
	flag.Parse()
	if err := run(*out, *items, *format, *home); err != nil {
		fmt.Fprintln(os.Stderr, "shots:", err)
		os.Exit(1)
	}
}

// made are the runs that are shown.
type made struct{ release, earlier, items, pages string }

func run(out string, items int, format, home string) (err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "bide-shots-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := browser.Build(ctx, dir)
	if err != nil {
		return err
	}
	if home != "" {
		b.Home = home
	}
	m, err := runs(ctx, b, items)
	if err != nil {
		return err
	}
	address, stop, err := b.Serve(ctx, "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() {
		if serr := stop(); err == nil {
			err = serr
		}
	}()
	tab, cancel, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return pictures(tab, address, out, format, m)
}

// runs makes the three runs; those that are in the home already are used.
func runs(ctx context.Context, b *browser.Bide, items int) (m made, err error) {
	known := filepath.Join(b.Home, "shots")
	if text, err := os.ReadFile(known); err == nil {
		_, err = fmt.Sscan(string(text), &m.earlier, &m.release, &m.items, &m.pages)
		return m, err
	}
	// The pictures show where the files are: not in a directory of this module.
	dir := filepath.Join(os.TempDir(), "nightly")
	if err := os.RemoveAll(dir); err != nil {
		return m, err
	}
	for from, to := range map[string]string{browser.Runs(): dir, browser.Examples(): filepath.Join(dir, "pages")} {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			return m, err
		}
	}
	defer os.RemoveAll(dir)
	b.Dir = dir
	defer func() { b.Dir = "" }()
	release := filepath.Join(dir, "release.yml")
	if _, err := b.Run(ctx, "run", release, "-q"); err != nil {
		return m, err
	}
	m.earlier = b.Last()
	// The next one is killed in the middle, and resumed later.
	cmd := b.Command(ctx, "run", release, "-q")
	if err := cmd.Start(); err != nil {
		return m, err
	}
	time.Sleep(5 * time.Second)
	if err := cmd.Process.Kill(); err != nil {
		return m, err
	}
	_ = cmd.Wait() // it was killed
	m.release = b.Last()
	if _, err := b.Run(ctx, "run", filepath.Join(dir, "pages", "pages.cst"), "-q"); err != nil {
		return m, err
	}
	m.pages = b.Last()
	if _, err := b.Run(ctx, "resume", m.release, "-q"); err != nil {
		return m, err
	}
	many := b.Command(ctx, "run", filepath.Join(dir, "items.yml"), "-q")
	many.Env = append(many.Env, "SHOTS_N="+strconv.Itoa(items))
	many.Stderr = os.Stderr
	if err := many.Run(); err != nil {
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() > 3 {
			return m, err
		}
	}
	m.items = b.Last()
	return m, os.WriteFile(known, []byte(strings.Join([]string{m.earlier, m.release, m.items, m.pages}, "\n")), 0o600)
}

// shot is one picture.
type shot struct {
	name, path string
	phone      bool // at a phone's width as well
}

func shots(m made) []shot {
	step := "?" + url.Values{"path": {"commands[1]"}}.Encode()
	fewer := url.Values{"set": {"upload.retry.attempts=3"}}.Encode()
	return []shot{
		{"runs", "/", true},
		{"timeline", "/runs/" + m.release, true},
		{"timeline-map", "/runs/" + m.items, false},
		{"step", "/runs/" + m.release + "/step" + step, true},
		{"map", "/runs/" + m.items + "/map", true},
		{"item", "/runs/" + m.items + "/items/76", true},
		{"dead-letters", "/runs/" + m.items + "/dlq", true},
		{"graph", "/runs/" + m.pages + "/graph", true},
		{"graph-steps", "/runs/" + m.release + "/graph", false},
		{"retries", "/runs/" + m.items + "/retries", true},
		{"foresight", "/runs/" + m.release + "/foresight?" + fewer, true},
		{"file", "/runs/" + m.release + "/file", false},
		{"compare", "/compare?a=" + m.earlier + "&b=" + m.release, true},
		{"missing", "/runs/01NOTHING", false},
		{"pipeline", "/runs/" + m.pages, false},
	}
}

func pictures(ctx context.Context, address, out, format string, m made) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		return err
	}
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // the list reads the runs
	for _, theme := range []string{"light", "dark"} {
		for _, s := range shots(m) {
			if err := take(ctx, "http://"+u.Host+s.path, 1360, 860, theme, format, filepath.Join(out, s.name+"-"+theme)); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if s.phone && theme == "light" {
				if err := take(ctx, "http://"+u.Host+s.path, 400, 800, theme, format, filepath.Join(out, s.name+"-phone")); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
		}
	}
	return nil
}

// answered waits until a page says no longer that its answer follows.
func answered(ctx context.Context) error {
	for range 600 {
		follows, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`/ follows?\./.test(document.querySelector("p.notice")?.textContent)`, chromedp.EvalAwaitPromise))
		if err == nil && !follows {
			return nil
		}
		if err := chromedp.Do(ctx, chromedp.Sleep(100*time.Millisecond)); err != nil { // the page comes anew
			return err
		}
	}
	return errors.New("no answer after a minute")
}

// take takes one picture of what the window shows.
func take(ctx context.Context, address string, width, height int64, theme, format, file string) error {
	var picture []byte
	err := chromedp.Do(ctx,
		chromedp.EmulateViewport(width, height),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
			return err
		}),
		chromedp.Navigate(address),
		chromedp.Sleep(900*time.Millisecond))
	if err != nil {
		return err
	}
	if err := answered(ctx); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	err = chromedp.Do(ctx,
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			p := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormat(format)}
			if format == "webp" {
				quality := int64(70)
				p.Quality = &quality
			}
			r, err := cdp.Call(ctx, t, page.CaptureScreenshot, p)
			if err == nil {
				picture = r.Data
			}
			return err
		}))
	if err != nil {
		return err
	}
	return os.WriteFile(file+"."+format, picture, 0o644)
}
