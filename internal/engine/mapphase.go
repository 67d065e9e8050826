package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/bide-dev/bide/retry"
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

// restore tells the machine where each item stood.
func (x *mapRun) restore(ctx context.Context) error {
	st := x.r.state
	now := time.Now()
	if b, ok := st.Breakers[mapBreaker]; ok && len(b.Data) > 0 {
		var s policy.Snapshot
		if err := json.Unmarshal(b.Data, &s); err != nil {
			return fmt.Errorf("the recorded state of the map's breaker: %w", err)
		}
		if err := x.m.RestoreSnapshot(s); err != nil {
			return err
		}
	}
	skipped := policy.ItemPassed
	if x.r.file.Policy.OnItemFailure == "skip" {
		skipped = policy.ItemSkipped
	}
	x.r.classes.restore(st.Items.Errors())
	for index, rec := range st.Items.All() {
		x.before.set(index, rec.Before)
		if rec.Status == journal.ItemPending && rec.Recoveries == 0 && rec.Retry.Failures == 0 && rec.Merging == "" {
			continue // it has not begun
		}
		if rec.Merging != "" {
			took, err := x.takeOver(ctx, index, rec)
			if err != nil {
				return err
			}
			if took {
				rec = journal.ItemRecord{Status: journal.ItemSucceeded}
			}
		}
		v, err := x.m.Restore(index-1, itemState(rec, skipped), now)
		if err != nil {
			return err
		}
		if v.Fate.FailedForGood() && !rec.Status.Done() {
			x.given(v, rec)
		}
	}
	x.r.items.Total = x.m.Counts().Total
	x.m.Resume(x.r.resumed && st.Status != "" && st.Status != event.Running)
	return nil
}

// itemState is what the journal knows of an item, as the machine wants it.
func itemState(rec journal.ItemRecord, skipped policy.Fate) policy.ItemState {
	s := policy.ItemState{Attempts: rec.Retry.Failures, Recoveries: rec.Recoveries, Retry: retryState(rec.Retry), NotBefore: rec.Retry.NotBefore}
	switch rec.Status {
	case journal.ItemWaiting:
		s.Standing = policy.WasWaiting
	case journal.ItemPending, journal.ItemRunning:
		if rec.Recoveries == 0 { // an interrupt returned it between two attempts
			s.Standing = policy.WasWaiting
			break
		}
		// The journal has counted this recovery already.
		s.Standing = policy.WasRunning
		s.Recoveries = max(0, rec.Recoveries-1)
	case journal.ItemSucceeded:
		s.Standing, s.Fate = policy.WasFinished, policy.ItemSucceeded
	case journal.ItemSkipped:
		s.Standing, s.Fate = policy.WasFinished, skipped
	case journal.ItemDeadLettered:
		s.Standing, s.Fate = policy.WasFinished, policy.ItemDeadLettered
	case journal.ItemFailed:
		s.Standing, s.Fate = policy.WasFinished, policy.ItemFailed
	}
	return s
}

// given makes a dead letter of an item that took the run down too often, or
// whose retry budget has passed while nothing ran.
func (x *mapRun) given(v policy.Verdict, rec journal.ItemRecord) {
	it, err := x.r.j.Item(context.Background(), v.Item+1)
	if err != nil {
		x.r.note("item %d: %v", v.Item+1, err)
		return
	}
	why := fmt.Errorf("the retries that are recorded allow no further attempt (%s)", v.Reason)
	if v.Exhausted {
		why = fmt.Errorf("it was running %d times when the run went down", rec.Recoveries)
	}
	x.record(agentRun{item: it, attempt: rec.Attempts, start: time.Now()}, v, &classError{"recovery", why})
}

type classError struct {
	class string
	err   error
}

func (e *classError) Error() string { return e.err.Error() }
func (e *classError) Unwrap() error { return e.err }
func (e *classError) Class() string { return e.class }

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

// agentRun is one attempt at one item.
type agentRun struct {
	item    journal.Item
	attempt int
	start   time.Time
	tree    *worktree.Agent
	scope   *vars.Scope
	data    itemData
}

