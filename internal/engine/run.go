package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/bide-dev/bide/internal/agents"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/local"
	"github.com/bide-dev/bide/internal/results"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
	"github.com/bide-dev/bide/retry/driver"
)

// run is one run in one process: what it consists of. Each part has an owner.
type run struct {
	opt     Options
	file    *workflow.File
	state   *journal.State // what was recorded before this process; never nil
	started time.Time

	host    host
	j       *journal.Journal // of a machine, as is acts
	acts    *local.Actions
	env     *environ.Environment
	x       *step.Executor
	seals   *items.Seals
	results struct { // what the map gave, for the steps that follow
		made bool
		file string
	}
	flows   *dataflow.Flows
	gitWork *gitwork.Work
	// notBefore, if not nil, gives the time before which the nth work item to start does not.
	notBefore func(n int) time.Time

	control letters.Control
	tally   agents.Tally
}

// dir is the directory of the run; "" where it has none.
func (r *run) dir() string {
	if r.j == nil {
		return ""
	}
	return r.j.Dir()
}

// resumed reports whether the run has an earlier life.
func (r *run) resumed() bool { return r.state.Seq > 0 }

// place is where the steps of the workflow itself run.
func (r *run) place() step.Place {
	p := step.Place{Scope: r.env.Scope, Dir: r.env.Dir(), Env: r.env.Base(), Past: r.state.Steps, Alone: true}
	if r.gitWork.Tree != nil {
		count, _ := r.env.Get("GIT_CONFIG_COUNT")
		p.Env = p.Env.Export(worktree.StepEnv(count)...)
	}
	return p
}

// ending is how a run ends with an error, or with none.
func (r *run) ending(err error) (status, message, class string) {
	switch {
	case err == nil && (r.onceMerged() == event.CompletedWithFailures || r.gitWork.MergeWith != "" || r.tally.Unmerged+r.gitWork.Unmerged+r.gitWork.Stashed > 0):
		return event.CompletedWithFailures, "", ""
	case err == nil:
		return event.Succeeded, "", ""
	case errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled):
		return event.Interrupted, "interrupted", "cancelled"
	}
	return event.Failed, r.x.Values.Mask().Text(err.Error()).Ends(step.Brief), driver.Class(err)
}

// onceMerged is how a run ends without an error whose work is merged.
func (r *run) onceMerged() string {
	gone := r.gitWork.Shared != nil && r.tally.Nowhere+r.gitWork.Stashed > 0 // no merge brings it
	if gone || r.tally.Failed || len(r.gitWork.Lost) > 0 || r.unmended() > 0 {
		return event.CompletedWithFailures
	}
	return event.Succeeded
}

// unmended is how many items, or steps of the run itself, failed and were tolerated
// though nothing in the file says that they may.
func (r *run) unmended() int { return max(r.tally.Items.Unmended, r.x.Tally.Counts().Unmended) }

// emit records an event and tells it to those who watch.
func (r *run) emit(e event.Event) { _ = r.x.Recorder.Record(e) }

// note tells a warning.
func (r *run) note(format string, args ...any) { r.x.Note(format, args...) }

// data is the data of an event.
func data(v any) json.RawMessage { return step.Data(v) }

// isolation is where steps run, as the options or the file say.
func (r *run) isolation() string {
	if r.opt.Isolation != "" {
		return r.opt.Isolation
	}
	if r.file.Isolation != "" {
		return r.file.Isolation
	}
	return "auto"
}

// itemList makes the list of work items.
func (r *run) itemList() *items.List {
	return &items.List{Executor: r.x, Seals: r.seals, Temp: r.dir(), Command: r.host.command}
}

// edited puts the data of items into a list that were edited before this life of the run.
func (r *run) edited(list []event.Item) []event.Item {
	for i := range list {
		if data := r.state.Items.Edited(list[i].Index); data != nil {
			list[i].Data = data
		}
	}
	return list
}

// ended is the map that has ended, for what reduce reads of it.
func (r *run) ended() *results.Map {
	return &results.Map{Executor: r.x, Counts: r.tally.Items, Items: r.host.Items}
}
