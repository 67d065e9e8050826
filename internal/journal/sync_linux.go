package journal

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncFile has the file's content, and its size where that is needed to read
// it, on the disk when it returns.
func syncFile(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// syncFileSystem has all of a directory's file system on the disk.
func syncFileSystem(dir string) (done bool, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	return true, os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}

// stillThere says whether the file at a path is the one that was there, and not shorter
// than least. It does not
// ask for the file's times, as os.Stat does: the kernel gives a file whose times
// somebody knows new ones at the next write, so that there would be an inode to write
// in each sync, and file systems without a journal do write it.
func stillThere(path string, was fs.FileInfo, least int64) (bool, error) {
	var now unix.Statx_t
	own, ok := was.Sys().(*syscall.Stat_t)
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_SIZE, &now); !ok || err != nil { // a sandbox may know no statx
		now, err := os.Stat(path)
		return err == nil && os.SameFile(was, now) && now.Size() >= least, err
	}
	return now.Ino == own.Ino && unix.Mkdev(now.Dev_major, now.Dev_minor) == own.Dev && int64(now.Size) >= least, nil
}
