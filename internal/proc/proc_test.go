//go:build linux

package proc

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHowItEnded(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		for _, c := range []struct {
			script   string
			code     int
			signal   string
			shell    int
			out, err string
		}{
			{"exit 0", 0, "", 0, "", ""},
			{"exit 7", 7, "", 7, "", ""},
			{"exit 255", 255, "", 255, "", ""},
			{"kill -KILL $$", -1, "SIGKILL", 137, "", ""},
			{"kill -SEGV $$", -1, "SIGSEGV", 139, "", ""},
			{"kill -TERM $$", -1, "SIGTERM", 143, "", ""},
			{"echo out; echo err >&2", 0, "", 0, "out\n", "err\n"},
			{"printf 'no newline'; exit 3", 3, "", 3, "no newline", ""},
			{"cat", 0, "", 0, "", ""}, // /dev/null is empty
			{"printf 'a\\0b'", 0, "", 0, "a\x00b", ""},
		} {
			r := mustRun(t, s, shell(c.script))
			if r.ExitCode != c.code || r.Signal != c.signal || r.ShellStatus() != c.shell {
				t.Errorf("%s: exit code %d, signal %q, shell status %d", c.script, r.ExitCode, r.Signal, r.ShellStatus())
			}
			if r.Stdout.String() != c.out || r.Stderr.String() != c.err {
				t.Errorf("%s: %q and %q", c.script, r.Stdout, r.Stderr)
			}
			if r.TimedOut || r.Cancelled || r.Leftovers != 0 || r.Success() != (c.code == 0) {
				t.Errorf("%s: %+v", c.script, r)
			}
			if r.Duration <= 0 || r.Start.IsZero() || r.CPU.MaxRSS < 64<<10 {
				t.Errorf("%s: duration %v, start %v, usage %+v", c.script, r.Duration, r.Start, r.CPU)
			}
		}
	})
}

func TestCPUTimeIsTheCommands(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		r := mustRun(t, s, shell("i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"))
		if r.CPU.User <= 0 || r.CPU.User+r.CPU.System > 2*r.Duration {
			t.Errorf("%+v in %v", r.CPU, r.Duration)
		}
	})
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Setenv("PROC_TEST_INHERITED", "no")
	everyWay(t, func(t *testing.T, s *Supervisor) {
		r := mustRun(t, s, &Cmd{Path: "/usr/bin/env", Env: []string{"A=0", "A", "A=1", "EMPTY=", "B=x y\nz", "BIDE_SUPERVISOR=false"}})
		env := strings.Split(strings.TrimSpace(r.Stdout.String()), "\n")
		want := []string{"A=1", "EMPTY=", "B=x y", "z", "BIDE_SUPERVISOR=" + s.id + ".1"}
		if !slices.Equal(env, want) {
			t.Errorf("got %q, want %q", env, want)
		}
	})
}

func TestArgumentsDirectoryAndInput(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		dir := t.TempDir()
		c := shell(`printf '%s|' "$0" "$@"; pwd`)
		c.Argv, c.Dir = append(c.Argv, "zero", "", "two words", "*"), dir
		if got, want := mustRun(t, s, c).Stdout.String(), "zero||two words|*|"+dir+"\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}

		long := bytes.Repeat([]byte("0123456789abcdef"), 20000)
		c = shell("cat")
		c.Input = long
		if r := mustRun(t, s, c); !bytes.Equal(r.Stdout.Bytes(), long) {
			t.Errorf("of an input of %d bytes came back %d", len(long), r.Stdout.Size)
		}
		c = shell("exit 0") // does not read it
		c.Input = long
		mustRun(t, s, c)

		file, err := os.Open("/etc/hostname")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		want, err := os.ReadFile("/etc/hostname")
		if err != nil {
			t.Fatal(err)
		}
		c = shell("cat")
		c.Stdin = file
		if r := mustRun(t, s, c); !bytes.Equal(r.Stdout.Bytes(), want) {
			t.Errorf("got %q, want %q", r.Stdout, want)
		}
		c.Input = long
		if _, err := s.Run(t.Context(), c); !errors.Is(err, errStdin) {
			t.Errorf("with two inputs: %v", err)
		}
	})
}

