package journal

import (
	"errors"
	"os"
	"path/filepath"
)

// The truth of a run can be kept elsewhere, where many machines have it. Its
// journal here is a copy, which whoever made it keeps up ([Store.Refresh]); nothing
// else writes to it.

const (
	// Elsewhere is the name of the file in the directory of such a run that says
	// where.
	Elsewhere = "elsewhere.json"
	// GoesOn is the name of a file that is there while such a run is in progress, with or
	// without a process here.
	GoesOn = "goes-on"
)

// ErrElsewhere says that something cannot be done to a copy.
var ErrElsewhere = errors.New("other machines run it (--on temporal), where this is not possible: bide stop ends it, bide resume continues there")

func elsewhere(dir string) bool { return there(filepath.Join(dir, Elsewhere)) }

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// IsElsewhere reports whether the journal is a copy.
func (r *Reader) IsElsewhere() bool { return elsewhere(r.dir) }

// OpenCopy is Open for whoever keeps a copy up. run is an id.
func (s *Store) OpenCopy(run string) (*Journal, error) { return s.open(run) }