// itemData is what item_finished carries of an item's result.
type itemData struct {
	Output   string   `json:"output"`
	File     string   `json:"output_file,omitempty"`
	Size     int64    `json:"output_size,omitempty"`
	Digest   string   `json:"output_sha256,omitempty"`
	Commits  []string `json:"commits,omitempty"`
	Files    []string `json:"files_modified,omitempty"`
	Branch   string   `json:"branch,omitempty"`
	Worktree string   `json:"worktree,omitempty"`
	Log      string   `json:"log,omitempty"`
	Handled  bool     `json:"handled,omitempty"`
}

// start runs an agent for the item that the machine offers. It is called with
// the lock and gives it back. It reports whether the end of an item may be
// recorded that is not synced yet.
func (x *mapRun) start(ctx context.Context, d policy.Decision, now time.Time) bool {
	change, err := x.m.Started(d.Item, now)
	if err != nil {
		x.mu.Unlock()
		return true // another worker took it
	}
	x.changed(change)
	attempt := x.before[d.Item+1] + d.Attempt
	x.mu.Unlock()

	it, err := x.feed.item(ctx, d.Item+1)
	unread := err != nil
	a := agentRun{item: it, attempt: attempt, start: now}
	if err == nil {
		x.r.emit(event.Event{Type: event.ItemStarted, Time: now, Phase: "map", Item: it.ID, Label: x.startLabel(it), Index: it.Index, Attempt: attempt})
		if x.strict {
			err = x.r.j.Sync(ctx)
		}
	}
	if err == nil {
		err = x.agent(ctx, &a, d)
	} else if x.r.stopping(ctx) != nil {
		err = ErrInterrupted
	}
	return x.done(ctx, a, d, err) || unread
}

// agent runs the template's steps on an item.
func (x *mapRun) agent(ctx context.Context, a *agentRun, d policy.Decision) error {
	ctx = begun(ctx)
	if x.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, x.timeout, &TimeoutError{What: "the agent of item " + a.item.ID, After: x.timeout})
		defer cancel()
	}
	p := x.p
	p.item, p.index, p.attempt, p.steps = a.item.ID, a.item.Index, a.attempt, nil
	p.scope = x.p.scope.Child()
	a.scope = p.scope
	if err := setItem(p.scope, a.item, x.r.items.Total); err != nil {
		return err
	}
	p = p.with("BIDE_ATTEMPT", strconv.Itoa(a.attempt), "BIDE_ITEM", envSafe(a.item.ID))
	if d.Recoveries > 0 {
		p = p.with("BIDE_RECOVERED", strconv.Itoa(d.Recoveries))
	}
	p.scope.Set("attempt", int64(a.attempt))
	leave, err := x.r.enter(ctx, &p, a)
	if err != nil {
		return err
	}
	err = x.r.block(ctx, p, x.r.file.Map.Template, "agent_template")
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrInterrupted) {
		var te *TimeoutError
		if cause := context.Cause(ctx); errors.As(cause, &te) && !errors.As(err, &te) {
			err = cause
		}
	}
	x.collect(p, a)
	return leave(ctx, err)
}

// envSafe keeps an id from ending the environment.
func envSafe(s string) string {
	for i := range len(s) {
		if s[i] == 0 {
			return s[:i]
		}
	}
	return s
}

// setItem sets the variables of a work item. A plain line is ${item} and
// ${item.item} alike.
func setItem(sc *vars.Scope, it journal.Item, total int) error {
	v, err := itemValue(it.Data)
	if err != nil {
		return fmt.Errorf("item %s: %w", it.ID, err)
	}
	sc.SetValue("item", v)
	if _, isMap := v.V.(map[string]any); !isMap {
		sc.SetValue("item.item", v)
	}
	sc.Set("item_json", string(it.Data))
	sc.Set("item_id", it.ID)
	sc.Set("item_index", int64(it.Index-1))
	sc.Set("item_total", int64(total))
	return nil
}

