package engine

import (
	"context"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/agents"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
)

// host is what a run has beneath it beside the four ports of its steps: work items and
// results that are kept, git, commands of the file that are no steps. [machine] is the
// host of a run with a journal; [virtual] that of a simulation or a replay. A run does
// not ask which of them it has.
type host interface {
	agents.Host
	// list reads the work items, unless an earlier life of the run has, and gives their
	// number.
	list(ctx context.Context, p step.Place) (int, error)
	// command gives what runs the command that gives the work items; items.ErrUnread where nobody
	// knows them before the run.
	command() (func(context.Context, *workflow.Shell, *action.Call) (action.Result, error), error)
	// compute runs a shell text that computes a value.
	compute(ctx context.Context, c environ.Command) (string, error)
	// git opens the repository, and gives what steps ask of git; nil where nobody wants to
	// know.
	git(ctx context.Context) (*step.Git, error)
	// results sets map.* for reduce, and gives the name of the file with the results; ""
	// where there is none.
	results(ctx context.Context, p step.Place) (string, error)
	// merge merges what the run has made, with the merge block of its file; false where it
	// has nothing to merge.
	merge(ctx context.Context) (bool, error)
	// settle has on the disk what the end of the run refers to.
	settle(ctx context.Context) error
}
