package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/limits"
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
	// ErrUnread where that would need to run something, and Input is nil.
	Items func(read func() ([]event.Item, error)) ([]event.Item, error)

	// Input runs the command that gives the work items, with its output to c.Stdout.
	Input func(ctx context.Context, command *workflow.Shell, c *action.Call) (action.Result, error)

	items []event.Item
	given *givenResults
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

// earlier is what is on record of the run; nil where it begins on ports.
func (r *run) earlier() Earlier {
	if r.ports != nil {
		return r.ports.Earlier
	}
	return r.j
}

// ErrUnread says that the work items are not known before the run.
var errUnread = errors.New("the work items are not known before the run")

// IsUnread reports whether work items are made by the run itself, so that
// nobody knows them before.
func IsUnread(err error) bool { return errors.Is(err, errUnread) }

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
	r := &run{opt: opt, file: opt.File, ports: &ports, state: &journal.State{}, started: ports.Clock.Now()}
	rec := step.Recorder(plain{ports.Recorder})
	if ports.Data {
		ports.given = &givenResults{Recorder: ports.Recorder, of: map[int]journal.Result{}, masks: func() *mask.Masker { return r.env.Mask() }}
		rec = ports.given
	}
	if err := r.goOn(ctx); err != nil {
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
	end := r.compose(x)
	defer end()
	return r.whole(ctx)
}

// goOn takes over what the ports know of earlier lives of the run.
func (r *run) goOn(ctx context.Context) (err error) {
	earlier := r.ports.Earlier
	if earlier == nil {
		return nil
	}
	if r.state, err = earlier.State(ctx); err != nil {
		return err
	}
	for res, err := range earlier.Results(ctx) {
		if err != nil {
			return err
		}
		r.ports.given.of[res.Index] = res
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
		hideSecrets(&facts[i], g.masks())
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

// asks has the ports answer what the file asks of git.
func (p *Ports) asks(file *step.Git) *step.Git {
	if p.Git == nil || file == nil {
		return nil
	}
	file.Repo, file.Head = p.Git.Repo, p.Git.Head
	return file
}

// compute has the ports compute a value.
func (p *Ports) compute(ctx context.Context, c environ.Command) (string, error) {
	if p.Compute == nil {
		return "", errors.New("no command runs here to compute a value")
	}
	return p.Compute(ctx, c)
}

// tempDir is where large inputs are sorted; "" is the system's.
func (r *run) tempDir() string {
	if r.j == nil {
		return ""
	}
	return r.j.Dir()
}

// portItems takes the work items from the ports.
func (r *run) portItems(ctx context.Context, p step.Site) (n int, err error) {
	r.ports.items, err = r.ports.Items(func() ([]event.Item, error) {
		var list []event.Item
		_, err := r.loadItems(ctx, p, func(items iter.Seq2[event.Item, error]) (int, error) {
			for it, err := range items {
				if err != nil {
					return 0, err
				}
				it.Index = len(list) + 1
				list = append(list, it)
			}
			return len(list), nil
		})
		return list, err
	})
	if _, told := r.state.Phases["map"]; err == nil && !told {
		r.emit(event.Event{Type: event.ItemsReady, Total: len(r.ports.items)})
	}
	return len(r.ports.items), err
}

// storedItems gives work items as they are kept, from an index on.
func (p *Ports) storedItems(from, limit int) []event.Item {
	from = min(from-1, len(p.items))
	return slices.Clone(p.items[from:min(from+limit, len(p.items))])
}

// portResults sets map.*: the counts, and of each item what it gave, or its id
// where nobody keeps that.
func (r *run) portResults(ctx context.Context, p step.Site) error {
	if g := r.ports.given; g != nil {
		var text bytes.Buffer
		millis, err := r.writeResults(ctx, &text, g.all())
		if err != nil {
			return err
		}
		m := r.mapCounts(millis)
		m["results_file"] = resultsFile
		return setResults(p, m, text.Bytes(), true)
	}
	m := r.mapCounts(0)
	results := make([]any, min(len(r.ports.items), maxPortResults))
	for i := range results {
		results[i] = map[string]any{"item_id": r.ports.items[i].ID, "index": int64(i), "output": ""}
	}
	m["results"], m["results_array"], m["outputs"] = results, results, outputsOf(results)
	m["results_json"], m["results_file"] = "[]", resultsFile
	p.Scope.Set("map", m)
	return nil
}

// maxPortResults bounds what stands in map.results where nothing was made.
const maxPortResults = 1000
