package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/workflow"
)

// A chain of agents asks the first of them that is not paused. A rate limit, and a
// provider that is down, pause that agent alone.

// downAfter is how many failures in a row of the network or of the server say that a
// provider is down.
const downAfter = 3

// member is what is known of an agent of a chain. Chains share it.
type member struct {
	limit policy.RateLimit
	until time.Time
	down  bool // what it waits for is no limit: it failed downAfter times in a row
	row   int  // failures of the network or of the server, in a row
}

// member gives what is known of an agent. The lock is held.
func (g *Agents) member(name string) *member {
	m := g.members[name]
	if m == nil {
		m = &member{limit: policy.NewRateLimit(max(g.MaxWait, 0))}
		if g.members == nil {
			g.members = map[string]*member{}
		}
		g.members[name] = m
	}
	return m
}

// RestoreMember takes over the pause of an agent of a chain.
func (g *Agents) RestoreMember(name string, p event.Pause, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.member(name)
	p = p.Resumed(now)
	m.limit.Restore(p)
	m.until, m.down = p.Until, p.Down
}

// next gives the first agent of a chain that may be asked, and the round to answer with;
// else when the first of them may be.
func (g *Agents) next(chain []workflow.AgentRef, now time.Time) (name string, round int, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range chain {
		m := g.member(r.Name)
		if !m.until.After(now) {
			round, _ = m.limit.Ask(now)
			return r.Name, round, time.Time{}
		}
		if until.IsZero() || m.until.Before(until) {
			until = m.until
		}
	}
	return "", 0, until
}

// down reports whether no agent of a chain is paused by a limit.
func (g *Agents) down(chain []workflow.AgentRef) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !slices.ContainsFunc(chain, func(r workflow.AgentRef) bool { return !g.member(r.Name).down })
}

// answered notes what an agent of a chain answered, and reports whether it is to be paused:
// it was turned away, or its provider is down.
func (g *Agents) answered(name string, round int, f *failure.Failure) (pause bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.member(name)
	switch {
	case f != nil && f.RateLimited:
		return true
	case f != nil && (f.Class == "network" || f.Class == "server_error"):
		m.row++
		return m.row >= downAfter
	}
	m.row = 0
	m.limit.Answered(round)
	return false
}

// pauseMember pauses an agent of a chain, which is down or else met a limit, and gives what
// is to be recorded.
func (g *Agents) pauseMember(name string, round int, after time.Duration, down bool, now time.Time) event.Pause {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.member(name)
	m.limit.Limited(round, after, now)
	p := m.limit.Pause()
	p.Down = down
	m.until, m.down, m.row = p.Until, down, 0
	return p
}

