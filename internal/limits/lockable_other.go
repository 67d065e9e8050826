//go:build !linux

package limits

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// lockable refuses a directory on which locks are not the kernel's alone.
func lockable(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return err
	}
	name := unix.ByteSliceToString(s.Fstypename[:])
	for _, far := range []string{"nfs", "smbfs", "afpfs", "webdav", "cifs"} {
		if strings.HasPrefix(name, far) {
			return fmt.Errorf("%s is on %s, where a lock may outlive its process or hold on one machine alone: set BIDE_HOME to a directory on a disk of this machine", dir, name)
		}
	}
	return nil
}
