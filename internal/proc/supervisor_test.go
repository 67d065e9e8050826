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
	"os/exec"
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
		c.Spill = func(stream string) (*os.File, error) { return os.Create(file + "." + stream) }
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
		c.Timeout = 10 * time.Second
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
		if !got.TimedOut || got.Duration > 3*time.Second || !errors.Is(got.Stdout.Err, errStalled) {
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

// parent starts this test binary as a bide that runs 20 trees in dir, and
// returns when all of them are there.
func parent(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{dir}, args...)...)
	cmd.Env = append(os.Environ(), partVar+"=parent")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "20 trees", func() bool {
		for i := range 20 {
			if !exists(fmt.Sprintf("%s/%d", dir, i)) {
				return false
			}
		}
		return true
	})
	return cmd
}

func kill9(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatal(err)
	}
}

func TestKill9LeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := parent(t, dir)
	eventually(t, "the companion", func() bool {
		for _, pid := range running(companionArg) {
			if p, ok := lookup(pid); ok && p.ppid == cmd.Process.Pid {
				return true
			}
		}
		return false
	})
	if n := len(ofRun(t, dir)); n < 100 { // 20 × (shell, sleep, shell, sleep, daemon)
		t.Errorf("only %d processes", n)
	}
	kill9(t, cmd)
	eventually(t, "all processes are gone", func() bool { return len(ofRun(t, dir)) == 0 })
	n, err := ReapOrphans(dir)
	if n != 0 || err != nil {
		t.Errorf("after the companion there were %d left, %v", n, err)
	}
}

// ofRun are the processes with the marker of the supervisor whose list is in
// dir, by their environment, independently of the package's own search.
func ofRun(t *testing.T, dir string) []int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, slotsFile))
	if err != nil {
		t.Fatal(err)
	}
	return running(string(b[32 : 32+idLength]))
}

func TestReapOrphansEndsAFormerRun(t *testing.T) {
	dir := t.TempDir()
	cmd := parent(t, dir, "without companion")
	if n, err := ReapOrphans(dir); n != 0 || !errors.Is(err, ErrRunning) {
		t.Errorf("while it runs: %d, %v", n, err)
	}
	if len(ofRun(t, dir)) < 100 {
		t.Error("the run was disturbed")
	}
	kill9(t, cmd)
	id := ofRun(t, dir)
	if len(id) < 100 {
		t.Errorf("only %d are left without a companion", len(id))
	}
	n, err := ReapOrphans(dir)
	if n < 100 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, pid := range id {
		if p, ok := lookup(pid); ok && !p.zombie {
			t.Errorf("process %d is still there", pid)
		}
	}
	if n, err := ReapOrphans(dir); n != 0 || err != nil {
		t.Errorf("a second time: %d, %v", n, err)
	}
}

// A process that has the number of one of the former run is a stranger if it
// was started at another time.
func TestReapOrphansSparesStrangers(t *testing.T) {
	stranger := exec.Command("sleep", "300")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stranger.Wait() }()
	pid := stranger.Process.Pid
	p, ok := lookup(pid)
	if !ok {
		t.Fatal("no such process")
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	write := func(boot string, from, to uint64) string {
		dir := t.TempDir()
		s, err := newSlots(dir, header{pid: dead.Process.Pid, start: 1, id: strings.Repeat("5", idLength), boot: boot})
		if err != nil {
			t.Fatal(err)
		}
		s.set(7, slot{pid, from, to})
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, dir := range map[string]string{
		"older":                     write(bootID(), p.start-300, p.start-100),
		"before the machine's boot": write("another", p.start-1, p.start+1),
	} {
		if n, err := ReapOrphans(dir); n != 0 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		select {
		case err := <-ended:
			t.Fatalf("%s: the stranger was ended: %v", name, err)
		default:
		}
	}
	// The same number and the right time: it is ours.
	if n, err := ReapOrphans(write(bootID(), p.start-1, p.start+1)); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	<-ended
}

func TestReapOrphansOfNothing(t *testing.T) {
	if n, err := ReapOrphans(t.TempDir()); n != 0 || err != nil {
		t.Errorf("no list: %d, %v", n, err)
	}
	for _, text := range []string{"", "bideproc", strings.Repeat("x", 5000)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, slotsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := ReapOrphans(dir); n != 0 || err != nil {
			t.Errorf("%.10q: %d, %v", text, n, err)
		}
	}
}

func FuzzReadSlots(f *testing.F) {
	h := header{pid: 5, start: 6, id: strings.Repeat("5", idLength), boot: "b"}
	f.Add(append(h.encode(), bytes.Repeat([]byte{1}, 50)...))
	f.Add([]byte("bideproc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, list, err := readSlots(bytes.NewReader(b))
		if err == nil && len(h.id) != idLength {
			t.Errorf("id %q", h.id)
		}
		for _, s := range list {
			if s.pid <= 1 {
				t.Errorf("group %d", s.pid)
			}
		}
	})
}

func FuzzParseStat(f *testing.F) {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("1 (a) b) S 1 2 3"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseStat(77, b); ok && p.pid != 77 {
			t.Errorf("%+v", p)
		}
		markerIn(b)
	})
}

func TestParseStat(t *testing.T) {
	p, ok := parseStat(42, []byte("42 (evil) Z 9 (x)) S 7 8 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 1 2\n"))
	if want := (process{pid: 42, ppid: 7, pgrp: 8, start: 12345}); !ok || p != want {
		t.Errorf("%+v", p)
	}
}

func TestSlotsGrow(t *testing.T) {
	dir := t.TempDir()
	s, err := newSlots(dir, header{pid: 1, id: strings.Repeat("5", idLength)})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.grow(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range s.count() {
		s.set(i, slot{i + 2, uint64(i), uint64(2 * i)})
	}
	s.clear(5)
	file, err := os.Open(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, list, err := readSlots(file)
	if err != nil || len(list) != 4*slotsChunk-1 {
		t.Fatalf("%d slots, %v", len(list), err)
	}
	for _, v := range list {
		if i := v.pid - 2; i == 5 || v.from != uint64(i) || v.to != uint64(2*i) {
			t.Fatalf("%+v", v)
		}
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
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
			q := quarry{id: id}
			if q.marked(strings.TrimSpace(got)) != want {
				t.Errorf("%q in %q: %v", id, got, !want)
			}
		}
		q := quarry{id: "outer", step: func(seq uint64) bool { return seq == 8 }}
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
	q := quarry{id: "a", self: 12, since: 2}
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
	inherited := inheritable(t)
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
		own := strings.HasPrefix(target, "anon_inode:") || strings.HasSuffix(target, slotsFile) || strings.HasPrefix(target, "pipe:") && fd == companionPipe
		if fd <= 2 && target != os.DevNull || fd > 2 && !own && !strings.HasPrefix(target, "/sys/fs/cgroup") {
			t.Errorf("descriptor %d is %s", fd, target)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, ok := lookup(pid); ok {
		t.Error("the companion outlives Close")
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
