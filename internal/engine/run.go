package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/local"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/bide-dev/bide/retry/driver"
)

// run is one run in one process: its parts, each of which has an owner, and the
// order in which it goes through its phases.
type run struct {
	opt     Options
	file    *workflow.File
	state   *journal.State // what was recorded before this process; never nil
	started time.Time

	host    host
	j       *journal.Journal // of a machine, as is acts
	acts    *local.Actions
	env     *environ.Environment
	x       *step.Executor
	seals   *items.Seals
	flows   *dataflow.Flows
	gitWork *gitwork.Work
	// notBefore, if not nil, gives the time before which the nth work item to start does not.
	notBefore func(n int) time.Time

	control letters.Control
	tally   tally
}

// Run starts a workflow and takes it to its end. The error is not nil only
// where the run could not begin or its journal could not be kept; how the
// workflow itself ended is in the summary.
func Run(ctx context.Context, opt Options) (*Summary, error) {
	if opt.Pipeline != nil {
		opt.File = opt.Pipeline.AsFile()
	}
	if err := fill(&opt); err != nil {
		return nil, err
	}
	if err := preflight(opt); err != nil {
		return nil, err
	}
	h, err := opt.header()
	if err != nil {
		return nil, err
	}
	j, err := opt.Store.Create(h)
	if err != nil {
		return nil, err
	}
	return execute(ctx, opt, j, &journal.State{})
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
	defer func() { // while the disk works, what commands have left is looked for
		settled := begin(j.Settle)
		err = errors.Join(err, sup.Close(), settled())
	}()
	r := &run{opt: opt, file: opt.File, j: j, state: state, started: time.Now()}
	if opt.Part != nil && !opt.Part.Begin && !state.Started.IsZero() {
		r.started = state.Started
	}
	if err := letters.Forget(j); err != nil {
		return nil, err
	}
	end := r.local(sup)
	defer end()
	if opt.Commands != nil {
		opt.Commands(sup.Suspend)
	}
	g := guard{soft: opt.Soft, grace: opt.Grace, j: j, x: r.x, control: &r.control, kill: func() { sup.KillAll(syscall.SIGKILL) }}
	ctx, stop := g.watch(ctx)
	defer stop()

	sum := r.whole(ctx)
	sum.Dir = j.Dir()
	return sum, nil
}

// begin begins to do something, and gives the function that waits for its end.
func begin(do func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return func() error { return <-done }
}

// local composes a run on the ports of this machine.
func (r *run) local(sup *proc.Supervisor) (end func()) {
	f := r.file
	r.host = machine{r}
	rec := &local.Recorder{Journal: r.j, Sinks: r.opt.Sinks, Masks: func() *mask.Masker { return r.env.Mask() }}
	if r.opt.Part != nil {
		rec.Kept, rec.Synced = r.opt.Part.Kept, r.opt.Part.Sync
	}
	r.acts = &local.Actions{
		Recorder: rec,
		World:    &action.World{Proc: sup, HTTP: r.opt.HTTP, Agents: r.opt.pipelines().Agents(f), SkipPermissions: f.SkipPermissions || r.opt.SkipPermissions},
		Terminal: r.opt.Terminal,
		Tracing:  r.opt.Tracing,
		Apart:    r.opt.Part != nil,
		Pipeline: f.Kind == workflow.Dataflow,
	}
	x := &step.Executor{Clock: clock.Machine{}, Recorder: rec, Run: r.j.Run(), Ask: r.opt.Ask}
	x.Actions, x.Skipped = step.Checked{Actions: r.acts, Note: x.NoteOnce}, x.WarnMisspelt
	if len(workflow.Limits(f)) == 0 || r.opt.Part != nil { // a part has no other runs beside it, and its file none
		return r.compose(x, dataflow.Options{Journal: r.j})
	}
	home := limits.Open(r.opt.Store.Dir, sup.Keep)
	x.Machine = home
	composed := r.compose(x, dataflow.Options{Journal: r.j})
	return func() {
		composed()
		if err := home.Close(); err != nil {
			r.note("the limits of this machine: %v", err)
		}
	}
}

// compose completes the executor of a run, which has its ports, and its pipelines.
func (r *run) compose(x *step.Executor, flows dataflow.Options) (end func()) {
	r.x = x
	x.File, x.AgentConfigs = r.file, r.opt.pipelines().Agents(r.file)
	r.env, r.gitWork = r.environment(), &gitwork.Work{}
	x.Values = r.env
	r.seals = items.NewSeals(r.env, r.dir())
	x.Life, end = step.NewLifecycle(x.Clock, r.opt.Soft)
	x.Limits.Breakers, x.Limits.Now = breakers{r}, x.Clock.Now
	flows.Executor, flows.Env, flows.MaxParallel, flows.FailFast = x, r.env, r.opt.MaxParallel, r.opt.FailFast
	r.flows = dataflow.New(flows)
	x.Pipeline = r.flows.Step
	x.Agents.MaxCost, x.Agents.MaxTokens = r.file.MaxCost, r.file.MaxTokens
	return end
}

