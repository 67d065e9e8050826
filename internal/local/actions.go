package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/input"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// Actions carries out what steps do on this machine: processes, requests,
// files; with their output shown and kept in the run's directory.
type Actions struct {
	World    *action.World
	Recorder *Recorder
	Pipeline bool    // the standard output of the run is for the outputs of a pipeline alone
	Apart    bool    // a later life of the run may be on another machine, without the logs
	Tracing  Tracing // nil: none
	// Terminal lends the terminal that the run is on to a step that is alone on
	// it; nil: there is none. The step's output goes there too unless it is read.
	Terminal func(read bool) (*Lent, error)

	variables variableFiles
}

// Lent is a terminal for one attempt of a step.
type Lent struct {
	*proc.Terminal
	// Return takes it back when the attempt has ended and all its output was
	// shown, and reports whether the key for an interrupt was pressed meanwhile.
	Return func() (interrupted bool)
}

// Tracing joins what a run does to a trace. Its methods may be called by many
// goroutines at once.
type Tracing interface {
	// Begin tells which life of a run begins, from 1, and what the run_started of
	// the first has kept; nil in the first. It gives what this one is to keep.
	Begin(run string, life int, first []byte) map[string]any
	// Environ is added to the environment of attempt n of a step.
	Environ(p step.Address, path string, n int) []string
}

// traced adds to an environment what an attempt is told of its trace.
func (a *Actions) traced(env []string, p step.Address, path string, n int) []string {
	if a.Tracing == nil {
		return env
	}
	return append(slices.Clip(env), a.Tracing.Environ(p, path, n)...)
}

// Run makes one attempt of a leaf action.
func (a *Actions) Run(ctx context.Context, c *step.Call) (res action.Result, err error) {
	if c.Action == nil {
		return a.module(ctx, c)
	}
	_, isAgent := c.Action.(*workflow.Claude)
	_, isShell := c.Action.(*workflow.Shell)
	at := &action.Call{Scope: c.Scope, Dir: c.Dir, Env: a.traced(c.Env(), c.Address, c.Path, c.Number), Timeout: c.Timeout, Stall: c.Stall, Session: c.Session, Summary: c.Summary, Mask: a.Recorder.Masks(), Unread: c.Unread, Whole: c.Step != nil && c.Step.OutputFile != nil}
	vars := ""
	if (isAgent || isShell) && !a.Pipeline { // whose outputs are declared
		if vars, err = a.variables.next(a.Recorder.Journal.ProcDir()); err != nil {
			return action.Result{}, err
		}
		at.Env = append(slices.Clip(at.Env), "BIDE_OUTPUT="+vars, "PRODIGY_OUTPUT="+vars)
	}
	if c.Listing {
		if at.Pipe, err = a.variables.next(a.Recorder.Journal.ProcDir()); err != nil {
			return action.Result{}, err
		}
	}
	if isAgent {
		at.MaxCost, at.OnUsage = c.MaxCost, c.Used
		at.OnMessage = func(m action.Message) { a.message(c, m) }
	}
	out := a.outputs(c.Address, c.Path, c.Number, isAgent, c.Quiet)
	at.Stdout, at.Stderr, at.Spill, at.Log = out.stdout, out.stderr, out.spill, out.log
	back, err := a.lend(c, at)
	if err != nil {
		return res, errors.Join(err, out.close(&res))
	}
	res, err = a.World.Run(ctx, c.Action, at)
	defer func() {
		if back() && err != nil {
			err = step.ErrInterrupted // it ended of the key, and a resume begins it again
		}
	}()
	if cerr := out.close(&res); err == nil {
		err = cerr
	}
	if vars != "" {
		set, verr := a.variables.take(vars, a.Recorder.Masks())
		if res.Set = set; err == nil {
			err = verr
		}
	}
	if m := a.Recorder.Masks(); m.Active() {
		res.Output, res.Stderr = m.Seams(res.Output), m.Seams(res.Stderr)
	}
	a.logs(&res, proc.DefaultLimit)
	return res, err
}

