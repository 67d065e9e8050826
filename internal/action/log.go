package action

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/bide-dev/bide/internal/proc"
)

// Log is the output of an attempt as it is in a file, all of it and word for word.
type Log struct {
	File   string `json:"file"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Len is the length of the output as a variable has it: without the line ends at its
	// end.
	Len int `json:"len"`
	// Cut: it is longer, and its middle left out.
	Cut bool `json:"cut,omitempty"`
}

// Text reads the output as a variable has it. A file that is no longer as it was is an
// error; of one that is longer than a variable may be, the size alone is compared.
func (l Log) Text() (text string, err error) {
	f, err := os.Open(l.File)
	if err != nil {
		return "", fmt.Errorf("an output is in a file that cannot be read: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	changed := fmt.Errorf("an output of %d bytes is in %s, and that file is no longer as the step left it", l.Size, l.File)
	if info.Size() != l.Size {
		return "", changed
	}
	limit := l.Size
	if l.Cut {
		limit = proc.DefaultLimit
	}
	o, err := proc.Excerpt(f, l.Size, limit)
	if err != nil {
		return "", fmt.Errorf("an output is in a file that cannot be read: %w", err)
	}
	if !o.Truncated {
		if sum := sha256.Sum256(o.Head); hex.EncodeToString(sum[:]) != l.SHA256 {
			return "", changed
		}
	}
	if text = o.String(); len(text) < l.Len {
		return "", changed
	}
	return text[:l.Len], nil
}