// collect takes an item's output: that of its last step.
func (x *mapRun) collect(p place, a *agentRun) {
	m, _ := p.scope.Get("last").(map[string]any)
	out, _ := m["output"].(string)
	a.data.Output = x.r.clip(out)
	if f, ok := m["output_file"].(string); ok && len(out) > inline {
		a.data.File = f
	}
	if len(out) > inline && a.data.File == "" {
		if name, err := x.r.saveOutput(a.item.Index, a.attempt, out); err == nil {
			a.data.File = name
		} else {
			x.r.noteOnce("save", fmt.Sprintf("the output of item %s: %v", a.item.ID, err))
		}
	}
	if len(out) > inline {
		a.data.Size = int64(len(out))
	}
}

// done tells the machine how an agent ended and records what it decides. It
// reports whether the item has ended for good.
func (x *mapRun) done(ctx context.Context, a agentRun, d policy.Decision, err error) bool {
	o := policy.Outcome{OK: err == nil}
	interrupted := err != nil && x.r.stopping(ctx) != nil && (errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled) || errors.As(err, new(*BudgetError)))
	skip := false
	if err != nil {
		o.Err, o.Cancelled = bare(err), interrupted
		o.RetryAfter = retryAfter(err)
		o, skip = x.timedOut(o, err)
	}
	var limited *action.AgentError
	x.mu.Lock()
	if errors.As(err, &limited) && limited.Limited {
		// The limit lasts longer than max_wait: no item is to blame.
		o.Cancelled = true
		x.m.Halt(policy.ByRateLimit)
	}
	v, merr := x.m.Finished(d.Item, o, time.Now())
	if merr == nil {
		x.changed(v.Breaker)
		x.counted(v)
		x.record(a, v, err)
		if skip && x.r.file.Map.TimeoutAction == "fail" {
			x.m.Halt("timeout_action: fail")
		}
	}
	x.broadcast()
	x.mu.Unlock()
	if merr != nil {
		x.r.note("item %s: %v", a.item.ID, merr)
	}
	if v.Fate == policy.ItemHandled {
		x.custom(ctx, a, v, err)
	}
	return v.Fate.Final()
}

// retryAfter is how long the other side asked to be left alone.
func retryAfter(err error) time.Duration {
	var e interface{ RetryAfter() (time.Duration, bool) }
	if errors.As(err, &e) {
		if d, ok := e.RetryAfter(); ok {
			return d
		}
	}
	return 0
}

// timedOut applies timeout_action to an agent that took too long.
func (x *mapRun) timedOut(o policy.Outcome, err error) (policy.Outcome, bool) {
	var te *TimeoutError
	act := x.r.file.Map.TimeoutAction
	if act == "" || act == "retry" || !errors.As(err, &te) {
		return o, false
	}
	switch act {
	case "skip":
		o.Skipped, o.Err = true, nil
	case "dlq", "fail", "graceful_terminate":
		o.Err = retry.Permanent(err)
	}
	return o, act == "fail"
}

const mapBreaker = "map"

// changed records a change of the map's breaker.
func (x *mapRun) changed(c *policy.BreakerChange) {
	if c == nil {
		return
	}
	x.r.emit(event.Event{Type: event.BreakerChanged, Phase: "map", Label: mapBreaker,
		From: c.From.String(), To: c.To.String(), Data: data(x.m.Snapshot())})
}

// counted records how many agents have failed in a row, so that a resume's
// breaker opens after as many as this one would.
func (x *mapRun) counted(v policy.Verdict) {
	if x.r.file.Policy.Breaker == nil || v.Breaker != nil {
		return
	}
	s := x.m.Snapshot()
	if s.Breaker == nil || s.Breaker.Failures == x.inRow {
		return
	}
	x.inRow = s.Breaker.Failures
	state := s.Breaker.State.String()
	x.r.emit(event.Event{Type: event.BreakerChanged, Phase: "map", Label: mapBreaker, From: state, To: state, Data: data(s)})
}

