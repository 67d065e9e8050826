package engine

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// host is what a run has beneath it beside the four ports of its steps: work items and
// results that are kept, git, commands of the file that are no steps. [machine] is the
// host of a run with a journal; [virtual] that of a simulation or a replay. A run does
// not ask which of them it has.
type host interface {
	// earlier is what is on record of the run; nil where nothing can be.
	earlier() Earlier
	// list reads the work items, unless an earlier life of the run has, and gives their
	// number.
	list(ctx context.Context, p step.Site) (int, error)
	// items gives at most limit work items from an index on as they are kept: with their
	// secrets masked.
	items(ctx context.Context, from, limit int) ([]event.Item, error)
	// command gives what runs the command that gives the work items; items.ErrUnread where nobody
	// knows them before the run.
	command() (func(context.Context, *workflow.Shell, *action.Call) (action.Result, error), error)
	// compute runs a shell text that computes a value.
	compute(ctx context.Context, c environ.Command) (string, error)
	// git opens the repository, and gives what steps ask of git; nil where nobody wants to
	// know.
	git(ctx context.Context) (*step.Git, error)
	// compare decides which items are unchanged since an earlier run.
	compare(ctx context.Context, x *mapRun) error
	// ready looks whether the items can be isolated and checked as the file asks, before
	// the first of them.
	ready(ctx context.Context, x *mapRun) error
	// requests carries out what other processes ask of a map while it runs.
	requests(ctx context.Context, x *mapRun) (end func())
	// grace is what commands that are to end get.
	grace(d time.Duration)
	// keep keeps what belongs to an attempt at an item as a file, and gives its name; ""
	// where nothing is kept.
	keep(index, attempt int, what, text string) (string, error)
	// results sets map.* for reduce, and gives the name of the file with the results; ""
	// where there is none.
	results(ctx context.Context, p step.Site) (string, error)
	// merge merges what the run has made, with the merge block of its file; false where it
	// has nothing to merge.
	merge(ctx context.Context) (bool, error)
	// settle has on the disk what the end of the run refers to.
	settle(ctx context.Context) error
}

// machine is this machine, with a journal.
type machine struct{ *run }

func (m machine) earlier() Earlier { return m.j }

func (m machine) list(ctx context.Context, p step.Site) (int, error) {
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

func (m machine) items(ctx context.Context, from, limit int) ([]event.Item, error) {
	return m.j.Items(ctx, from, limit)
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

func (m machine) ready(ctx context.Context, x *mapRun) error {
	if m.file.Queue != nil && m.gitWork.Tree == nil {
		return errors.New("merge_queue: what is merged is what items have committed, in worktrees of their own, and this run has none: run it in a git repository with a commit, without isolation: none")
	}
	return x.checkBase(ctx)
}

func (m machine) compare(ctx context.Context, x *mapRun) error { return x.compare(ctx) }

func (m machine) requests(ctx context.Context, x *mapRun) (end func()) {
	r := letters.Requests{Executor: m.x, Journal: m.j, Map: x.m, Again: x.again}
	return r.Watch(ctx)
}

func (m machine) grace(d time.Duration) { m.acts.World.Grace = d }

func (m machine) keep(index, attempt int, what, text string) (string, error) {
	f, err := m.j.NewOutput(index, what, attempt, "output")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	m.j.KeepOutputs(f.Name())
	return f.Name(), errors.Join(err, f.Close())
}

func (m machine) results(ctx context.Context, p step.Site) (string, error) {
	return m.setMapVariables(ctx, p, filepath.Join(m.j.Dir(), resultsFile), m.j.Results(ctx))
}

func (m machine) merge(ctx context.Context) (bool, error) {
	if m.gitWork.Tree == nil {
		return false, nil
	}
	return true, m.gitWork.MergeBack(ctx, m.mergeBlock, m.tally.unmerged)
}

// settle: without it, a power cut could leave the end alone, and no resume.
func (m machine) settle(ctx context.Context) error { return m.j.SettleOutputs(ctx) }