func TestOwnGroupAndDescriptors(t *testing.T) {
	inherited := inheritable(t) // from whoever started the tests
	everyWay(t, func(t *testing.T, s *Supervisor) {
		r := mustRun(t, s, shell("ps -o pgid= -p $$; echo $$; ls /proc/self/fd"))
		f := strings.Fields(r.Stdout.String())
		if f[0] != f[1] {
			t.Errorf("process %s is in group %s", f[1], f[0])
		}
		own := slices.DeleteFunc(f[2:], func(fd string) bool { return inherited[fd] })
		if len(own) != 4 { // 0, 1, 2, and the one by which ls reads the directory
			t.Errorf("descriptors: %q", own)
		}
	})
}

// A command leads a session of its own only where it would else have our
// terminal.
func TestSessionOnATerminal(t *testing.T) {
	ours, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []bool{false, true} {
		everyWay(t, func(t *testing.T, s *Supervisor) {
			s.session = on
			f := strings.Fields(mustRun(t, s, shell("ps -o sid= -p $$; echo $$")).Stdout.String())
			if want := map[bool]string{false: strconv.Itoa(ours), true: f[1]}[on]; f[0] != want {
				t.Errorf("on a terminal: %v: process %s is in session %s, want %s", on, f[1], f[0], want)
			}
		})
	}
}

// inheritable are our descriptors, beyond the standard ones, that a child gets.
func inheritable(t *testing.T) map[string]bool {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && fd > 2 && flags&unix.FD_CLOEXEC == 0 {
			found[e.Name()] = true
		}
	}
	return found
}

func TestTimeoutAndCancel(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		c := shell("sleep 300; echo no")
		c.Timeout = 50 * time.Millisecond
		r := mustRun(t, s, c)
		if !r.TimedOut || r.Cancelled || r.Signal != "SIGTERM" || r.Success() {
			t.Errorf("timeout: %+v", r)
		}

		c = shell("echo ready; sleep 300")
		r = mustRunUnder(whenReady(t, c), t, s, c)
		if !r.Cancelled || r.TimedOut || r.Signal != "SIGTERM" {
			t.Errorf("cancel: %+v", r)
		}

		c = shell("echo ready; sleep 300")
		r = mustRunUnder(late{whenReady(t, c)}, t, s, c)
		if r.Cancelled || !r.TimedOut {
			t.Errorf("deadline: %+v", r)
		}

		// A later command is not disturbed by the bell of an earlier one.
		if r := mustRun(t, s, shell("exit 0")); !r.Success() {
			t.Errorf("%+v", r)
		}
	})
}

// late is a context that ends by its deadline, whenever that is.
type late struct{ context.Context }

func (c late) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

func TestGrace(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		// The shell is gone with SIGTERM; its child has the whole grace.
		c := shell("sh -c 'trap \"echo cleaned; exit 0\" TERM; echo ready; while :; do sleep 0.05; done' & wait")
		c.Grace = patience
		r := mustRunUnder(whenReady(t, c), t, s, c)
		if got := r.Stdout.String(); got != "ready\ncleaned\n" {
			t.Errorf("with grace: %q, %+v", got, r)
		}

		c = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done")
		c.Grace = 150 * time.Millisecond
		began := time.Now()
		r = mustRunUnder(whenReady(t, c), t, s, c)
		if took := time.Since(began); r.Signal != "SIGKILL" || !r.Cancelled || took < c.Grace {
			t.Errorf("a command that ignores SIGTERM, after %s: %+v", took, r)
		}

		c = shell("trap 'echo no' TERM; while :; do sleep 0.05; done")
		c.Timeout, c.Grace = 50*time.Millisecond, -1
		r = mustRun(t, s, c)
		if r.Signal != "SIGKILL" || r.Stdout.Size != 0 {
			t.Errorf("without grace: %+v", r)
		}

		c = shell("kill -STOP $$")
		c.Timeout = 50 * time.Millisecond
		if r = mustRun(t, s, c); r.Signal != "SIGTERM" {
			t.Errorf("a stopped command: %+v", r)
		}
	})
}

