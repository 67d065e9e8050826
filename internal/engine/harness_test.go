package engine_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/workflow"
)

// bench is a directory with a workflow file, a store for its runs, and a directory ev
// outside of both, where steps leave what a test checks. In the texts of run and write,
// @EV@ and @DIR@ stand for the directories and @URL@ for the address of b.url.
type bench struct {
	t             *testing.T
	home, dir, ev string
	url           string
	opt           engine.Options
	load          workflow.Options
}

// newBench makes a bench whose PATH begins with a directory that holds a
// stand-in for the claude CLI (standin_test.go).
func newBench(t *testing.T) *bench {
	t.Helper()
	// Not t.TempDir: the name of a test may have characters that a shell treats specially.
	root, err := os.MkdirTemp("", "bide-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	b := &bench{t: t, home: filepath.Join(root, "home"), dir: filepath.Join(root, "work"), ev: filepath.Join(root, "ev")}
	bin := filepath.Join(root, "bin")
	for _, d := range []string{b.dir, b.ev, bin} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "claude")); err != nil {
		t.Fatal(err)
	}
	// By default, a program with the race detector sleeps for a second before it ends with
	// status 0.
	b.opt.Environ = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + root, "EV=" + b.ev, "LANG=C.UTF-8", "GORACE=atexit_sleep_ms=0"}
	b.opt.Isolation = "none"
	return b
}

// setenv adds to the environment that the run inherits.
func (b *bench) setenv(name, value string) {
	b.opt.Environ = append(b.opt.Environ, name+"="+value)
}

func (b *bench) fill(text string) string {
	return strings.NewReplacer("@EV@", b.ev, "@DIR@", b.dir, "@URL@", b.url).Replace(text)
}

// write puts a file into the working directory.
func (b *bench) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	// A program that is started must not be open for writing in a child that another test
	// forks.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(b.fill(text)), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

var (
	repoOnce sync.Once
	repoDir  string
	errRepo  error
)

// git makes the working directory a repository with one commit on main, and leaves the
// choice of isolation to the run. It is called before write.
func (b *bench) git() {
	b.t.Helper()
	repoOnce.Do(func() {
		if repoDir, errRepo = os.MkdirTemp("", "bide-repo-*"); errRepo != nil {
			return
		}
		errRepo = sh(repoDir, `git init -q -b main . && git config user.email t@example.org && git config user.name T &&
			git config commit.gpgsign false && echo first > first.txt && git add . && git commit -qm first`)
	})
	if errRepo != nil {
		b.t.Fatal(errRepo)
	}
	if err := os.CopyFS(b.dir, os.DirFS(repoDir)); err != nil {
		b.t.Fatal(err)
	}
	b.opt.Isolation = ""
}

// dropRepo removes what git copies from, after the tests.
func dropRepo() error {
	if repoDir == "" {
		return nil
	}
	return os.RemoveAll(repoDir)
}

func sh(dir, text string) error {
	cmd := exec.Command("sh", "-c", text)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", text, err, out)
	}
	return nil
}

// output runs a shell text in the working directory.
func (b *bench) output(text string) string {
	b.t.Helper()
	cmd := exec.Command("sh", "-c", text)
	cmd.Dir = b.dir
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
	return strings.TrimSpace(string(out))
}

// ran is a run that has ended.
type ran struct {
	*bench
	sum    *engine.Summary
	events []event.Event
	shown  string // what steps printed, as a watcher saw it
}

// run reads a workflow text, which must have no errors, and runs it to its end.
func (b *bench) run(text string) *ran {
	b.t.Helper()
	r, err := b.try(context.Background(), text)
	if err != nil {
		b.t.Fatalf("the run could not begin: %v\n%s", err, b.fill(text))
	}
	return r
}

// parse reads a workflow text, which must have no errors.
func (b *bench) parse(text string) *workflow.File {
	b.t.Helper()
	b.load.WorkDir = b.dir
	f, problems := workflow.Parse(filepath.Join(b.dir, "flow.yml"), []byte(b.fill(text)), b.load)
	if problems.HasErrors() || f == nil {
		b.t.Fatalf("the workflow has errors: %v\n%s", problems.Err(), b.fill(text))
	}
	return f
}

// try is run for a run that may fail to begin: it then gives the error.
func (b *bench) try(ctx context.Context, text string) (*ran, error) {
	b.t.Helper()
	store, err := journal.OpenStore(b.home)
	if err != nil {
		b.t.Fatal(err)
	}
	r := &ran{bench: b}
	var mu sync.Mutex
	opt := b.opt
	opt.Dir, opt.Store, opt.File = b.dir, store, b.parse(text)
	opt.Profile = b.load.Profile
	opt.Sinks = append(opt.Sinks, event.SinkFunc(func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Type == event.Output {
			r.shown += e.Message
			return
		}
		r.events = append(r.events, e)
	}))
	r.sum, err = engine.Run(ctx, opt)
	return r, err
}

// thrice tries something up to three times, until it is not wrong. If it takes seconds too
// long three times, the reason is not a busy machine.
func thrice(t *testing.T, try func() (wrong string)) {
	t.Helper()
	wrong := ""
	for range 3 {
		if wrong = try(); wrong == "" {
			return
		}
	}
	t.Error("three times:", wrong)
}

// appears waits until a file is in ev.
func (b *bench) appears(name string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(b.ev, name)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.t.Errorf("%s does not come", name)
			return
		}
	}
}

// onRecord waits until the record of the run has an event: a run that is not strict may lose
// its last ones when it is killed.
func (b *bench) onRecord(is func(event.Event) bool) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if events, _ := b.recordedEvents(); slices.ContainsFunc(events, is) {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatal("the record does not have the event")
		}
	}
}

// file gives what a step left in ev, without its last line end; "-" if there is no such
// file.
func (r *ran) file(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.ev, name))
	if os.IsNotExist(err) {
		return "-"
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimRight(string(b), "\n")
}

// want checks a file of ev.
func (r *ran) want(name, text string) {
	r.t.Helper()
	if got := r.file(name); got != text {
		r.t.Errorf("%s is %q, want %q%s", name, got, text, r.story())
	}
}

// status checks how the run ended.
func (r *ran) status(want string) {
	r.t.Helper()
	if r.sum.Status != want {
		r.t.Errorf("the run ended %s (%s), want %s%s", r.sum.Status, r.sum.Message, want, r.story())
	}
}

// of gives the events of a type.
func (r *ran) of(typ event.Type) []event.Event {
	var list []event.Event
	for _, e := range r.events {
		if e.Type == typ {
			list = append(list, e)
		}
	}
	return list
}

// noted reports whether a note has a text in it.
func (r *ran) noted(text string) bool {
	for _, e := range r.of(event.Note) {
		if strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

// story gives what went wrong in a run, for the messages of a failed test.
func (r *ran) story() string {
	var b strings.Builder
	for _, e := range r.events {
		if e.Message != "" && e.Type != event.AgentMessage {
			fmt.Fprintf(&b, "\n\t%s %s: %s", e.Type, e.Step, e.Message)
		}
	}
	return b.String()
}

// indent puts n blanks before each line.
func indent(n int, text string) string {
	pad := strings.Repeat(" ", n)
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		b.WriteString(pad + line)
	}
	return b.String()
}
