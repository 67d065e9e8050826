package worktree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncFileSystem writes all of a directory's file system to the disk. This includes the
// names in directories, which no setting makes git sync. If the directory is gone, the file
// system is that of its parent, from which it was removed.
func syncFileSystem(dir string) error {
	f, err := os.Open(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		f, err = os.Open(dir)
	}
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
