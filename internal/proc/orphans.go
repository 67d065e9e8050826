//go:build unix

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// reapGrace is the time from SIGTERM to SIGKILL for what a former run left.
const reapGrace = 2 * time.Second

// ErrRunning says that the supervisor whose processes ReapOrphans should end
// is alive.
var ErrRunning = errors.New("the run that started the processes is still in progress")

// ReapOrphans ends the processes that a former run with the same dir left
// running, and returns how many there were. They are found by process group
// and start time, so that a process which only has the number of one of them is
// never touched, and on Linux by the marker in their environment. Where there
// was no former run, or it was closed properly, it does nothing.
//
// It fails with ErrRunning if the former run is still in progress, and with an error
// if a process cannot be ended.
func ReapOrphans(dir string) (n int, err error) {
	path := filepath.Join(dir, slotsFile)
	list, err := readIfThere(path)
	if err != nil {
		return 0, err
	}
	again, err := readIfThere(filepath.Join(dir, headerFile))
	if err != nil || list == nil && again == nil {
		return 0, err
	}
	h, groups, err := readSlots(bytes.NewReader(list), again)
	if errors.Is(err, errSlots) {
		// Cut off while it was written: nothing had been started by then.
		return 0, removeSlots(dir)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	if h.boot == BootID() {
		if p, ok := lookup(h.pid); ok && !p.zombie && p.start == h.start {
			return 0, fmt.Errorf("%s: %w, as process %d", path, ErrRunning, h.pid)
		}
		if n, err = end(h, groups); err != nil {
			return n, fmt.Errorf("%s: %w", path, err)
		}
	}
	return n, removeSlots(dir)
}

// readIfThere gives the content of a file; nil where there is none.
func readIfThere(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return b, err
}

// end ends the processes of a supervisor that died some time ago.
func end(h header, groups []slot) (int, error) {
	n, err := leftBehind(h, groups).endAll(reapGrace, 1)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, fmt.Errorf("on this system nothing tells the processes of the former run from others: %w", err)
	}
	return n, err
}

// leftBehind is what a dead supervisor may have left.
func leftBehind(h header, groups []slot) *leftovers {
	return &leftovers{id: h.id, groups: groups, since: h.start, self: os.Getpid()}
}