// breakers keeps the states of breakers in the journal, so that a resumed run has
// them as they were.
type breakers struct{ r *run }

func (b breakers) Save(name string, before, after circuit.Snapshot) {
	b.r.emit(event.Event{Type: event.BreakerChanged, Label: name, From: before.State.String(), To: after.State.String(), Data: data(after)})
}

func (b breakers) Load(name string) (s circuit.Snapshot, ok bool) {
	rec, ok := b.r.state.Breakers[name]
	if !ok || len(rec.Data) == 0 {
		return s, false
	}
	if err := json.Unmarshal(rec.Data, &s); err != nil {
		b.r.note("the recorded state of the breaker of %s cannot be read, and it begins closed: %v", name, err)
		return s, false
	}
	return s, true
}

// dir is the directory of the run; "" where it has none.
func (r *run) dir() string {
	if r.j == nil {
		return ""
	}
	return r.j.Dir()
}

// resumed reports whether the run has an earlier life.
func (r *run) resumed() bool { return r.state.Seq > 0 }

// whole is the run from its first event to its last.
func (r *run) whole(ctx context.Context) *Summary {
	err := r.loadEnv(ctx)
	begin := event.Event{Type: event.RunStarted, Label: r.file.Name}
	facts := map[string]any{"path": r.file.Path, "kind": r.file.Kind.String(), "dir": r.opt.Dir, "dry_run": false}
	if params, err := r.opt.recorded().given(); err == nil && params != nil {
		facts["params"] = params
	}
	life := 1
	if r.resumed() {
		c := r.state.Items.Counts()
		begin.Type, begin.Total, life = event.RunResumed, c.Total, r.state.Resumes+2
		facts = map[string]any{"items": ItemCounts{Total: c.Total, Succeeded: c.Succeeded, Failed: c.Failed, Skipped: c.Skipped, Unchanged: c.Unchanged, Pending: c.Pending}}
		if !r.state.Held.IsZero() {
			facts["paused_since"] = r.state.Held
		}
		r.otherwise(facts)
	}
	if t := r.opt.Tracing; t != nil {
		maps.Copy(facts, t.Begin(r.x.Run, life, r.state.Origin))
	}
	begin.Data = data(facts)
	if r.opt.Part == nil || r.opt.Part.Begin {
		r.emit(begin)
	}
	for _, n := range r.env.Notes {
		r.note("%s", n)
	}
	if err == nil {
		r.restore()
		err = r.isolate(ctx)
	}
	if err == nil && r.opt.composed != nil {
		r.opt.composed(r.x)
	}
	if err == nil {
		err = r.phases(ctx)
	}
	if err == nil {
		var merged bool
		if merged, err = r.host.merge(ctx); err == nil && !merged && r.file.Merge != nil {
			r.note("the merge block is left out: the run has no worktree of its own, so there is nothing to merge (isolation: %s)", r.isolation())
		}
	}
	if err != nil && ctx.Err() != nil {
		err = r.x.Life.Stopping(ctx) // whatever it died of, it did so while it was being ended
	}
	if errors.Is(err, errPart) {
		return &Summary{Run: r.x.Run, Name: r.file.Name, Status: event.Running, Err: err}
	}
	return r.finish(ctx, r.finally(ctx, err))
}

// otherwise adds to the facts of a resume what is not as the run was begun with: the
// number of items at once that was asked for, and that its file is another one.
func (r *run) otherwise(facts map[string]any) {
	if r.opt.MaxParallel > 0 {
		facts["max_parallel"] = r.opt.MaxParallel
	}
	if !r.opt.Force {
		return
	}
	if _, changed := changedFile(r.j.Header(), nil); changed != "" {
		facts["file_changed"] = true
	}
}

// phases runs what the file is made of.
func (r *run) phases(ctx context.Context) error {
	t, err := r.x.Span(ctx, r.site(), r.file.Timeout)
	if err != nil {
		return fmt.Errorf("timeout: %w", err)
	}
	if r.x.Agents.MaxWait, err = r.x.Span(ctx, r.site(), r.file.MaxWait); err != nil {
		return fmt.Errorf("max_wait: %w", err)
	}
	return r.within(ctx, t)
}

