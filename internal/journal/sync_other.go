//go:build !linux

package journal

import "os"

// syncFile has the file's content on the disk when it returns; on macOS it
// asks the drive to empty its cache, which a plain fsync there does not.
func syncFile(f *os.File) error { return f.Sync() }
