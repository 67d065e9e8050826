package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/step"
)

// outputFiles gives each attempt of a command a file of its own, named by
// BIDE_OUTPUT and PRODIGY_OUTPUT, to which the command may append NAME=value
// lines: the variables that it sets for the steps after it.
type outputFiles struct {
	dir  func() error // has the directory empty of them, once in a life of the run
	path string
	last atomic.Int64
}

// init has the files made in dir, where nobody else makes any after it was asked for
// the first one. Their names are numbers.
func (o *outputFiles) init(dir string) {
	o.path = dir
	o.dir = sync.OnceValue(func() error {
		if err := o.clear(); err != nil {
			return err
		}
		return os.Chtimes(o.path, time.Time{}, untouched)
	})
}

// clear removes what a killed life of the run left, which is of no attempt of this one.
func (o *outputFiles) clear() error {
	names, err := os.ReadDir(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(o.path, 0o700)
	}
	for _, e := range names {
		if _, numErr := strconv.Atoi(e.Name()); numErr == nil {
			err = errors.Join(err, os.RemoveAll(filepath.Join(o.path, e.Name())))
		}
	}
	return err
}

// untouched is the date of a directory in which nobody has made a file yet: the
// first one dates it anew. To look for that is cheaper than to look for the file of
// each attempt, of which the system keeps in mind that it is not there.
var untouched = time.Unix(0, 0)

// next is the file of one more attempt. The command makes it.
func (o *outputFiles) next() (string, error) {
	if err := o.dir(); err != nil {
		return "", fmt.Errorf("cannot make the directory for the variables of a command: %w", err)
	}
	return filepath.Join(o.path, strconv.FormatInt(o.last.Add(1), 10)), nil
}

// take reads the variables of the lines that a command left in its file, and
// removes the file, which may hold secrets.
func (o *outputFiles) take(file string, m *mask.Masker) (set [][2]string, err error) {
	if dir, err := os.Stat(o.path); err == nil && dir.ModTime().Equal(untouched) {
		return nil, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // as nearly always
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxVars+1))
	if err = errors.Join(err, f.Close(), os.Remove(file)); err != nil {
		return nil, err
	}
	if len(text) > maxVars {
		return nil, &action.InputError{Class_: "capture", Err: fmt.Errorf("BIDE_OUTPUT: more than %d bytes of variables; write them to a file of your own", maxVars)}
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, v, ok := strings.Cut(line, "=")
		if !ok || !isVarName(name) {
			return nil, &action.InputError{Class_: "capture", Err: fmt.Errorf("BIDE_OUTPUT: line %d, %q, is no NAME=value line", n, m.Text(line).Ends(step.Brief))}
		}
		set = append(set, [2]string{name, v})
	}
	return set, nil
}

// maxVars is how many bytes of variables a command may set.
const maxVars = 1 << 20

// isVarName says whether a command may set a variable of this name: letters,
// digits, _ and -, as in the ids of steps.
func isVarName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && c != '-') {
			return false
		}
	}
	return s != ""
}
