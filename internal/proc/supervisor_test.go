//go:build linux

package proc

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestHugeOutputInBoundedMemory(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		const lines, limit = 4_000_000, 100_000 // some 30 MB
		file := filepath.Join(t.TempDir(), "out")
		c := shell(fmt.Sprintf("seq %d; echo small >&2", lines))
		c.Limit = limit
		c.Spill = func(stream string) (File, error) { return os.Create(file + "." + stream) }
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := mustRun(t, s, c)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
			t.Errorf("%d bytes were allocated", used)
		}
		spilled, err := os.ReadFile(file + ".stdout")
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(spilled)
		if r.Stdout.File != file+".stdout" || r.Stdout.SHA256 != hex.EncodeToString(sum[:]) || r.Stdout.Size != int64(len(spilled)) {
			t.Errorf("%s, %s, %d bytes of %d", r.Stdout.File, r.Stdout.SHA256, r.Stdout.Size, len(spilled))
		}
		if n := bytes.Count(spilled, []byte("\n")); n != lines {
			t.Errorf("%d lines", n)
		}
		text := r.Stdout.String()
		mark := fmt.Sprintf("… %d bytes left out …\n", len(spilled)-limit)
		if !strings.HasPrefix(text, "1\n2\n3\n") || !strings.HasSuffix(text, "\n4000000\n") || !strings.Contains(text, mark) {
			t.Errorf("%.20q … %q, no %q", text, r.Stdout.TailString(20), mark)
		}
		if r.Stderr.String() != "small\n" || r.Stderr.File != "" || exists(file+".stderr") {
			t.Errorf("stderr: %+v", r.Stderr)
		}
	})
}

func TestLiveOutput(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		gate := filepath.Join(t.TempDir(), "gate")
		if err := syscall.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		var live bytes.Buffer
		both := writerFunc(func(p []byte) (int, error) {
			live.Write(p) // one goroutine for both: the race detector is the judge
			if live.String() == "first\n" {
				// The command waits for this, so it comes while the command runs.
				if err := os.WriteFile(gate, nil, 0); err != nil {
					t.Error(err)
				}
			}
			return len(p), nil
		})
		c := shell("echo first; read x <" + gate + "; echo second >&2")
		c.Stdout, c.Stderr = both, both
		c.Timeout = patience
		r := mustRun(t, s, c)
		if live.String() != "first\nsecond\n" || r.Stdout.String() != "first\n" || r.Stderr.String() != "second\n" || r.TimedOut {
			t.Errorf("live %q, %+v", live.String(), r)
		}
	})
}

func TestSlowWriterGetsAll(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		var live bytes.Buffer
		c := shell("seq 300000")
		c.Stdout = writerFunc(func(p []byte) (int, error) {
			runtime.Gosched()
			<-time.After(100 * time.Microsecond)
			return live.Write(p)
		})
		r := mustRun(t, s, c)
		if int64(live.Len()) != r.Stdout.Size || !strings.HasSuffix(live.String(), "\n300000\n") || r.Stdout.Err != nil {
			t.Errorf("%d of %d bytes, %v", live.Len(), r.Stdout.Size, r.Stdout.Err)
		}
	})
}

func TestBlockedWriterHoldsNothing(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		r, w := io.Pipe() // nobody reads
		defer r.Close()
		c := shell("yes")
		c.Stdout, c.Timeout, c.Grace = w, 100*time.Millisecond, 100*time.Millisecond
		got := mustRun(t, s, c)
		if !got.TimedOut || !errors.Is(got.Stdout.Err, errStalled) {
			t.Errorf("%+v", got)
		}
		if got.Stdout.Size > 2<<20 {
			t.Errorf("the command was not held up: %d bytes", got.Stdout.Size)
		}
	})
}