func TestNothingIsLeft(t *testing.T) {
	for _, c := range []struct {
		name, script string // $D: a directory of this test's own
		cut          bool   // it is cancelled when it has printed a line
		least        int    // leftovers
	}{
		{"background child", "sleep 300 $D 2>/dev/null || sleep 300 & exit 0", false, 1},
		{"child without our outputs", "sleep 300 >/dev/null 2>&1 & exit 0", false, 1},
		{"child that ignores SIGTERM", "sh -c 'trap \"\" TERM; touch $D/deaf; sleep 300; sleep 300' & until [ -e $D/deaf ]; do sleep 0.01; done; exit 0", false, 1},
		{"group of its own", "set -m; sleep 300 & exit 0", false, 1},
		{"cancel with grandchildren", "sh -c 'sleep 300 & sleep 300 & echo; wait' & wait", true, 0},
		{"cancel with a stubborn grandchild", "sh -c 'trap \"\" TERM; echo; sleep 300; sleep 300' & wait", true, 0},
		{"setsid with our outputs", "setsid sleep 300 & exit 0", false, 1},
		{"double fork", "(setsid sh -c 'sleep 300 & sleep 300 & exit 0' &) ; exit 0", false, 1},
		{"cancel with setsid", "setsid sh -c 'touch $D/away; exec sleep 300' >/dev/null 2>&1 & until [ -e $D/away ]; do sleep 0.01; done; echo; sleep 300", true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, s *Supervisor) {
				dir := t.TempDir()
				cmd := shell("cd /; D=" + dir + "; export D; " + c.script)
				cmd.Grace = 200 * time.Millisecond
				ctx := t.Context()
				if c.cut {
					ctx = whenReady(t, cmd)
				}
				r := mustRunUnder(ctx, t, s, cmd)
				if r.Duration > patience {
					t.Errorf("held for %v", r.Duration)
				}
				if r.Leftovers < c.least {
					t.Errorf("%d leftovers, want at least %d", r.Leftovers, c.least)
				}
				if left := running(dir); len(left) > 0 {
					t.Errorf("left: %v\n%s", left, processList())
				}
			})
		})
	}
}

// A daemon that left its group and our outputs gives no sign of itself. It is
// found in the background while the run continues.
func TestQuietDaemonIsFoundSoon(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		dir := t.TempDir()
		file := filepath.Join(dir, "pid")
		r := mustRun(t, s, shell(daemonLine(file)+" >/dev/null 2>&1 & while ! [ -e "+file+" ]; do sleep 0.01; done"))
		if !r.Success() {
			t.Fatalf("%+v", r)
		}
		other := make(chan Result, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			r, err := s.Run(ctx, shell("D="+dir+"/other setsid sleep 300 >/dev/null 2>&1 & wait"))
			if err != nil {
				t.Error(err)
			}
			other <- r
		}()
		eventually(t, "the daemon of the ended step is gone", func() bool { return len(running(file)) == 0 })
		eventually(t, "the other step runs", func() bool { return len(running(dir+"/other")) > 0 })
		select {
		case r := <-other:
			t.Errorf("the step that runs was ended with it: %+v", r)
		default:
		}
		cancel()
		if r := <-other; !r.Cancelled {
			t.Errorf("%+v", r)
		}
	})
}

