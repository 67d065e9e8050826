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

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/workflow"
)

// outputFiles gives each attempt of a command a file of its own, named by
// BIDE_OUTPUT and PRODIGY_OUTPUT, to which the command may append NAME=value
// lines: the variables that it sets for the steps after it.
type outputFiles struct {
	dir  func() error // makes the directory, once in a life of the run
	path string
	last atomic.Int64
}

func (o *outputFiles) init(runDir string) {
	o.path = filepath.Join(runDir, "outputs")
	o.dir = sync.OnceValue(func() error {
		// What a killed life of the run left is of no attempt of this one.
		return errors.Join(os.RemoveAll(o.path), os.MkdirAll(o.path, 0o700))
	})
}

// next is the file of one more attempt. The command makes it.
func (o *outputFiles) next() (string, error) {
	if err := o.dir(); err != nil {
		return "", fmt.Errorf("cannot make the directory for the variables of a command: %w", err)
	}
	return filepath.Join(o.path, strconv.FormatInt(o.last.Add(1), 10)), nil
}

// setsVariables says whether an action is a command that may set variables.
func (r *run) setsVariables(a workflow.Action) bool {
	if r.file.Kind == workflow.Dataflow {
		return false // its outputs are declared
	}
	switch a.(type) {
	case *workflow.Shell, *workflow.Claude:
		return true
	}
	return false
}

// takeVariables sets the variables of the lines that a command left in its
// file, and removes the file, which may hold secrets.
func (r *run) takeVariables(p place, file string) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // as nearly always
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxVar+1))
	if err = errors.Join(err, f.Close(), os.Remove(file)); err != nil {
		return err
	}
	if len(text) > maxVar {
		return &action.InputError{Class_: "capture", Err: fmt.Errorf("BIDE_OUTPUT: more than %d bytes of variables; write them to a file of your own", maxVar)}
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
			return &action.InputError{Class_: "capture", Err: fmt.Errorf("BIDE_OUTPUT: line %d, %q, is no NAME=value line", n, clip(line))}
		}
		p.scope.Set(name, v)
	}
	return nil
}

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
