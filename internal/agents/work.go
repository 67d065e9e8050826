package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/evidence"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/mergedriver"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// Work runs the map over all items that are not finished.
func (x *Map) Work(ctx context.Context) error {
	if err := x.Host.Compare(ctx, x); err != nil {
		return err
	}
	if x.Host.Earlier() != nil {
		if err := x.restore(ctx); err != nil {
			return err
		}
	}
	if x.Halt != "" {
		x.m.Halt(x.Halt)
	}
	if x.m.Open() {
		if err := x.Git.Freeze(ctx); err != nil {
			return err
		}
		if err := x.Host.Ready(ctx, x); err != nil {
			return err
		}
		ended := func() {}
		if x.queue != nil {
			ended = x.queue.Run(ctx)
		}
		x.run(ctx)
		ended()
		if err := x.Git.Drain(ctx); err != nil {
			return errors.Join(x.end(), err)
		}
	}
	return x.end()
}

// Elsewhere takes over what is recorded of the items, which others work off, and gives the map.
func (x *Map) Elsewhere(ctx context.Context) (*mapper.Map, error) {
	x.p.Pauses = noPauses{}
	return x.m, x.restore(ctx)
}

// noPauses has an agent that a rate limit turned away give its item back: all
// lanes wait, which is not for one of them to decide.
type noPauses struct{}

func (noPauses) Ask(context.Context, time.Time) (round int, until time.Time, beyond bool) {
	return 0, time.Time{}, false
}

func (noPauses) Limited(context.Context, int, time.Duration, step.Met, time.Time) bool { return false }

func (noPauses) Answered(int) {}

// New gives the map of a run, of which nothing runs yet.
func New(ctx context.Context, o Options) (*Map, error) {
	x := &Map{Options: o, p: o.Place}
	cfg, err := x.config(ctx)
	if err != nil {
		return nil, err
	}
	deciding := x.itemJitter(&cfg)
	x.p.Quiet, x.p.Alone, x.p.Keep = true, false, true
	if err := x.setTimeouts(ctx); err != nil {
		return nil, err
	}
	file, life := x.Executor.File, x.Executor.Life
	x.checks = &evidence.Checks{Executor: x.Executor, Git: x.Git, Keep: x.Host.Keep, AllowRed: x.AllowRedBase}
	x.checks.Recall(x.p)
	x.queue = mergedriver.New(mergedriver.Options{Executor: x.Executor, Git: x.Git, Checks: x.checks, Total: x.Total, Counted: x.counted, Label: x.Label})
	options := mapper.Options{
		Policy: cfg, Total: x.Total, Clock: x.Executor.Clock, Recorder: x.Executor.Recorder, Items: x.items, Template: x,
		Strict: file.Durability == "strict", Budgeted: file.Map.Budget != nil, Name: x.Executor.Run,
		Stopping: func() error { return life.Stopping(ctx) },
		Held:     func() bool { _, held := life.Held(); return held },
		StopText: func(s policy.StopReason, c policy.Counts) string { return stopText(s, c, file.Policy) },
		Failed:   func(e event.Event) { x.Tally.Causes.apply(x.Executor.Values.Mask(), e) },
		Deciding: deciding, NotBefore: x.NotBefore,
	}
	if x.queue != nil {
		options.HoldChanged = x.queue.Nudge
	}
	if len(file.Policy.OnHold) > 0 {
		options.OnHold = x.onHold
	}
	if len(file.Map.ItemLimits) > 0 && x.Executor.Machine != nil {
		options.Admit = x.admit
	}
	if x.m, err = mapper.New(options); err != nil {
		return nil, err
	}
	x.p.Pauses = x.m
	if x.queue != nil {
		x.Git.Verify = x.queue.VerifyFinal
		x.queue.Serve(x.m, x.p)
	}
	return x, nil
}

// admit waits until the limits of the machine let an attempt at an item begin.
func (x *Map) admit(ctx context.Context, it event.Item, attempt int) (*step.Holding, error) {
	p := x.p
	p.Item, p.Index, p.Attempt = it.ID, it.Index, attempt
	return x.Executor.Hold(ctx, p, step.Wanted{Names: workflow.LimitNames(x.Executor.File.Map.ItemLimits), Waits: func(b *limits.Block) { x.Executor.ShowWait(p, "", 0, b) }})
}

