//go:build !linux

package worktree

import (
	"os"
	"path/filepath"
)

// syncFileSystem syncs the files and directories below dir, one by one: there is no
// call here that syncs a file system and says when that is done.
func syncFileSystem(dir string) error {
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.IsDir() && !e.Type().IsRegular() {
			return nil // gone meanwhile, or no file
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		_ = f.Sync() // a directory cannot be synced everywhere
		return nil
	})
}

// sameDevice is false here, because each directory is walked by itself.
func sameDevice(a, b string) bool { return a == b }
