//go:build !unix

package worktree

import "os/exec"

// detach does nothing where there are no process groups and no SIGTERM: git is
// killed, and a lock file that it leaves is deleted when its worktree is used
// again.
func detach(*exec.Cmd) {}

// alive says that there is a process with a number, which nobody knows here.
func alive(int) bool { return true }
