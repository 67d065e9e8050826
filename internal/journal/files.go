package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// syncDir has the names in a directory on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// LogDir is the directory of the run's log files.
func (r *Reader) LogDir() string { return filepath.Join(r.dir, "logs") }

// ProcDir is the directory where running processes are noted.
func (r *Reader) ProcDir() string { return filepath.Join(r.dir, "proc") }

// ItemDir is a work item's own directory, which no other run or item uses. It
// is not made.
func (r *Reader) ItemDir(index int) string {
	return filepath.Join(r.dir, "items", strconv.Itoa(index))
}

// OutputFile is the path of the log file for one stream ("stdout", "stderr",
// "agent", …) of one attempt of a step: logs/<item>/<step>.<attempt>.<stream>,
// where items are grouped by thousands so that no directory grows without
// end, and steps outside of items stand under "run". index 0 is no item.
func (r *Reader) OutputFile(index int, step string, attempt int, stream string) string {
	dir := filepath.Join(r.LogDir(), "run")
	if index > 0 {
		dir = filepath.Join(r.LogDir(), strconv.Itoa(index/1000*1000), strconv.Itoa(index))
	}
	return filepath.Join(dir, fmt.Sprintf("%s.%d.%s", fileName(step), attempt, fileName(stream)))
}

// CreateOutput makes the file of OutputFile and its directory, readable by
// the user alone. A file that is there already is appended to.
func (r *Reader) CreateOutput(index int, step string, attempt int, stream string) (*os.File, error) {
	path := r.OutputFile(index, step, attempt, stream)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory for an output: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot make the file for an output: %w", err)
	}
	return f, nil
}

// fileName makes a step's path usable as part of a file name. Different paths
// give different names: what is replaced is written out as %XX.
func fileName(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_[]@,", c) >= 0:
			b.WriteByte(c)
		case c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if name == "" {
		return "_"
	}
	if len(name) > 120 { // file systems stop at 255 bytes
		sum := sha256.Sum256([]byte(s))
		return name[:80] + "~" + hex.EncodeToString(sum[:8])
	}
	return name
}
