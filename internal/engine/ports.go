package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
	"github.com/bide-dev/bide/internal/local"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// Ports are what a run stands on that is none of this machine: a simulation, a
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
	Rand func(p step.Place, path string) backoff.Rand
	// Merge takes it that the run has a worktree with something to merge, so that its
	// steps are there, and its merge block is run; nil: it has none. Nothing is
	// merged, and the merge block knows of no commit.
	Merge *worktree.Run
	// Data gives the facts their data, which a later life of a run would read, and
	// reduce what the items gave. Without it, reduce reads their ids.
	Data bool
	// Earlier is what earlier lives of the run have recorded; nil: it begins. It
	// wants Data.
	Earlier Earlier
	// Limits are the named limits of a machine on which nothing else runs; nil: none are
	// kept to.
	Limits *limits.Config
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

// virtual is the host of a run on [Ports].
type virtual struct {
	*run
	Ports
	listed []event.Item
	given  *givenResults // nil where nobody reads what items gave
}

// Earlier is what is on record of a run: a journal that a process before this one
// has left, or journal.Facts.
type Earlier interface {
	// State is the fold over it. What was in flight is settled.
	State(ctx context.Context) (*journal.State, error)
	ItemSteps(ctx context.Context, st *journal.State) (map[int]map[string]journal.StepRecord, error)
	Event(ctx context.Context, seq int64) (event.Event, error)
	Results(ctx context.Context) iter.Seq2[journal.Result, error]
}

func (v *virtual) earlier() Earlier { return v.Earlier }

// RunOn takes a workflow or a pipeline from its start to its end on ports. It
// reads the file's env_files, its work items where they stand in a file, and the
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
	if ports.Limits != nil && len(workflow.Limits(opt.File)) > 0 {
		machine, err := limits.NewAlone(ports.Limits, ports.Clock)
		if err != nil {
			return &Summary{Run: ports.Run, Status: event.Failed, Err: err}
		}
		x.Machine = machine
	}
	if ports.Composed != nil {
		r.opt.composed = func(x *step.Executor) {
			ports.Composed(func() { x.Life.Halt(ErrInterrupted) }, func(q *journal.ControlRequest) { r.control.CarryOut(x, q) })
		}
	}
	end := r.compose(x, dataflow.Options{Virtual: true, Sampled: !ports.Data})
	defer end()
	return r.whole(ctx)
}

// goOn takes over what the ports know of earlier lives of the run.
func (v *virtual) goOn(ctx context.Context) (err error) {
	if v.Earlier == nil {
		return nil
	}
	if v.state, err = v.Earlier.State(ctx); err != nil {
		return err
	}
	for res, err := range v.Earlier.Results(ctx) {
		if err != nil {
			return err
		}
		v.given.of[res.Index] = res
	}
	return nil
}

// plain keeps facts without their details: there is no later life of the run to read them.
type plain struct{ step.Recorder }

// Detail makes nothing.
func (plain) Detail(func() any) json.RawMessage { return nil }

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
	if t := v.Merge; t != nil && t.WorkDir != "" {
		v.env.Move(t.WorkDir)
	}
	asks := v.gitWork.Asked()
	if v.Git == nil {
		return nil, nil
	}
	asks.Repo, asks.Head = v.Git.Repo, v.Git.Head
	return asks, nil
}

func (v *virtual) merge(ctx context.Context) (bool, error) {
	if v.Merge == nil || v.file.Merge == nil {
		return false, nil
	}
	return true, v.mergeBlock(ctx, gitwork.MergeVariables(v.x.Run, v.Merge, worktree.GitContext{}))
}

func (v *virtual) compute(ctx context.Context, c environ.Command) (string, error) {
	if v.Compute == nil {
		return "", errors.New("no command runs here to compute a value")
	}
	return v.Compute(ctx, c)
}

func (v *virtual) command() (func(context.Context, *workflow.Shell, *action.Call) (action.Result, error), error) {
	if v.Input == nil {
		return nil, items.ErrUnread
	}
	return v.Input, nil
}

// list takes the work items from the ports. A file that is not there is one that the run
// itself would make.
func (v *virtual) list(ctx context.Context, p step.Site) (n int, err error) {
	v.listed, err = v.Items(func() (list []event.Item, err error) {
		_, err = v.itemList().Read(ctx, p, func(items iter.Seq2[event.Item, error]) (int, error) {
			for it, err := range items {
				if err != nil {
					return 0, err
				}
				list = append(list, it)
			}
			return len(list), nil
		})
		if v.Input == nil && errors.Is(err, fs.ErrNotExist) {
			err = items.ErrUnread
		}
		return list, err
	})
	if _, told := v.state.Phases["map"]; err == nil && !told {
		v.emit(event.Event{Type: event.ItemsReady, Total: len(v.listed)})
	}
	return len(v.listed), err
}

func (v *virtual) items(_ context.Context, from, limit int) ([]event.Item, error) {
	from = min(from-1, len(v.listed))
	return slices.Clone(v.listed[from:min(from+limit, len(v.listed))]), nil
}

// compare: nothing is known of earlier runs.
func (v *virtual) compare(context.Context, *mapRun) error {
	if v.file.Map.Unchanged != nil {
		v.note("skip_unchanged: nothing is known here of earlier runs, so every item runs")
	}
	return nil
}

func (v *virtual) ready(context.Context, *mapRun) error { return nil }

func (v *virtual) requests(context.Context, *mapRun) (end func()) { return func() {} }

func (v *virtual) grace(time.Duration) {}

func (v *virtual) keep(int, int, string, string) (string, error) { return "", nil }

func (v *virtual) settle(context.Context) error { return nil }

// results sets map.*: the counts, and of each item what it gave, or its id where nobody
// keeps that.
func (v *virtual) results(ctx context.Context, p step.Site) (string, error) {
	if v.given != nil {
		return "", v.setMapText(ctx, p, v.given.all())
	}
	m := v.mapCounts(0)
	results := make([]any, min(len(v.listed), maxMadeUp))
	for i := range results {
		results[i] = map[string]any{"item_id": v.listed[i].ID, "index": int64(i), "output": ""}
	}
	m["results"], m["results_array"], m["outputs"] = results, results, outputsOf(results)
	m["results_json"], m["results_file"] = "[]", resultsFile
	p.Scope.Set("map", m)
	return "", nil
}

// setMapText sets map.* without a file.
func (v *virtual) setMapText(ctx context.Context, p step.Site, results iter.Seq2[journal.Result, error]) error {
	var text bytes.Buffer
	millis, err := v.writeResults(ctx, &text, results)
	if err != nil {
		return err
	}
	m := v.mapCounts(millis)
	m["results_file"] = resultsFile
	return setResults(p, m, text.Bytes(), true)
}

// maxMadeUp bounds what stands in map.results where nothing was made.
const maxMadeUp = 1000
