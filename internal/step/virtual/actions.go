package virtual

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
)

// Answer is what an attempt does.
type Answer struct {
	Result  action.Result
	Failure *failure.Failure // nil: it succeeds
	Takes   time.Duration    // of the clock
	// Last, if not nil, is asked when the attempt ends by itself; what it gives is the
	// failure in place of Failure.
	Last func() *failure.Failure
}

// End is the failure with which an attempt ends by itself, and nil if it succeeds.
func (a *Answer) End() *failure.Failure {
	if a.Last != nil {
		if f := a.Last(); f != nil {
			a.Result = action.Result{ExitCode: f.Exit, Status: f.Status, Usage: a.Result.Usage}
			return f
		}
	}
	return a.Failure
}

// Actions answers each attempt as a model says. Files are in memory. It is safe
// for concurrent use if Model is.
type Actions struct {
	NoLogs

	Clock step.Clock
	Model func(*step.Call) Answer

	// MakeUp, if not nil, gives the content of a file that nobody has made: of a
	// list, or else of what a step measures.
	MakeUp func(list bool) []byte

	// Ends, if not nil, is how long an attempt continues after it was told to end.
	Ends func(*step.Call) time.Duration

	mu    sync.Mutex
	files map[string][]byte
}

// Run makes an attempt: it takes the time that the model says, or until its
// timeout or the end of ctx.
func (a *Actions) Run(ctx context.Context, c *step.Call) (action.Result, error) {
	start := a.Clock.Now()
	got := a.Model(c)
	takes := got.Takes
	late := c.Timeout > 0 && takes > c.Timeout
	if late {
		takes = c.Timeout
	}
	err := a.Clock.Wait(ctx, takes, nil)
	if a.Ends != nil && (err != nil || late) {
		if more := a.Ends(c); more > 0 {
			_ = a.Clock.Wait(context.WithoutCancel(ctx), more, nil) // ends by its time alone
		}
	}
	switch {
	case err != nil:
	case late:
		err = &failure.Failure{Class: "timeout", Timeout: true, Message: fmt.Sprintf("timed out after %s and was stopped", duration.Format(c.Timeout))}
	default:
		if f := got.End(); f != nil {
			err = f
		}
	}
	got.Result.Start, got.Result.Duration = start, a.Clock.Now().Sub(start)
	return got.Result, err
}

// NoLogs is the part of actions that has to do with logs, where there are none but those
// of a run that is replayed.
type NoLogs struct{}

// Keep leaves the output in the result.
func (NoLogs) Keep(_ *step.Call, res action.Result) (action.Result, error) { return res, nil }

// Text reads a log.
func (NoLogs) Text(log action.Log) (string, error) { return log.Text() }

// Output gives the output of an attempt.
func (a *Actions) Output(_ context.Context, res action.Result) ([]byte, error) {
	return []byte(res.Output), nil
}

// Put makes a file, by its whole path.
func (a *Actions) Put(path string, text []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	value.Put(&a.files, path, text)
}

// Read gives the content of a file.
func (a *Actions) Read(_ context.Context, file files.Name) ([]byte, error) {
	return a.read(file.Full(), false)
}

func (a *Actions) read(path string, list bool) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text, ok := a.files[path]
	switch {
	case a.MakeUp != nil && len(strings.TrimSpace(string(text))) == 0:
		return a.MakeUp(list), nil
	case !ok:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return text, nil
}

// Items reads the values of a JSON file, or its lines.
func (a *Actions) Items(ctx context.Context, file files.Name, jsonPath string) ([]any, error) {
	text, err := a.read(file.Full(), true)
	if err != nil {
		return nil, err
	}
	v, err := value.Parse(text)
	if err != nil {
		var list []any
		for line := range strings.Lines(string(text)) {
			list = append(list, strings.TrimRight(line, "\r\n"))
		}
		return list, nil
	}
	if jsonPath != "" {
		return input.Path(ctx, jsonPath, v)
	}
	if list, ok := v.([]any); ok {
		return list, nil
	}
	return []any{v}, nil
}

// Save keeps the output of an attempt as a file.
func (a *Actions) Save(_ context.Context, file files.Name, res action.Result) error {
	a.Put(file.Full(), []byte(res.Output+res.Ending))
	return nil
}

// Find gives the files that match a pattern.
func (a *Actions) Find(_ context.Context, pattern files.Name) (found []string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.files {
		ok, err := filepath.Match(pattern.Full(), name)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, name)
		}
	}
	if len(found) == 0 && a.MakeUp != nil {
		return []string{strings.ReplaceAll(pattern.Full(), "*", "simulated")}, nil
	}
	slices.Sort(found)
	return found, nil
}

// IsDir takes every path for that of a directory.
func (a *Actions) IsDir(context.Context, files.Name) error { return nil }
