package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// syncDir has the names in a directory on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDurable is os.MkdirAll, mode 0700, with the name of each directory that it
// makes on the disk: else a power cut could take a run together with the home
// that it was the first in.
func makeDurable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDurable(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncName(parent)
}

// syncName is syncDir, which tests watch.
var syncName = syncDir

// LogDir is the directory of the run's log files. Those of a run that several
// machines share are where all of them have them.
func (r *Reader) LogDir() string {
	dir := filepath.Join(r.dir, "logs")
	if to, err := os.Readlink(dir); err == nil {
		return to
	}
	return dir
}

// ProcDir is the directory where running processes are noted, and leave their variables.
func (r *Reader) ProcDir() string { return filepath.Join(r.dir, "proc") }

// ItemDir is a work item's own directory, which no other run or item uses. It
// is not made.
func (r *Reader) ItemDir(index int) string {
	return filepath.Join(r.dir, "items", strconv.Itoa(index))
}

// LogName is the name under which the outputs of a step are kept: its path, and
// in the second and later attempts at a work item the number of that.
func LogName(path string, itemAttempt int) string {
	if itemAttempt > 1 {
		return fmt.Sprintf("attempt%d.%s", itemAttempt, path)
	}
	return path
}

// OutputFile is the path of the log file for one stream ("stdout", "stderr",
// "agent", …) of one attempt of a step:
// logs/<thousands>/<item>.<step>.<attempt>.<stream>, where items are grouped by
// thousands so that no directory grows without end, and steps outside of items
// are under "run". index 0 is no item.
func (r *Reader) OutputFile(index int, step string, attempt int, stream string) string {
	name := fmt.Sprintf("%s.%d.%s", fileName(step), attempt, fileName(stream))
	if index > 0 {
		return filepath.Join(r.LogDir(), strconv.Itoa(index/1000*1000), strconv.Itoa(index)+"."+name)
	}
	return filepath.Join(r.LogDir(), "run", name)
}

// OutputFiles gives the paths of all log files of an item.
func (r *Reader) OutputFiles(index int) ([]string, error) {
	return filepath.Glob(filepath.Join(filepath.Dir(r.OutputFile(index, "x", 1, "x")), strconv.Itoa(index)+".*"))
}

// NewOutput makes the file of OutputFile and its directory, readable by the
// user alone. What was in the file is gone.
func (r *Reader) NewOutput(index int, step string, attempt int, stream string) (*os.File, error) {
	return openOutput(r.OutputFile(index, step, attempt, stream), os.O_TRUNC)
}

// CreateOutput is NewOutput that appends to a file that is there already.
func (r *Reader) CreateOutput(index int, step string, attempt int, stream string) (*os.File, error) {
	return openOutput(r.OutputFile(index, step, attempt, stream), 0)
}

func openOutput(path string, flag int) (*os.File, error) {
	open := func() (*os.File, error) {
		return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|flag, 0o600)
	}
	f, err := open()
	if errors.Is(err, fs.ErrNotExist) { // the directory is made once for many files
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("cannot make the directory for an output: %w", err)
		}
		f, err = open()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make the file for an output: %w", err)
	}
	return f, nil
}

// FileDigest gives the size of a file in bytes and its SHA-256 in hexadecimal.
func FileDigest(path string) (size int64, digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	h := sha256.New()
	size, err = io.Copy(h, f)
	return size, hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
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
