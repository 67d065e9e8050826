//go:build unix

package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// companionArg is the hidden argument by which this program is the companion.
const companionArg = "__bide-companion"

// companionGrace is the time from SIGTERM to SIGKILL when bide was killed.
const companionGrace = time.Second

// The companion's descriptors, after the three standard ones on /dev/null.
const (
	companionPipe  = 3 // reads end of file when the supervisor is dead
	companionSlots = 4
)

var hooked atomic.Bool

// CompanionMain is called first thing in main. In the companion process it
// does the companion's work and returns true when that is done: main then
// returns. In every other process it returns false at once, and New may start
// companions.
//
// The companion is this program again, in a session of its own so that no key
// of the terminal reaches it. It waits for the end of the process that started
// it, and ends what that one left running. When all goes well it is dismissed
// before it has done anything.
func CompanionMain() bool {
	hooked.Store(true)
	if len(os.Args) < 2 || os.Args[1] != companionArg {
		return false
	}
	if err := attend(); err != nil {
		// There is nobody to tell: our parent is dead, and our standard error
		// is /dev/null. The status is for those who look with strace.
		os.Exit(1)
	}
	return true
}

func attend() error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP)
	pipe := os.NewFile(companionPipe, "pipe")
	list := os.NewFile(companionSlots, slotsFile)
	if _, err := io.Copy(io.Discard, pipe); err != nil {
		return err
	}
	_, err := endLeftovers(list, companionGrace, 5)
	return err
}

// endLeftovers ends the processes of a supervisor that is dead.
func endLeftovers(list io.ReaderAt, grace time.Duration, calm int) (int, error) {
	h, groups, err := readSlots(list)
	if err != nil {
		return 0, err
	}
	if h.boot != bootID() {
		return 0, nil // the machine was restarted since
	}
	n, err := leftBehind(h, groups).hunt(grace, calm)
	if !errors.Is(err, errors.ErrUnsupported) {
		return n, err
	}
	// Without a table of processes nothing tells a group of ours from one that
	// has its number by now. We come at once, so it is ours.
	for _, g := range groups {
		if syscall.Kill(-g.pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n, nil
}

// companion is the supervisor's side.
type companion struct {
	ready chan struct{} // closed when the start has succeeded or failed
	proc  *os.Process
	pipe  *os.File
	err   error
}

// startCompanion starts the companion in the background, while the first command
// is being prepared.
func startCompanion(list *os.File) *companion {
	c := &companion{ready: make(chan struct{})}
	go func() {
		defer close(c.ready)
		if err := c.start(list); err != nil {
			c.err = fmt.Errorf("the companion that ends commands if bide is killed could not be started: %w", err)
		}
	}()
	return c
}

func (c *companion) start(list *os.File) error {
	program := "/proc/self/exe" // the one that runs, also where it was replaced since
	if runtime.GOOS != "linux" {
		var err error
		if program, err = os.Executable(); err != nil {
			return err
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	c.proc, err = os.StartProcess(program, []string{os.Args[0], companionArg}, &os.ProcAttr{
		Dir:   "/", // so that it keeps no directory from being removed
		Files: []*os.File{null, null, null, companionPipe: r, companionSlots: list},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return errors.Join(err, w.Close())
	}
	c.pipe = w
	return nil
}

// dismiss ends the companion before it sees our end.
func (c *companion) dismiss() error {
	<-c.ready
	if c.err != nil {
		return c.err
	}
	err := c.proc.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_, waitErr := c.proc.Wait()
	return errors.Join(err, waitErr, c.pipe.Close())
}
