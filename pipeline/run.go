package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/retry/driver"
)

// Pipeline is a source that was checked and is ready to run, any number of
// times and by many goroutines at once. Its runs share what the options of
// calls say for a module as a whole: throttle, concurrency, breaker, cache.
type Pipeline struct {
	plan     *plan.Plan
	flow     *flow.Flow
	warnings []Problem
}

// Problem is one thing that is wrong, or suspicious, with a source.
type Problem struct {
	File         string
	Line, Column int // from 1
	Code         string
	Message      string
	Suggestion   string // what to do; may be empty
}

// String is the problem in one line.
func (p Problem) String() string {
	s := fmt.Sprintf("%s:%d:%d: %s [%s]", p.File, p.Line, p.Column, p.Message, p.Code)
	if p.Suggestion != "" {
		s += "; " + p.Suggestion
	}
	return s
}

// SourceError is a source that cannot be run. It lists all that is wrong.
type SourceError struct{ Problems []Problem }

// Error has a line for each problem.
func (e *SourceError) Error() string {
	return strings.Join(value.Map(e.Problems, Problem.String), "\n")
}

// CompileOption changes what [Compile] makes.
type CompileOption func(*compileOptions)

type compileOptions struct {
	registry *Registry
	problems []error
	shared   flow.SharedOptions
}

// Modules takes the modules of r instead of those of [Default].
func Modules(r *Registry) CompileOption { return func(o *compileOptions) { o.registry = r } }

// CacheDir is where `cache_backend: "disk"` keeps results, JSON files readable
// by the user alone. Without it, a source that wants that is refused.
func CacheDir(dir string) CompileOption { return func(o *compileOptions) { o.shared.CacheDir = dir } }

// MaxParallel bounds the attempts that are made at once, over all calls of all
// runs; waits do not count. n must be positive. Without it there is no bound.
func MaxParallel(n int) CompileOption {
	return func(o *compileOptions) {
		if o.shared.MaxParallel = n; n < 1 {
			o.problems = append(o.problems, fmt.Errorf("pipeline: MaxParallel is %d; it must be positive", n))
		}
	}
}