// askChain asks the first agent of a chain that may be asked, and the next at once where
// that one is paused by its answer: no attempt is spent. Where all are paused, it waits for
// the first to come back.
func (x *Executor) askChain(ctx context.Context, p Place, c *Call, chain *workflow.Agent) (action.Result, error) {
	for {
		now := x.Clock.Now()
		if err := x.Life.Stopping(ctx); err != nil {
			return action.Result{Start: now}, err
		}
		_, ends := x.Life.pausing()
		name, round, until := x.Agents.next(chain.FirstOf, now)
		if name == "" {
			if wait := cmp.Or(x.Agents.MaxWait, policy.DefaultRateLimitMaxWait); until.Sub(now) > wait {
				met, why := MetLimit(chain.Name), errAllPaused
				if x.Agents.down(chain.FirstOf) {
					met, why = Met{fmt.Sprintf("all agents of %s are down: they failed %d times in a row", chain.Name, downAfter), true}, errAllDown
				}
				return action.Result{Start: now}, x.stopBeyond(ctx, p, until.Sub(now), met, why, now)
			}
			if err := x.Life.pause(ctx, until.Sub(now), ends); err != nil {
				return action.Result{Start: x.Clock.Now()}, err
			}
			continue
		}
		own := workflow.LimitNames(chain.Limits)
		var mine []string
		asked := *c
		a := *c.Action.(*workflow.Claude)
		a.Provider = name
		asked.Action = &a
		if cfg := x.AgentConfigs[name]; cfg != nil {
			mine = workflow.LimitNames(cfg.Limits)
			var ofStep []workflow.EnvVar // which win
			if c.Step != nil {
				ofStep = c.Step.EnvOf(p.Tried.Number)
			}
			env, err := x.Values.AddStep(ctx, c.Environ, p.Scope, ofStep, cfg.Env)
			if err != nil {
				return action.Result{Start: now}, &action.InputError{Err: err}
			}
			asked.Environ = env
		}
		held, err := x.Hold(ctx, p, x.wantedBy(p, c, append(own, mine...)))
		if err != nil {
			return action.Result{Start: x.Clock.Now()}, err
		}
		res, err := x.ask(ctx, p.inside(held), &asked)
		held.Release()
		x.summed(&res, c.Summary)
		f := failure.From(err)
		if !x.Agents.answered(name, round, f) {
			if e, ok := errors.AsType[*action.AgentError](err); ok {
				// The name is quoted: failures of one cause are alike whoever of the chain meets it.
				e.Agent = fmt.Sprintf("%s %q", chain.Name, e.Agent)
			}
			if first := chain.FirstOf[0].Name; err == nil && name != first {
				res.Instead = name + " in place of " + first
			}
			return res, err
		}
		c.Summary = res.Summary // for the next, which begins again
		x.turnedAway(p, c.Path, res, f)
		x.pausedMember(p, c.Path, chain, name, round, mine, f, err)
	}
}

// errAllPaused and errAllDown are why no agent of a chain is asked.
var (
	errAllPaused = errors.New("all agents of the chain are paused")
	errAllDown   = errors.New("all agents of the chain are down")
)

// stopBeyond has nobody wait for a pause that lasts longer than max_wait; it stops a map.
// met says why it is paused. It gives the error of who would have waited.
func (x *Executor) stopBeyond(ctx context.Context, p Place, lasts time.Duration, met Met, why error, now time.Time) error {
	pauses := cmp.Or[Pauses](p.Pauses, runPauses{x})
	if round, _, beyond := pauses.Ask(ctx, now); !beyond {
		pauses.Limited(ctx, round, lasts, met, now)
		x.Life.EndPauses()
	}
	return x.Agents.beyond(lasts, why)
}

// pausedMember records that an agent of a chain is paused, for this run, and for the others
// that share its limits.
func (x *Executor) pausedMember(p Place, path string, chain *workflow.Agent, name string, round int, mine []string, f *failure.Failure, err error) {
	now := x.Clock.Now()
	pause := x.Agents.pauseMember(name, round, f.RetryAfter, !f.RateLimited, now)
	what := "met a rate limit"
	if !f.RateLimited {
		what = fmt.Sprintf("failed %d times in a row (%s)", downAfter, f.Class)
	}
	text := fmt.Sprintf("%s %s: it is not asked for %s", name, what, duration.Format(pause.Until.Sub(now).Round(time.Second)))
	if next, _, first := x.Agents.next(chain.FirstOf, now); next != "" {
		text += ", and " + next + " is asked in its place"
	} else {
		text += "; all agents of " + chain.Name + " are paused"
		pause.Chain = &event.ChainPause{Name: chain.Name, Until: first, Down: x.Agents.down(chain.FirstOf)}
	}
	e := p.Event(event.AgentPaused, path)
	e.Time, e.Label, e.DelayMS, e.Class, e.Message, e.Data = now, name, pause.Until.Sub(now).Milliseconds(), f.Class, text, Data(pause)
	x.record(e)
	if f.RateLimited && x.Machine != nil && len(mine) > 0 {
		x.pauseLimits(&Holding{names: mine}, pause.Until, err)
	}
}
