package journal

import (
	"os"

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
