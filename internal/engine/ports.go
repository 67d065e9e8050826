package engine

import (
	"context"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/agents"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// Ports are what a run is on that is none of this machine: a simulation, a
// replay. The run is composed as any other, of the same parts. It has no
// journal and no worktrees, starts no process and no goroutine, and writes no
// file.
type Ports struct {
	Clock    step.Clock
	Recorder step.Recorder
	Actions  step.Actions
	// Run is the run's id; "" is "virtual".
	Run string
	// Git is what steps ask of git; nil: the run is in no repository. Whether the
	// file reads the git context or git's state is found out in the file.
	Git *step.Git
	// Compute runs a command of the workflow's own that computes a value: of the
	// environment, of a secret, ${cmd:…}; nil: such a value is an error.
	Compute func(context.Context, environ.Command) (string, error)
	// Rand draws jitter, as step.Executor has it; nil: that of the machine.
	Rand func(p step.Address, path string) backoff.Rand
	// Merge takes it that the run has a worktree with something to merge, so that its
	// steps are there, and its merge block is run; nil: it has none. Nothing is
	// merged, and the merge block knows of no commit.
	Merge *worktree.Run
	// Data gives the facts their data, which a later life of a run would read, and
	// reduce what the items gave. Without it, reduce reads their ids.
	Data bool
	// Earlier is what earlier lives of the run have recorded; nil: it begins. It
	// wants Data.
	Earlier agents.Earlier
	// Machine are the named limits of a machine; nil: none are kept to.
	Machine step.MachineLimits
	// Composed, if not nil, is told before the first step runs how to stop the run, as an
	// interrupt does, and how to carry out what another process asks of it.
	Composed func(stop func(), ask func(*journal.ControlRequest))
	// NotBefore, if not nil, gives the time before which the nth work item to start does
	// not; the zero time is none.
	NotBefore func(n int) time.Time
	// Items gives the work items. read reads them as a run would, and fails with
	// items.ErrUnread where that would need to run something, and Input is nil.
	Items func(read func() ([]event.Item, error)) ([]event.Item, error)

	// Input runs the command that gives the work items, with its output to c.Stdout.
	Input func(ctx context.Context, command *workflow.Shell, c *action.Call) (action.Result, error)
}
