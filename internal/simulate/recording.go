package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/step/virtual"
	"github.com/bide-dev/bide/internal/workflow"
)

// Recording is what a recorded run has met: each attempt with how it ended.
type Recording struct {
	Run      string
	Header   journal.Header
	Settings engine.Settings
	Items    []event.Item
	Status   string // event.Interrupted of a run whose end is not recorded
	Took     time.Duration

	lives    []*pastLife
	listed   int  // work items
	merged   bool // the merge block was run
	attempts map[attemptKey]*recorded
	calls    map[attemptKey][]agentCall // of agents, in an attempt
	values   map[attemptKey][]listed    // of each foreach, in order; their number is 0
	outputs  map[attemptKey]output      // of steps, by the attempt that ended well
	fellBack map[attemptKey]bool        // steps whose fallback made them end well; their number is 0
	lags     map[string][]time.Duration // by how much attempts at a step began later than they were due, sorted
	static   func(path string) string
}

// pastLife is what one process did of a run.
type pastLife struct {
	began, ended time.Time
	// status is that with which it ended; "" of one that was killed.
	status string
	// parallel is how many items at once were asked for when it began, 0: as many as
	// before. otherFile: it continued with a file that is not recorded.
	parallel  int
	otherFile bool
	// waits are those for the next attempt of a step, or of an item under
	// step.ItemJitter, in order. Their number is how often the step had been given up.
	waits     map[attemptKey][]event.Wait
	asked     []asked // what other processes asked for
	decisions decisions
	turns     []time.Time                   // of what waits for its turn, in the order of the record; zero: nothing
	starts    map[attemptKey][]virtual.Turn // of items (without a path), of steps (number 0) and of attempts; also the ends of steps (number atEnd) and the rounds of their handlers (atHandler)
	items     []time.Time                   // when work items started, in order
	lastStart time.Time                     // when it last began anything, or a wait
	lastBegin time.Time                     // when it last began anything
	stopped   time.Time                     // when it was interrupted; zero: that is not on record
	before    []event.Event                 // what was recorded before, where that is needed
	own       int                           // how many of those before are from between this life and the one before
}

// asked is what another process asked for.
type asked struct {
	journal.ControlRequest
	at virtual.Turn
}

// listed is the values of a foreach, as a JSON list, and when they were known.
type listed struct {
	text string
	at   virtual.Turn
}

// output is what a step that ended well has left.
type output struct {
	text    string      // or of a call, its value as JSON
	set     [][2]string // the variables that are texts
	clipped bool        // something is left out of the text
}

// attemptKey names an attempt: of the life of the run (from 0), the item (0: none), its
// attempt, the step, its attempt. The steps of a loop that is tried again are begun
// again under the same paths: again counts that.
type attemptKey struct {
	life         int
	index, round int
	path         string
	n            int
	again        int
}

// step names the step of an attempt, however often it was begun.
func (k attemptKey) step() attemptKey {
	k.n, k.again = 0, 0
	return k
}

// compare orders keys by place.
func (k attemptKey) compare(o attemptKey) int {
	return cmp.Or(strings.Compare(k.path, o.path), cmp.Compare(k.index, o.index), cmp.Compare(k.round, o.round), cmp.Compare(k.n, o.n), cmp.Compare(k.life, o.life), cmp.Compare(k.again, o.again))
}

// recorded is how an attempt went.
type recorded struct {
	from    time.Duration // since the run began
	took    time.Duration
	ended   virtual.Turn
	failure *failure.Failure // nil: it succeeded
	// cut says that it was ended from outside: by a timeout of what it was a part of,
	// by an interrupt, or with the process. How it would have ended nobody knows.
	cut bool
	// counted says that its end is not on record, but that a breaker has counted it.
	counted bool
}

// unknown reports whether nobody knows how an attempt ended.
func (a *recorded) unknown() bool { return a == nil || a.cut && !a.counted }

// agentCall is how an agent answered that was asked in an attempt. It is asked again in
// the same attempt, or the next of its chain is, where it is paused: after says for how long.
type agentCall struct {
	at    virtual.Turn
	took  time.Duration
	usage action.Usage
	after time.Duration // 0: it was not paused
	class string        // of the failure for which it was
	last  bool          // of the attempt
}

// History is a record of a run: a *journal.Reader, or one in memory.
type History interface {
	Run() string
	Header() journal.Header
	Events(ctx context.Context, from int64, f journal.EventFilter) iter.Seq2[event.Event, error]
	Items(ctx context.Context, from, limit int) ([]event.Item, error)
}

