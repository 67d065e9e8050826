package mapper

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/bide-dev/bide/circuit"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/step"
)

// Options are what a map is made of.
type Options struct {
	Policy policy.Config
	// Total is the number of items.
	Total    int
	Clock    step.Clock
	Recorder step.Recorder
	// Items reads at most limit items from an index on, from 1, in order.
	Items func(ctx context.Context, from, limit int) ([]event.Item, error)
	// Template is what runs on each item.
	Template Template
	// Budgeted: what the attempts at an item use counts in the next ones.
	Budgeted bool
	// Strict: the start of an item is on the disk before its agent starts, and
	// its end before its worker continues.
	Strict bool
	// Name is the run's, in correlation ids.
	Name string
	// Stopping says why nothing new may start; nil where it may. It is asked
	// before each start, and after each [Map.Wake].
	Stopping func() error
	// Held says whether no item may start for now; nil: it never is so. It is asked
	// before each start, and after each [Map.Wake].
	Held func() bool
	// Admit waits until the limits of the machine let an attempt at an item begin, and gives what it
	// holds of them; nil: nothing has to be waited for. With an error it holds nothing.
	Admit func(ctx context.Context, it event.Item, attempt int) (*step.Holding, error)
	// OnHold runs what the file wants to be run when the map is held, and in a later life of
	// the run, for the same hold, what of that has not ended well; nil for nothing.
	OnHold func(ctx context.Context, h Held) error
	// HoldChanged, if not nil, is called when a hold has changed as somebody asked for it,
	// or as [Map.QueueRed] and [Map.QueueGreen] told.
	HoldChanged func()
	// StopText puts the reason of a policy that stopped the map in words, with what it has
	// counted until then.
	StopText func(policy.StopReason, policy.Counts) string
	// NotBefore, if not nil, gives the time before which the nth item to start, from 0, does
	// not; the zero time is none.
	NotBefore func(n int) time.Time
	// Deciding, if not nil, is told of whose attempt the machine decides next, so
	// that its jitter can be the item's own.
	Deciding func(index, attempt int)
	// Failed, if not nil, is told what is recorded of an item that failed for good, or that
	// is given another chance.
	Failed func(event.Event)
}

// Template is what a map does with its items. It is used by many workers at
// once.
type Template interface {
	// Run runs an agent to its end, and says in e how that was, which is empty before.
	Run(ctx context.Context, a *Attempt, e *Ending)
	// Handle runs the handler of an item that failed for good.
	Handle(ctx context.Context, it event.Item, h Due) error
	// Label is what a person knows an item by; "" for none.
	Label(it event.Item) string
	// Why is why an item runs although an earlier run may have ended it; "" where
	// nobody asks.
	Why(index int) string
}

// Attempt is one attempt at one item.
type Attempt struct {
	Item event.Item
	// Label is what a person knows the item by, where that is not its id.
	Label string
	// Number counts the attempts at the item over all lives of the run and all
	// its rounds, from 1.
	Number int
	// Recoveries is how often the whole run went down while the item ran.
	Recoveries int
	// Probe says that the map is held, and this attempt finds out whether it need be.
	Probe bool
	// Last is how the attempt before this one failed: its class, message and exit
	// status; nil: there was none.
	Last *failure.Failure
	// Used is what the attempts before it have used of the item's budget.
	Used  event.Used
	Start time.Time
	// Holding is what it holds of the limits of the machine.
	Holding *step.Holding
}

// Ending is how an agent ended.
type Ending struct {
	Result Result
	// Err is why it failed, as matchers want it; nil if it did not.
	Err error
	// Failure is what is kept of Err: masked, its outputs cut to their ends.
	Failure failure.Failure
	// Step and StepLabel are the step that failed.
	Step, StepLabel string
	// LeftOut: it failed, and the file says that its item is left out.
	LeftOut bool
	// Interrupted: the agent was ended because the run stops.
	Interrupted bool
	// Anew: as Interrupted, and the item begins again from its first step, as what its
	// steps have done is lost or put away.
	Anew bool
	// Limited: a rate limit outlasts all patience.
	Limited bool
	// Shortage: the system had no room to start what it needed.
	Shortage bool
	// Used is what this attempt and those before it have used of the item's budget.
	Used event.Used
	// RetryAfter is how long the other side asked to be left alone; 0: not at all.
	RetryAfter time.Duration
	// Halt stops the map for a reason of the file's; "" for none.
	Halt policy.StopReason
	// State is what a handler reads beside the failure, as JSON. It is asked for
	// only where there is a handler.
	State func() json.RawMessage
	// Parked, if not nil, says that the agent has ended well, and that [Map.Settle] tells
	// how the item has. It is called when the map knows that the item waits.
	Parked func()
	// Recorded, if not nil, is called once what became of the agent is on the disk: it
	// undoes what a resume would need until then. It is not called where that could not
	// be recorded.
	Recorded func(ctx context.Context)
}

// Map is a map. Its zero value is of no use: see [New].
type Map struct {
	Options
	feed feed

	// All of this belongs to whoever has the turn: before and after Run, to its caller.
	machine   *policy.Machine
	lanes     lanes
	idle      []*worker
	busy      int
	starts    int // items that have started
	due       []*handling
	undone    error              // why a handler is still due
	parked    map[int]*ending    // items whose work waits to be merged, by index
	facts     []event.Event      // those of the last end, which nobody has any more: for the next one
	before    map[int]int        // attempts of earlier rounds, by index
	used      map[int]event.Used // of items that are to be tried again, by index
	names     map[int]name
	last      map[int]*failure.Failure // of items that wait for their next attempt
	breakerAt circuit.Snapshot         // of the breaker, as last recorded
	stopped   error                    // the run's own reason to stop
	broken    error                    // of the recorder
	whys      map[policy.StopReason]string

	inbox inbox
	done  chan struct{} // closed when the loop has ended
}