func TestFailingWriter(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		broken := errors.New("broken")
		c := shell("seq 100000; echo err >&2")
		var stderr bytes.Buffer
		c.Stdout = writerFunc(func(p []byte) (int, error) { return 0, broken })
		c.Stderr = &stderr
		r := mustRun(t, s, c)
		if !errors.Is(r.Stdout.Err, broken) || r.Stderr.Err != nil || stderr.String() != "err\n" || r.Stdout.TailString(7) != "100000\n" {
			t.Errorf("%v, %v, %q, %q", r.Stdout.Err, r.Stderr.Err, stderr.String(), r.Stdout.TailString(7))
		}
	})
}

// A thousand commands, and then there are no more descriptors, goroutines or
// processes than before.
func TestNothingLeaks(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		state := func() (fds, goroutines int) {
			entries, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				t.Fatal(err)
			}
			return len(entries), runtime.NumGoroutine()
		}
		many := func(n int) {
			var group sync.WaitGroup
			for k := range 4 {
				group.Go(func() {
					for i := range n {
						ctx, cancel := context.WithCancel(t.Context())
						c := &Cmd{Path: "/bin/true", Env: []string{"A=1"}}
						switch i % 10 {
						case 1:
							c.Path = "/nonexistent"
						case 2:
							c.Input = []byte("text")
						case 3:
							c.Stdout = io.Discard
						case 4 + k:
							cancel()
						}
						if _, err := s.Run(ctx, c); err != nil && i%10 == 0 {
							t.Error(err)
						}
						cancel()
					}
				})
			}
			group.Wait()
		}
		many(5)
		if s.companion != nil {
			<-s.companion.ready
		}
		fds, goroutines := state()
		fds += 4 // a worker that was not needed until now has a descriptor to keep
		many(250)
		eventually(t, fmt.Sprintf("%d descriptors and %d goroutines", fds, goroutines), func() bool {
			f, g := state()
			return f <= fds && g <= goroutines
		})
	})
}

// TestReadWhatIsAtHand: a reader that had no turn until its time was over takes what a command
// has left in the pipe.
func TestReadWhatIsAtHand(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.WriteString("late"); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	p := portableRun{run: &run{cmd: &Cmd{}}, outs: [2]*os.File{r}}
	p.out.init("stdout", &Cmd{})
	p.readers.Add(1)
	p.read(0)
	if got := p.out.finish(); got.String() != "late" {
		t.Errorf("%q was read", got)
	}
}

func TestManyAtOnce(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				c := shell(fmt.Sprintf("echo %d; exit %d", i, i))
				r, err := s.Run(t.Context(), c)
				if err != nil || r.ExitCode != i || r.Stdout.String() != fmt.Sprintln(i) {
					t.Errorf("%d: %+v, %v", i, r, err)
				}
			})
		}
		group.Wait()
	})
}

// A bide that runs inside of a step of another is found by both.
func TestMarkerIsContinued(t *testing.T) {
	t.Setenv(MarkerVar, "outer.7")
	everyWay(t, func(t *testing.T, s *Supervisor) {
		got := mustRun(t, s, shell("echo $"+MarkerVar)).Stdout.String()
		if want := "outer.7," + s.id + ".1\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		for id, want := range map[string]bool{"outer": true, s.id: true, "oute": false, "7": false, "": false} {
			q := leftovers{id: id}
			if q.marked(strings.TrimSpace(got)) != want {
				t.Errorf("%q in %q: %v", id, got, !want)
			}
		}
		q := leftovers{id: "outer", step: func(seq uint64) bool { return seq == 8 }}
		if q.marked(strings.TrimSpace(got)) {
			t.Error("another step's")
		}
	})
}

