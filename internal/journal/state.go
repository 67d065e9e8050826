package journal

import (
	"encoding/json"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/retry/driver"
)

// State is what a sequence of events amounts to: everything that decides how
// a run continues. It belongs to its caller; nothing changes it afterwards.
type State struct {
	Seq     int64     // the last event that has a part in it; 0 for none
	Started time.Time // of the first run_started
	Origin  []byte    // its data
	// Status is the run's: "" before it started, event.Running until a
	// run_finished, then that event's.
	Status         string
	Finished       time.Time     // of the last run_finished; zero while Status is running
	Ran            time.Duration // of its process, as it counted it, whatever the clock of the machine did; 0 for none
	Class, Message string        // of the last run_finished
	kinds          event.KindCounts
	Resumes        int // how many run_resumed there are
	// FileChanged: the last life went on with a file that is not as it was recorded.
	FileChanged bool

	// Phase is the phase that was started last and is not finished; "" for
	// none.
	Phase  string
	Phases map[string]PhaseRecord // by name
	// Steps holds the steps of the run by event.Step. Steps inside work items
	// (events with an Index) are not here: see [ItemRecord.Since].
	Steps map[string]StepRecord

	// Iterations are those of the workflow that have begun, by the paths of the rounds.
	Iterations map[string]Iteration

	// ItemSteps counts the steps inside work items by how they ended, in each attempt at the
	// item. Steps that are parts of others are not counted (see [event.Aside]).
	ItemSteps event.Counts

	Items Items
	// Compared: which items are unchanged since an earlier run is decided.
	Compared bool
	Breakers map[string]BreakerRecord // by event.Label

	Pauses int         // how many run_paused there are
	Pause  event.Pause // the last one, unless a pause_ended followed

	// AgentPauses are the last pauses of agents of chains, by their names.
	AgentPauses map[string]event.Pause
	// Chains are the last pauses of all agents of a chain, by its name.
	Chains map[string]event.ChainPause

	// Hold is the data of the last fact of the hold of the map; nil where it is not held.
	Hold json.RawMessage
	// QueueHold is that of the hold of the merge queue.
	QueueHold json.RawMessage
	// HoldBegan and QueueHoldBegan are the data of the facts with which these holds began.
	HoldBegan, QueueHoldBegan json.RawMessage
	// CanaryPassed says that enough of the first items of the map have succeeded.
	CanaryPassed bool

	// Width is the data of the last width_changed of the map; nil for none.
	Width json.RawMessage

	// Left is what the run left that is not merged.
	Left Left

	// LostWork are the steps whose work is lost, and that have not run again.
	LostWork []string

	// Held is when the run was paused with a request that holds still; zero for
	// none. Parallel is how many items at once were asked for last; 0 for none.
	Held     time.Time
	Parallel int

	// Usage sums the number members of the data of every agent_usage, by name.
	Usage map[string]float64
}

// Left is work that a run left and that is not merged, in words, and the command that
// merges it; "" for none. Once is how the run has ended when it is merged; "" where more
// than that is missing. Work says which commits wait, as far as the run has told it.
type Left struct {
	What, Command, Once string
	Work                event.LeftWork
}

// OnlyMerge reports whether nothing but the merge of its work is missing of a run.
func (l Left) OnlyMerge() bool { return l.Command != "" && l.Once != "" }

// PhaseRecord is what is known of a phase.
type PhaseRecord struct {
	// Status is event.Running until the phase has ended. A map of which items failed ends with
	// event.CompletedWithFailures; runs of older versions have event.Succeeded there.
	Status   string
	Started  time.Time
	Finished time.Time // zero while it runs
}

// Ended reports whether the phase has ended without an error.
func (p PhaseRecord) Ended() bool {
	return p.Status == event.Succeeded || p.Status == event.CompletedWithFailures
}

// StepRecord is what is known of a step.
type StepRecord struct {
	Phase          string
	Status         string    // event.Running until it finished, event.Interrupted if its process ended before
	Attempts       int       // attempts started in this execution of the step
	Began          time.Time // the last of them, when it was first made
	BeganAt        int64     // the number of the event since which what is inside of it belongs to that attempt; 0 for none
	First, Last    int64     // the numbers of the first and the last event that are of this execution
	Class, Message string
	Data           json.RawMessage // of step_finished: what later steps read
	Failed         json.RawMessage // the data of the last attempt_failed, while the step is in flight
	FailedAt       time.Time       // and when that was
	Finished       time.Time
	Retry          Retry // of the attempts that have failed so far, in the present round of its handler
	Recoveries     int   // how often the step was in flight when its process died
	// From is where its git context begins (a worktree.Point); nil where nobody asks.
	From json.RawMessage
	// GivenUp is why no attempt follows the last one, which failed; "" where one may.
	GivenUp string
	// Handler is the last round of its handler that has begun.
	Handler HandlerRound
	// List is the data of the foreach_started of a foreach whose attempt is not over;
	// nil: which values it has is not decided. Rounds are those that have begun.
	List   json.RawMessage
	Rounds map[int]Round
	// Width is the data of the last width_changed of it; nil for none.
	Width json.RawMessage
}

