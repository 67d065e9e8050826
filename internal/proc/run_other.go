//go:build unix && !linux

package proc

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxRSSUnit: ru_maxrss is in bytes on Darwin, in KiB elsewhere.
var maxRSSUnit = map[bool]int64{true: 1, false: 1024}[runtime.GOOS == "darwin"]

func signalName(sig syscall.Signal) string { return unix.SignalName(sig) }

// poller is not needed here.
type poller struct{}

func (p *poller) close() error { return nil }

func (r *run) native() error { return r.portable() }
