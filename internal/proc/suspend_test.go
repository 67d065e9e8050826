//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The time in which the commands are stopped is none of theirs.
func TestSuspendPutsOffTheTimeout(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		for tries := 1; ; tries++ { // the machine may stand still for as long as the timeout
			before := s.Suspended()
			begin := filepath.Join(t.TempDir(), "go")
			c := shell("echo ready; until [ -e " + begin + " ]; do sleep 0.01; done; echo done")
			c.Timeout = time.Second
			ready := make(chan struct{}, 2)
			c.Stdout = writerFunc(func(p []byte) (int, error) { ready <- struct{}{}; return len(p), nil })
			ended := make(chan Result)
			go func() { ended <- mustRun(t, s, c) }()
			<-ready
			s.Suspend(func() {
				s.Suspend(func() { t.Error("stopped twice") })
				time.Sleep(c.Timeout + 200*time.Millisecond) // which has to pass
				if err := os.WriteFile(begin, nil, 0o600); err != nil {
					t.Error(err)
				}
			})
			r := <-ended
			if total := s.Suspended() - before; total < c.Timeout || s.Suspended()-before != total {
				t.Errorf("stopped for %v, and then %v", total, s.Suspended()-before)
			}
			if r.Success() && r.Stdout.String() == "ready\ndone\n" {
				break
			}
			if tries == 5 {
				t.Fatalf("%+v", r)
			}
		}
		c := shell("sleep 300")
		c.Timeout = time.Millisecond
		if r := mustRun(t, s, c); !r.TimedOut {
			t.Errorf("no timeout: %+v", r)
		}
	})
}

// A command that is to start while the others are stopped starts when they continue.
func TestSuspendHoldsStarts(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		mark := filepath.Join(t.TempDir(), "begun")
		ended := make(chan Result, 1)
		s.Suspend(func() {
			go func() { ended <- mustRun(t, s, shell("echo >"+mark)) }()
			for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if _, err := os.Stat(mark); err == nil {
					t.Fatal("it runs while the others are stopped")
				}
			}
		})
		if r := <-ended; !r.Success() {
			t.Errorf("%+v", r)
		}
	})
}

func TestSuspendStops(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		from, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c := shell("echo ready; read a; echo got $a")
		c.Stdin = from
		ready := make(chan struct{})
		c.Stdout = writerFunc(func(p []byte) (int, error) {
			if string(p) == "ready\n" {
				close(ready)
			}
			return len(p), nil
		})
		ended := make(chan Result)
		go func() {
			r, _ := s.Run(t.Context(), c)
			ended <- r
		}()
		<-ready
		pid := s.workers[0].pgid
		s.Suspend(func() {
			eventually(t, "the command is stopped", func() bool {
				status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
				return err == nil && strings.Contains(string(status), "State:\tT")
			})
			if _, err := to.WriteString("x\n"); err != nil {
				t.Error(err)
			}
		})
		r := <-ended
		if err := errors.Join(from.Close(), to.Close()); err != nil {
			t.Error(err)
		}
		if r.Stdout.String() != "ready\ngot x\n" {
			t.Errorf("%+v", r)
		}
	})
}
