package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/unchanged"
	"github.com/bide-dev/bide/internal/workflow"
)

// mapRun is the map of a run: what package mapper runs on each item.
type mapRun struct {
	r       *run
	p       step.Site
	m       *mapper.Map
	timeout time.Duration // of an agent

	mu     sync.Mutex
	edited map[int][]byte // the data of items that were edited in this life
	past   pasts          // the steps of items that were left in flight, until they start again
	kinds  event.KindCounts
	// unmended are the names of the first items of which a repair did not mend a step.
	unmended []string
	queue    *mergeQueue  // nil: work is merged as items end
	redBase  map[int]bool // checks of items that fail on the base as well, by place
	taken    map[int]bool // items that a former life merged, and this one has finished
	// unchanged knows what is unchanged since an earlier run; nil: nobody asks.
	unchanged *unchanged.Map
}

// mapPhase runs the map over all items that are not finished.
func (r *run) mapPhase(ctx context.Context, p step.Site) error {
	x, err := r.newMap(ctx, p, r.tally.items.Total)
	if err != nil {
		return err
	}
	if err := r.host.compare(ctx, x); err != nil {
		return err
	}
	if r.host.earlier() != nil {
		if err := x.restore(ctx); err != nil {
			return err
		}
	}
	if part := r.opt.Part; part != nil && part.Halt != "" {
		x.m.Halt(part.Halt)
	}
	if x.m.Open() {
		if err := r.gitWork.Freeze(ctx); err != nil {
			return err
		}
		if err := r.host.ready(ctx, x); err != nil {
			return err
		}
		ended := func() {}
		if x.queue != nil {
			ended = x.queue.run(ctx)
		}
		x.run(ctx)
		ended()
		if err := r.gitWork.Drain(ctx); err != nil {
			return errors.Join(x.end(), err)
		}
	}
	return x.end()
}

func (r *run) newMap(ctx context.Context, p step.Site, n int) (*mapRun, error) {
	cfg, err := r.mapConfig(ctx, p)
	if err != nil {
		return nil, err
	}
	deciding := r.itemJitter(&cfg)
	x := &mapRun{r: r, p: p}
	x.p.Quiet, x.p.Alone, x.p.Keep = true, false, true
	if err := x.setTimeouts(ctx); err != nil {
		return nil, err
	}
	if x.queue = x.newQueue(); x.queue != nil {
		r.gitWork.Verify = x.queue.verifyFinal
	}
	options := mapper.Options{
		Policy: cfg, Total: n, Clock: r.x.Clock, Recorder: r.x.Recorder, Items: x.items, Template: x,
		Strict: r.file.Durability == "strict", Name: r.x.Run,
		Stopping: func() error { return r.x.Life.Stopping(ctx) },
		Held:     func() bool { _, held := r.x.Life.Held(); return held },
		StopText: func(s policy.StopReason) string { return stopText(s, r.file.Policy) },
		Failed: func(class, message, item, label string) {
			m := r.env.Mask()
			r.tally.classes.add(class, m.Text(message), m.String(item), m.String(label))
		},
		Requeued: r.tally.classes.forget, Deciding: deciding, NotBefore: r.notBefore,
	}
	if x.queue != nil {
		options.HoldChanged = x.queue.nudge
	}
	if len(r.file.Policy.OnHold) > 0 {
		options.OnHold = x.onHold
	}
	if len(r.file.Map.ItemLimits) > 0 && r.x.Machine != nil {
		options.Admit = x.admit
	}
	x.m, err = mapper.New(options)
	x.p.Pauses = x.m
	return x, err
}

// admit waits until the limits of the machine let an item begin.
func (x *mapRun) admit(ctx context.Context, it event.Item) (*step.Holding, error) {
	p := x.p
	p.Item, p.Index = it.ID, it.Index
	return x.r.x.Hold(ctx, p, workflow.LimitNames(x.r.file.Map.ItemLimits), "", func(b *limits.Block) { x.r.x.ShowWait(p, "", 0, b) })
}

