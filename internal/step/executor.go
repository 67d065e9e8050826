package step

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/vars"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/internal/worktree"
)

// Executor runs the steps of one run. Its fields are set before the first step
// runs and not changed afterwards. It is safe for concurrent use.
type Executor struct {
	Clock    Clock
	Recorder Recorder
	Actions  Actions
	Values   Values

	Run  string // its id
	File *workflow.File
	Life *Lifecycle
	// Limits and Agents are what all steps of the run have in common.
	Limits Limits
	// Machine are the named limits of the machine; nil: there are none.
	Machine MachineLimits
	Agents  Agents
	Tally   Tally
	// Git is nil where nobody wants to know of git.
	Git *Git
	// AgentConfigs are the agents that are configured, by name.
	AgentConfigs map[string]*workflow.Agent
	// Processors is how many there are where the run began; 0: as many as here.
	Processors int
	// Pipeline runs a pipeline file as a step; nil: there are none.
	Pipeline func(ctx context.Context, p Place, a *workflow.Pipeline, path string) (action.Result, error)
	// Ask puts a yes-or-no question to a person; nil where nobody is there.
	Ask func(question string) bool
	// Rand draws the jitter of the step of a path at a place, and with the path
	// ItemJitter that of an item's next attempt; nil: the machine's.
	Rand func(p Address, path string) backoff.Rand
	// Safe has on the disk what a step did beside the record, before its end is
	// recorded: a record of what a power cut takes away would have a resume leave the
	// step out. path is the step's address. nil: there is nothing of which the record
	// would have to be sure.
	Safe func(ctx context.Context, p Place, path string) error
	// Skipped is told of each step whose condition does not hold; nil: nobody asks.
	Skipped func(p Place, s *workflow.Step)

	told sync.Map // the keys of what NoteOnce told
}

// ItemJitter is the path with which the jitter of an item's retry is drawn, which
// is of no step.
const ItemJitter = "map"

// Place is where steps run: an address, and what they have around them there. A
// place inside another one is a changed copy of it.
type Place struct {
	Address
	// Scope is where steps set variables. It is read through Executor.View.
	Scope *vars.Scope
	Dir   string
	Env   environ.Local
	// From is where the git context of the step that is being executed begins, in all of its
	// attempts and lives; nil: nobody asks.
	From *worktree.Point
	// Past are the steps that an earlier life of the run recorded, by path. Since is
	// the number of the event with which the attempt began that is around the steps:
	// what is recorded before it is of attempts that are over.
	Past  map[string]journal.StepRecord
	Since int64
	// Limits bound each command by its kind, id or name
	// (timeout_config.command_timeouts).
	Limits map[string]time.Duration
	// Tried is what the attempt at the step around knows of the ones before it.
	Tried   Tried
	Quiet   bool   // output is not passed on live
	Listing bool   // what it prints is a list, see Call
	For     string // the value that the round of the foreach around is for, in short
	// Alone: nothing else runs while a step does, so that it can have the terminal.
	Alone bool
	// Keep records the variables that steps of a work item set, so that a resume
	// can take over the finished ones: their worktree is still there.
	Keep bool
	// Mark notes in the worktree of a work item that a step has ended there; nil: the step is
	// in no such worktree.
	Mark func(path string)
	// Holding is what the item and the steps around have of the limits of the machine.
	Holding *Holding
	// Pauses holds back agents while a rate limit lasts; nil: those of the run.
	Pauses Pauses
	// Budget is what the agents of the item may use; nil: anything.
	Budget *ItemBudget
	// Unmended is set by a step that failed and was tolerated by a default alone (see
	// Outcome); nil: nobody asks.
	Unmended *atomic.Bool
}

// Round is the place of round n of a loop, with variables of its own.
func (p Place) Round(n int) Place {
	p.Address = p.Address.Round(n)
	p.Scope = p.Scope.Child()
	return p
}

// recorded gives what an earlier life of the run recorded of a step in the attempt
// that is being made; nil: nothing.
func (p *Place) recorded(path string) *journal.StepRecord {
	if p.Past == nil {
		return nil
	}
	return p.past(path)
}

// past has room for a record on its stack, which whoever asks must not have while a step
// runs: with it, and that of log, the stack of an item is twice as large, and an attempt of
// a simulation takes 4 % longer.
//
//go:noinline
func (p *Place) past(path string) *journal.StepRecord {
	if rec, ok := p.Past[path]; ok && rec.Last > p.Since {
		return &rec
	}
	return nil
}

// With is the place with more variables in its environment: names and values in
// turn.
func (p Place) With(pairs ...string) Place {
	p.Env = p.Env.With(pairs...)
	return p
}

// View is the place's scope for reading, with its own environment; what is run
// to compute a value ends with ctx.
func (x *Executor) View(ctx context.Context, p *Place) *vars.Scope {
	return x.Values.View(ctx, p.Env, p.Scope)
}

// record keeps facts. Where they are not kept, nothing new is started: what
// nobody would know of must not happen.
func (x *Executor) record(facts ...event.Event) {
	// The recorder is given a copy in memory that was used before, so that the facts need
	// none of their own: else an attempt of a simulation takes 5 to 8 % longer.
	list := records.Get().(*[]event.Event)
	*list = append((*list)[:0], facts...)
	x.keep(*list)
	clear(*list)
	records.Put(list)
}

// keep is record of facts that are in memory already which is used again.
func (x *Executor) keep(facts []event.Event) {
	if err := x.Recorder.Record(facts...); err != nil {
		x.Life.Halt(fmt.Errorf("the journal cannot be written: %w", err))
	}
}

// records are lists of facts that were recorded: a recorder keeps none.
var records = sync.Pool{New: func() any { return new([]event.Event) }}