// parts runs the parts of a file in their order.
func (r *run) parts(ctx context.Context) error {
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

// dataflow runs the run's own pipeline.
func (r *run) dataflow(ctx context.Context) error {
	out, err := r.flows.Run(ctx, r.site(), r.opt.Pipeline, r.opt.Inputs, "")
	r.env.Scope.Set("outputs", out)
	return err
}

// site is where the steps of the workflow itself run.
func (r *run) site() step.Site {
	p := step.Site{Scope: r.env.Scope, Dir: r.env.Dir(), Env: r.env.Base(), Past: r.state.Steps, Alone: true}
	if r.gitWork.Tree != nil {
		count, _ := r.env.Get("GIT_CONFIG_COUNT")
		p.Env = p.Env.Export(worktree.StepEnv(count)...)
	}
	return p
}

// finish tells the end and gives the summary.
func (r *run) finish(ctx context.Context, err error) *Summary {
	s := &Summary{
		Run: r.x.Run, Name: r.file.Name, Status: event.Succeeded, DurationMS: r.x.Clock.Now().Sub(r.started).Milliseconds(),
		Steps:     r.x.Tally.Counts(),
		Items:     r.tally.items,
		Outputs:   r.outputs(),
		Errors:    r.tally.classes.list(),
		Repeated:  r.tally.repeated,
		Usage:     r.x.Agents.Used(),
		Notes:     r.env.Notes,
		MapReduce: r.file.Kind == workflow.MapReduce, Pipeline: r.file.Kind == workflow.Dataflow, Err: err,
		AllowFailedItems: r.opt.AllowFailedItems || r.file.AllowFailedItems, FailOn: r.opt.FailOn,
	}
	if err == nil {
		err = r.host.settle(context.WithoutCancel(ctx))
		s.Err = err
	}
	s.Status, s.Message, s.Class = r.ending(err)
	s.MergeWith = r.gitWork.MergeWith
	if n := r.unmended(); n > 0 && err == nil {
		what, which := "step", ""
		if names := r.tally.unmended; len(names) > 0 {
			what, which = "item", " ("+strings.Join(names, ", ")+", …)"
			if len(names) == n {
				which = " (" + strings.Join(names, ", ") + ")"
			}
		}
		r.note("%s%s failed and %s tolerated: the repair in on_failure did not help, so the exit status is 3. To allow this, write fail_workflow: false in on_failure; to end the run there, fail_workflow: true",
			diag.Count(n, what), which, diag.Plural(n, "was", "were"))
	}
	r.emit(event.Event{Type: event.RunFinished, Status: s.Status, DurationMS: s.DurationMS,
		Class: s.Class, Message: s.Message, Data: data(map[string]any{
			"steps": s.Steps, "items": s.Items, "outputs": s.Outputs, "errors": s.Errors, "usage": s.Usage, "name": s.Name})})
	return s
}

// ending is how a run ends with an error, or with none.
func (r *run) ending(err error) (status, message, class string) {
	switch {
	case err == nil && (r.tally.failed || len(r.gitWork.Lost) > 0 || r.unmended()+r.tally.unmerged+r.gitWork.Unmerged > 0):
		return event.CompletedWithFailures, "", ""
	case err == nil:
		return event.Succeeded, "", ""
	case errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled):
		return event.Interrupted, "interrupted", "cancelled"
	}
	return event.Failed, r.x.Values.Mask().Text(err.Error()).Ends(step.Brief), driver.Class(err)
}

// unmended is how many items, or steps of the run itself, failed and were tolerated
// though nothing in the file says that they may.
func (r *run) unmended() int { return max(r.tally.items.Unmended, r.x.Tally.Counts().Unmended) }

// emit records an event and tells it to those who watch.
func (r *run) emit(e event.Event) { _ = r.x.Recorder.Record(e) }

// note tells a warning.
func (r *run) note(format string, args ...any) { r.x.Note(format, args...) }

// data is the data of an event.
func data(v any) json.RawMessage { return step.Data(v) }

// environment makes the environment of the run, which is not computed yet.
func (r *run) environment() *environ.Environment {
	known := map[string]any{"workflow": map[string]any{"name": r.file.Name, "id": r.x.Run, "iteration": int64(1)}}
	for i, a := range r.opt.Args {
		known[fmt.Sprintf("ARG_%d", i+1)] = a
	}
	return environ.New(environ.Options{
		File: r.file, Inherited: r.opt.Environ, Profile: r.opt.Profile, Run: r.x.Run, Dir: r.opt.Dir, Vars: known,
		Command: r.host.compute, Now: r.x.Clock.Now, Warn: r.x.NoteOnce,
	})
}

// loadEnv computes the environment and the secrets, and with them the mask.
func (r *run) loadEnv(ctx context.Context) error {
	ctx, stop := r.x.Life.Until(ctx) // no step runs yet, to which an interrupt would leave time
	defer stop()
	err := r.env.Load(ctx)
	workflow.Hide(r.file, r.env.Mask())
	return err
}

// outputs are what the run leaves for its caller.
func (r *run) outputs() map[string]any {
	out := map[string]any{}
	v, ok := r.env.Scope.Lookup("outputs")
	if m, is := v.V.(map[string]any); ok && is {
		maps.Copy(out, m)
	}
	return out
}