// setTimeouts takes the timeouts of agents and of their commands.
func (x *mapRun) setTimeouts(ctx context.Context) error {
	r, f := x.r, x.r.file.Map
	agent, commands := f.Limits()
	var err error
	if x.timeout, err = r.x.Span(ctx, x.p, agent); err != nil {
		return fmt.Errorf("map.agent_timeout: %w", err)
	}
	x.p.Limits = map[string]time.Duration{}
	for name, d := range commands {
		if x.p.Limits[name], err = r.x.Span(ctx, x.p, d); err != nil {
			return fmt.Errorf("timeout_config.command_timeouts.%s: %w", name, err)
		}
	}
	grace, err := r.x.Span(ctx, x.p, f.TimeoutGrace)
	if err != nil {
		return fmt.Errorf("timeout_config.cleanup_grace_period_secs: %w", err)
	}
	r.host.grace(grace)
	return nil
}

// mapConfig turns the file's error policy into that of the machine.
func (r *run) mapConfig(ctx context.Context, p step.Site) (policy.Config, error) {
	f, ep := r.file.Map, r.file.Policy
	cfg := policy.Config{
		Handler: ep.Handler, ContinueOnFailure: &ep.ContinueOnFailure, MaxFailures: ep.MaxFailures,
		MaxRecoveries: ep.MaxRecoveries, RateLimitMaxWait: r.x.Agents.MaxWait,
	}
	var err error
	if cfg.StartDelay, err = r.x.Span(ctx, p, r.file.StartDelay); err != nil {
		return cfg, fmt.Errorf("start_delay: %w", err)
	}
	if cfg.MaxParallel, err = r.x.Number(ctx, p, f.Parallel); err != nil {
		return cfg, fmt.Errorf("map.max_parallel: %w", err)
	}
	cfg.Adaptive = f.Adaptive
	if f.Adaptive != nil && f.Adaptive.Min == 0 {
		cfg.Adaptive = &policy.Adaptive{Max: f.Adaptive.Max, Initial: cmp.Or(r.opt.Processors, runtime.GOMAXPROCS(0))}
	}
	if n := cmp.Or(r.control.Parallel(), r.opt.MaxParallel); n > 0 {
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
	if n := r.opt.Canary; n > 0 {
		cfg.Canary = &policy.Canary{Items: n}
	}
	return cfg, nil
}

// itemJitter has the delay before an item's next attempt drawn for the item that
// the machine decides about, which it is told of.
func (r *run) itemJitter(cfg *policy.Config) (deciding func(index, attempt int)) {
	if r.x.Rand == nil || cfg.Retry == nil {
		return nil
	}
	item := &drawn{}
	cfg.Retry.Rand = item
	return func(index, attempt int) {
		item.Rand = r.x.Rand(step.Place{Phase: "map", Index: index, Attempt: attempt}, step.ItemJitter)
	}
}

// drawn is a source of jitter that is another one for each item.
type drawn struct{ backoff.Rand }

// run runs the map. While it goes on, it owns the rate-limit pause of the run.
func (x *mapRun) run(ctx context.Context) {
	defer func() { x.r.x.Agents.SetPause(x.m.Pause()) }()
	defer x.r.host.requests(ctx, x)()
	x.r.control.Begin(x.m)
	defer x.r.control.Begin(nil)
	x.watched(ctx)
}

// watched runs the map, and has it look when the run stops.
func (x *mapRun) watched(ctx context.Context) {
	until, over := context.WithCancel(ctx)
	x.r.x.Clock.Together(2, func(i int) {
		if i == 0 {
			defer over()
			x.m.Run(ctx)
			return
		}
		_ = x.r.x.Clock.Wait(until, -1, x.r.x.Life.Done()) // either is a reason to look
		x.m.Wake()
	})
}

// items reads work items with their secrets, and as they were edited.
func (x *mapRun) items(ctx context.Context, from, limit int) ([]event.Item, error) {
	list, err := x.r.host.items(ctx, from, limit)
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range list {
		it := &list[i]
		if data := x.edited[it.Index]; data != nil {
			it.Data = data
		} else if data := x.r.state.Items.Edited(it.Index); data != nil {
			it.Data = data
		}
		if err == nil {
			err = x.r.seals.Open(it)
		}
	}
	return list, err
}

// restore tells the map where each item stood.
func (x *mapRun) restore(ctx context.Context) error {
	st := x.r.state
	x.r.tally.classes.restore(st.Items.Errors())
	var err error
	earlier := x.r.host.earlier()
	if x.past, err = earlier.ItemSteps(ctx, st); err != nil {
		return err
	}
	if st.Hold != nil { // an attempt that failed while the map was held does not count, though its end is not on record
		maps.DeleteFunc(x.past, func(_ int, p map[string]journal.StepRecord) bool { return past(p).failed() })
	}
	rec := mapper.Recorded{
		Items: st.Items.All(), Breaker: st.Breakers[mapper.Breaker].Data, Hold: st.Hold, QueueHold: st.QueueHold, CanaryPassed: st.CanaryPassed, Width: st.Width, Pause: x.r.x.Agents.Pause(),
		Event: earlier.Event, TakeOver: x.takeOver, Results: earlier.Results(ctx),
		GoOn: x.r.resumed() && st.Status != "" && st.Status != event.Running,
	}
	if err := x.m.Restore(ctx, rec); err != nil || st.Items.Counts().Succeeded == 0 {
		return err
	}
	for res, err := range earlier.Results(ctx) {
		if err != nil {
			return err
		}
		var d itemData
		if res.Status != event.Unchanged && !x.taken[res.Index] && bytes.Contains(res.Data, []byte(`"kind":`)) && json.Unmarshal(res.Data, &d) == nil {
			x.counted(d, cmp.Or(res.Label, res.ID))
		}
	}
	return nil
}

// end gives the map's result.
func (x *mapRun) end() error {
	o := x.m.Outcome()
	c := o.Counts
	x.r.tally.items = ItemCounts{Total: c.Total, Succeeded: c.Succeeded, Failed: c.Failed, Skipped: c.Skipped, Unchanged: c.Unchanged, Pending: c.Pending + c.Running + c.Retrying, KindCounts: x.kinds}
	x.r.tally.failed, x.r.tally.unmended = o.Failed, x.unmended
	if rep := o.Repeated; rep != nil {
		rep.Message = x.r.env.Mask().String(rep.Message)
		x.r.tally.repeated = rep
	}
	switch {
	case o.Stopped != nil:
		return o.Stopped
	case o.Stop != policy.NotStopped:
		return &PolicyError{Reason: string(o.Stop), What: stopText(o.Stop, x.r.file.Policy), Counts: x.r.tally.items}
	}
	return nil
}

func stopText(s policy.StopReason, ep workflow.ErrorPolicy) string {
	switch s {
	case policy.ByMaxFailures:
		return fmt.Sprintf("%d items have failed for good (max_failures: %d)", ep.MaxFailures, ep.MaxFailures)
	case policy.ByFailureThreshold:
		return fmt.Sprintf("the rate of failed items has reached %.4g (failure_threshold)", ep.FailureThreshold)
	case policy.ByFirstFailure:
		return "an item failed for good (continue_on_failure: false)"
	case policy.ByItemFailure:
		return "an item failed for good (on_item_failure: stop)"
	case policy.BySameError:
		return "the same thing keeps failing (same_error)"
	case policy.ByCanary:
		return "too few of the first items succeeded (canary)"
	case policy.ByRateLimit:
		return "a rate limit lasts longer than max_wait"
	case policy.ByShortage:
		return "for a minute the system had no room for another process (ulimit -u, ulimit -n, memory): run fewer at once (max_parallel), or raise the limit"
	}
	return string(s)
}

// PolicyError is a map that its error policy stopped.
type PolicyError struct {
	Reason string
	What   string
	Counts ItemCounts
}

func (e *PolicyError) Error() string {
	return fmt.Sprintf("the map was stopped: %s; %d of %d items had succeeded, %d failed, %d were not finished", e.What, e.Counts.Succeeded, e.Counts.Total, e.Counts.Failed, e.Counts.Pending)
}

// Class is "policy".
func (e *PolicyError) Class() string { return "policy" }