// synced returns when what was recorded is on the disk, and ends the run where it cannot be.
func (x *Executor) synced(ctx context.Context) error {
	err := x.Recorder.Sync(context.WithoutCancel(ctx))
	if err != nil {
		x.Life.Halt(fmt.Errorf("the journal cannot be written: %w", err))
	}
	return err
}

// Note tells a warning.
func (x *Executor) Note(format string, args ...any) {
	x.record(event.Event{Type: event.Note, Message: fmt.Sprintf(format, args...)})
}

// NotePassing tells what is true now, and is soon no longer: no reader keeps it.
func (x *Executor) NotePassing(format string, args ...any) {
	x.record(event.Event{Type: event.Note, Class: event.Passing, Message: fmt.Sprintf(format, args...)})
}

// noteAt is Note of what happened at a place.
func (x *Executor) noteAt(p Place, format string, args ...any) {
	e := p.Event(event.Note, "")
	e.Message = fmt.Sprintf(format, args...)
	if p.For != "" {
		e.Message = "[" + p.For + "] " + e.Message
	}
	x.record(e)
}

// NoteOnce tells a warning the first time that it is called with a key.
func (x *Executor) NoteOnce(key, text string) {
	if _, again := x.told.LoadOrStore(key, true); !again {
		x.Note("%s", text)
	}
}

// Tally counts the steps of a run by how they ended. It is safe for concurrent
// use.
type Tally struct {
	mu     sync.Mutex
	counts event.Counts
}

// Counts gives what was counted so far.
func (t *Tally) Counts() event.Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// Add counts the step of a path by its outcome, unless it is a part of another one,
// or was cut short and has none.
func (t *Tally) Add(path string, o *Outcome) { t.add(path, o, o.Unmended) }

func (t *Tally) add(path string, o *Outcome, unmended bool) {
	if event.Aside(path) || o.Status == event.Interrupted {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Add(o.Kind(), 1)
	if unmended && o.Status == event.Failed {
		t.counts.Unmended++
	}
}

// Restore takes over what earlier lives of the run have counted.
func (t *Tally) Restore(counts event.Counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts = counts
}

// countStep counts a step that has ended. That one of an item was not mended counts with
// the item, and only if that succeeds with it.
func (x *Executor) countStep(p *Place, path string, out *Outcome) {
	x.Tally.add(path, out, out.Unmended && !p.unmended(path, out))
}

// countAgain counts a step whose end is taken over from an earlier life. Those of items are
// counted already.
func (x *Executor) countAgain(p *Place, path string, out *Outcome) {
	if p.Index == 0 {
		x.countStep(p, path, out)
		return
	}
	p.unmended(path, out)
}

// unmended marks the item of a step that was not mended, and reports whether the step is
// one of an item.
func (p *Place) unmended(path string, out *Outcome) bool {
	if p.Unmended != nil && out.Unmended && out.Status == event.Failed && !event.Aside(path) {
		p.Unmended.Store(true)
	}
	return p.Unmended != nil
}

// Inline is how many bytes of an output are in a record; the whole of a
// larger one is a file. To make a file costs more than to write 16 KiB.
const Inline = 16 << 10

// Glance is how many bytes of an output are in a record where all of it is in a file
// that whoever wants it reads.
const Glance = 768

// Brief is how many bytes of a text stand in a message, and of a large output in
// the history of a failure.
const Brief = 4 << 10

func (x *Executor) text(s string) mask.Text { return x.Values.Mask().Text(s) }

// Clip shortens an output for a record: its head and its tail stay.
func (x *Executor) Clip(s string) string { return x.text(s).Ends(Inline) }

// Filed is Clip of an output that a file has as well: what is in it is there once.
// Whoever reads it reads no file that a variable cannot hold, and has the ends of that here.
func (x *Executor) Filed(s string) string {
	if len(s) <= Inline || len(s) > MaxVar {
		return x.Clip(s)
	}
	return x.text(s).Ends(Glance)
}

// Tail is the end of an output, for the history of a failure.
func (x *Executor) Tail(s string) string { return x.text(s).Tail(Brief) }

// whole is an output for the record of an attempt: its end where it is so large
// that the whole of it is a file.
func (x *Executor) whole(s string) string {
	if len(s) <= Inline {
		return x.text(s).String()
	}
	return x.Tail(s)
}

// IsEnd reports whether an output in the record of an attempt is only its end.
func IsEnd(s string) bool {
	return strings.HasPrefix(s, mask.Cut) && len(s) > Brief && len(s) <= Brief+len(mask.Cut)
}

// within runs f with a time of d, 0 for any; cause names what took too long.
func (x *Executor) within(ctx context.Context, d time.Duration, what string, f func(context.Context) error) error {
	if d <= 0 {
		return f(ctx)
	}
	ctx, cancel := x.Clock.WithTimeout(ctx, d, &TimeoutError{What: what, After: d})
	defer cancel()
	return f(ctx)
}

// Lookup gives the value of a variable or of a part of one, such as
// error.message. The error is of one that is there and cannot be read.
func Lookup(sc *vars.Scope, name string) (template.Value, bool, error) {
	t, err := template.Parse("${" + name + "}")
	if err != nil {
		return template.Value{}, false, nil
	}
	return t.Find(sc)
}

// Final reports whether an attempt failed of what another one would meet as well: the step
// could not begin, the budget of its item is used up, or a rate limit lasts longer than
// anybody waits for it.
func Final(err error) bool { return IsInput(err) || Spent(err) || limited(err) }

// IsInput reports whether a step could not begin, as it could not the next time.
func IsInput(err error) bool { return failure.Input(err) }