// Compile checks a source. name is what messages call it. The pipeline can call
// the standard library and the modules registered when it is compiled. The error
// is a *[SourceError], or says which module is not fit to be called.
func Compile(name string, source []byte, options ...CompileOption) (*Pipeline, error) {
	o := compileOptions{registry: Default}
	for _, set := range options {
		set(&o)
	}
	if err := errors.Join(o.problems...); err != nil {
		return nil, err
	}
	if o.registry == nil {
		return nil, errNilRegistry
	}
	env, err := check.NewEnv(o.registry.Modules()...)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	env.NoMachine, env.NoDisk = true, o.shared.CacheDir == ""
	f, problems := syntax.Parse(name, source)
	program, found := check.Check(f, env)
	problems = append(problems, found...)
	problems.Sort()
	if problems.HasErrors() {
		return nil, sourceError(problems)
	}
	pl, err := plan.New(program)
	if list, ok := err.(diag.List); ok {
		return nil, sourceError(list)
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	fl, err := flow.New(pl, flow.NewShared(o.shared))
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	_, warnings := split(problems)
	return &Pipeline{plan: pl, flow: fl, warnings: warnings}, nil
}

func sourceError(list diag.List) error {
	problems, _ := split(list)
	return &SourceError{problems}
}

func split(list diag.List) (problems, warnings []Problem) {
	for _, p := range list {
		q := Problem{File: p.File, Line: p.Line, Column: p.Column, Code: p.Code, Message: p.Message, Suggestion: p.Suggestion}
		if p.Severity == diag.Error {
			problems = append(problems, q)
		} else {
			warnings = append(warnings, q)
		}
	}
	return problems, warnings
}

// Warnings are what is suspicious about the source: a delay without retries, a
// deadline that is too short for them.
func (p *Pipeline) Warnings() []Problem {
	if p == nil {
		return nil
	}
	return append([]Problem(nil), p.warnings...)
}

// Hash names what the pipeline does: the same for the same graph, literals,
// options and module versions, whatever the layout, comments and names of
// variables. It is "" for one that Compile did not make.
func (p *Pipeline) Hash() string {
	if p == nil || p.plan == nil {
		return ""
	}
	return p.plan.Hash()
}

// RunOption changes how one run goes.
type RunOption func(*flow.Options)

// FailFast cancels everything at the first failure. Without it, what does not
// need the failed value comes to its end.
func FailFast() RunOption { return func(o *flow.Options) { o.FailFast = true } }

// Observe tells f, if it is not nil, what happens to every call. f is called by many goroutines at
// once and must not block for long.
func Observe(f func(Event)) RunOption {
	return func(o *flow.Options) {
		if f != nil {
			o.Watcher = observer(f)
		}
	}
}

var (
	errUnmade      = errors.New("pipeline: the pipeline is nil or was not made; make it with Compile")
	errNilContext  = errors.New("pipeline: the context is nil")
	errNilRegistry = errors.New("pipeline: the registry is nil")
)

// Run takes the pipeline to its outputs. inputs are Go values by the names of
// the inputs: strings, numbers, bools, and slices, maps, pointers and structs
// of these.
//
// Outputs are string, int64, float64, bool, nil for an absent Optional, []any,
// and map[string]any for records and maps; [Output] makes other Go values of
// them. Where something failed, the outputs that do not need it are given with
// the error, which is a *[RunError]. The end of ctx ends the run; then the error
// wraps its cause. A nil ctx is an error, and so is a Pipeline that [Compile] did not make.
func (p *Pipeline) Run(ctx context.Context, inputs map[string]any, options ...RunOption) (map[string]any, error) {
	switch {
	case p == nil || p.plan == nil:
		return nil, errUnmade
	case ctx == nil:
		return nil, errNilContext
	}
	var opt flow.Options
	for _, set := range options {
		set(&opt)
	}
	plain, err := plainInputs(inputs)
	if err != nil {
		return nil, err
	}
	values, given, err := p.plan.Decode(plain)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	out, err := p.flow.Run(ctx, values, given, opt)
	if err != nil {
		err = publicError(err)
	}
	return out, err
}

// plainInputs turns Go values that are not JSON-shaped into such.
func plainInputs(inputs map[string]any) (map[string]any, error) {
	copied := false
	for name, v := range inputs {
		switch v.(type) {
		case nil, string, bool, int, int64, float64, []any, map[string]any:
			continue
		}
		c, err := newCodec(reflect.TypeOf(v))
		if err != nil {
			return nil, fmt.Errorf("pipeline: input %s: %w", name, err)
		}
		encoded, err := c.encode(reflect.ValueOf(v))
		if err != nil {
			return nil, fmt.Errorf("pipeline: input %s: %w", name, err)
		}
		if !copied {
			clone := make(map[string]any, len(inputs))
			maps.Copy(clone, inputs)
			inputs, copied = clone, true
		}
		inputs[name] = encoded
	}
	return inputs, nil
}

// Output gives an output as a Go value. The error says that there is no such
// output, or that it is of another type.
func Output[T any](outputs map[string]any, name string) (T, error) {
	var v T
	raw, ok := outputs[name]
	if !ok {
		return v, fmt.Errorf("pipeline: there is no output named %s", name)
	}
	c, err := newCodec(reflect.TypeFor[T]())
	if err == nil {
		err = c.decode(raw, reflect.ValueOf(&v).Elem())
	}
	if err != nil {
		return v, fmt.Errorf("pipeline: output %s: %w", name, err)
	}
	return v, nil
}

// RunError is a run in which something failed. Each failure is there once,
// however much needed what failed. errors.Is and errors.As find what the
// attempts failed with.
type RunError struct{ Failures []Failure }

// Failure is a call or a computation that failed.
type Failure struct {
	File         string
	Line, Column int
	// Name is the variable that a call is assigned to, or what it calls. Path
	// tells it apart from all others in the run: "pages[3].Fetch". Both are
	// empty for a computation.
	Name, Path string
	Module     string
	Attempts   int
	// Err is a *retry.Error with every attempt, for a call.
	Err error

	text string
}

// Error says where it is, what failed, and why.
func (f *Failure) Error() string { return f.text }

// Unwrap gives Err.
func (f *Failure) Unwrap() error { return f.Err }

// Error has a line for each failure.
func (e *RunError) Error() string {
	lines := make([]string, len(e.Failures))
	for i := range e.Failures {
		lines[i] = e.Failures[i].text
	}
	return "pipeline: " + strings.Join(lines, "\n")
}

// Unwrap gives the failures, as *[Failure].
func (e *RunError) Unwrap() []error {
	errs := make([]error, len(e.Failures))
	for i := range e.Failures {
		errs[i] = &e.Failures[i]
	}
	return errs
}

func publicError(err error) error {
	var failed *flow.Error
	if !errors.As(err, &failed) {
		return fmt.Errorf("pipeline: %w", err)
	}
	e := &RunError{}
	for _, f := range failed.Failures {
		e.Failures = append(e.Failures, failure(f))
	}
	return e
}

func failure(err error) Failure {
	f := Failure{Err: err, text: err.Error()}
	var pos diag.Pos
	switch err := err.(type) {
	case *flow.CallError:
		f.Name, f.Path, f.Module, f.Attempts, f.Err, pos = err.Name, err.Path, err.Callee, err.Attempts, err, err.Pos
	case *flow.NodeError:
		pos = err.Pos
	}
	f.File, f.Line, f.Column = pos.File, pos.Line, pos.Column
	return f
}

// EventType says what happened to a call.
type EventType string

// The types of events.
const (
	CallStarted    EventType = "call_started"
	AttemptQueued  EventType = "attempt_queued" // it waits for a slot or a token
	AttemptStarted EventType = "attempt_started"
	AttemptFailed  EventType = "attempt_failed"
	RetryScheduled EventType = "retry_scheduled"
	CallFinished   EventType = "call_finished"
)

// Event is one thing that happened to a call.
type Event struct {
	Type   EventType
	Path   string // of the call, unique in its run: "pages[3].Fetch"
	Name   string // the variable that it is assigned to, or what it calls
	Module string
	// Attempt is the number of the attempt, from 1; in a CallFinished, how many
	// there were.
	Attempt int
	// Waited is how long an attempt had to wait for throttle and slots; in a
	// CallFinished, all waits, those between attempts too.
	Waited time.Duration
	// Delay is the wait that a RetryScheduled tells of, or an AttemptQueued if it
	// is known.
	Delay time.Duration
	// Source is what an AttemptQueued waits for: rate_limit, or limit for a slot.
	Source string
	// Duration is that of the failed attempt, or of the whole call without the
	// waits for its attempts.
	Duration time.Duration
	// Err is why the attempt, or the call, failed; in a CallFinished that is
	// Degraded, what its fallback or on_error answered.
	Err error
	// Of a CallFinished: Degraded is a value from a fallback or on_error, Cached
	// one from the cache, and Skipped a call that was not made because what it
	// needs failed.
	Degraded, Cached, Skipped bool
	// CacheErr is why the value of a CallFinished could not be written to the
	// cache on disk.
	CacheErr error
}

// observer is a function as a watcher.
type observer func(Event)

func (f observer) event(t EventType, c *flow.Call) Event {
	return Event{Type: t, Path: c.Path, Name: c.Name, Module: c.Callee}
}

func (observer) Past(*flow.Call) (flow.Past, bool) { return flow.Past{}, false }

func (f observer) Started(c *flow.Call) { f(f.event(CallStarted, c)) }

func (f observer) Attempt(c *flow.Call, n int, waited time.Duration) {
	e := f.event(AttemptStarted, c)
	e.Attempt, e.Waited = n, waited
	f(e)
}

func (f observer) Failed(c *flow.Call, n int, err error, began, ended time.Time) {
	e := f.event(AttemptFailed, c)
	e.Attempt, e.Err, e.Duration = n, err, ended.Sub(began)
	f(e)
}

func (f observer) Queued(c *flow.Call, n int, what driver.Source, d time.Duration) {
	e := f.event(AttemptQueued, c)
	e.Attempt, e.Delay, e.Source = n, d, what.String()
	f(e)
}

func (f observer) Retry(c *flow.Call, n int, w flow.Wait) {
	e := f.event(RetryScheduled, c)
	e.Attempt, e.Delay, e.Err = n, w.Delay, w.Err
	f(e)
}

func (f observer) Finished(c *flow.Call, end flow.End) {
	e := f.event(CallFinished, c)
	e.Attempt, e.Duration, e.Err, e.Cached = end.Attempts, end.Took-end.Waited, end.Err, end.Cached
	e.Waited = end.Waited
	e.CacheErr = end.Unkept
	e.Degraded, e.Skipped = end.Outcome == flow.Degraded, end.Outcome == flow.Skipped
	f(e)
}