// setTimeouts takes the timeouts of agents and of their commands.
func (x *Map) setTimeouts(ctx context.Context) error {
	f := x.Executor.File.Map
	agent, commands := f.Limits()
	var err error
	if x.timeout, err = x.Executor.Span(ctx, &x.p, agent); err != nil {
		return fmt.Errorf("map.agent_timeout: %w", err)
	}
	x.p.Limits = map[string]time.Duration{}
	for name, d := range commands {
		if x.p.Limits[name], err = x.Executor.Span(ctx, &x.p, d); err != nil {
			return fmt.Errorf("timeout_config.command_timeouts.%s: %w", name, err)
		}
	}
	grace, err := x.Executor.Span(ctx, &x.p, f.TimeoutGrace)
	if err != nil {
		return fmt.Errorf("timeout_config.cleanup_grace_period_secs: %w", err)
	}
	if grace == 0 {
		grace = -1 // at once, where 0 is the default of a command
	}
	x.Host.Grace(grace)
	return nil
}

// config turns the file's error policy into that of the machine.
func (x *Map) config(ctx context.Context) (policy.Config, error) {
	p, f, ep := x.Place, x.Executor.File.Map, x.Executor.File.Policy
	cfg := policy.Config{
		Handler: ep.Handler, ContinueOnFailure: &ep.ContinueOnFailure, MaxFailures: ep.MaxFailures,
		MaxRecoveries: ep.MaxRecoveries, RateLimitMaxWait: x.Executor.Agents.MaxWait,
	}
	var err error
	if cfg.StartDelay, err = x.Executor.Span(ctx, &p, x.Executor.File.StartDelay); err != nil {
		return cfg, fmt.Errorf("start_delay: %w", err)
	}
	if cfg.MaxParallel, err = x.Executor.Number(ctx, &p, f.Parallel); err != nil {
		return cfg, fmt.Errorf("map.max_parallel: %w", err)
	}
	if f.Adaptive != nil {
		a := f.Adaptive.On(x.Executor.AtFirst())
		cfg.Adaptive = &a
	}
	if n := cmp.Or(x.Control.Parallel(), x.MaxParallel); n > 0 {
		cfg.MaxParallel, cfg.Adaptive = n, nil
	}
	if cfg.MaxParallel < 1 {
		return cfg, fmt.Errorf("map.max_parallel is %d; it must be at least 1", cfg.MaxParallel)
	}
	switch ep.OnItemFailure {
	case "retry":
		cfg.OnItemFailure = policy.Retry
	case "skip":
		cfg.OnItemFailure = policy.Skip
	case "stop":
		cfg.OnItemFailure = policy.Stop
	case "custom":
		cfg.OnItemFailure = policy.Custom
	}
	if ep.FailureThreshold >= 0 {
		cfg.FailureThreshold = &ep.FailureThreshold
	}
	switch ep.Collection {
	case "immediate":
		cfg.ErrorCollection.When = policy.Immediate
	case "batched":
		cfg.ErrorCollection = policy.ErrorCollection{When: policy.Batched, Size: ep.BatchSize}
	}
	if ep.Breaker != nil {
		b := *ep.Breaker
		b.Lease, b.OnChange = 0, nil
		cfg.Breaker = &b
	}
	cfg.Retry = ep.ItemRetry()
	cfg.SameError, cfg.Canary = ep.SameError, f.Canary
	if n := x.Canary; n > 0 {
		cfg.Canary = &policy.Canary{Items: n}
	}
	return cfg, nil
}

// itemJitter has the machine draw the delay before an item's next attempt from a source of
// that item. deciding is to be called with the item before the machine decides.
func (x *Map) itemJitter(cfg *policy.Config) (deciding func(index, attempt int)) {
	if x.Executor.Rand == nil || cfg.Retry == nil {
		return nil
	}
	item := &drawn{}
	cfg.Retry.Rand = item
	return func(index, attempt int) {
		item.Rand = x.Executor.Rand(step.Address{Phase: "map", Index: index, Attempt: attempt}, step.ItemJitter)
	}
}

