package worktree

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncFileSystem has all of the file system of a directory on the disk: also the names
// in directories, which git syncs with no setting.
func syncFileSystem(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}

func sameDevice(a, b string) bool {
	var x, y syscall.Stat_t
	return syscall.Stat(a, &x) == nil && syscall.Stat(b, &y) == nil && x.Dev == y.Dev
}
