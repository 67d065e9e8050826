package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/clock"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/local"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/proc"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// NoCompanion leaves out the process that ends what is left when this one is
// killed. Tests set it where nobody is killed: to start a second process for
// each of a thousand runs would be most of their time.
var NoCompanion bool

// local composes a run on the ports of this machine.
func (r *run) local(sup *proc.Supervisor) (end func()) {
	f := r.file
	r.host = machine{r}
	rec := &local.Recorder{Journal: r.j, Sinks: r.opt.Sinks, Masks: func() *mask.Masker { return r.env.Mask() }}
	if r.opt.Journaled != nil {
		r.opt.Journaled(r.j.Written)
	}
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
	if r.opt.Part != nil { // which has no other runs beside it, and names no limits
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
	x.File, x.AgentConfigs, x.Processors = r.file, r.opt.pipelines().Agents(r.file), r.opt.Processors
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
	if err != nil && r.opt.Part != nil { // what is missing here may be there where the run was started
		host, herr := os.Hostname()
		err = errors.Join(fmt.Errorf("on the worker %s: %w", host, err), herr)
	}
	return err
}

// restore takes over what an earlier life recorded beside steps and items.
func (r *run) restore() {
	u, now := r.state.Usage, r.x.Clock.Now()
	r.x.Tally.Restore(r.state.ItemSteps)
	pause := r.state.Pause.Resumed(now)
	if idle := now.Sub(pause.Until); pause.Streak > 0 && idle > 0 {
		pause.Since = pause.Since.Add(idle) // nobody waited for the limit: that is nothing of max_wait
	}
	r.x.Agents.Restore(step.Usage{InputTokens: int64(u["input_tokens"]), OutputTokens: int64(u["output_tokens"]),
		CacheTokens: int64(u["cache_tokens"]), OtherTokens: int64(u["other_tokens"]), CostUSD: u["cost_usd"], Calls: int(u["calls"])}, pause)
	for name, p := range r.state.AgentPauses {
		r.x.Agents.RestoreMember(name, p, now)
	}
	r.control.Keep(r.x, r.state, r.opt.Part != nil)
	if spent := r.x.Agents.Spent(); spent != nil {
		r.x.Life.Halt(spent)
	}
}
