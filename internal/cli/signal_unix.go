//go:build unix

package cli

import "syscall"

// killSignal ends a process at once.
const killSignal = syscall.SIGKILL