// Record reads what a run has met.
func Record(ctx context.Context, r History) (*Recording, error) {
	rec := &Recording{Run: r.Run(), Header: r.Header(), attempts: map[attemptKey]*recorded{},
		calls: map[attemptKey][]agentCall{}, values: map[attemptKey][]listed{}, outputs: map[attemptKey]output{}, fellBack: map[attemptKey]bool{}, lags: map[string][]time.Duration{}, static: static}
	if rec.Header.Kind == workflow.Dataflow.String() {
		rec.static = (&stepNames{pipeline: true}).static
	}
	if err := json.Unmarshal(rec.Header.Options, &rec.Settings); err != nil {
		return nil, fmt.Errorf("the recorded options of run %s: %w", rec.Run, err)
	}
	f := folder{rec: rec, rounds: map[int]int{}, open: map[attemptKey]time.Time{}}
	for e, err := range r.Events(ctx, 1, journal.EventFilter{}) {
		if err == nil {
			err = f.take(e)
		}
		if err != nil {
			return nil, err
		}
	}
	f.endLife()
	for _, list := range rec.lags {
		slices.Sort(list)
	}
	if len(rec.lives) > 1 {
		if err := rec.keepEarlier(r.Events(ctx, 1, journal.EventFilter{})); err != nil {
			return nil, err
		}
	}
	if rec.Header.Kind == "mapreduce" {
		var err error
		if rec.Items, err = allItems(ctx, r); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

func allItems(ctx context.Context, r History) (list []event.Item, err error) {
	const page = 1000
	for {
		more, err := r.Items(ctx, len(list)+1, page)
		if err != nil || len(more) == 0 {
			return list, err
		}
		list = append(list, more...)
	}
}

// keepEarlier keeps what each life after the first has found on record.
func (r *Recording) keepEarlier(events iter.Seq2[event.Event, error]) error {
	var all []event.Event
	life, own := 0, 0
	for e, err := range events {
		if err != nil {
			return err
		}
		if e.Type == event.RunResumed && len(all) > 0 {
			life++
			r.lives[life].before, r.lives[life].own = all[:len(all):len(all)], own
		}
		if own++; !between(e.Type) {
			own = 0
		}
		e.Seq = int64(len(all)) + 1 // facts in memory have their places as numbers
		all = append(all, e)
	}
	return nil
}

// decisions are what was decided about each step and each item, in order.
type decisions map[string][]string

func (d decisions) take(e event.Event, rounds map[int]int) {
	item := ""
	if e.Index > 0 {
		item = fmt.Sprintf("item %d", e.Index)
	}
	at := strings.TrimSpace(fmt.Sprintf("%s %s", item, e.Step))
	say := func(format string, args ...any) {
		d[at] = append(d[at], fmt.Sprintf(format, args...))
	}
	switch e.Type {
	case event.AttemptFailed:
		say("attempt %d fails (%s)", e.Attempt, e.Class)
	case event.RetryScheduled:
		say("again after attempt %d, in %dms", e.Attempt, e.DelayMS)
	case event.StepFinished:
		if e.Status == event.Interrupted { // which a later life continues with
			break
		}
		say("%s after %d", e.Status, e.Attempts)
	case event.ItemRetry:
		say("the item again after attempt %d, in %dms", e.Attempt, e.DelayMS)
	case event.ItemFinished:
		if e.Status == event.Interrupted {
			break
		}
		say("the item %s after %d", e.Status, e.Attempts)
	case event.RunFinished:
		at = "the run"
		if e.Status != event.Interrupted {
			say("%s", decided(e))
		}
	case event.BreakerChanged:
		at = "breaker " + e.Label
		if e.From != e.To {
			say("%s", e.To)
		}
	case event.ItemStarted:
		rounds[e.Index] = e.Attempt
	}
}

// decided is how the steps and items of a run that has finished have it end. That its work
// waits in a branch, to be merged by a person, is decided elsewhere.
func decided(e event.Event) string {
	var told struct {
		OnceMerged string `json:"once_merged"`
	}
	_ = json.Unmarshal(e.Data, &told) // what it does not tell is not known
	return cmp.Or(told.OnceMerged, e.Status)
}

// Attempts is how many attempts were recorded, those of steps that are made of
// steps left out: they are not counted beside what is inside them.
func (r *Recording) Attempts() (n int) {
	outer := map[attemptKey]bool{}
	for k := range r.attempts {
		for at := k.path; ; {
			i := strings.LastIndexByte(at, '.')
			if i < 0 {
				break
			}
			at = at[:i]
			outer[attemptKey{life: k.life, index: k.index, round: k.round, path: at}] = true
		}
	}
	for k := range r.attempts {
		if !outer[k.step()] {
			n++
		}
	}
	return n
}
