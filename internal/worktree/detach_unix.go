//go:build unix

package worktree

import (
	"os/exec"
	"syscall"
)

// detach puts git in a process group of its own, so that a Ctrl-C on the terminal reaches
// only bide. A cancelled context ends git with SIGTERM, after which git removes its lock
// files.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
}

// alive reports whether there is a process with a number.
func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
