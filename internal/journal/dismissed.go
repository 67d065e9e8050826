package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bide-dev/bide/internal/files"
)

// dismissedName is the file in the directory of a run that says as of which end a person
// has put it aside.
const dismissedName = "dismissed"

// standing is a run as it is: another life of it changes that.
func (s *Summary) standing() string {
	return fmt.Sprintf("%s %s %d\n", s.Status, s.Finished.UTC().Format(time.RFC3339Nano), s.Took)
}

// Dismiss notes that a person has put a run aside as it is.
func (s *Store) Dismiss(sum Summary) error {
	return files.Replace(filepath.Join(s.dir(sum.ID), dismissedName), 0o600, files.Synced([]byte(sum.standing())))
}

// Dismissed reports whether a run was put aside as it is.
func (s *Store) Dismissed(sum Summary) bool {
	text, err := os.ReadFile(filepath.Join(s.dir(sum.ID), dismissedName))
	return err == nil && string(text) == sum.standing()
}
