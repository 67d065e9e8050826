package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/policy"
)

// mapRun drives the pure machine of a map: workers ask it what to do, run an
// agent, and tell it how that ended.
type mapRun struct {
	r        *run
	p        place
	feed     feed
	timeout  time.Duration // of an agent
	strict   bool
	parallel int
	stopped  error // the run's own reason to stop
	before   earlier

	mu    sync.Mutex
	m     *policy.Machine
	wake  chan struct{} // closed when something changed that waiting workers may want
	sleep int           // workers that wait
	names map[int]failedName
	inRow int // agents that failed one after another, as last recorded
}

// mapPhase runs the map over all items that are not finished.
func (r *run) mapPhase(ctx context.Context, p place) error {
	n := r.items.Total
	x, err := r.newMap(ctx, p, n)
	if err != nil {
		return err
	}
	if err := x.restore(ctx); err != nil {
		return err
	}
	if x.m.Counts().Finished() < n {
		if err := r.freeze(ctx); err != nil {
			return err
		}
		x.work(ctx)
	}
	return x.end(ctx)
}

func (r *run) newMap(ctx context.Context, p place, n int) (*mapRun, error) {
	cfg, err := r.mapConfig(p)
	if err != nil {
		return nil, err
	}
	m, err := policy.New(cfg, n)
	if err != nil {
		return nil, err
	}
	x := &mapRun{r: r, p: p, m: m, wake: make(chan struct{}), parallel: cfg.MaxParallel, strict: r.file.Durability == "strict"}
	x.feed.r = r
	x.p.quiet = true
	f := r.file.Map
	t := r.span(f.AgentTimeout)
	x.p.limits = map[string]time.Duration{}
	for kind, d := range f.CommandTimeouts {
		x.p.limits[kind] = r.span(d)
	}
	if f.TimeoutPolicy != "per_command" {
		x.timeout = t
	}
	if t > 0 && (f.TimeoutPolicy == "per_command" || f.TimeoutPolicy == "hybrid") {
		for _, kind := range []string{"shell", "claude", "http"} {
			if x.p.limits[kind] == 0 {
				x.p.limits[kind] = t
			}
		}
	}
	r.world.Grace = r.span(f.TimeoutGrace)
	return x, nil
}

// mapConfig turns the file's error policy into that of the machine.
func (r *run) mapConfig(p place) (policy.Config, error) {
	f, ep := r.file.Map, r.file.Policy
	cfg := policy.Config{
		Handler: ep.Handler, ContinueOnFailure: &ep.ContinueOnFailure, MaxFailures: ep.MaxFailures,
		StartDelay: r.span(r.file.StartDelay), MaxRecoveries: ep.MaxRecoveries, RateLimitMaxWait: r.file.MaxWait.D,
	}
	var err error
	if cfg.MaxParallel, err = r.number(f.Parallel, p.scope); err != nil {
		return cfg, fmt.Errorf("map.max_parallel: %w", err)
	}
	if r.opt.MaxParallel > 0 {
		cfg.MaxParallel = r.opt.MaxParallel
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
	if ep.Retry != nil {
		pol := ep.Retry.Policy()
		cfg.Retry = &pol
	}
	return cfg, nil
}

// work runs the workers until the machine says that the map is over.
func (x *mapRun) work(ctx context.Context) {
	stopWatch := x.watch(ctx)
	defer stopWatch()
	defer x.requests(ctx)()
	var wg sync.WaitGroup
	for range min(x.parallel, x.r.items.Total) {
		wg.Go(func() { x.worker(ctx) })
	}
	wg.Wait()
}

// watch halts the machine when the run stops.
func (x *mapRun) watch(ctx context.Context) func() {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		case <-x.r.soft.Done():
		case <-x.r.halted.Done():
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.halt(ctx)
	})
	return func() { close(done); wg.Wait() }
}

// halt stops the start of items when the run stops. The lock is held.
func (x *mapRun) halt(ctx context.Context) {
	if why := x.r.stopping(ctx); why != nil && x.stopped == nil {
		x.stopped = why
		x.m.Halt(policy.StopReason("stopping"))
		x.broadcast()
	}
}

// broadcast wakes the workers that wait. The lock is held.
func (x *mapRun) broadcast() {
	if x.sleep > 0 {
		close(x.wake)
		x.wake = make(chan struct{})
		x.sleep = 0
	}
}

func (x *mapRun) worker(ctx context.Context) {
	// With durability strict, the end of an item is on the disk before the
	// worker does anything else. Where the next thing is another item, its start
	// has to be on the disk as well, and one sync is for both.
	ended := false
	for {
		x.mu.Lock()
		x.halt(ctx) // not left to watch, which may come too late for the next item
		now := time.Now()
		d := x.m.Next(now)
		if ended && d.Kind != policy.Start {
			x.mu.Unlock()
			x.sync(ctx)
			ended = false
			continue
		}
		switch d.Kind {
		case policy.Start:
			ended = x.start(ctx, d, now) && x.strict // unlocks
		case policy.Finished:
			x.broadcast()
			x.mu.Unlock()
			return
		default:
			x.wait(d, now) // unlocks
		}
	}
}

// sync has on the disk what is recorded. A failure to write ends the run by
// itself.
func (x *mapRun) sync(ctx context.Context) {
	if err := x.r.j.Sync(ctx); err != nil && x.r.stopping(ctx) == nil {
		x.r.note("the end of an item: %v", err)
	}
}

// wait waits until the machine may say something else. It gives the lock back.
func (x *mapRun) wait(d policy.Decision, now time.Time) {
	wake := x.wake
	x.sleep++
	x.mu.Unlock()
	if d.Kind == policy.Idle {
		<-wake
		return
	}
	t := time.NewTimer(d.Until.Sub(now))
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	}
}

// end gives the map's result.
func (x *mapRun) end(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.m.Counts()
	x.r.items = ItemCounts{Total: c.Total, Succeeded: c.Succeeded, Failed: c.Failed, Skipped: c.Skipped, Pending: c.Pending + c.Running + c.Retrying}
	if d := x.m.Next(time.Now()); d.Kind == policy.Finished {
		x.r.itemsFailed = d.Status == policy.CompletedWithFailures
	}
	sum := x.m.Summary()
	x.show(sum.Show)
	if x.stopped != nil && x.r.items.Pending > 0 {
		return x.stopped
	}
	if s := x.m.Stopped(); s != policy.NotStopped && x.stopped == nil {
		return &PolicyError{Reason: string(s), What: stopText(s, x.r.file.Policy), Counts: x.r.items}
	}
	return nil
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