// Over reports whether the step has ended.
func (r StepRecord) Over() bool { return r.Status != event.Running && r.Status != event.Interrupted }

// HandlerRound is a round of the handler of a step. The zero value is none.
type HandlerRound struct {
	Number int
	Since  int64  // the number of the event with which it began: what is recorded before is of another execution of the step
	Made   int    // attempts at the step before it
	Status string // event.Running until it finished
	// Class, Message and Failed are how the attempt before it failed, and GivenUp is
	// why no other followed.
	Class, Message, GivenUp string
	Failed                  json.RawMessage
	FailedAt                time.Time
	// ErrClass and Err are how it failed itself.
	ErrClass, Err string
}

// Iteration is a round of the whole workflow.
type Iteration struct {
	Before  string // the state of the repository when it began
	Over    bool
	Changed bool // the repository
}

// Round is a round of a foreach.
type Round struct {
	Status string // event.Running until it finished
	Data   json.RawMessage
	Class  string
	Error  string
}

// InFlight reports whether an attempt had begun, and not failed, when the process ended.
func (s StepRecord) InFlight() bool { return s.Attempts > s.Handler.Made+s.Retry.Failures }

// Retry is what a retry machine has to know to continue where it was.
type Retry struct {
	Failures     int           // failed attempts on record
	Slept        time.Duration // the sum of the delays that were scheduled
	Prev         time.Duration // the last delay
	Began        time.Time     // the first attempt; zero if it is not recorded
	FirstFailure time.Time     // zero if there was none
	Rules        []driver.RuleState
	NotBefore    time.Time // when the wait that was scheduled last ends; zero for none
}

// BreakerRecord is the last breaker_changed of a breaker.
type BreakerRecord struct {
	State string // event.To
	Since time.Time
	Data  json.RawMessage // the breaker's snapshot, if the event carried one
}

// ItemStatus says where a work item is.
type ItemStatus uint8

// The statuses of an item.
const (
	ItemPending      ItemStatus = iota // not started, or to be started again
	ItemWaiting                        // an attempt failed; the next one starts at NotBefore
	ItemRunning                        // in flight
	ItemHandling                       // failed for good; its handler is due
	ItemSucceeded                      // event.Succeeded or event.Degraded
	ItemFailed                         // failed for good without an open dead letter
	ItemSkipped                        // failed or left out, and skipped
	ItemDeadLettered                   // failed for good with an open dead letter
	ItemUnchanged                      // an earlier run has ended it well, and nothing has changed since
)

// String is the status in the words of package event.
func (s ItemStatus) String() string {
	switch s {
	case ItemPending, ItemWaiting, ItemHandling:
		return event.Pending
	case ItemRunning:
		return event.Running
	case ItemSucceeded:
		return event.Succeeded
	case ItemFailed:
		return event.Failed
	case ItemSkipped:
		return event.Skipped
	case ItemDeadLettered:
		return event.DeadLettered
	case ItemUnchanged:
		return event.Unchanged
	}
	return "unknown"
}

// Done says whether the item needs no more attempts.
func (s ItemStatus) Done() bool { return s >= ItemSucceeded }

// ItemRecord is what is known of a work item.
type ItemRecord struct {
	Status ItemStatus
	// Attempts is the number of the last attempt that started, over all
	// rounds: the next one is Attempts+1.
	Attempts int
	// Retry counts the failed attempts since the item began or was requeued.
	// It is zero for an item that is done.
	Retry Retry
	// Recoveries is how often the item was in flight when its process died.
	// It is zero for an item that is done.
	Recoveries int
	// Before is the number of attempts that were made before the item was
	// requeued last, which its attempts since then are numbered on from. It is
	// zero for an item that is done.
	Before int
	// Handler is the number of the item_handler_due of an item whose handler is
	// due; 0 for none.
	Handler int64
	// Since is the number of the item_started with which the steps begin that
	// belong to an item in flight, over all lives of the run in which it was
	// ([Reader.ItemSteps]), or of the item_handler_due with which those of its
	// handler do; 0 for an item that begins again, or is done.
	Since int64
	// Failed is the number of the item_retry_scheduled of the attempt that failed
	// last, since the item began or was requeued; 0 for none.
	Failed int64
	// Used is what its attempts have used since the item began, was requeued or was given
	// back by a hold. It is zero for an item that is done.
	Used event.Used
	// Merging is the data of the item_merging of the last attempt, if nothing
	// came after it: the attempt's work may be merged or not. It is "" for an
	// item that is done.
	Merging string
}

// Counts is how many items are in each status.
type Counts struct {
	Total        int `json:"total"`
	Succeeded    int `json:"succeeded"`
	Failed       int `json:"failed"` // for good, dead letters included
	Skipped      int `json:"skipped"`
	Unchanged    int `json:"unchanged"`
	Pending      int `json:"pending"` // everything else, in flight included
	Running      int `json:"-"`       // in flight; part of Pending
	Waiting      int `json:"-"`       // for a retry; part of Pending
	DeadLettered int `json:"-"`       // open dead letters; part of Failed
	// Of those that succeeded, so many did in another way than they were meant to, as
	// the end of the run tells.
	event.KindCounts
}
