//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The time in which the commands are stopped is none of theirs.
func TestSuspendPutsOffTheTimeout(t *testing.T) {
	everyWay(t, func(t *testing.T, s *Supervisor) {
		begun, over := make(chan struct{}), make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Suspend(func() { close(begun); <-over })
		}()
		<-begun
		s.Suspend(func() { t.Error("stopped twice") })
		c := shell("sleep 0.1; echo done") // started after the others were stopped
		c.Timeout = time.Millisecond
		if r := mustRun(t, s, c); !r.Success() || r.Stdout.String() != "done\n" {
			t.Errorf("%+v", r)
		}
		close(over)
		<-ended
		if total := s.Suspended(); total < 100*time.Millisecond || s.Suspended() != total {
			t.Errorf("stopped for %v, and then %v", total, s.Suspended())
		}
		if r := mustRun(t, s, c); !r.TimedOut {
			t.Errorf("no timeout: %+v", r)
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
