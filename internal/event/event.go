// Package event is the vocabulary of what happens in a run.
//
// Everything that a run does is told as a sequence of events. The journal
// keeps them, the state of a run is a fold over them, and progress, summary,
// dead letters, `--json` output and resume are readers of the same sequence.
//
// One flat struct serves all types of event; the table in the comment of
// [Event] says which fields each type carries.
package event

import (
	"encoding/json"
	"time"
)

// Type names what happened.
type Type string

// The types of event.
const (
	RunStarted       Type = "run_started"
	RunResumed       Type = "run_resumed"
	PhaseStarted     Type = "phase_started"
	PhaseFinished    Type = "phase_finished"
	StepStarted      Type = "step_started"
	AttemptStarted   Type = "attempt_started"
	AttemptFailed    Type = "attempt_failed"
	RetryScheduled   Type = "retry_scheduled"
	StepFinished     Type = "step_finished"
	ItemsReady       Type = "items_ready"
	ItemStarted      Type = "item_started"
	ItemRetry        Type = "item_retry_scheduled"
	ItemMerging      Type = "item_merging"
	ItemFinished     Type = "item_finished"
	ItemDeadLettered Type = "item_dead_lettered"
	ItemRequeued     Type = "item_requeued"
	ItemRemoved      Type = "item_removed"
	BreakerChanged   Type = "breaker_changed"
	RunPaused        Type = "run_paused"
	AgentUsage       Type = "agent_usage"
	AgentMessage     Type = "agent_message"
	Output           Type = "output"
	Note             Type = "note"
	RunFinished      Type = "run_finished"
)

// The statuses of a run, a step or an item.
const (
	Succeeded             = "succeeded"
	Failed                = "failed"
	Skipped               = "skipped"
	Degraded              = "degraded" // ended well through a fallback
	Pending               = "pending"
	Running               = "running"
	Interrupted           = "interrupted"
	DeadLettered          = "dead_lettered"
	CompletedWithFailures = "completed_with_failures"
)

// Event is one thing that happened. Fields that an event of a type does not
// carry are zero and are left out of the JSON.
//
//	run_started                Label (workflow name), Data (file, parameters, options)
//	run_resumed                Label, Total, Data (where the items stand)
//	phase_started, …_finished  Phase, Status
//	step_started               Step, Label
//	attempt_started            Step, Attempt
//	attempt_failed             Step, Attempt, Class, Message, ExitCode, DurationMS
//	retry_scheduled            Step, Attempt (the one that failed), DelayMS
//	step_finished              Step, Label, Status, Attempts, DurationMS, Class, Message, Data (what later steps read)
//	items_ready                Total, Data (digest of the list)
//	item_started               Item, Label, Index, Attempt
//	item_retry_scheduled       Item, Index, Attempt (the one that failed), DelayMS, Data (the failed attempt)
//	item_merging               Item, Index, Attempt, Data (the commit that is about to be merged, and the result of the item if it is)
//	item_finished              Item, Index, Status, Attempts, DurationMS, Class, Message, Data (its result)
//	item_dead_lettered         Item, Index, Attempts, Class, Message, Data (the dead letter)
//	item_requeued, …_removed   Item, Index: a dead letter that is run again, or was purged
//	breaker_changed            Label (whose breaker), From, To
//	run_paused                 DelayMS, Message: a rate limit holds back new agents
//	agent_usage                Step, Item, Data (tokens and cost)
//	agent_message              Step, Item, Message, Data (text, tool use)
//	output                     Step, Item, Label ("stdout" or "stderr"), Message (the text): shown, never journalled
//	note                       Message: a warning worth keeping
//	run_finished               Status, DurationMS, Class, Message, Data (the summary)
type Event struct {
	// Seq is the event's place in the journal, from 1; 0 before it is recorded.
	Seq  int64     `json:"seq,omitempty"`
	Type Type      `json:"event"`
	Time time.Time `json:"time"`
	Run  string    `json:"run"`

	Phase string `json:"phase,omitempty"` // setup, map, reduce, merge; "" in a standard workflow
	// Step is the stable path of the executed step, unique in its run or
	// item: "commands[2]", "commands[1].do[0]@3", "reduce[0]".
	Step  string `json:"step,omitempty"`
	Label string `json:"label,omitempty"` // the same for a person
	Item  string `json:"item,omitempty"`  // the item's id
	// Index is the item's place in the list plus one, so that 0 means none.
	Index   int `json:"index,omitempty"`
	Attempt int `json:"attempt,omitempty"` // numbered from 1

	Status     string `json:"status,omitempty"`
	Attempts   int    `json:"attempts,omitempty"`
	Class      string `json:"class,omitempty"` // error class: exit, timeout, network, …
	Message    string `json:"message,omitempty"`
	ExitCode   int    `json:"exit_code,omitempty"`
	DelayMS    int64  `json:"delay_ms,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`
	Total      int    `json:"total,omitempty"`
	From       string `json:"from,omitempty"`
	To         string `json:"to,omitempty"`

	// Data is the rest, as a JSON object. Its members stand beside the other
	// fields in the output of `bide events --json`.
	Data json.RawMessage `json:"data,omitempty"`
}

// Sink takes events. Emit is called from many goroutines at once, must not
// block for long, and must not keep e.Data's bytes after changing them.
type Sink interface {
	Emit(e Event)
}

// SinkFunc is a function as a Sink.
type SinkFunc func(Event)

// Emit calls f.
func (f SinkFunc) Emit(e Event) { f(e) }
