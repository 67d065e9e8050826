package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/bide-dev/bide/retry"
)

// Options is what a run is started with. What is recorded and used again by a
// resume is in [Settings].
type Options struct {
	Settings
	Store *journal.Store
	File  *workflow.File
	// Pipeline is what is run instead of File.
	Pipeline *Pipeline

	// Sinks get every event after it is recorded, secrets masked, in order.
	Sinks []event.Sink
	// Soft, when it is done, stops the start of new work: what runs has Grace
	// to end. The context given to Run ends everything at once. nil: never.
	Soft context.Context
	// Grace is the time that running steps have after Soft; 0 means 10 s.
	Grace time.Duration
	// Ask puts a yes-or-no question to a person; nil where nobody is there.
	Ask func(question string) bool
	// Environ is the inherited environment; nil means os.Environ().
	Environ []string
	HTTP    *http.Client
	// Force goes on with a run whose file has changed.
	Force bool
}

// Settings are the recorded part of Options.
type Settings struct {
	Dir              string            `json:"dir"`
	Args             []string          `json:"args,omitempty"`
	Files            []string          `json:"files,omitempty"`
	Params           map[string]string `json:"params,omitempty"`
	ParamFile        map[string]any    `json:"param_file,omitempty"`
	Profile          string            `json:"profile,omitempty"`
	MaxParallel      int               `json:"max_parallel,omitempty"`
	MaxIterations    int               `json:"max_iterations,omitempty"`
	FailFast         bool              `json:"fail_fast,omitempty"`
	Isolation        string            `json:"isolation,omitempty"`
	Yes              bool              `json:"yes,omitempty"`
	AllowFailedItems bool              `json:"allow_failed_items,omitempty"`
	Version          string            `json:"version,omitempty"`
	// Inputs and Manifest are those of a pipeline.
	Inputs   map[string]any `json:"inputs,omitempty"`
	Manifest string         `json:"manifest,omitempty"`
}

// DefaultGrace is how long running steps have after the first interrupt.
const DefaultGrace = 10 * time.Second

// ErrInterrupted is the cause of a run that was stopped from outside and can
// be resumed.
var ErrInterrupted = errors.New("interrupted")

// run is one run in one process.
type run struct {
	opt   Options
	file  *workflow.File
	id    string
	j     *journal.Journal
	state *journal.State // what was recorded before this process; never nil
	world *action.World
	dir   string // where steps run
	mask  *mask.Masker
	// itemSecrets are the secrets that are masked in the journal's items, by index.
	itemSecrets map[int]seals
	env         *environment
	base        []string // env as a list
	scope       *vars.Scope
	varFiles    outputFiles
	// declared are the names of env blocks, env files and secrets.
	declared map[string]bool
	sink     []event.Sink

	soft context.Context
	// halt ends the start of new work from inside: a full disk, a budget.
	halt   context.CancelCauseFunc
	halted context.Context

	agents   gate
	breakers breakers
	quotas   quotas
	flows    flows
	usage    usage
	notes    []string
	once     once
	started  time.Time
	resumed  bool

	stepsDone, stepsFailed, stepsSkipped atomic.Int64
	items                                ItemCounts
	itemsFailed                          bool // some items failed for good
	classes                              classes

	repo      *worktree.Repo  // nil outside git
	tree      *worktree.Run   // the run's worktree; nil without isolation
	git       bool            // step.* and workflow.* of the git context are read somewhere
	tellState bool            // git.* are read somewhere
	head      *worktree.Point // where the git context of the workflow begins
	emu       sync.Mutex      // keeps sinks in the order of the journal
}

// Summary is how a run ended: the data of run_finished.
type Summary struct {
	Run        string         `json:"run"`
	Name       string         `json:"name,omitempty"`
	Status     string         `json:"status"`
	DurationMS int64          `json:"duration_ms"`
	Steps      StepCounts     `json:"steps"`
	Items      ItemCounts     `json:"items"`
	Outputs    map[string]any `json:"outputs"`
	Class      string         `json:"class,omitempty"`
	Message    string         `json:"message,omitempty"`
	Errors     []ErrorClass   `json:"errors,omitempty"`
	Usage      *Usage         `json:"usage,omitempty"`
	Notes      []string       `json:"notes,omitempty"`
	MapReduce  bool           `json:"-"`
	Pipeline   bool           `json:"-"`
	Dir        string         `json:"-"` // of the run's journal
	Err        error          `json:"-"`
}