func TestCloseEndsQuietDaemonsAndCommands(t *testing.T) {
	dir := t.TempDir()
	s, err := New(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pid")
	mustRun(t, s, shell(daemonLine(file)+" >/dev/null 2>&1 & while ! [ -e "+file+" ]; do sleep 0.01; done"))
	ended := make(chan Result, 1)
	go func() {
		c := shell("D=" + dir + "; export D; trap '' TERM; echo; sleep 300; sleep 300")
		started := make(chan struct{})
		c.Stdout = writerFunc(func(p []byte) (int, error) { close(started); return len(p), nil })
		go func() {
			<-started
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			close(ended)
		}()
		r, err := s.Run(t.Context(), c)
		if err != nil || r.Signal != "SIGKILL" {
			t.Errorf("%+v, %v", r, err)
		}
	}()
	<-ended
	if left := running(dir); len(left) > 0 {
		t.Errorf("left: %v\n%s", left, processList())
	}
	if exists(filepath.Join(dir, slotsFile)) {
		t.Error("the list of processes is still there")
	}
	if _, err := s.Run(t.Context(), shell("exit 0")); !errors.Is(err, errClosed) {
		t.Errorf("Run after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// What writes on after the leader's end, as in exec > >(tee log), may do so
// for a moment.
func TestLateOutputIsTaken(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		s.linger = patience
		r := mustRun(t, s, shell("(sleep 0.01; echo late) & exit 0"))
		if got := r.Stdout.String(); got != "late\n" {
			t.Errorf("%q, %+v", got, r)
		}
	})
}

func TestKillAll(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		const n = 5
		started, results := make(chan struct{}, n), make(chan Result, n)
		for range n {
			go func() {
				c := shell("trap '' TERM; echo ready; sleep 300; sleep 300")
				c.Stdout = writerFunc(func(p []byte) (int, error) { started <- struct{}{}; return len(p), nil })
				r, err := s.Run(context.Background(), c)
				if err != nil {
					t.Error(err)
				}
				results <- r
			}()
		}
		for range n {
			<-started
		}
		s.KillAll(syscall.SIGKILL)
		for range n {
			if r := <-results; r.Signal != "SIGKILL" || r.Cancelled || r.TimedOut {
				t.Errorf("%+v", r)
			}
		}
		_, err := s.Run(t.Context(), shell("exit 0"))
		var e *StartError
		if !errors.As(err, &e) || e.Kind != StartClosed {
			t.Errorf("a start after KillAll(SIGKILL): %v", err)
		}
	})
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "hello\n", 0o644)
	noformat := write("noformat", "hello\n", 0o755)
	script := write("script", "#!/nonexistent/interpreter\n", 0o755)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	everyWay(t, func(t *testing.T, s *Supervisor) {
		for _, c := range []struct {
			name string
			ctx  context.Context
			cmd  Cmd
			kind StartKind
			is   error
			text string
		}{
			{"missing", nil, Cmd{Path: "/nonexistent/cmd"}, StartNotFound, fs.ErrNotExist, "check the path"},
			{"missing interpreter", nil, Cmd{Path: script}, StartNotFound, fs.ErrNotExist, "#! line"},
			{"not executable", nil, Cmd{Path: plain}, StartPermission, fs.ErrPermission, "chmod +x"},
			{"a directory", nil, Cmd{Path: dir}, StartPermission, fs.ErrPermission, "chmod +x"},
			{"no format", nil, Cmd{Path: noformat}, StartFormat, syscall.ENOEXEC, "#!"},
			{"no directory", nil, Cmd{Path: "/bin/true", Dir: dir + "/none"}, StartDir, fs.ErrNotExist, "working directory"},
			{"directory is a file", nil, Cmd{Path: "/bin/true", Dir: plain}, StartDir, syscall.ENOTDIR, "working directory"},
			{"too big", nil, Cmd{Path: "/bin/true", Env: []string{"A=1", "HUGE=" + strings.Repeat("x", 1<<20)}},
				StartTooBig, syscall.E2BIG, "the variable HUGE has 1048581"},
			{"too big an argument", nil, Cmd{Path: "/bin/true", Argv: []string{"true", strings.Repeat("x", 1<<20)}},
				StartTooBig, syscall.E2BIG, "argument 1 has 1048576"},
			{"zero byte", nil, Cmd{Path: "/bin/true", Argv: []string{"true", "a\x00b"}}, StartOther, errNUL, "zero byte"},
			{"cancelled", cancelled, Cmd{Path: "/bin/true"}, StartCancelled, context.Canceled, "context canceled"},
		} {
			ctx := c.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			r, err := s.Run(ctx, &c.cmd)
			var e *StartError
			if !errors.As(err, &e) {
				t.Errorf("%s: error %v", c.name, err)
				continue
			}
			if e.Kind != c.kind || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: kind %v, %v", c.name, e.Kind, err)
			}
			if r.ExitCode != -1 || r.Cancelled != (c.kind == StartCancelled) {
				t.Errorf("%s: %+v", c.name, r)
			}
		}
	})
}

// An executable that is still open for writing, as it is for a moment where
// another goroutine forks while it is written, is tried again.
func TestTextFileBusy(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		name := filepath.Join(t.TempDir(), "true")
		text, err := os.ReadFile("/bin/true")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o755); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(10*time.Millisecond, func() { file.Close() })
		if r, err := s.Run(t.Context(), &Cmd{Path: name}); err != nil || !r.Success() {
			t.Errorf("%+v, %v", r, err)
		}
		open, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		if _, err := s.Run(t.Context(), &Cmd{Path: name}); !errors.Is(err, syscall.ETXTBSY) {
			t.Errorf("for ever open: %v", err)
		}
	})
}
