package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// sample is one run of a contender.
type sample struct {
	items int
	wall  time.Duration
	own   time.Duration // CPU of the process itself, without its children
	peak  int64         // bytes of memory, of the process or its largest child
}

func (s sample) rate() float64      { return float64(s.items) / s.wall.Seconds() }
func (s sample) ownMicros() float64 { return float64(s.own.Microseconds()) / float64(s.items) }
func (s sample) peakMB() float64    { return float64(s.peak) / 1e6 }

// measure runs a program to its end.
func measure(cmd *exec.Cmd, items int) (sample, error) {
	var errText bytes.Buffer
	cmd.Stderr = &errText
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return sample{}, err
	}
	if err := awaitEnd(cmd.Process.Pid); err != nil {
		return sample{}, err
	}
	s := sample{items: items, wall: time.Since(start)}
	own, ownErr := ownCPU(cmd.Process.Pid)
	s.own = own
	if err := cmd.Wait(); err != nil {
		return s, fmt.Errorf("%w\n%s", err, errText.Bytes())
	}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.peak = u.Maxrss * 1024
	}
	return s, ownErr
}

// awaitEnd waits until a child has ended, and leaves it to be asked about.
func awaitEnd(pid int) error {
	const (
		byPid  = 1
		exited = 4          // WEXITED
		leave  = 0x01000000 // WNOWAIT
	)
	var info [128]byte
	for {
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid), uintptr(unsafe.Pointer(&info)), exited|leave, 0, 0)
		if e == 0 {
			return nil
		}
		if e != syscall.EINTR {
			return os.NewSyscallError("waitid", e)
		}
	}
}

// ownCPU reads the CPU time of a process that has ended and is not reaped yet.
// What wait tells would have the time of its children in it.
func ownCPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, errors.New("/proc/PID/stat has not the fields that it should have")
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs on Linux
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}
