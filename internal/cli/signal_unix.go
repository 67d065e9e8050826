//go:build unix

package cli

import "syscall"

// killSignal ends a process immediately.
const killSignal = syscall.SIGKILL
