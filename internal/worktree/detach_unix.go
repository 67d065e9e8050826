//go:build unix

package worktree

import (
	"os/exec"
	"syscall"
)

// detach puts git in a process group of its own, so that a Ctrl-C on the
// terminal reaches only us, and lets a cancelled context end it with SIGTERM,
// on which git takes its lock files away.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
}

// alive says whether there is a process with a number.
func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
