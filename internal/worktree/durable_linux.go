package worktree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncFileSystem has all of the file system of a directory on the disk: also the names
// in directories, which git syncs with no setting. Of a directory that is gone, that is the
// file system of the one above it, from which it was removed.
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
