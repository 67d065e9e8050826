// Package browser drives the dashboard in a real browser: its tests are here,
// and the command shots makes the pictures of the documentation. It runs the
// real program on real runs; nothing of it is replaced.
//
// It needs Chromium: that of the distribution (on Debian, apt-get install
// chromium), or one that the command fetch has fetched.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// ErrNoBrowser says that there is no Chromium.
var ErrNoBrowser = errors.New("there is no Chromium here: make chromium fetches one (linux/amd64), apt-get install chromium installs one, BIDE_CHROMIUM names one")

// Chromium finds the browser's program.
func Chromium() (string, error) {
	for _, name := range []string{os.Getenv("BIDE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	if dir, err := fetched(); err == nil {
		path := filepath.Join(dir, "chromium")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", ErrNoBrowser
}

// Start starts a browser without a window. It ends with the context.
func Start(ctx context.Context) (context.Context, context.CancelFunc, error) {
	path, err := Chromium()
	if err != nil {
		return nil, nil, err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(60*time.Second), chromedp.WindowSize(1360, 860), chromedp.Flag("force-color-profile", "srgb"))
	if dir, err := fetched(); err == nil && filepath.Dir(path) == dir {
		fonts, err := fontsFile(dir)
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, chromedp.Env("LD_LIBRARY_PATH="+filepath.Join(dir, "lib"), "FONTCONFIG_FILE="+fonts))
	}
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(ctx, opts...)
	ctx, cancel := chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil {
		cancel()
		stop()
		return nil, nil, fmt.Errorf("the browser does not start: %w", err)
	}
	return ctx, func() { cancel(); stop() }, nil
}

// Bide is the program, built, with a home of its own.
type Bide struct {
	Program, Home string
	Dir           string // in which it runs; "" for the current one
}

// Build builds the program that this module stands in.
func Build(ctx context.Context, dir string) (*Bide, error) {
	root, err := filepath.Abs(filepath.Join(source(), "..", "..", ".."))
	if err != nil {
		return nil, err
	}
	b := &Bide{Program: filepath.Join(dir, "bide"), Home: filepath.Join(dir, "home")}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.Program, "./cmd/bide")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return b, nil
}

// source is the directory of this module: that of the tests, or where `go run`
// was called.
func source() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for range 4 {
		if _, err := os.Stat(filepath.Join(dir, "browser.go")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "."
}

// Runs is the directory of the files that are run.
func Runs() string { return filepath.Join(source(), "runs") }

// Examples is the directory of the pipelines that are run.
func Examples() string { return filepath.Join(source(), "..", "..", "..", "examples", "flaky") }

// Command is the program with arguments.
func (b *Bide) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.Program, args...)
	cmd.Env, cmd.Dir = append(os.Environ(), "BIDE_HOME="+b.Home), b.Dir
	return cmd
}

// Run runs the program to its end and gives what it says; a run that fails is
// no error.
func (b *Bide) Run(ctx context.Context, args ...string) (string, error) {
	out, err := b.Command(ctx, args...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() <= 3 {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("bide %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// Last is the id of the run that was started last.
func (b *Bide) Last() string {
	list, err := os.ReadDir(filepath.Join(b.Home, "runs"))
	if err != nil || len(list) == 0 {
		return ""
	}
	return list[len(list)-1].Name()
}

var address = regexp.MustCompile(`http://\S+`)

// Serve starts `bide ui` and gives the address that lets a browser in. It ends
// with stop.
func (b *Bide) Serve(ctx context.Context, args ...string) (url string, stop func() error, err error) {
	cmd := b.Command(ctx, append([]string{"ui", "--no-open"}, args...)...)
	said, err := cmd.StdoutPipe() // its first line is the address
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	lines := bufio.NewScanner(said)
	var all bytes.Buffer
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
		if url = address.FindString(lines.Text()); url != "" {
			break
		}
	}
	stop = func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return err
		}
		return cmd.Wait()
	}
	if url == "" {
		return "", nil, fmt.Errorf("bide ui printed no address: %s (%w)", all.String(), stop())
	}
	go func() { // ends with the process
		for lines.Scan() {
		}
	}()
	return url, stop, nil
}
