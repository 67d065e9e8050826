package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/bide-dev/bide/internal/diag"
)

// StartKind tells why a command could not be started.
type StartKind uint8

// The kinds of StartError. The zero value is StartOther.
const (
	StartOther      StartKind = iota
	StartNotFound             // no such executable
	StartPermission           // not executable, or not by us
	StartDir                  // the working directory is missing or no directory
	StartTooBig               // arguments and environment exceed the system's limit
	StartFormat               // not a program, nor a script with a #! line
	StartResources            // no more processes, descriptors or memory
	StartCancelled            // the context ended before the start
	StartClosed               // the supervisor was closed, or had killed all
)

var startKindNames = [...]string{"other", "not_found", "permission", "directory", "too_big",
	"format", "resources", "cancelled", "closed"}

func (k StartKind) String() string {
	if int(k) < len(startKindNames) {
		return startKindNames[k]
	}
	return fmt.Sprintf("StartKind(%d)", uint8(k))
}

// StartError says that a command was not started, and why. It is the only
// error of [Supervisor.Run].
type StartError struct {
	Kind   StartKind
	Path   string // the executable, as it was given
	Dir    string // the working directory, as it was given
	Advice string // what to do about it, or ""
	Err    error  // the cause; errors.Is works with fs.ErrNotExist, context.Canceled, syscall numbers
}

func (e *StartError) Error() string {
	text := fmt.Sprintf("cannot start %q", diag.Clip(e.Path, longestPath))
	if e.Dir != "" {
		text += fmt.Sprintf(" in %q", e.Dir)
	}
	cause := e.Err
	if of, ok := errors.AsType[*fs.PathError](cause); ok && of.Path == e.Path {
		cause = of.Err // the path is there already
	}
	text += ": " + cause.Error()
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

// longestPath is how many characters of a path an error shows: one that is longer may be a
// text for a shell.
const longestPath = 200

func (e *StartError) Unwrap() error { return e.Err }

// startError finds out the kind of a failed start.
func startError(c *Cmd, err error) *StartError {
	e := &StartError{Path: c.Path, Dir: c.Dir, Err: err}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Kind = StartCancelled
	case errors.Is(err, errClosed):
		e.Kind = StartClosed
	case errors.Is(err, syscall.E2BIG):
		e.Kind, e.Advice = StartTooBig, tooBigAdvice(c)
	case errors.Is(err, syscall.ENOEXEC):
		e.Kind, e.Advice = StartFormat, "it is no program for this system, nor a script that begins with #!"
	case dirProblem(c.Dir) != nil:
		e.Kind, e.Err = StartDir, dirProblem(c.Dir)
		e.Advice = "the working directory must exist before the command starts"
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Advice = StartNotFound, notFoundAdvice(c.Path)
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Advice = StartPermission, "check that it is a file with execute permission (chmod +x)"
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM),
		errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		e.Kind, e.Advice = StartResources, "the system is at a limit (ulimit -u, ulimit -n, memory): run fewer commands at once"
	}
	return e
}

func dirProblem(dir string) error {
	if dir == "" {
		return nil
	}
	switch info, err := os.Stat(dir); {
	case err != nil:
		return err
	case !info.IsDir():
		return &fs.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	return nil
}

func notFoundAdvice(path string) string {
	if strings.Contains(path, "/") {
		return "check the path, and the interpreter in its #! line if it is a script"
	}
	return "it is not in PATH"
}

// tooBigAdvice names the largest part of what is too big.
func tooBigAdvice(c *Cmd) string {
	total, largest, what := 0, 0, ""
	for i, a := range c.Argv {
		total += len(a) + 1
		if len(a) > largest {
			largest, what = len(a), fmt.Sprintf("argument %d", i)
		}
	}
	for _, v := range c.Env {
		total += len(v) + 1
		if len(v) > largest {
			name, _, _ := strings.Cut(v, "=")
			largest, what = len(v), "the variable "+name
		}
	}
	return fmt.Sprintf("arguments and environment have %d bytes, of which %s has %d: pass it in a file or on standard input",
		total, what, largest)
}
