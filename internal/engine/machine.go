package engine

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/agents"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/results"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/unchanged"
	"github.com/bide-dev/bide/internal/workflow"
)

// machine is this machine, with a journal.
type machine struct{ *run }

func (m machine) Earlier() agents.Earlier { return m.j }

func (m machine) list(ctx context.Context, p step.Place) (int, error) {
	n, _, loaded, err := m.j.ItemList(ctx)
	switch {
	case err != nil:
		return 0, err
	case loaded:
		return n, m.seals.Read()
	}
	digest := ""
	n, err = m.itemList().Read(ctx, p, func(items iter.Seq2[event.Item, error]) (n int, err error) {
		n, digest, err = m.j.PutItems(ctx, items)
		return n, err
	})
	if err == nil {
		m.emit(event.Event{Type: event.ItemsReady, Total: n, Data: data(map[string]any{"digest": digest})})
	}
	return n, err
}

func (m machine) Items(ctx context.Context, from, limit int) ([]event.Item, error) {
	list, err := m.j.Items(ctx, from, limit)
	return m.edited(list), err
}

func (m machine) command() (func(context.Context, *workflow.Shell, *action.Call) (action.Result, error), error) {
	return func(ctx context.Context, s *workflow.Shell, c *action.Call) (action.Result, error) {
		return m.acts.World.Run(ctx, s, c)
	}, nil
}

func (m machine) compute(ctx context.Context, c environ.Command) (string, error) {
	res, err := m.acts.World.Run(ctx, &workflow.Shell{Text: c.Text}, &action.Call{Scope: c.Scope, Dir: c.Dir, Env: c.Env, Timeout: c.Timeout})
	return res.Output, err
}

func (m machine) git(ctx context.Context) (*step.Git, error) {
	m.gitWork.Results = m.j.Results
	return m.gitWork.Open(ctx)
}

func (m machine) Ready(ctx context.Context, x *agents.Map) error {
	if m.file.Queue != nil && m.gitWork.Tree == nil {
		return errors.New("merge_queue: what is merged is what items have committed, in worktrees of their own, and this run has none: run it in a git repository with a commit, without isolation: none")
	}
	return x.CheckBase(ctx)
}

func (m machine) Compare(ctx context.Context, x *agents.Map) error {
	return x.Compare(ctx, unchanged.Map{
		Store: m.opt.Store, Journal: m.j, All: m.opt.All, SkipPermissions: m.acts.World.SkipPermissions,
		Pipeline: func(ctx context.Context, p step.Place, a *workflow.Pipeline) (*workflow.File, error) {
			pl, err := m.flows.OfStep(ctx, p, a)
			if err != nil {
				return nil, err
			}
			return pl.AsFile(), nil
		},
	})
}

func (m machine) Requests(ctx context.Context, x *agents.Map) (end func()) {
	r := letters.Requests{Executor: m.x, Journal: m.j, Map: x.Mapper(), Again: x.Again}
	return r.Watch(ctx)
}

func (m machine) Grace(d time.Duration) { m.acts.World.Grace = d }

func (m machine) Keep(index, attempt int, what, text string) (string, error) {
	f, err := m.j.NewOutput(index, what, attempt, "output")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	m.j.KeepOutputs(f.Name())
	return f.Name(), errors.Join(err, f.Close())
}

func (m machine) results(ctx context.Context, p step.Place) (string, error) {
	return m.ended().Save(ctx, p, filepath.Join(m.j.Dir(), results.File), m.j.Results(ctx))
}

func (m machine) merge(ctx context.Context) (bool, error) {
	if m.gitWork.Tree == nil {
		return false, nil
	}
	return true, m.gitWork.MergeBack(ctx, m.mergeBlock, m.tally.Unmerged, m.tally.Nowhere)
}

// settle: without it, a power cut could leave the end alone, and no resume.
func (m machine) settle(ctx context.Context) error { return m.j.SettleOutputs(ctx) }