// name is what a person knows a failed item by, until its error is shown.
type name struct{ id, label string }

// New gives the map of a policy that is valid.
func New(o Options) (*Map, error) {
	m, err := policy.New(o.Policy, o.Total)
	if err != nil {
		return nil, err
	}
	x := &Map{Options: o, machine: m, before: map[int]int{}, last: map[int]*failure.Failure{}, done: make(chan struct{})}
	x.feed = feed{read: o.Items}
	x.inbox.wake = make(chan struct{}, 1)
	return x, nil
}

// Run takes the map to its end. It is called once.
func (x *Map) Run(ctx context.Context) {
	n := min(x.machine.Parallel(), x.Total)
	x.open(ctx, n)
	x.busy = n // before they have said so
	defer x.join(ctx)
	x.Clock.Together(n+1, func(i int) {
		if i == 0 {
			x.loop(ctx)
		} else {
			x.work(ctx)
		}
	})
}

// Open says whether there is something to do: items that are not finished, or
// handlers that are due.
func (x *Map) Open() bool { return x.machine.Counts().Finished() < x.Total || len(x.due) > 0 }

// Outcome is how a map went.
type Outcome struct {
	Counts policy.Counts
	// Failed: all items are finished, and some have failed for good.
	Failed bool
	// Stop is the policy's reason to stop, Stopped the run's own; at most one is
	// set, and neither if all is finished.
	Stop    policy.StopReason
	Stopped error
	// Why says what led to Stop, where more is known than the reason, as Repeated does.
	Why string
	// Repeated is what kept failing while the map was running; nil for nothing. Its message
	// is as it was, secrets included.
	Repeated *policy.Repeated
}

// Outcome gives how the map went, and shows the errors that are left to be shown.
func (x *Map) Outcome() Outcome {
	o := Outcome{Counts: x.machine.Counts()}
	if r, ok := x.machine.Repeated(); ok {
		o.Repeated = &r
	}
	o.Failed = o.Counts.Finished() == o.Counts.Total && o.Counts.FailedForGood > 0
	x.record(x.shown(x.machine.Unshown())...)
	left := x.Open() || x.undone != nil
	switch {
	case x.broken != nil:
		o.Stopped = x.broken
	case x.stopped != nil && left:
		o.Stopped = x.stopped
	case x.undone != nil:
		o.Stopped = x.undone
	case x.stopped != nil: // too late to change anything
		o.Stop = x.machine.Reached()
	default:
		o.Stop = x.machine.Stopped()
		o.Why = x.whys[o.Stop]
	}
	return o
}

// Pause gives the rate-limit pause as it is at the end of the map.
func (x *Map) Pause() event.Pause { return x.machine.Snapshot().Pause }

// record keeps facts of a turn. Where they are not kept, nothing new starts.
func (x *Map) record(facts ...event.Event) {
	if len(facts) == 0 {
		return
	}
	for i := range facts {
		if e := &facts[i]; x.Failed != nil && (e.Type == event.ItemFinished && e.Class != "" || e.Type == event.ItemRequeued) {
			x.Failed(*e)
		}
	}
	if err := x.Recorder.Record(facts...); err != nil && x.broken == nil {
		x.broken = err
		x.machine.Halt("the record of the run")
	}
}

// inbox is what is to be done with the machine, in order, and who does it.
type inbox struct {
	mu    sync.Mutex
	list  []func()
	spare []func()
	taken bool      // somebody has the turn
	over  bool      // the map has ended
	next  time.Time // when a turn is due without a message; zero: never
	until time.Time // of that, what the loop waits for
	wake  chan struct{}
}

func (b *inbox) put(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, f)
}

// take takes the turn, with what was told since the last one. It is false where
// somebody has it, or the map is over.
func (b *inbox) take() ([]func(), bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken || b.over || len(b.list) == 0 {
		return nil, false
	}
	b.taken = true
	list := b.list
	clear(b.spare)
	b.list, b.spare = b.spare[:0], list
	return list, true
}

// leave ends the turn. What was told in the meantime is left to the loop, so that
// no worker is held up for long.
func (b *inbox) leave(next time.Time, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken, b.next, b.over = false, next, over
	if over || len(b.list) > 0 || !next.IsZero() && (b.until.IsZero() || next.Before(b.until)) {
		b.nudge()
	}
}

// rest says until when the loop has to wait, and whether the map is over. While
// somebody has the turn, the loop waits for the end of that.
func (b *inbox) rest() (until time.Time, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = b.next
	if b.taken {
		b.until = time.Time{}
	}
	return b.until, b.over
}

// nudge wakes the loop.
func (b *inbox) nudge() {
	select {
	case b.wake <- struct{}{}:
	default: // one signal that is not taken yet is enough
	}
}

// ask is tell that waits until f is done.
func (x *Map) ask(ctx context.Context, f func()) error {
	ready := make(chan struct{}, 1)
	x.tell(func() { f(); ready <- struct{}{} })
	return x.Clock.Wait(context.WithoutCancel(ctx), -1, ready)
}

// Wake has the loop look whether the run stops.
func (x *Map) Wake() { x.inbox.nudge() }

// errProtocol is loud: the map and its machine disagree, which is a bug.
func errProtocol(what string, err error) error { return fmt.Errorf("mapper: %s: %w", what, err) }
