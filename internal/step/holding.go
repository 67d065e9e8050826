package step

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry/driver"
)

// MachineLimits are the named limits that all runs of the machine share. They are safe for
// concurrent use.
type MachineLimits interface {
	// Take waits until a slot and a token of each limit are free, and takes them
	// together. The error is the cause of ctx, or says what is wrong with the limits.
	Take(ctx context.Context, r limits.Request) (limits.Held, error)
	// Pause has all runs wait until a time that use one of the limits, where it is
	// shared so.
	Pause(names []string, until time.Time, by, why string) error
}

// Holding is what an item or an attempt has of the named limits. What is inside of it
// needs nothing more of the same limits, and so cannot wait for itself. It belongs to one
// goroutine.
type Holding struct {
	outer *Holding
	names []string
	held  limits.Held // nil: it is given back, for good or for a while
	leaf  bool        // nothing else runs under it
}

// has says whether a limit is held here or around.
func (h *Holding) has(name string) bool {
	for ; h != nil; h = h.outer {
		if slices.Contains(h.names, name) {
			return true
		}
	}
	return false
}

// inside is the place of what runs while something is held for it; nil: nothing is.
func (p Place) inside(h *Holding) Place {
	if h != nil {
		p.Holding = h
	}
	return p
}

// all are the names of the limits that are held here and around.
func (h *Holding) all() (names []string) {
	for ; h != nil; h = h.outer {
		names = append(names, h.names...)
	}
	return names
}

// tell says in the environment of a call what is held around it.
func (x *Executor) tell(p *Place, c *Call) *Call {
	names := p.Holding.all()
	if len(names) == 0 {
		return c
	}
	own := *c
	outer, _ := x.Values.Get(limits.AroundEnv)
	own.Environ = c.Environ.Export(limits.AroundEnv, limits.Around(outer, names))
	return &own
}

// disorder is an error where one of some limits comes before one that is held: two runs
// which take them the other way round would wait for each other.
func (h *Holding) disorder(need []string) error {
	for ; h != nil; h = h.outer {
		for _, held := range h.names {
			for _, name := range need {
				if name < held {
					return inputError("the limit %q is to be taken while %q is held around; limits are taken in the order of their names: name %s there as well", name, held, name)
				}
			}
		}
	}
	return nil
}

// Leaf says that nothing else runs under it.
func (h *Holding) Leaf() { h.leaf = true }

// Release gives back what is held here, not what is around.
func (h *Holding) Release() {
	if h != nil && h.held != nil {
		h.held.Release()
		h.held = nil
	}
}

// agentLimits are the limits of the agent that an action asks.
func (x *Executor) agentLimits(a workflow.Action) []workflow.LimitRef {
	if cfg := x.AgentConfigs[agentName(a)]; cfg != nil {
		return cfg.Limits
	}
	return nil
}

// stepLimits are the limits of an attempt at a step: its own, and those of the agent
// that it asks.
func (x *Executor) stepLimits(s *workflow.Step) []string {
	return workflow.LimitNames(s.Limits, x.agentLimits(s.Action))
}

// Wanted is what an item or an attempt wants of the named limits.
type Wanted struct {
	Names    []string
	Path     string              // of the step; "": it is for an item
	Number   int                 // of the attempt
	Priority int                 // more than 0: before others
	Waits    func(*limits.Block) // if not nil, it is called before a wait
}

// Hold waits for limits, those left out that are held around, and takes them. It is nil
// where there is nothing to take.
func (x *Executor) Hold(ctx context.Context, p Place, w Wanted) (*Holding, error) {
	need := slices.DeleteFunc(slices.Clone(w.Names), p.Holding.has)
	if len(need) == 0 || x.Machine == nil {
		return nil, nil
	}
	h := &Holding{outer: p.Holding, names: need}
	if err := p.Holding.disorder(need); err != nil {
		return nil, err
	}
	return h, x.retake(ctx, p, h, w)
}

