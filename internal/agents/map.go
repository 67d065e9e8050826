// Package agents is what a map does with its items: package mapper says when an agent starts
// on which of them, and this one runs it. An agent is the steps of the template on one item,
// in a worktree of its own (agent.go, worktree.go). What it gave is its result (result.go);
// it is merged when the item has shown what the file asks for ([evidence.Checks]), at once
// or by the merge queue ([mergedriver.Queue]).
package agents

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/evidence"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/letters"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/mergedriver"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/unchanged"
)

// Options are what a map has of its run.
type Options struct {
	Executor *step.Executor
	Env      *environ.Environment
	Seals    *items.Seals
	Git      *gitwork.Work
	State    *journal.State // what earlier lives of the run have recorded
	Control  *letters.Control
	Host     Host
	Place    step.Place // where the items run
	Total    int        // of items
	Tally    *Tally     // what has become of them is counted there

	MaxParallel  int // that somebody asked for; 0: as the file says
	Canary       int // items that run alone first; 0: as the file says
	AllowRedBase bool
	// Halt, if not "", is why the map starts nothing more.
	Halt policy.StopReason
	// NotBefore, if not nil, gives the time before which the nth work item to start does not.
	NotBefore func(n int) time.Time
}

// Host is what a map has beneath it beside the four ports of its steps.
type Host interface {
	// Earlier is what is on record of the run; nil where nothing can be.
	Earlier() Earlier
	// Items gives at most limit work items from an index on as they are recorded: with
	// their secrets masked, and as they were edited before this life of the run.
	Items(ctx context.Context, from, limit int) ([]event.Item, error)
	// Compare decides which items are unchanged since an earlier run.
	Compare(ctx context.Context, x *Map) error
	// Ready looks whether the items can be isolated and checked as the file asks, before
	// the first of them.
	Ready(ctx context.Context, x *Map) error
	// Requests carries out what other processes ask of a map while it runs.
	Requests(ctx context.Context, x *Map) (end func())
	// Grace is how long commands that are to end get for it; less than 0: they are killed at once.
	Grace(d time.Duration)
	// Keep keeps what belongs to an attempt at an item as a file, and gives its name; ""
	// where nothing is kept.
	Keep(index, attempt int, what, text string) (string, error)
}

// Earlier is what is on record of a run: a journal that a process before this one
// has left, or journal.Facts.
type Earlier interface {
	// State is the fold over it. What was in flight is settled.
	State(ctx context.Context) (*journal.State, error)
	ItemSteps(ctx context.Context, st *journal.State) (map[int]map[string]journal.StepRecord, error)
	Event(ctx context.Context, seq int64) (event.Event, error)
	// At gives the events of these numbers, in their order.
	At(ctx context.Context, seqs []int64) ([]event.Event, error)
	Results(ctx context.Context) iter.Seq2[journal.Result, error]
}

// Map is the map of a run.
type Map struct {
	Options
	p       step.Place
	m       *mapper.Map
	timeout time.Duration // of an agent
	checks  *evidence.Checks
	queue   *mergedriver.Queue // nil: work is merged as items end

	mu     sync.Mutex
	edited map[int][]byte // the data of items that were edited in this life
	past   pasts          // the steps of items that were left in flight, until they start again
	kinds  event.KindCounts
	// unmended are the names of the first items of which a repair did not mend a step.
	unmended []string
	taken    map[int]bool // items that a former life merged, and this one has finished
	// unchanged knows what is unchanged since an earlier run; nil: nobody asks.
	unchanged *unchanged.Map
}

// Mapper is what runs the map.
func (x *Map) Mapper() *mapper.Map { return x.m }

// CheckBase runs the checks of the items on what they start from.
func (x *Map) CheckBase(ctx context.Context) error { return x.checks.Base(ctx, x.p) }

// attempt is one attempt at one item.
type attempt struct {
	gitwork.Agent
	place step.Place
	set   map[string]any // the variables that its steps set, where a handler may read them
	past  past           // what an earlier life of the run did of it
	anew  bool           // it is to begin again, from its first step
	used  event.Used     // of the item's budget, by this attempt and those before
	// unmended is Place.Unmended, and room that for how the steps of most templates end.
	unmended atomic.Bool
	room     [2]*step.Outcome
}

// namedItems is how many items the note about those whose repair did not help names.
const namedItems = 3

// counted counts an item that succeeded in some way of event.Kinds; kind is "" for
// one that did as it was meant to. The name is shown of one whose repair did not help.
func (x *Map) counted(d *mapper.Result, name string) {
	if d.Kind == "" && !d.Unmended {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if d.Unmerged > 0 {
		if x.Tally.Unmerged++; d.Branch == "" {
			x.Tally.Nowhere++
		}
	}
	if n := x.kinds.Of(d.Kind); n != nil {
		*n++
	}
	if d.Unmended {
		x.kinds.Unmended++
		if len(x.unmended) < namedItems {
			x.unmended = append(x.unmended, name)
		}
	}
}

// Label is what a person knows an item by: what the file says, or else its name,
// where that is not its id.
func (x *Map) Label(it event.Item) string {
	text := x.Executor.File.Map.Label
	if text == nil {
		if name := items.NameOf(x.Executor.Values.Mask(), it); name != it.ID {
			return name
		}
		return ""
	}
	sc, err := x.p.Scope.ForItem(it, x.Total, 0)
	if err != nil {
		return "" // the item itself fails of it
	}
	label, err := text.Expand(sc)
	if err != nil {
		return ""
	}
	return label
}

// items reads work items with their secrets, and as they were edited.
func (x *Map) items(ctx context.Context, from, limit int) ([]event.Item, error) {
	list, err := x.Host.Items(ctx, from, limit)
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range list {
		it := &list[i]
		if data := x.edited[it.Index]; data != nil {
			it.Data = data
		}
		if err == nil {
			err = x.Seals.Open(it)
		}
	}
	return list, err
}

// item is an item as it is recorded.
func (x *Map) item(ctx context.Context, index int) (it event.Item, err error) {
	list, err := x.Host.Items(ctx, index, 1)
	if err == nil && len(list) == 0 {
		err = journal.ErrNoItem
	}
	if err != nil {
		return it, err
	}
	return list[0], nil
}

// takePast gives an item's past to the first attempt of this life: any later one
// begins again.
func (x *Map) takePast(index int) past {
	if x.past == nil { // as it is since before the first of them
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.past[index]
	delete(x.past, index)
	return p
}
