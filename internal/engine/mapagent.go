package engine

import (
	"context"
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
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/bide-dev/bide/retry"
)

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
