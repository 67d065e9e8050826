package dataflow

import (
	"context"
	"errors"
	"slices"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/pipeline/check"
	"github.com/bide-dev/bide/internal/pipeline/flow"
	"github.com/bide-dev/bide/internal/pipeline/module"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// This file has the limits of the machine that calls of pipelines name.

// heldLimits is what an attempt of a call holds.
type heldLimits struct {
	*step.Holding
	x *step.Executor
}

type holdingKey struct{}

// Context is that of what the attempt calls.
func (l *heldLimits) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, holdingKey{}, l.Holding)
}

// Release gives back what is held. Who was told when to come back has told it for all runs
// that use the same limits.
func (l *heldLimits) Release(err error) { l.x.GiveBack(l.Holding, err) }

// placeOf is the place of what is called in a context, with what is held there.
func (h *host) placeOf(ctx context.Context) step.Place {
	p := h.p
	if held, ok := ctx.Value(holdingKey{}).(*step.Holding); ok {
		p.Holding = held
	}
	return p
}

// hold takes the limits of the machine that an attempt of a call names.
func (h *host) hold(ctx context.Context, c *flow.Call, n int, names []string, waits func()) (flow.Held, error) {
	x, p := h.Executor, h.placeOf(ctx)
	if x.Machine == nil && !h.Virtual {
		return nil, errNoLimits
	}
	kind := h.pl.kind(c.Callee)
	held, err := x.Hold(ctx, p, step.Wanted{Names: names, Path: h.step(c), Number: n, Priority: priority(c), Waits: func(b *limits.Block) {
		waits()
		x.ShowWait(p, h.step(c), n, b)
	}})
	if err != nil || held == nil {
		return nil, err
	}
	if kind != "" && kind != "workflow" {
		held.Leaf()
	}
	return &heldLimits{held, x}, nil
}

// priority is that of a call, above or below what is usual.
func priority(c *flow.Call) int { return c.Priority - option.NormalPriority }

var errNoLimits = errors.New("limits: the named limits are those of one machine, and this run has many")

// limits are those of the machine that the calls of a pipeline name, and called are the
// workflows that it calls. Of one with errors, they are those that its text names.
func (pl *Pipeline) limits() (refs []workflow.LimitRef, called []*workflow.File) {
	if pl.Plan == nil {
		return pl.written(), nil
	}
	for i := range pl.Plan.Funcs {
		for _, n := range pl.Plan.Funcs[i].Nodes {
			if n.Call == nil {
				continue
			}
			if d, ok := module.Describe(n.Call.Module); ok {
				if f := pl.workflows[d]; f != nil && !slices.Contains(called, f) {
					called = append(called, f)
				}
			}
			if n.Call.Options == nil {
				continue
			}
			for _, l := range n.Call.Options.Named {
				refs = append(refs, workflow.LimitRef{Name: l.Name, Pos: l.Pos})
			}
		}
	}
	return refs, called
}

// written are the limits of the machine that the text of a pipeline names.
func (pl *Pipeline) written() (refs []workflow.LimitRef) {
	if pl.File == nil {
		return nil
	}
	syntax.InspectFile(pl.File, func(n syntax.Node) bool {
		if o, ok := n.(*syntax.Option); ok && o.Kind == syntax.OptLimits {
			if v, ok := o.Value.(*syntax.StringValue); ok {
				for _, name := range check.LimitNames(v) {
					if name != "" { // which is told already
						refs = append(refs, workflow.LimitRef{Name: name, Pos: pl.File.Pos(v.Start)})
					}
				}
			}
		}
		return true
	})
	return refs
}

// Named are the limits of the machine that a pipeline and all that it calls name.
func (pl *Pipeline) Named() []workflow.LimitRef {
	f := pl.AsFile()
	all := LoadSteps(f, "")
	all.Add(pl)
	return all.Limits(f)
}

// Limits are those of the machine that a workflow names, and the pipelines of its run.
func (l *Steps) Limits(f *workflow.File) []workflow.LimitRef {
	refs := workflow.Limits(f)
	for _, pl := range l.Loaded {
		own, called := pl.limits()
		refs = append(refs, own...)
		for _, f := range called {
			refs = append(refs, workflow.Limits(f)...)
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(refs, func(r workflow.LimitRef) bool {
		again := seen[r.Name]
		seen[r.Name] = true
		return again
	})
}

// LimitProblems says what is wrong with the limits that a workflow and the pipelines of its
// run name, on a machine that has some.
func (l *Steps) LimitProblems(f *workflow.File, c *limits.Config) diag.List {
	problems := workflow.LimitProblems(f, c)
	told := map[workflow.LimitRef]bool{} // several pipelines may call one workflow, and name a limit by one policy
	for _, pl := range l.Loaded {
		own, called := pl.limits()
		for _, r := range own {
			if _, ok := c.Limits[r.Name]; !ok && !told[r] {
				told[r] = true
				c.Unknown(&problems, r.Pos, r.Name)
			}
		}
		for _, f := range called {
			if at := (workflow.LimitRef{Pos: f.Pos}); !told[at] {
				told[at] = true
				problems = append(problems, workflow.LimitProblems(f, c)...)
			}
		}
	}
	return problems
}
