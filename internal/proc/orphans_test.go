//go:build linux

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// parent starts this test binary as a bide that runs 20 trees in dir, and
// returns when all of them are there.
func parent(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	return parentFrom(t, "/proc/self/exe", dir, args...)
}

// parentFrom is parent for a copy of the program.
func parentFrom(t *testing.T, program, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, append([]string{dir}, args...)...)
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

// The companion works although the program's file is gone, as it is after
// "go run".
func TestKill9OfARemovedProgram(t *testing.T) {
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := parentFrom(t, program, dir)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	kill9(t, cmd)
	eventually(t, "all processes are gone", func() bool { return len(ofRun(t, dir)) == 0 })
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

// Who truncates or removes the list in mid-run takes nothing from those who end
// what was left: the companion, and the next life of the run.
func TestKill9AfterTheListWasDamaged(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 0) },
		"grown":     func(path string) error { return errors.Join(os.Truncate(path, 0), os.Truncate(path, 4096)) },
		"removed":   os.Remove,
	} {
		for _, args := range [][]string{nil, {"without companion"}} {
			t.Run(strings.Join(append([]string{name}, args...), " "), func(t *testing.T) {
				dir := t.TempDir()
				cmd := parent(t, dir, args...)
				list := filepath.Join(dir, slotsFile)
				b, err := os.ReadFile(list)
				if err != nil {
					t.Fatal(err)
				}
				id := string(b[32 : 32+idLength])
				if err := damage(list); err != nil {
					t.Fatal(err)
				}
				if n, err := ReapOrphans(dir); n != 0 || !errors.Is(err, ErrRunning) {
					t.Errorf("while it runs: %d, %v", n, err)
				}
				kill9(t, cmd)
				if args != nil {
					if n, err := ReapOrphans(dir); n < 80 || err != nil {
						t.Errorf("ended %d, %v", n, err)
					}
				}
				eventually(t, "all processes are gone", func() bool { return len(running(id)) == 0 })
			})
		}
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
		"older":                     write(BootID(), p.start-300, p.start-100),
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
	if n, err := ReapOrphans(write(BootID(), p.start-1, p.start+1)); n != 1 || err != nil {
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
		h, list, err := readSlots(bytes.NewReader(b), nil)
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
	_, list, err := readSlots(file, nil)
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