// record tells what became of an item. The lock is held, so that the order of
// the records is that of the decisions.
func (x *mapRun) record(a agentRun, v policy.Verdict, err error) {
	e := event.Event{Phase: "map", Item: a.item.ID, Index: a.item.Index, DurationMS: time.Since(a.start).Milliseconds()}
	e.Label = x.label(a)
	switch v.Fate {
	case policy.ItemSucceeded:
		e.Type, e.Status, e.Attempts, e.Data = event.ItemFinished, event.Succeeded, a.attempt, data(a.data)
		x.r.emit(e)
	case policy.ItemPassed:
		e.Type, e.Status, e.Attempts, e.Data = event.ItemFinished, event.Skipped, a.attempt, data(a.data)
		x.r.emit(e)
	case policy.ItemReturned, policy.ItemPaused:
		e.Type, e.Status, e.Attempt = event.ItemFinished, event.Interrupted, a.attempt
		x.r.emit(e)
	case policy.ItemRetry:
		x.failed(&e, a, v, err)
		e.Type, e.Attempt, e.DelayMS = event.ItemRetry, a.attempt, v.Delay.Milliseconds()
		x.r.emit(e)
	default:
		x.failedForGood(e, a, v, err)
	}
	x.show(v.Show)
	if v.Stop != "" {
		x.r.note("the map stops: %s", stopText(v.Stop, x.r.file.Policy))
	}
}

// startLabel is the label of an item that has no scope yet.
func (x *mapRun) startLabel(it journal.Item) string {
	if x.r.file.Map.Label == nil {
		return ""
	}
	sc := x.p.scope.Child()
	if setItem(sc, it, x.r.items.Total) != nil {
		return "" // the item itself fails of it
	}
	return x.label(agentRun{scope: sc})
}

// failedName is what a person knows a failed item by, until its error is shown.
type failedName struct{ id, label string }

// show tells the errors of items that failed for good, when error_collection
// says so: each as it comes, some at a time, or none, as the summary has them.
func (x *mapRun) show(list []policy.Report) {
	for _, rep := range list {
		name := x.names[rep.Item]
		delete(x.names, rep.Item)
		x.r.emit(event.Event{Type: event.Note, Phase: "map", Item: name.id, Label: name.label, Index: rep.Item + 1, Attempts: rep.Attempt,
			Class: rep.Class, Message: fmt.Sprintf("item %s failed after %d attempts: %s", name.id, rep.Attempt, rep.Message)})
	}
}

func (x *mapRun) label(a agentRun) string {
	if x.r.file.Map.Label == nil || a.scope == nil {
		return ""
	}
	text, err := x.r.file.Map.Label.Expand(a.scope)
	if err != nil {
		return ""
	}
	return text
}

// letter is a failed attempt of an item: what item_retry_scheduled and
// item_dead_lettered carry.
type letter struct {
	CorrelationID string    `json:"correlation_id"`
	Attempt       int       `json:"attempt"`
	At            time.Time `json:"at"`
	DurationMS    int64     `json:"duration_ms"`
	Step          string    `json:"step,omitempty"`
	StepLabel     string    `json:"step_label,omitempty"`
	ExitCode      int       `json:"exit_code"`
	Class         string    `json:"class"`
	Message       string    `json:"message"`
	Stderr        string    `json:"stderr,omitempty"`
	Stdout        string    `json:"stdout,omitempty"`
	Worktree      string    `json:"worktree,omitempty"`
	Branch        string    `json:"branch,omitempty"`
	Log           string    `json:"log,omitempty"`
	Eligible      bool      `json:"eligible"`
}

// failed fills an event with what is to be known of a failed attempt.
func (x *mapRun) failed(e *event.Event, a agentRun, v policy.Verdict, err error) letter {
	if err == nil {
		err = errors.New("it failed")
	}
	l := letter{CorrelationID: fmt.Sprintf("%s/%d", x.r.id, a.item.Index), Attempt: a.attempt, At: a.start, DurationMS: e.DurationMS,
		Class: retry.Class(err), Message: err.Error(), Worktree: a.data.Worktree, Branch: a.data.Branch, Log: a.data.Log}
	l.Eligible = l.Class != "recovery" // an item that takes the whole run down is not run again unasked
	var se *StepError
	if errors.As(err, &se) {
		l.Step, l.StepLabel = se.Step, se.Label
	}
	l.ExitCode, _ = exitCode(err)
	var ee *action.ExitError
	if errors.As(err, &ee) {
		l.Stderr, l.Stdout = x.r.tail(ee.Stderr), x.r.tail(ee.Stdout)
	}
	e.Class, e.Message, e.ExitCode, e.Data = l.Class, l.Message, l.ExitCode, data(l)
	return l
}