// lend gives an attempt the terminal, where it is alone on it. back takes that
// back, and reports whether the key for an interrupt was pressed.
func (a *Actions) lend(c *step.Call, at *action.Call) (back func() bool, err error) {
	back = func() bool { return false }
	if _, isShell := c.Action.(*workflow.Shell); !isShell || !c.Alone || a.Terminal == nil {
		return back, nil
	}
	t, err := a.Terminal(c.Read())
	if err != nil || t == nil {
		return back, err
	}
	at.Terminal = t.Terminal
	return t.Return, nil
}

// message records what an agent says and does.
func (a *Actions) message(c *step.Call, m action.Message) {
	e := c.Event(event.AgentMessage, c.Path)
	e.Message = m.Text
	if m.Tool != "" {
		e.Data = step.Data(map[string]any{"tool": m.Tool, "input": a.Recorder.Masks().Text(string(m.Input)).Ends(step.Brief)})
	}
	_ = a.Recorder.Record(e) // a journal that cannot be written ends the run by itself
}

// Keep has an output in a log of its own.
func (a *Actions) Keep(c *step.Call, res action.Result) (action.Result, error) {
	res, err := a.keepText(c, res)
	a.logs(&res, math.MaxInt64)
	return res, err
}

// logs says in a result where the outputs are word for word: where no secret is masked
// in their files, and every life of the run has these. limit is how long a variable may be.
func (a *Actions) logs(res *action.Result, limit int64) {
	if a.Apart || res.Usage != nil || res.FileErr != nil {
		return
	}
	secrets := a.Recorder.Masks().Active()
	if res.StdoutFile != "" && res.Digest != "" && (res.StoredDigest == "" || res.StoredDigest == res.Digest) && !(secrets && res.StdoutSize > limit) {
		res.OutputLog = &action.Log{File: res.StdoutFile, Size: res.StdoutSize, SHA256: res.Digest, Len: len(res.Output), Cut: res.StdoutSize > limit}
	}
	if res.StderrFile != "" && res.StderrDigest != "" && !secrets {
		res.StderrLog = &action.Log{File: res.StderrFile, Size: res.StderrSize, SHA256: res.StderrDigest, Len: len(res.Stderr), Cut: res.StderrSize > limit}
	}
}

// Text reads an output out of its log.
func (a *Actions) Text(log action.Log) (string, error) { return log.Text() }

// Output gives the whole output of an attempt, whatever its size.
func (a *Actions) Output(_ context.Context, res action.Result) ([]byte, error) {
	r, err := res.OpenOutput()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

// Read gives the content of a file.
func (a *Actions) Read(ctx context.Context, file files.Name) ([]byte, error) {
	b, err := file.Read(ctx)
	return b, refused(err)
}

// Find gives the files that match a pattern.
func (a *Actions) Find(_ context.Context, pattern files.Name) ([]string, error) {
	list, err := pattern.Find()
	return list, refused(err)
}

// IsDir gives an error unless a path is that of a directory.
func (a *Actions) IsDir(_ context.Context, dir files.Name) error {
	info, err := dir.Stat()
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", dir.Path)
	}
	return refused(err)
}

// refused makes the error of a path that leads out of its directory one that no
// other attempt mends.
func refused(err error) error {
	if errors.As(err, new(*files.OutsideError)) {
		return &action.InputError{Err: err}
	}
	return err
}

// Items reads the values of a foreach out of a file.
func (a *Actions) Items(ctx context.Context, file files.Name, jsonPath string) (list []any, err error) {
	spec := input.Spec{File: file.Full(), JSONPath: jsonPath, Context: ctx}
	if file.ByData {
		spec.Within = file.Dir
	}
	for it, err := range spec.Items() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, refused(err)
		}
		v, err := value.Parse(it.Data)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// Save writes the whole output of an attempt, also where only its head and tail
// are kept as a variable.
func (a *Actions) Save(_ context.Context, file files.Name, res action.Result) error {
	f, err := file.Create()
	if err != nil {
		return refused(err)
	}
	return writeOutput(f, res)
}

// writeOutput writes the output of an attempt and closes the file.
func writeOutput(f *os.File, res action.Result) error {
	r, err := res.OpenOutput()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close(), r.Close())
}
