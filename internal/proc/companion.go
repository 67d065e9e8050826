//go:build unix

package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// companionArg is the hidden argument by which the program is the companion.
const companionArg = "__bide-companion"

// The descriptors of the companion.
const (
	companionSocket  = 3 + iota // what we sent it can be read here when we are dead
	companionLife               // at its end when we are dead
	companionProgram            // the program that we are
)

// companionGrace is the time from SIGTERM to SIGKILL when bide was killed.
const companionGrace = time.Second

var hooked atomic.Bool

// CompanionMain is called first thing in main. In the companion process it
// does the companion's work and returns true when that is done: main then
// returns. In every other process it returns false at once, and New may start
// companions.
//
// The companion is a shell in a session of its own, so that no key of the
// terminal reaches it. It waits for the end of the process that started it, and
// then becomes this program again, which ends what that one left running. When
// all goes well it is dismissed before it has done anything; a shell that waits
// costs a run a quarter of what this program would.
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
	files, head, err := receive(companionSocket)
	if len(files) == 0 || err != nil {
		return err // without a list, nothing had been started
	}
	_, err = endLeftovers(files[0], head, companionGrace, 5)
	runtime.KeepAlive(files) // what was given to Keep is open until then
	return err
}

// endLeftovers ends the processes of a supervisor that is dead.
func endLeftovers(list io.ReaderAt, head []byte, grace time.Duration, calm int) (int, error) {
	h, groups, err := readSlots(list, head)
	if err != nil {
		return 0, err
	}
	if h.boot != BootID() {
		return 0, nil // the machine was restarted since
	}
	n, err := leftBehind(h, groups).endAll(grace, calm)
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

// companion is the supervisor's side of the companion.
type companion struct {
	lists chan *slots   // one list of processes, or closed: there will be none
	ready chan struct{} // closed when the companion has the list, or has failed
	proc  *os.Process
	sock  int      // the other end of the companion's socket, -1: none
	life  *os.File // closed by our end
	count uint64   // how many processes were ever started when it was not yet
	err   error
}

// early is a companion that no supervisor has yet.
var early atomic.Pointer[companion]

// StartCompanion starts the companion of the supervisor that New will make, in
// the background and ahead of it: to start a process takes a moment, in which
// other things can be done. The function that it returns ends the companion if
// no supervisor has taken it. Where CompanionMain was not called, and where a
// companion waits already, it does nothing.
func StartCompanion() (cancel func() error) {
	if !hooked.Load() || early.Load() != nil {
		return func() error { return nil }
	}
	early.Store(startCompanion())
	return func() error {
		a := early.Swap(nil)
		if a == nil {
			return nil
		}
		close(a.lists)
		return a.dismiss()
	}
}

// startCompanion starts the companion in the background.
func startCompanion() *companion {
	a := &companion{lists: make(chan *slots, 1), ready: make(chan struct{}), sock: -1}
	go func() {
		defer close(a.ready)
		err := a.start()
		if list, ok := <-a.lists; ok && err == nil {
			err = send(a.sock, list.file, list.head)
		}
		if err != nil {
			a.err = fmt.Errorf("the companion that ends commands if bide is killed could not be started: %w", err)
		}
	}()
	return a
}

// waiting is the script of the companion. It ignores signals, which then hold
// for the program as well, and reads from a pipe that we never write to. $0 is
// the program.
var waiting = fmt.Sprintf(`trap '' INT TERM HUP QUIT TSTP; read -r line <&%d; exec "$0" %s`, companionLife, companionArg)

func (a *companion) start() (err error) {
	// Linux can start the file that runs, also where it was replaced or removed
	// since.
	path, program := "/proc/self/exe", fmt.Sprintf("/proc/self/fd/%d", companionProgram)
	if runtime.GOOS != "linux" {
		if path, err = os.Executable(); err != nil {
			return err
		}
		program = path
	}
	self, err := os.Open(path)
	if err != nil {
		return err
	}
	defer self.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	sock, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	end, life, err := os.Pipe()
	if err != nil {
		return errors.Join(err, unix.Close(sock))
	}
	defer end.Close()
	a.count, _ = count()
	a.proc, err = os.StartProcess("/bin/sh", []string{"sh", "-c", waiting, program}, &os.ProcAttr{
		Dir:   "/", // so that it keeps no directory from being removed
		Files: []*os.File{null, null, null, companionSocket: theirs, companionLife: end, companionProgram: self},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return errors.Join(err, unix.Close(sock), life.Close())
	}
	a.sock, a.life = sock, life
	return nil
}

// Keep has the companion keep an open file open as well: where this process is killed,
// until the commands that it left are dead. What is locked through the file is locked
// until then. It does nothing where there is no companion. To lock a file again that is
// kept, it need not be given again. The error says that it is not kept.
func (s *Supervisor) Keep(file *os.File) error {
	if s.companion == nil {
		return nil
	}
	<-s.companion.ready
	if s.companion.err != nil {
		return s.companion.err
	}
	if err := sendMore(s.companion.sock, file); err != nil {
		return fmt.Errorf("the companion that ends commands if bide is killed takes no more files: %w", err)
	}
	return nil
}

// older is an id that is lower than those of all commands, which are started
// after the companion, or 0 where that is not certain: ids begin again after
// the last one.
func (a *companion) older() int {
	<-a.ready
	if a.proc == nil || a.count == 0 {
		return 0
	}
	started, ids := count()
	// Half of the ids that are left: a start that fails may take one uncounted.
	if started <= a.count || started-a.count > uint64(max(0, ids-a.proc.Pid)/2) {
		return 0
	}
	return a.proc.Pid
}

// dismiss ends the companion before it sees our end.
func (a *companion) dismiss() error { return errors.Join(a.kill(), a.gone()) }

// kill tells the companion to end, gone waits for its end.
func (a *companion) kill() error {
	<-a.ready
	if a.proc == nil {
		return a.err
	}
	err := a.proc.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	return errors.Join(a.err, err)
}

func (a *companion) gone() error {
	if a.proc == nil {
		return nil
	}
	_, err := a.proc.Wait()
	return errors.Join(err, unix.Close(a.sock), a.life.Close())
}