func (x *mapRun) failedForGood(e event.Event, a agentRun, v policy.Verdict, err error) {
	x.failed(&e, a, v, err)
	x.r.classes.add(e.Class, x.r.mask.String(e.Message), x.r.mask.String(a.item.ID))
	e.Attempts = a.attempt
	if x.names == nil {
		x.names = map[int]failedName{}
	}
	if x.r.file.Policy.Collection != "aggregate" {
		x.names[v.Item] = failedName{a.item.ID, e.Label}
	}
	letterData := e.Data
	e.Type, e.Status = event.ItemFinished, event.Failed
	switch v.Fate {
	case policy.ItemDeadLettered:
		e.Status = event.DeadLettered
	case policy.ItemSkipped:
		e.Status = event.Skipped
	case policy.ItemHandled:
		a.data.Handled = true
	}
	e.Data = data(a.data)
	x.r.emit(e)
	if v.Fate == policy.ItemDeadLettered {
		e.Type, e.Status, e.Data = event.ItemDeadLettered, "", letterData
		x.r.emit(e)
	}
}

func stopText(s policy.StopReason, ep workflow.ErrorPolicy) string {
	switch s {
	case policy.ByMaxFailures:
		return fmt.Sprintf("%d items have failed for good (max_failures: %d)", ep.MaxFailures, ep.MaxFailures)
	case policy.ByFailureThreshold:
		return fmt.Sprintf("more than %.4g of the finished items have failed (failure_threshold)", ep.FailureThreshold)
	case policy.ByFirstFailure:
		return "an item failed for good (continue_on_failure: false)"
	case policy.ByItemFailure:
		return "an item failed for good (on_item_failure: stop)"
	case policy.ByRateLimit:
		return "a rate limit lasts longer than max_wait"
	}
	return string(s)
}

// custom runs the handler of on_item_failure: {custom: NAME}.
func (x *mapRun) custom(ctx context.Context, a agentRun, v policy.Verdict, err error) {
	p := x.p
	p.item, p.index, p.attempt, p.steps = a.item.ID, a.item.Index, a.attempt, nil
	p.scope = a.scope
	if p.scope == nil {
		return
	}
	p.at = "#" + v.Handler
	p.scope.Set("error", map[string]any{"message": err.Error(), "class": retry.Class(err), "attempts": int64(a.attempt)})
	if herr := x.r.sequence(ctx, p, x.r.file.Handlers[v.Handler]); herr != nil {
		x.r.note("the handler %s of item %s failed: %v", v.Handler, a.item.ID, herr)
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

// feed reads work items ahead, in their order.
type feed struct {
	r  *run
	mu sync.Mutex
	m  map[int]journal.Item
}

// ahead is how many items are read at once.
const ahead = 256

// item gives an item, from 1.
func (f *feed) item(ctx context.Context, index int) (journal.Item, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if it, ok := f.m[index]; ok {
		delete(f.m, index)
		return it, nil
	}
	if len(f.m) > 4*ahead {
		f.m = nil // what was read ahead and finished in an earlier life
	}
	list, err := f.r.j.Items(ctx, index, ahead)
	if err != nil {
		return journal.Item{Index: index}, err
	}
	if len(list) == 0 || list[0].Index != index {
		return journal.Item{Index: index}, fmt.Errorf("the journal has no item %d", index)
	}
	if f.m == nil {
		f.m = make(map[int]journal.Item, ahead)
	}
	for i := range list {
		if err := f.r.openItem(&list[i]); err != nil {
			return journal.Item{Index: index}, err
		}
	}
	for _, it := range list[1:] {
		f.m[it.Index] = it
	}
	return list[0], nil
}
