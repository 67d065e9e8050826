package worktree

import (
	"os"
	"path/filepath"
)

// openElsewhere says whether a process has a file open; known says whether that can be
// seen.
func openElsewhere(name string) (held, known bool) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false, true
	}
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil || len(fds) == 0 {
		return false, false
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == real {
			return true, true
		}
	}
	return false, true
}
