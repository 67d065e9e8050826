// Package dataflow runs pipelines on the executor of steps. Package flow takes a
// plan to its values; here its calls meet the journal, the mask, the processes and
// the interrupts of a run. A call is a step: its path is the variable that it is
// assigned to, and what it gave is recorded with it, so that a resumed run does not
// make it again.
//
// [Load] reads a pipeline and its manifest (pipeline.go), [Flows] has the pipelines
// of a run (this file), host.go records their calls, modules.go carries them out.
package dataflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// Options are what the pipelines of a run read of it.
type Options struct {
	Executor *step.Executor
	Env      *environ.Environment
	Journal  *journal.Journal // nil: large results stay in memory, and no result is cached on disk
	// MaxParallel is how many attempts of calls are made at once; 0 is 64.
	MaxParallel int
	FailFast    bool
	// Virtual: the ports are none of this machine. Modules that are Go code are
	// called as commands, and nothing is cached.
	Virtual bool
	// Sampled: what steps print is made up, so that a module which is a workflow gives a
	// sample of its outputs.
	Sampled bool
}

// defaultParallel is how many attempts of a pipeline's calls are made at once where
// nobody says.
const defaultParallel = 64

// Flows are the pipelines of a run.
type Flows struct {
	Options

	once   sync.Once // for what they have in common, when the first of them runs
	shared *flow.Shared
	soft   context.Context // done when nothing new is to be started any more

	mu    sync.Mutex
	files map[string]*Pipeline // those of steps, by path
}

// New gives the pipelines of a run, none of which has begun.
func New(o Options) *Flows { return &Flows{Options: o} }

// Run runs a pipeline and gives its outputs as JSON values, those that could
// not be computed left out. prefix is before the paths of its calls.
func (f *Flows) Run(ctx context.Context, p step.Place, pl *Pipeline, inputs map[string]any, prefix string) (map[string]any, error) {
	depth, _ := ctx.Value(depthKey{}).(int)
	if depth++; depth > deepest {
		return nil, &action.InputError{Err: fmt.Errorf("%s: pipelines run each other more than %d deep", pl.Path, deepest)}
	}
	ctx = context.WithValue(ctx, depthKey{}, depth)
	values, given, err := pl.Plan.Decode(inputs)
	if err != nil {
		return nil, &action.InputError{Err: fmt.Errorf("%s: %w", pl.Path, err)}
	}
	f.once.Do(f.begin)
	planned, err := flow.New(pl.Plan, f.shared)
	if err != nil {
		return nil, &action.InputError{Err: err}
	}
	x := f.Executor
	h := &host{Flows: f, p: p, pl: pl}
	o := flow.Options{Watcher: h, Soft: f.soft, FailFast: f.FailFast, Prefix: prefix, Hold: h.hold}
	if x.Rand != nil {
		o.Rand = func(path string) backoff.Rand { return x.Rand(p.Address, path+p.Rounds) }
	}
	if f.Virtual {
		o.Foreign = foreign
	}
	out, err := planned.Run(context.WithValue(ctx, hostKey{}, h), values, given, o)
	if _, ok := errors.AsType[*flow.InterruptedError](err); ok {
		if err = x.Life.Stopping(ctx); err == nil {
			err = step.ErrInterrupted
		}
	}
	return flow.Encode(out), err
}

// deepest is how many pipelines may be inside one another: a pipeline that calls
// a workflow that runs the pipeline would have no end. The paths of steps double
// in length with each.
const deepest = 6

type depthKey struct{}

// begin makes what all pipelines of the run share.
func (f *Flows) begin() {
	f.soft = f.Executor.Life.Soft(context.Background())
	cache := ""
	if f.Journal != nil {
		cache = CacheDir(filepath.Dir(filepath.Dir(f.Journal.Dir())))
	}
	f.shared = flow.NewShared(flow.SharedOptions{
		MaxParallel: cmp.Or(f.MaxParallel, defaultParallel), CacheDir: cache,
		Breakers: f.Executor.Limits.Breakers, Clock: f.Executor.Clock, Volatile: f.Virtual, Named: true,
	})
}

// CacheDir is where calls of pipelines keep results on disk.
func CacheDir(home string) string { return filepath.Join(home, "cache") }

// Step runs a pipeline file as a step. Its outputs are the step's output, as a
// JSON object.
func (f *Flows) Step(ctx context.Context, p step.Place, a *workflow.Pipeline, path string) (action.Result, error) {
	pl, err := f.OfStep(ctx, p, a)
	if err != nil {
		return action.Result{}, &action.InputError{Err: err}
	}
	inputs := make(map[string]any, len(a.With))
	for _, arg := range a.With {
		if inputs[arg.Name], err = action.Expand(arg.Value, p.Scope); err != nil {
			return action.Result{}, &action.InputError{Err: fmt.Errorf("with %s: %w", arg.Name, err)}
		}
		if t := pl.typeOf(arg.Name); t != nil {
			inputs[arg.Name] = fitted(inputs[arg.Name], t)
		}
	}
	out, err := f.Run(ctx, p, pl, inputs, path+"/")
	res := action.Result{Output: value.JSON(out)}
	if err != nil {
		res.ExitCode = 1
	}
	return res, err
}

// OfStep reads the pipeline of a step, once in a run.
func (f *Flows) OfStep(ctx context.Context, p step.Place, a *workflow.Pipeline) (*Pipeline, error) {
	path, err := a.File.Expand(p.Scope)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	file := p.File(a.File, path)
	if _, err := file.Stat(); errors.As(err, new(*files.OutsideError)) {
		return nil, &action.InputError{Err: fmt.Errorf("pipeline: %w", err)}
	}
	path = file.Full()
	f.mu.Lock()
	defer f.mu.Unlock()
	if pl := f.files[path]; pl != nil {
		return pl, nil
	}
	pl, problems := Load(path, "", func(name string) ([]byte, error) { return files.At(name).Read(ctx) })
	if problems.HasErrors() {
		return nil, problems.Err()
	}
	value.Put(&f.files, path, pl)
	return pl, nil
}
