package local

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

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/step"
)

// variableFiles gives each attempt of a command a file of its own, named by
// BIDE_OUTPUT and PRODIGY_OUTPUT, to which the command may append NAME=value
// lines: the variables that it sets for the steps after it.
type variableFiles struct {
	last atomic.Int64

	mu    sync.Mutex
	ready bool // the directory is there, and empty of what earlier lives left
}

// prepare has the directory empty of them, once in a life of the run. Where that fails,
// the next attempt tries again: the cause may have passed.
func (o *variableFiles) prepare(dir string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ready {
		return nil
	}
	err := clearVariables(dir)
	o.ready = err == nil
	return err
}

// clearVariables removes what a killed life of the run left, which is of no attempt of this one.
func clearVariables(dir string) error {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o700)
	}
	for _, e := range names {
		if _, numErr := strconv.Atoi(e.Name()); numErr == nil {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// next is the file of one more attempt. The command makes it. Its name is a number, and
// nobody else makes such a file in the directory.
func (o *variableFiles) next(dir string) (string, error) {
	if err := o.prepare(dir); err != nil {
		return "", fmt.Errorf("cannot make the directory for the variables of a command: %w", err)
	}
	return filepath.Join(dir, strconv.FormatInt(o.last.Add(1), 10)), nil
}

// take reads the variables of the lines that a command left in its file, and
// removes the file, which may hold secrets.
func (o *variableFiles) take(file string, m *mask.Masker) (set [][2]string, err error) {
	// To look whether it is there takes no descriptor: for want of one, the command would
	// pass for one that did not run, and run again.
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // as nearly always
	}
	f, err := os.Open(file)
	if failure.Shortage(err) {
		return nil, &action.InputError{Kind: "capture", Err: fmt.Errorf("the command has run, and the variables that it set cannot be read: %s", err)}
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxVars+1))
	if err = errors.Join(err, f.Close(), os.Remove(file)); err != nil {
		return nil, err
	}
	if len(text) > maxVars {
		return nil, &action.InputError{Kind: "capture", Err: fmt.Errorf("BIDE_OUTPUT: more than %d bytes of variables; write them to a file of your own", maxVars)}
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
			return nil, &action.InputError{Kind: "capture", Err: fmt.Errorf("BIDE_OUTPUT: line %d, %q, is no NAME=value line", n, m.Text(line).Ends(step.Brief))}
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
