package engine

import (
	"context"
	"errors"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step"
)

// Ports are what a run stands on that is none of this machine: a simulation, a
// replay. The run is composed as any other, of the same parts. It has no
// journal and no worktrees, starts no process and no goroutine, and writes no
// file.
type Ports struct {
	Clock    step.Clock
	Recorder step.Recorder
	Actions  step.Actions
	// Git answers what steps ask of git.
	Git step.Repository
	// Rand draws the jitter of a step; nil: of the machine.
	Rand func(p step.Place, path string) backoff.Rand
	// ItemRand draws the delay before an item's next attempt; nil: the machine's.
	ItemRand func(index, attempt int) backoff.Rand
	// Merge takes it that the run has something to merge, so that its merge block is
	// run.
	Merge bool
	// Data gives the facts their data, which a later life of a run would read.
	Data bool
	// Items gives the work items. read reads them as a run would, and fails with
	// ErrUnread where that would need to run something.
	Items func(read func() ([]journal.Item, error)) ([]journal.Item, error)

	items []journal.Item
	item  backoff.Rand // of the item that is decided about
}

// Uint64 draws for the item that is decided about.
func (p *Ports) Uint64() uint64 { return p.item.Uint64() }

// deciding says whose delay is drawn next.
func (p *Ports) deciding(index, attempt int) { p.item = p.ItemRand(index, attempt) }

// ErrUnread says that the work items are not known before the run.
var errUnread = errors.New("the work items are not known before the run")

// IsUnread reports whether work items are made by the run itself, so that
// nobody knows them before.
func IsUnread(err error) bool { return errors.Is(err, errUnread) }

// RunOn takes a workflow or a pipeline from its start to its end on ports. It
// reads the file's env_files, its work items where they stand in a file, and the
// pipelines of its steps. It is called
// on the ports' clock.
func RunOn(ctx context.Context, opt Options, ports Ports) *Summary {
	if opt.Soft == nil {
		opt.Soft = context.Background()
	}
	if opt.Pipeline != nil {
		opt.File = opt.Pipeline.asFile()
	}
	r := &run{opt: opt, file: opt.File, ports: &ports, state: &journal.State{}, dir: opt.Dir, started: ports.Clock.Now()}
	end := r.compose(&step.Executor{Clock: ports.Clock, Recorder: ports.Recorder, Actions: ports.Actions, Run: "virtual", Rand: ports.Rand, Bare: !ports.Data})
	defer end()
	return r.whole(ctx)
}

// tempDir is where large inputs are sorted; "" is the system's.
func (r *run) tempDir() string {
	if r.j == nil {
		return ""
	}
	return r.j.Dir()
}

// portItems takes the work items from the ports.
func (r *run) portItems(ctx context.Context, p step.Site) (err error) {
	r.ports.items, err = r.ports.Items(func() ([]journal.Item, error) {
		spec, clean, err := r.inputSpec(ctx, p)
		if err != nil {
			return nil, err
		}
		defer clean()
		var list []journal.Item
		for it, err := range spec.Items() {
			if err != nil {
				return nil, err
			}
			list = append(list, journal.Item{Index: len(list) + 1, ID: it.ID, Data: it.Data})
		}
		return list, nil
	})
	if err != nil {
		return err
	}
	r.tally.items.Total = len(r.ports.items)
	r.emit(event.Event{Type: event.ItemsReady, Total: r.tally.items.Total})
	return nil
}

// portResults sets map.*: the counts, and of each item its id.
func (r *run) portResults(p step.Site) error {
	m := r.mapCounts(0)
	results := make([]any, min(len(r.ports.items), maxPortResults))
	for i := range results {
		results[i] = map[string]any{"item_id": r.ports.items[i].ID, "index": int64(i), "output": ""}
	}
	m["results"], m["results_array"], m["outputs"] = results, results, outputsOf(results)
	m["results_json"], m["results_file"] = "[]", "results.json"
	p.Scope.Set("map", m)
	return nil
}

// maxPortResults bounds what stands in map.results where nothing was made.
const maxPortResults = 1000
