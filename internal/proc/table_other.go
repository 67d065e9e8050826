//go:build unix && !linux && !darwin

package proc

import (
	"errors"
	"syscall"
	"time"
)

// now is in ticks of 10 ms.
func now() uint64 { return uint64(time.Now().UnixMilli() / 10) }

// BootID is not known here.
func BootID() string { return "" }

// processes is not to be had here: a command's group is signalled as a whole,
// and what left it is not found.
func processes(int) ([]process, error) { return nil, errors.ErrUnsupported }

// count tells nothing here.
func count() (started uint64, ids int) { return 0, 0 }

func lookup(pid int) (process, bool) { return process{}, false }

func marker(pid int) string { return "" }

func signalProcess(p process, sig syscall.Signal) error { return gone(syscall.Kill(p.pid, sig)) }