// retake takes what a holding has, again where it was given back.
func (x *Executor) retake(ctx context.Context, p Place, h *Holding, w Wanted) (err error) {
	if h == nil || h.held != nil {
		return nil
	}
	ctx, end := x.Life.Until(ctx)
	defer end()
	h.held, err = x.Machine.Take(ctx, limits.Request{
		Names: h.names, Clock: x.Clock, Who: limits.Who{Run: x.Run, Name: x.File.Name, Item: p.Item, Step: w.Path}, Waits: w.Waits,
		Index: p.Index, Round: p.Attempt, Number: w.Number, Priority: w.Priority, MaxPause: cmp.Or(x.Agents.MaxWait, policy.DefaultRateLimitMaxWait),
	})
	if e := new(limits.PausedError); errors.As(err, &e) {
		now := x.Clock.Now()
		return x.stopBeyond(ctx, p, e.Block.Until.Sub(now), MetLimit("the limit "+e.Block.Limit), e, now)
	}
	return err
}

// ShowWait shows that an attempt, or an item, waits for a named limit: it does not run yet.
func (x *Executor) ShowWait(p Place, path string, n int, b *limits.Block) {
	e := p.Event(event.AttemptQueued, path)
	e.Attempt, e.Message, e.Data = n, "waits for "+b.String(), Data(map[string]any{"for": b.For(), "limit": b.Limit, "paused": b.Paused, "behind": b.Before})
	if !b.Until.IsZero() {
		e.DelayMS = max(b.Until.Sub(x.Clock.Now()), 0).Milliseconds()
	}
	x.Recorder.Show(e)
}

// pauseLimits has other runs wait as well that use the limits which were held when
// somebody was told to wait.
func (x *Executor) pauseLimits(h *Holding, until time.Time, why error) {
	for ; h != nil; h = h.outer {
		if err := x.Machine.Pause(h.names, until, x.Run, x.text(why.Error()).Ends(Brief)); err != nil {
			x.Note("the pause could not be shared with other runs: %v", err)
		}
	}
}

// turn lets the attempts of one operation begin: not while the run is held, not past
// its breaker, and not past the limits of the machine.
type turn struct {
	driver.Admission // its breaker
	o                *operation
	names            []string
}

// Admit waits, and asks the breaker. What has to wait for a limit gives its ticket
// back meanwhile, and asks again before it begins.
func (t *turn) Admit(ctx context.Context, n int, queued func(driver.Source, time.Duration)) error {
	o := t.o
	if err := o.Life.Turn(ctx); err != nil {
		return err
	}
	if err := t.Admission.Admit(ctx, n, queued); err != nil || len(t.names) == 0 {
		return err
	}
	began := time.Time{}
	h, err := o.Hold(ctx, *o.p, Wanted{Names: t.names, Path: o.path, Number: o.made + n, Priority: o.s.Priority, Waits: func(b *limits.Block) {
		if began.IsZero() {
			began = o.Clock.Now()
			t.Admission.Done(driver.End{Outcome: circuit.Neutral})
		}
		o.heldBack.limit = b.Limit
		o.ShowWait(*o.p, o.path, o.made+n, b)
	}})
	if err != nil {
		if began.IsZero() {
			t.Admission.Done(driver.End{Outcome: circuit.Neutral})
		}
		return err
	}
	if !began.IsZero() {
		o.heldBack.time = o.Clock.Now().Sub(began)
		if err = t.Admission.Admit(ctx, n, queued); err != nil {
			h.Release()
			return err
		}
	}
	if h != nil {
		switch o.s.Action.(type) {
		case *workflow.Foreach, *workflow.Validate, *workflow.GoalSeek, *workflow.Call, *workflow.Pipeline:
		default:
			h.Leaf()
		}
	}
	o.holding = h
	return nil
}

// Done gives everything back.
func (t *turn) Done(end driver.End) {
	o := t.o
	o.GiveBack(o.holding, end.Err)
	o.holding = nil
	t.Admission.Done(end)
}

// GiveBack gives back what an attempt has held that ended with an error, or nil. Where that
// was told when to come back, other runs wait as well that use the same limits.
func (x *Executor) GiveBack(h *Holding, err error) {
	if h != nil && h.leaf && err != nil {
		if f := failure.From(err); f.RateLimited && f.RetryAfter > 0 {
			x.pauseLimits(h, x.Clock.Now().Add(f.RetryAfter), err)
		}
	}
	h.Release()
}
