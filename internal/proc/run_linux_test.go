package proc

import (
	"os"
	"sync"
	"testing"
)

// threads is how many this process has.
func threads(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestWaitingTakesNoThread: hundreds of commands at a time, as people run agents,
// hold hardly any of our threads.
func TestWaitingTakesNoThread(t *testing.T) {
	const commands = 200
	s, err := New(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error("Close:", err)
		}
	}()
	before := threads(t)
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var all sync.WaitGroup
	ready := make(chan struct{}, commands)
	for range commands {
		c := shell("echo ready; read x; exit 3")
		c.Stdin = in
		c.Stdout = writerFunc(func(p []byte) (int, error) { ready <- struct{}{}; return len(p), nil })
		all.Go(func() {
			if r, err := s.Run(t.Context(), c); err != nil || r.ExitCode != 3 {
				t.Errorf("%+v, %v", r, err)
			}
		})
		<-ready // one by one: for its first moment each may take one
	}
	if n := threads(t) - before; n > commands/2 {
		t.Errorf("%d commands take %d threads", commands, n)
	}
	if err := hold.Close(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}
