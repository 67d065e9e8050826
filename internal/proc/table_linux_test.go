package proc

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// newest finds a process that was just started, and takes no thread for one. Where
// others start too many at the same time, it says that it does not know.
func TestNewest(t *testing.T) {
	if lastID() == 0 {
		t.Skip("the system does not tell the id that was given last")
	}
	has := func(list []process, pid int) bool {
		return slices.ContainsFunc(list, func(p process) bool { return p.pid == pid && p.ppid == os.Getpid() })
	}
	known := 0
	for range 50 {
		c := exec.Command("cat")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if list, ok := newest(c.Process.Pid - 1); ok {
			known++
			if !has(list, c.Process.Pid) {
				t.Errorf("process %d is not in %v", c.Process.Pid, list)
			}
		}
		thread := make(chan int)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
			thread <- unix.Gettid()
			<-thread
		}()
		id := <-thread
		if list, ok := newest(id - 1); ok && id != os.Getpid() {
			if slices.ContainsFunc(list, func(p process) bool { return p.pid == id }) {
				t.Errorf("thread %d is in %v", id, list)
			}
		}
		close(thread)
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		if list, ok := newest(c.Process.Pid - 1); ok && has(list, c.Process.Pid) {
			t.Errorf("process %d has ended and is in %v", c.Process.Pid, list)
		}
	}
	t.Logf("%d of 50 times it was known", known)
	if _, ok := newest(0); ok {
		t.Error("newest knows all processes")
	}
	if _, ok := newest(lastID() + 10*mostNew); ok {
		t.Error("newest knows ids that were not given")
	}
}
