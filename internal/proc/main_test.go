//go:build unix

package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary plays other parts when it is told so by this variable.
const partVar = "PROC_TEST_PART"

func TestMain(m *testing.M) {
	if CompanionMain() {
		return
	}
	switch os.Getenv(partVar) {
	case "":
		os.Exit(m.Run())
	case "daemon":
		playDaemon()
	case "parent":
		playParent()
	}
}

// playDaemon writes its process id to the file in its first argument, ignores
// all that can be ignored, and stays for ten minutes. It is what a detached,
// stubborn server is.
func playDaemon() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	name := os.Args[1]
	if err := os.WriteFile(name+".new", fmt.Appendf(nil, "%d", os.Getpid()), 0o600); err != nil {
		os.Exit(1)
	}
	if err := os.Rename(name+".new", name); err != nil {
		os.Exit(1)
	}
	<-time.After(10 * time.Minute)
}

// playParent is a bide that runs 20 trees of processes until it is killed.
func playParent() {
	dir := os.Args[1]
	s, err := New(dir, Options{NoCompanion: len(os.Args) > 2})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if _, err := s.Run(context.Background(), shell(treeScript(dir, fmt.Sprint(i)))); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	group.Wait()
	fmt.Fprintln(os.Stderr, "the trees ended by themselves")
	os.Exit(1)
}

// treeScript is a shell with a child, a child that ignores SIGTERM, and a
// detached, stubborn daemon. When all are there, the daemon has written its id
// to the file dir/name.
func treeScript(dir, name string) string {
	return fmt.Sprintf("sleep 300 & sh -c 'trap \"\" TERM; sleep 300; sleep 300' & %s & wait",
		daemonLine(dir+"/"+name))
}

// daemonLine starts a daemon in a session of its own that holds the outputs.
func daemonLine(file string) string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%s=daemon setsid %s %s", partVar, self, file)
}

func shell(script string) *Cmd {
	return &Cmd{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}}
}

// everyWay runs a test on both ways of running a command.
func everyWay(t *testing.T, f func(t *testing.T, s *Supervisor)) {
	for _, portable := range []bool{false, true} {
		name := "native"
		if portable {
			name = "portable"
		}
		t.Run(name, func(t *testing.T) {
			s, err := New(t.TempDir(), Options{portable: portable})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error("Close:", err)
				}
			}()
			f(t, s)
		})
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// whenReady is a context that is cancelled when a command has printed something: what
// it does before that, it has done.
func whenReady(t *testing.T, c *Cmd) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c.Stdout = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	return ctx
}

func mustRun(t *testing.T, s *Supervisor, c *Cmd) Result {
	t.Helper()
	return mustRunUnder(context.Background(), t, s, c)
}

func mustRunUnder(ctx context.Context, t *testing.T, s *Supervisor, c *Cmd) Result {
	t.Helper()
	r, err := s.Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// patience bounds the waits of tests: it says that something never comes, and not how
// fast it is.
const patience = 2 * time.Minute

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s\n%s", patience, what, processList())
		}
	}
}

func processList() string {
	b, err := exec.Command("ps", "-eo", "pid,ppid,pgid,sid,stat,args").CombinedOutput()
	if err != nil {
		return err.Error()
	}
	var list strings.Builder
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, "[") { // kernel threads
			fmt.Fprintf(&list, "%.120s\n", strings.TrimSpace(line))
		}
	}
	return list.String()
}

// running lists the processes that live and have the text in their command
// line or environment; each test has a directory of its own to look for.
func running(text string) []int {
	table, err := processes(0)
	if err != nil {
		panic(err)
	}
	var pids []int
	for _, p := range table {
		if p.zombie || p.pid == os.Getpid() {
			continue
		}
		for _, file := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, file))
			if err == nil && strings.Contains(string(b), text) {
				pids = append(pids, p.pid)
				break
			}
		}
	}
	return pids
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