// drawn is a source of jitter that is another one for each item.
type drawn struct{ backoff.Rand }

// run runs the map. While it is running, it owns the rate-limit pause of the run.
func (x *Map) run(ctx context.Context) {
	defer func() { x.Executor.Agents.SetPause(x.m.Pause()) }()
	defer x.Host.Requests(ctx, x)()
	x.Control.Begin(x.m)
	defer x.Control.Begin(nil)
	x.watched(ctx)
}

// watched runs the map, and has it look when the run stops.
func (x *Map) watched(ctx context.Context) {
	until, over := context.WithCancel(ctx)
	x.Executor.Clock.Together(2, func(i int) {
		if i == 0 {
			defer over()
			x.m.Run(ctx)
			return
		}
		_ = x.Executor.Clock.Wait(until, -1, x.Executor.Life.Done()) // either is a reason to look
		x.m.Wake()
	})
}

// restore tells the map where each item stood.
func (x *Map) restore(ctx context.Context) error {
	st := x.State
	x.Tally.Causes.restore(st.Items.Causes())
	var err error
	earlier := x.Host.Earlier()
	if x.past, err = earlier.ItemSteps(ctx, st); err != nil {
		return err
	}
	if st.Hold != nil { // an attempt that failed while the map was held does not count, though its end is not on record
		maps.DeleteFunc(x.past, func(_ int, p map[string]journal.StepRecord) bool { return past(p).failed() })
	}
	rec := mapper.Recorded{
		Items: st.Items.All(), Breaker: st.Breakers[mapper.Breaker].Data, Hold: st.Hold, QueueHold: st.QueueHold, HoldBegan: st.HoldBegan, QueueHoldBegan: st.QueueHoldBegan,
		CanaryPassed: st.CanaryPassed, Width: st.Width, Pause: x.Executor.Agents.Pause(),
		Event: earlier.Event, TakeOver: x.takeOver, Results: earlier.Results(ctx),
		GoOn: st.Seq > 0 && st.Status != "" && st.Status != event.Running,
	}
	if err := x.m.Restore(ctx, rec); err != nil {
		return err
	}
	ends, err := earlier.At(ctx, st.Items.Kinds())
	if err != nil {
		return err
	}
	for _, e := range ends {
		var d mapper.Result
		if !x.taken[e.Index] && json.Unmarshal(e.Data, &d) == nil {
			x.counted(&d, cmp.Or(e.Label, e.Item))
		}
	}
	return nil
}

// end gives the map's result.
func (x *Map) end() error {
	o := x.m.Outcome()
	c := o.Counts
	x.Tally.Letters = c.DeadLettered
	x.Tally.Items = event.ItemCounts{Total: c.Total, Succeeded: c.Succeeded, Failed: c.Failed, Skipped: c.Skipped, Unchanged: c.Unchanged, Pending: c.Pending + c.Running + c.Retrying, KindCounts: x.kinds}
	x.Tally.Failed, x.Tally.Unmended = o.Failed, x.unmended
	if rep := o.Repeated; rep != nil {
		rep.Message = x.Executor.Values.Mask().String(rep.Message)
		x.Tally.Repeated = rep
	}
	switch {
	case o.Stopped != nil:
		return o.Stopped
	case o.Stop != policy.NotStopped:
		return &PolicyError{Reason: string(o.Stop), What: cmp.Or(x.Executor.Values.Mask().String(o.Why), stopText(o.Stop, c, x.Executor.File.Policy)), Counts: x.Tally.Items}
	}
	return nil
}

func stopText(s policy.StopReason, c policy.Counts, ep workflow.ErrorPolicy) string {
	return s.Text(c.FailedForGood, ep.MaxFailures, ep.FailureThreshold)
}

// PolicyError is a map that its error policy stopped.
type PolicyError struct {
	Reason string
	What   string
	Counts event.ItemCounts
}

func (e *PolicyError) Error() string {
	return fmt.Sprintf("the map was stopped: %s; %d of %d items had succeeded, %d failed, %d did not finish", e.What, e.Counts.Succeeded, e.Counts.Total, e.Counts.Failed, e.Counts.Pending)
}

// Class is "policy".
func (e *PolicyError) Class() string { return "policy" }
