package limits

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// lockable refuses a directory on which locks are not the kernel's alone.
func lockable(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return err
	}
	names := map[uint32]string{unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS", unix.AFS_SUPER_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda"}
	if name, ok := names[uint32(s.Type)]; ok {
		return onNetwork(dir, name)
	}
	return nil
}

func onNetwork(dir, kind string) error {
	return fmt.Errorf("%s is on %s, where a lock may outlive its process or hold on one machine alone: set BIDE_HOME to a directory on a disk of this machine", dir, kind)
}
