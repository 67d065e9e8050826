package engine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/agents"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/local"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// RunOn takes a workflow or a pipeline from its start to its end on ports. It
// reads the file's env_files, its work items where they are in a file, and the
// pipelines of its steps. It is called
// on the ports' clock. Where what is on record cannot be read, nothing runs, and the
// summary has the error.
func RunOn(ctx context.Context, opt Options, ports Ports) *Summary {
	if opt.Soft == nil {
		opt.Soft = context.Background()
	}
	if opt.Pipeline != nil {
		opt.File = opt.Pipeline.AsFile()
	}
	r := &run{opt: opt, file: opt.File, state: &journal.State{}, started: ports.Clock.Now(), notBefore: ports.NotBefore}
	v := &virtual{run: r, Ports: ports}
	r.host = v
	rec := step.Recorder(plain{ports.Recorder})
	if ports.Data {
		v.given = &givenResults{Recorder: ports.Recorder, of: map[int]journal.Result{}, masks: func() *mask.Masker { return r.env.Mask() }}
		rec = v.given
	}
	if err := v.goOn(ctx); err != nil {
		return &Summary{Run: ports.Run, Status: event.Failed, Err: err}
	}
	x := &step.Executor{Clock: ports.Clock, Recorder: rec, Actions: ports.Actions, Run: cmp.Or(ports.Run, "virtual"), Rand: ports.Rand}
	if ports.Data {
		x.Actions, x.Skipped = step.Checked{Actions: ports.Actions, Note: x.NoteOnce}, x.WarnMisspelt
	}
	x.Machine = ports.Machine
	if ports.Composed != nil {
		r.opt.Composed = func(x *step.Executor) {
			ports.Composed(func() { x.Life.Halt(ErrInterrupted) }, func(q *journal.ControlRequest) { r.control.CarryOut(x, q) })
		}
	}
	end := r.compose(x, dataflow.Options{Virtual: true, Sampled: !ports.Data})
	defer end()
	return r.whole(ctx)
}

// virtual is the host of a run on [Ports].
type virtual struct {
	*run
	Ports  Ports
	listed []event.Item
	given  *givenResults // nil where nobody reads what items gave
}

func (v *virtual) Earlier() agents.Earlier { return v.Ports.Earlier }

// goOn takes over what the ports know of earlier lives of the run.
func (v *virtual) goOn(ctx context.Context) (err error) {
	if v.Ports.Earlier == nil {
		return nil
	}
	if v.state, err = v.Ports.Earlier.State(ctx); err != nil {
		return err
	}
	for res, err := range v.Ports.Earlier.Results(ctx) {
		if err != nil {
			return err
		}
		v.given.of[res.Index] = res
	}
	return nil
}

// plain keeps facts without their details: there is no later life of the run to read them.
type plain struct{ step.Recorder }

// Detailed reports that there are none.
func (plain) Detailed() bool { return false }

// givenResults notes what becomes of work items, as a journal would, and masks what
// is recorded.
type givenResults struct {
	step.Recorder
	masks func() *mask.Masker
	mu    sync.Mutex
	of    map[int]journal.Result // by index
}

// Record is that of the recorder.
func (g *givenResults) Record(facts ...event.Event) error {
	for i := range facts {
		local.HideSecrets(&facts[i], g.masks())
	}
	g.mu.Lock()
	for _, e := range facts {
		if e.Type == event.ItemFinished {
			g.of[e.Index] = journal.ResultOf(e)
		}
	}
	g.mu.Unlock()
	return g.Recorder.Record(facts...)
}

// all gives the results in the order of the items.
func (g *givenResults) all() iter.Seq2[journal.Result, error] {
	return func(yield func(journal.Result, error) bool) {
		for _, index := range slices.Sorted(maps.Keys(g.of)) {
			if !yield(g.of[index], nil) {
				return
			}
		}
	}
}

// git has the ports answer what the file asks of git.
func (v *virtual) git(context.Context) (*step.Git, error) {
	if t := v.Ports.Merge; t != nil && t.WorkDir != "" {
		v.env.Move(t.WorkDir)
	}
	asks := v.gitWork.Asked()
	if v.Ports.Git == nil {
		return nil, nil
	}
	asks.Repo, asks.Head = v.Ports.Git.Repo, v.Ports.Git.Head
	return asks, nil
}

func (v *virtual) merge(ctx context.Context) (bool, error) {
	if v.Ports.Merge == nil || v.file.Merge == nil {
		return false, nil
	}
	return true, v.mergeBlock(ctx, gitwork.MergeVariables(v.x.Run, v.Ports.Merge, worktree.GitContext{}))
}

func (v *virtual) compute(ctx context.Context, c environ.Command) (string, error) {
	if v.Ports.Compute == nil {
		return "", errors.New("no command runs here to compute a value")
	}
	return v.Ports.Compute(ctx, c)
}

func (v *virtual) command() (func(context.Context, *workflow.Shell, *action.Call) (action.Result, error), error) {
	if v.Ports.Input == nil {
		return nil, items.ErrUnread
	}
	return v.Ports.Input, nil
}

// list takes the work items from the ports. A file that is not there is one that the run
// itself would make.
func (v *virtual) list(ctx context.Context, p step.Place) (n int, err error) {
	v.listed, err = v.Ports.Items(func() (list []event.Item, err error) {
		_, err = v.itemList().Read(ctx, p, func(items iter.Seq2[event.Item, error]) (int, error) {
			for it, err := range items {
				if err != nil {
					return 0, err
				}
				list = append(list, it)
			}
			return len(list), nil
		})
		if v.Ports.Input == nil && errors.Is(err, fs.ErrNotExist) {
			err = items.ErrUnread
		}
		return list, err
	})
	if _, told := v.state.Phases["map"]; err == nil && !told {
		v.emit(event.Event{Type: event.ItemsReady, Total: len(v.listed)})
	}
	return len(v.listed), err
}

func (v *virtual) Items(_ context.Context, from, limit int) ([]event.Item, error) {
	from = min(from-1, len(v.listed))
	return v.edited(slices.Clone(v.listed[from:min(from+limit, len(v.listed))])), nil
}

// Compare: nothing is known of earlier runs.
func (v *virtual) Compare(context.Context, *agents.Map) error {
	if v.file.Map.Unchanged != nil {
		v.note("skip_unchanged: nothing is known here of earlier runs, so every item runs")
	}
	return nil
}

func (v *virtual) Ready(context.Context, *agents.Map) error { return nil }

func (v *virtual) Requests(context.Context, *agents.Map) (end func()) { return func() {} }

func (v *virtual) Grace(time.Duration) {}

func (v *virtual) Keep(int, int, string, string) (string, error) { return "", nil }

func (v *virtual) settle(context.Context) error { return nil }

// results sets map.*: the counts, and of each item what it gave, or its id where nobody
// keeps that.
func (v *virtual) results(ctx context.Context, p step.Place) (string, error) {
	if v.given != nil {
		return "", v.ended().Set(ctx, p, v.given.all())
	}
	v.ended().MakeUp(p, v.listed)
	return "", nil
}