// StepCounts counts executed steps.
type StepCounts struct {
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Skipped   int64 `json:"skipped"`
}

// ItemCounts counts the items of a map.
type ItemCounts struct {
	Total     int `json:"total"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Skipped   int `json:"skipped"`
	Pending   int `json:"pending"`
}

// ErrorClass is one class of errors with an example.
type ErrorClass struct {
	Class   string `json:"class"`
	Count   int    `json:"count"`
	Example string `json:"example"`
	Item    string `json:"item,omitempty"`
}

// ExitStatus is the exit status of the process.
func (s *Summary) ExitStatus(allowFailedItems bool) int {
	switch s.Status {
	case event.Succeeded:
		return 0
	case event.CompletedWithFailures:
		if allowFailedItems {
			return 0
		}
		return 3
	case event.Interrupted:
		return 130
	}
	return 1
}

// Run starts a workflow and takes it to its end. The error is not nil only
// where the run could not begin or its journal could not be kept; how the
// workflow itself ended is in the summary.
func Run(ctx context.Context, opt Options) (*Summary, error) {
	if opt.Pipeline != nil {
		opt.File = opt.Pipeline.asFile()
	}
	if err := fill(&opt); err != nil {
		return nil, err
	}
	if err := preflight(opt); err != nil {
		return nil, err
	}
	settings, err := json.Marshal(opt.Settings)
	if err != nil {
		return nil, err
	}
	j, err := opt.Store.Create(journal.Header{
		Name: opt.File.Name, Path: absolute(opt.File.Path), Kind: opt.File.Kind.String(), Dir: opt.Dir,
		Source: opt.File.Source, Others: opt.File.Others, Options: settings,
		Started: time.Now(), BideVersion: opt.Version,
	})
	if err != nil {
		return nil, err
	}
	return execute(ctx, opt, j, &journal.State{})
}

func absolute(path string) string {
	if a, err := filepath.Abs(path); err == nil {
		return a
	}
	return path
}

func fill(opt *Options) error {
	if opt.Environ == nil {
		opt.Environ = os.Environ()
	}
	if opt.Soft == nil {
		opt.Soft = context.Background()
	}
	if opt.Grace == 0 {
		opt.Grace = DefaultGrace
	}
	dir, err := filepath.Abs(opt.Dir)
	if err != nil {
		return err
	}
	opt.Dir = dir
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("the working directory: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("the working directory %s is no directory", dir)
	}
	return nil
}

// preflight reports, before anything starts, the agents that steps need and
// that are not there.
func preflight(opt Options) error {
	f, environ := opt.File, opt.Environ
	inside := opt.pipelines()
	agents := inside.agents(f)
	need := map[string]string{} // program: agent
	ask := func(name string) {
		if name == "" {
			name = action.DefaultAgent
		}
		cfg := agents[name]
		switch {
		case cfg != nil && len(cfg.Command) > 0 && cfg.Command[0].IsLiteral():
			need[cfg.Command[0].String()] = name
		case cfg == nil:
			need["claude"] = name
		}
	}
	workflow.WalkAll(f, func(s *workflow.Step) {
		if a, ok := s.Action.(*workflow.Claude); ok {
			ask(a.Provider)
		}
		if a, ok := s.Retry.FallbackAction().(*workflow.Claude); ok {
			ask(a.Provider)
		}
	})
	var unknown diag.List
	for _, pl := range inside.Loaded {
		unknown = append(unknown, pl.unknownAgents(agents)...)
		pl.agents(ask)
	}
	unknown.Sort() // several pipelines may have one manifest
	errs := []error{inside.Err(), unknown.Err()}
	for _, program := range slices.Sorted(maps.Keys(need)) {
		if _, err := proc.LookPath(program, environ); err != nil {
			errs = append(errs, fmt.Errorf("the agent %s is needed by a step, but its program %s was not found: install it, or configure another command under `agents:` in %s", need[program], program, f.Path))
		}
	}
	return errors.Join(errs...)
}

// noCompanion leaves out the process that ends what is left when this one is
// killed. Tests set it where nobody is killed: to start a second process for
// each of a thousand runs would be most of their time.
var noCompanion bool

// execute runs a workflow on an open journal, which it closes.
func execute(ctx context.Context, opt Options, j *journal.Journal, state *journal.State) (_ *Summary, err error) {
	defer func() { err = errors.Join(err, j.Close()) }()
	sup, err := proc.New(j.ProcDir(), proc.Options{NoCompanion: noCompanion})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sup.Close()) }()
	r := &run{
		opt: opt, file: opt.File, id: j.Run(), j: j, state: state, dir: opt.Dir,
		sink: opt.Sinks, soft: opt.Soft, started: time.Now(), resumed: state.Seq > 0,
		world: &action.World{Proc: sup, HTTP: opt.HTTP, Agents: opt.pipelines().agents(opt.File), SkipPermissions: opt.File.SkipPermissions},
	}
	r.varFiles.init(j.Dir())
	r.halted, r.halt = context.WithCancelCause(context.Background())
	defer r.halt(nil)
	ctx, stop := r.watch(ctx)
	defer stop()

	sum := r.whole(ctx)
	if err := j.Sync(context.WithoutCancel(ctx)); err != nil {
		return sum, err
	}
	return sum, nil
}

// watch gives the context of everything that the run starts. It ends some time
// after soft is done, when running steps had their grace, and at once when the
// journal can no longer be written.
func (r *run) watch(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-r.soft.Done():
		case <-r.j.Failed():
			r.halt(fmt.Errorf("the journal cannot be written: %w", r.j.Err()))
		case <-done:
			return
		}
		grace := time.NewTimer(r.opt.Grace)
		defer grace.Stop()
		select {
		case <-grace.C:
			cancel(ErrInterrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		<-ended
		cancel(nil)
	}
}

// stopping gives the reason for which nothing new is started, or nil.
func (r *run) stopping(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		if cause := context.Cause(ctx); errors.As(cause, new(*TimeoutError)) {
			return cause
		}
		return ErrInterrupted // whatever the caller's reason is
	case r.soft.Err() != nil:
		return ErrInterrupted
	case r.halted.Err() != nil:
		err := context.Cause(r.halted)
		if begun, _ := ctx.Value(begunKey{}).(bool); begun && errors.As(err, new(*BudgetError)) {
			return nil
		}
		return err
	}
	return nil
}

// begunKey marks the context of work that comes to its end although a budget of
// the run is spent: an agent that has begun.
type begunKey struct{}

func begun(ctx context.Context) context.Context { return context.WithValue(ctx, begunKey{}, true) }

// whole is the run from its first event to its last.
func (r *run) whole(ctx context.Context) *Summary {
	err := r.setupEnv(ctx)
	if r.resumed {
		c := r.state.Items.Counts()
		r.emit(event.Event{Type: event.RunResumed, Label: r.file.Name, Total: c.Total, Data: data(map[string]any{
			"items": ItemCounts{Total: c.Total, Succeeded: c.Succeeded, Failed: c.Failed, Skipped: c.Skipped, Pending: c.Pending}})})
	} else {
		r.emit(event.Event{Type: event.RunStarted, Label: r.file.Name, Data: data(map[string]any{
			"path": r.file.Path, "kind": r.file.Kind.String(), "dir": r.opt.Dir, "dry_run": false})})
	}
	for _, n := range r.notes {
		r.emit(event.Event{Type: event.Note, Message: n})
	}
	if err == nil {
		r.restore()
		err = r.isolate(ctx)
	}
	if err == nil {
		err = r.phases(ctx)
	}
	switch {
	case err != nil:
	case r.tree != nil:
		err = r.mergeBack(ctx)
	case r.file.Merge != nil:
		r.note("the merge block is left out: the run has no worktree of its own, so there is nothing to merge (isolation: %s)", r.isolation())
	}
	return r.finish(ctx, err)
}

// phases runs what the file is made of.
func (r *run) phases(ctx context.Context) error {
	if t := r.span(r.file.Timeout); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &TimeoutError{What: "the workflow", After: t})
		defer cancel()
	}
	if err := r.subWorkflows(ctx); err != nil {
		return err
	}
	switch r.file.Kind {
	case workflow.MapReduce:
		return r.mapReduce(ctx)
	case workflow.Dataflow:
		return r.dataflow(ctx)
	}
	return r.standard(ctx)
}

// finish tells the end and gives the summary.
func (r *run) finish(ctx context.Context, err error) *Summary {
	s := &Summary{
		Run: r.id, Name: r.file.Name, Status: event.Succeeded, DurationMS: time.Since(r.started).Milliseconds(),
		Steps:     StepCounts{r.stepsDone.Load(), r.stepsFailed.Load(), r.stepsSkipped.Load()},
		Items:     r.items,
		Outputs:   r.outputs(),
		Errors:    r.classes.list(),
		Usage:     r.usage.total(),
		Notes:     r.notes,
		MapReduce: r.file.Kind == workflow.MapReduce, Pipeline: r.file.Kind == workflow.Dataflow, Dir: r.j.Dir(), Err: err,
	}
	switch {
	case err == nil && r.itemsFailed:
		s.Status = event.CompletedWithFailures
	case err == nil:
	case errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled):
		s.Status, s.Message, s.Class = event.Interrupted, "interrupted", "cancelled"
	default:
		s.Status, s.Message, s.Class = event.Failed, r.clip(err.Error()), retry.Class(err)
	}
	r.emit(event.Event{Type: event.RunFinished, Status: s.Status, DurationMS: s.DurationMS,
		Class: s.Class, Message: s.Message, Data: data(map[string]any{
			"steps": s.Steps, "items": s.Items, "outputs": s.Outputs, "errors": s.Errors, "usage": s.Usage, "name": s.Name})})
	return s
}

// emit records an event and tells it to those who watch.
func (r *run) emit(e event.Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Run = r.id
	if r.mask.Active() {
		e.Message = r.mask.String(e.Message)
		e.Label = r.mask.String(e.Label)
		e.Item = r.mask.String(e.Item)
		e.Data = r.mask.Bytes(e.Data)
	}
	if len(e.Message) > inline && e.Type != event.Output && e.Type != event.AgentMessage {
		e.Message = clip(e.Message)
	}
	if len(r.sink) == 0 {
		if e.Type != event.Output {
			// A journal that cannot be written ends the run through Failed.
			_, _ = r.j.Record(e)
		}
		return
	}
	r.emu.Lock()
	defer r.emu.Unlock()
	if e.Type != event.Output {
		if rec, err := r.j.Record(e); err == nil {
			e = rec
		}
	}
	for _, s := range r.sink {
		s.Emit(e)
	}
}

// note tells a warning.
func (r *run) note(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	r.emit(event.Event{Type: event.Note, Message: msg})
}

func (r *run) noteOnce(key, msg string) {
	if r.once.first(key) {
		r.note("%s", msg)
	}
}

// data marshals the data of an event.
func data(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(map[string]string{"unrepresentable": err.Error()})
	}
	return b
}

// setBuiltins sets the variables that every run has.
func (r *run) setBuiltins() {
	s := r.scope
	s.SetTrusted("workflow", map[string]any{"name": r.file.Name, "id": r.id, "iteration": int64(1)})
	s.SetTrusted("PROJECT_ROOT", r.dir)
	s.SetTrusted("WORKTREE", r.dir)
	for i, a := range r.opt.Args {
		s.SetTrusted(fmt.Sprintf("ARG_%d", i+1), a)
	}
}

// outputs are what the run leaves for its caller.
func (r *run) outputs() map[string]any {
	out := map[string]any{}
	v, ok := r.scope.Lookup("outputs")
	if m, is := v.V.(map[string]any); ok && is {
		maps.Copy(out, m)
	}
	return out
}

// classes gathers failures by class, with an example of each.
type classes struct {
	mu sync.Mutex
	m  map[string]*ErrorClass
}

func (c *classes) add(class, example, item string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]*ErrorClass{}
	}
	e := c.m[class]
	if e == nil {
		e = &ErrorClass{Class: class, Example: clip(example), Item: item}
		c.m[class] = e
	}
	e.Count++
}

// restore counts the failures of items in earlier lives of the run.
func (c *classes) restore(list []journal.ErrorClass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range list {
		if c.m == nil {
			c.m = map[string]*ErrorClass{}
		}
		c.m[e.Class] = &ErrorClass{Class: e.Class, Count: e.Count, Example: e.Message, Item: e.Item}
	}
}

// forget takes back one failure: its item is run again.
func (c *classes) forget(class string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.m[class]; e != nil {
		if e.Count--; e.Count == 0 {
			delete(c.m, class)
		}
	}
}

func (c *classes) list() []ErrorClass {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []ErrorClass
	for _, e := range c.m {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b ErrorClass) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		if a.Class < b.Class {
			return -1
		}
		return 1
	})
	return out
}
