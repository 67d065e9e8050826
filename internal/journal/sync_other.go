//go:build !linux

package journal

import (
	"io/fs"
	"os"
)

// syncFile has the file's content on the disk when it returns; on macOS it
// asks the drive to empty its cache, which a plain fsync there does not.
func syncFile(f *os.File) error { return f.Sync() }

// stillThere says whether the file at a path is the one that was there, and not shorter
// than least.
func stillThere(path string, was fs.FileInfo, least int64) (bool, error) {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(was, now) && now.Size() >= least, err
}

// syncFileSystem is not to be had here.
func syncFileSystem(string) (done bool, err error) { return false, nil }