// Who resumes a run from a terminal that the run had opened keeps it.
func TestAncestorsAreSpared(t *testing.T) {
	table := []process{
		{pid: 1}, {pid: 10, ppid: 1, start: 5}, {pid: 11, ppid: 10, start: 6},
		{pid: 12, ppid: 11, start: 7}, {pid: 13, ppid: 11, start: 7}, {pid: 14, ppid: 13, start: 1},
	}
	q := leftovers{id: "a", self: 12, since: 2}
	var pids []string
	for _, p := range q.find(table, func(pid int) string {
		if pid > 10 {
			return "a.1"
		}
		return ""
	}) {
		pids = append(pids, strconv.Itoa(p.pid))
	}
	if got := strings.Join(pids, " "); got != "13 14" {
		t.Errorf("found %s", got)
	}
}

func TestNewWithoutHook(t *testing.T) {
	hooked.Store(false)
	defer hooked.Store(true)
	if _, err := New(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "CompanionMain") {
		t.Errorf("error %v", err)
	}
	s, err := New("", Options{NoCompanion: true})
	if err != nil {
		t.Fatal(err)
	}
	if r := mustRun(t, s, shell("exit 3")); r.ExitCode != 3 {
		t.Errorf("%+v", r)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The companion is in a session of its own and holds none of our files.
func TestCompanionHoldsNothing(t *testing.T) {
	s, err := New(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	<-s.companion.ready
	pid := s.companion.proc.Pid
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	if f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); f[3] != strconv.Itoa(pid) {
		t.Errorf("session %s of process %d", f[3], pid)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The shell moves the pipe to its standard input to read from it.
	life, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", s.companion.life.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	inherited := inheritable(t)
	// foreign lists what it holds and should not.
	foreign := func() (list []string) {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name()))
			if err != nil || inherited[e.Name()] {
				continue // it has closed it since
			}
			fd, err := strconv.Atoi(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			own := strings.HasPrefix(target, "anon_inode:") || strings.HasSuffix(target, slotsFile) || strings.HasPrefix(target, "socket:") && fd == companionSocket ||
				target == life || fd == companionProgram && target == self || target == os.DevNull || strings.HasPrefix(target, "/sys/fs/cgroup")
			if !own {
				list = append(list, fmt.Sprintf("descriptor %d is %s", fd, target))
			}
		}
		return list
	}
	// The loader of a program that begins has files open for a moment.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		list := foreign()
		if len(list) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Error(strings.Join(list, "; "))
			break
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, ok := lookup(pid); ok {
		t.Error("the companion outlives Close")
	}
}

// A companion that was started ahead is the next supervisor's, and is ended
// where there is no supervisor.
func TestCompanionAhead(t *testing.T) {
	cancel := StartCompanion()
	ahead := early.Load()
	s, err := New(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.companion != ahead {
		t.Error("the supervisor has a companion of its own")
	}
	if err := cancel(); err != nil {
		t.Error(err)
	}
	mustRun(t, s, shell("true"))
	if p, ok := lookup(ahead.proc.Pid); !ok || p.zombie {
		t.Error("the supervisor's companion was ended too soon")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}

	cancel = StartCompanion()
	ahead = early.Load()
	if err := cancel(); err != nil {
		t.Error(err)
	}
	if _, ok := lookup(ahead.proc.Pid); ok {
		t.Error("the companion of no supervisor is there")
	}
}

// Commands have higher ids than the companion, as long as that can be told.
func TestOlder(t *testing.T) {
	s, err := New(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, s, shell("echo $$"))
	pid, err := strconv.Atoi(strings.TrimSpace(r.Stdout.String()))
	if err != nil {
		t.Fatal(err)
	}
	if older := s.companion.older(); older != 0 && (older != s.companion.proc.Pid || pid <= older) {
		t.Errorf("command %d is not younger than %d", pid, older)
	}
	started, ids := count()
	if started == 0 || ids < 300 {
		t.Errorf("%d started, of %d", started, ids)
	}
	s.companion.count = started - uint64(ids) // since then the ids began again
	if older := s.companion.older(); older != 0 {
		t.Errorf("%d is older than all, after %d starts", older, ids)
	}
	s.companion.count = started + 1000 // a system that counts something else
	if older := s.companion.older(); older != 0 {
		t.Errorf("%d is older than all, and nothing was started", older)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The companion waits as a shell, which no signal ends that is not meant for it.
func TestCompanionIsAShell(t *testing.T) {
	s, err := New(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	<-s.companion.ready
	pid := s.companion.proc.Pid
	// A process that has been executed a moment ago has no arguments yet.
	eventually(t, "the companion is a shell", func() bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || len(line) > 0 && !strings.HasPrefix(string(line), "sh\x00") {
			t.Fatalf("the companion is %q, %v", line, err)
		}
		return len(line) > 0
	})
	var all uint64
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP} {
		all |= 1 << (sig - 1)
	}
	eventually(t, "the companion ignores signals", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, mask, _ := strings.Cut(string(status), "SigIgn:")
		ignored, err := strconv.ParseUint(strings.Fields(mask)[0], 16, 64)
		return err == nil && ignored&all == all
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestLookPath(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	put := func(dir, name string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	put(one, "tool", 0o644)
	tool := put(two, "tool", 0o755)
	put(one, "plain", 0o644)
	if err := os.Mkdir(filepath.Join(one, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(two)
	both := []string{"PATH=/none", "PATH=" + one + ":" + two}
	for _, c := range []struct {
		name string
		env  []string
		want string
		kind StartKind
	}{
		{"tool", both, tool, 0},
		{"tool", both, tool, 0}, // remembered
		{"tool", []string{"PATH=" + one}, "", StartPermission},
		{"tool", []string{"PATH=:.:relative"}, "", StartNotFound},
		{"tool", nil, "", StartNotFound},
		{"plain", both, "", StartPermission},
		{"dir", both, "", StartNotFound},
		{"none", both, "", StartNotFound},
		{"", both, "", StartNotFound},
		{"./tool", nil, "./tool", 0},
		{"/abs/tool", nil, "/abs/tool", 0},
	} {
		got, err := LookPath(c.name, c.env)
		var e *StartError
		if got != c.want || (err != nil) != (c.want == "") || errors.As(err, &e) && e.Kind != c.kind {
			t.Errorf("%s in %q: %q, %v", c.name, c.env, got, err)
		}
	}
}

func ExampleSupervisor_Run() {
	s, err := New("", Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	env := os.Environ()
	path, err := LookPath("sh", env)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := s.Run(context.Background(), &Cmd{
		Path:    path,
		Argv:    []string{"sh", "-c", "read name; echo hello, $name; exit 3"},
		Env:     env,
		Input:   []byte("world\n"),
		Timeout: time.Minute,
	})
	if err != nil {
		fmt.Println(err) // there was no process
		return
	}
	lines := bufio.NewScanner(bytes.NewReader(r.Stdout.Bytes()))
	for lines.Scan() {
		fmt.Println(lines.Text())
	}
	fmt.Println(r.ExitCode)
	// Output:
	// hello, world
	// 3
}

// Somebody who cuts the list of processes while they run does not end bide.
func TestTheListIsTruncatedWhileCommandsRun(t *testing.T) {
	dir := t.TempDir()
	s, err := New(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := os.Truncate(filepath.Join(dir, slotsFile), 0); err != nil {
			t.Fatal(err)
		}
		if r := mustRun(t, s, shell("exit 3")); r.ExitCode != 3 {
			t.Errorf("%+v", r)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestDirectoryGoes: the directory of the list is made for it, and goes with it unless something
// else is in there.
func TestDirectoryGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "proc")
	for _, left := range []string{"", "other"} {
		s, err := New(dir, Options{NoCompanion: true})
		if err != nil {
			t.Fatal(err)
		}
		if left != "" {
			if err := os.WriteFile(filepath.Join(dir, left), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		entries, err := os.ReadDir(dir)
		if left == "" && !errors.Is(err, os.ErrNotExist) || left != "" && (err != nil || len(entries) != 1) {
			t.Errorf("%v, %v", entries, err)
		}
	}
}
