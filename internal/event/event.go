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
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// Type names what happened.
type Type string

// The types of event.
const (
	RunStarted      Type = "run_started"
	RunResumed      Type = "run_resumed"
	PhaseStarted    Type = "phase_started"
	PhaseFinished   Type = "phase_finished"
	StepStarted     Type = "step_started"
	AttemptQueued   Type = "attempt_queued"
	AttemptStarted  Type = "attempt_started"
	AttemptFailed   Type = "attempt_failed"
	AttemptFinished Type = "attempt_finished"
	RetryScheduled  Type = "retry_scheduled"
	StepFinished    Type = "step_finished"
	StepRequeued    Type = "step_requeued"
	ForeachStarted  Type = "foreach_started"
	RoundStarted    Type = "round_started"
	RoundFinished   Type = "round_finished"
	ItemsReady      Type = "items_ready"
	ItemsCompared   Type = "items_compared"
	ItemStarted     Type = "item_started"
	ItemUsed        Type = "item_used"
	ItemRetry       Type = "item_retry_scheduled"
	ItemMerging     Type = "item_merging"
	MergeVerified   Type = "merge_verified"
	ItemHandlerDue  Type = "item_handler_due"
	ItemFinished    Type = "item_finished"
	ItemRequeued    Type = "item_requeued"
	ItemRemoved     Type = "item_removed"
	ItemReturned    Type = "item_returned"
	HoldStarted     Type = "hold_started"
	HoldProbe       Type = "hold_probe"
	HoldEnded       Type = "hold_ended"
	CanaryFinished  Type = "canary_finished"
	WidthChanged    Type = "width_changed"
	BreakerChanged  Type = "breaker_changed"
	RunPaused       Type = "run_paused"
	AgentPaused     Type = "agent_paused"
	PauseEnded      Type = "pause_ended"
	RunControlled   Type = "run_controlled"
	AgentUsage      Type = "agent_usage"
	AgentMessage    Type = "agent_message"
	Output          Type = "output"
	Note            Type = "note"
	RunFinished     Type = "run_finished"
)

// The statuses of a run, a step or an item.
const (
	Succeeded             = "succeeded"
	Failed                = "failed"
	Skipped               = "skipped"
	Unchanged             = "unchanged" // of an item: an earlier run has ended it well, and nothing has changed since
	Degraded              = "degraded"  // ended well through a fallback
	Pending               = "pending"
	Running               = "running"
	Interrupted           = "interrupted"
	DeadLettered          = "dead_lettered"
	CompletedWithFailures = "completed_with_failures"
)

// BeginsAnew is the class of an item_finished with the status interrupted after which the
// item begins with its first step: what is recorded of its steps is void.
const BeginsAnew = "begins_anew"

// The kinds of steps and items that ended neither as they were meant to nor as
// failures: beside [Degraded] and [Skipped], one for which a handler made up, one
// that failed and may, and one that missed a score and may. They are counted
// apart; the status in the events is succeeded, and failed of a tolerated step.
const (
	Recovered  = "recovered"
	Tolerated  = "tolerated"
	Incomplete = "incomplete"
)

// Kinds are all kinds that --fail-on can name, the least of a failure first.
var Kinds = []string{Skipped, Recovered, Degraded, Incomplete, Tolerated}

// Counts are steps or items that have ended, by how they have, each counted once.
type Counts struct {
	Succeeded int `json:"succeeded"` // as it was meant to
	Failed    int `json:"failed"`
	Skipped   int `json:"skipped"`
	KindCounts
}

// ItemCounts are the items of a map, by where they are.
type ItemCounts struct {
	Total     int `json:"total"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Skipped   int `json:"skipped"`
	Unchanged int `json:"unchanged"` // since an earlier run
	Pending   int `json:"pending"`
	// Of those that succeeded, so many did in another way than they were meant to:
	// each counted once, by the step that is most of a failure.
	KindCounts
}

// KindCounts counts those that ended neither as they were meant to nor as failures.
type KindCounts struct {
	Degraded   int `json:"degraded"`
	Recovered  int `json:"recovered"`
	Tolerated  int `json:"tolerated"`
	Incomplete int `json:"incomplete"`
	// Unmended are those of the tolerated whose repair did not mend them, and of which
	// the file does not say that they may fail.
	Unmended int `json:"unmended,omitempty"`
}

// Of is the count of a status or a kind; nil for one that is not counted.
func (c *Counts) Of(kind string) *int {
	switch kind {
	case Succeeded:
		return &c.Succeeded
	case Failed:
		return &c.Failed
	case Skipped:
		return &c.Skipped
	}
	return c.KindCounts.Of(kind)
}

// Add counts n more of a kind, if it is counted here.
func (c *Counts) Add(kind string, n int) {
	if at := c.Of(kind); at != nil {
		*at += n
	}
}

// Of is the count of a kind; nil for one that is not counted here.
func (c *KindCounts) Of(kind string) *int {
	switch kind {
	case Degraded:
		return &c.Degraded
	case Recovered:
		return &c.Recovered
	case Tolerated:
		return &c.Tolerated
	case Incomplete:
		return &c.Incomplete
	}
	return nil
}

// Aside reports whether the step of a path is a part of another one: of its
// handlers, its check or the repairs of that, the rounds of its goal_seek. Its end is told by that one's, and it
// is not counted.
func Aside(path string) bool {
	parts := []string{".on_failure", ".on_success", ".on_exit_code", ".validate", ".on_incomplete", ".goal_seek"}
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(path, part) })
}

// RoundOf takes the path of a round apart. Round "commands[1]@3" is the fourth of the
// foreach commands[1], counted from 0; "commands[1]#2" is the second round of the handler
// of that step, counted from 1; "@1" is the second iteration of the workflow. mark is '@'
// or '#'.
func RoundOf(path string) (loop string, mark byte, n int, ok bool) {
	at := strings.LastIndexAny(path, "@#")
	if at < 0 {
		return "", 0, 0, false
	}
	n, err := strconv.Atoi(path[at+1:])
	return path[:at], path[at], n, err == nil && n >= 0
}

// Event is one thing that happened. Fields that an event of a type does not
// carry are zero and are left out of the JSON.
//
//	run_started                Label (workflow name), Data (file, directory, parameters and inputs)
//	run_resumed                Label, Total, Data (where the items are; what holds it up, a [Resumed]; the
//	                           items at once that were asked for; whether its file is another one)
//	phase_started, …_finished  Phase, Status (completed_with_failures: the map has ended, and items failed)
//	step_started               Step, Label, Message (outside of items, the label with its variables filled in, where it has any), Data (the kind of action; of a request, its method; in a foreach, the value that its round is for)
//	attempt_queued             Step, Attempt, DelayMS if it is known, Data {"for": "limit" or "rate_limit"}: it waits and does
//	                           not run yet; shown, never journalled. Of a limit of the machine Message (what it waits for), and
//	                           "limit", "paused" and "behind" (so many attempts of the run go before it) in the Data; of an item that waits so, no Step
//	attempt_started            Step, Attempt; DelayMS and From where it has waited so long for a limit of the machine of that name
//	attempt_failed             Step, Attempt, Class, Message, ExitCode, DurationMS; Status where the retries of the step end with it:
//	                           the driver.Reason for that
//	attempt_finished           Step, Attempt, DurationMS: it succeeded; Data (the program that ran if it is not sh, the status of an HTTP answer)
//	retry_scheduled            Step, Attempt (the one that failed), DelayMS, Class, Retry, Data (a [Wait], with what was asked for and drawn)
//	step_finished              Step, Label, Status, Attempts, DurationMS, Class, Message, Data (what later steps read; of
//	                           texts that are in logs, where)
//	step_requeued              Step: what is recorded of it is forgotten, and it runs again
//	foreach_started            Step, Total, Data (the values of the foreach): the
//	                           foreach runs its steps for these and no others, in every life of the run
//	round_started              Step (the round, see [RoundOf]); of a foreach Data (its value in short, and the value's digest); of a handler
//	                           Attempts (those made at the step before); of an iteration Data (the state of the repository)
//	round_finished             Step, Status, DurationMS, Class, Message; of a foreach Data (the digest of the value);
//	                           of an iteration Data (whether it has changed the repository)
//	items_ready                Total, Data (digest of the list)
//	items_compared             Total (the items that are unchanged since an earlier run), Message, Data (the runs that were looked at,
//	                           how many items run for which reason, and which): with map.skip_unchanged, before the first item starts
//	item_started               Item, Label, Index, Attempt, Message (with map.skip_unchanged, why the item runs); DelayMS and Data (a
//	                           [Turn]) where it has waited so long for a limit of the machine
//	item_used                  Item, Index, DurationMS (how long commands, requests and agents of the item have run, in all its attempts):
//	                           with item_budget.time, each time that another tenth of it is used, and when an attempt ends
//	item_retry_scheduled       Item, Index, Attempt (the one that failed), DelayMS, Retry, Data (the failed attempt, a [Wait] as above)
//	item_merging               Item, Index, Attempt, Data (the commit that is about to be merged, and the result of the item if it is);
//	                           Status is pending of one that waits in the merge queue
//	merge_verified             Status (of the verify), Total (the items in it), DurationMS, Message (why it failed), Data (the commit and
//	                           tree that were verified, upon what, the items, what ran): by the merge queue, before anything is merged
//	item_handler_due           Item, Index, Attempts, Label (the handler), Class, Message, Data (the failed attempt, what the handler reads):
//	                           the item has failed for good, and is finished when its handler has run
//	item_finished              Item, Index, Status, Attempts, DurationMS, Class, Message (of an unchanged item, since which run), Data (its
//	                           result; of a dead letter, the letter; of an unchanged item, what it gave in that run)
//	item_requeued, …_removed   Item, Index: a dead letter that is run again, or was purged; Data {"item"} is its data from now on, where
//	                           it was edited. With Status skipped, of item_requeued: no dead letter, but an item that failed and was left out
//	item_returned              Item, Index, Attempt (the one that failed) or Attempts (of one that was given back later), Class, Message,
//	                           Retry (what its retries continue with), Data (the failed attempt): with same_error, what failed as the map is
//	                           held for does not count. Status is running of an item that runs again already
//	hold_started, …_probe      Class, Message (what fails, and when the next item is tried), Total (the items that failed so), DelayMS
//	                           (until the next probe), Data (the hold): no item starts but probes. With the Label merge_queue it is the
//	                           merge queue that is held, as what is merged so far fails its verify: nothing is merged
//	hold_ended                 Class, Label, Message (why), Total, DurationMS, Data (the hold as it was)
//	canary_finished            Status, Message (whether the other items start), Total (how many of the first items must succeed), Data (how
//	                           many did)
//	width_changed              Total (how many items run at once from now on), Message (and why), Data (what the map has learned of the
//	                           time that items take): with max_parallel: auto, or from min to max. With Step and Label it is a foreach
//	                           that finds out how many of its values run at once
//	breaker_changed            Label (whose breaker), From, To, Data (its snapshot)
//	run_paused                 DelayMS, Message, Data (a [Pause]): a rate limit holds back new agents
//	agent_paused               Step, Item, Index, Label (the agent), DelayMS, Class (of what it answered), Message, Data (a [Pause]): of a
//	                           chain, one that a rate limit turned away or that is down; the others are asked
//	pause_ended                an agent got another answer: the next rate limit begins a new series of pauses
//	run_controlled             Label (what another process asked for: pause, continue, parallel or retry-now), Total (of parallel, the
//	                           items at once), Message: holds until the run ends otherwise than by an interrupt; retry-now ends
//	                           all waits for a next attempt and the pauses of agents, once
//	agent_usage                Step, Item, Data (tokens and cost): of a call, or with item_budget of a part of one, of which only the first
//	                           counts in Data {"calls"}
//	agent_message              Step, Item, Message, Data (text, tool use); Class where it is what the agent printed in a call that
//	                           failed so and was made again in the same attempt, as after a rate limit
//	output                     Step, Item, Label ("stdout" or "stderr"), Message (the text): shown, never journalled
//	note                       Message: a warning worth keeping; Class: [Logged] for one that was asked for, [Passing] for one that is soon no
//	                           longer true, [Unmerged] (Label: the command that merges it), [Merged]; Data of the last two: the places of items whose work is merged by now
//	run_finished               Status, DurationMS, Class, Message, Data (the summary; interrupted_at, since when nothing new began; of work that is not merged merge_with, the command, and once_merged, the status that the run has then)
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
	// Index is the item's place in the list, from 1; 0 means none. Programs and people
	// see its [Number], from 0 (--json, dead letters, map.results, item_index).
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

	// Retry is what the retries of a step or an item continue with after a
	// resume, to the nanosecond, the decision that the event tells of included.
	Retry *driver.State `json:"retry,omitempty"`

	// Data is the rest, as a JSON object. Its members are beside the other
	// fields in the output of `bide events --json`.
	Data json.RawMessage `json:"data,omitempty"`
}

// EditedItem is the data that an item has from an [ItemRequeued] on; nil where it is as
// before, and for other events.
func (e Event) EditedItem() json.RawMessage {
	var d struct {
		Item json.RawMessage `json:"item"`
	}
	if e.Type != ItemRequeued || len(e.Data) == 0 || json.Unmarshal(e.Data, &d) != nil {
		return nil
	}
	return d.Item
}

// InputStep is the path under which a map records what the command of its input wrote to
// standard error. It is no step that could run again by itself.
const InputStep = "map.input"

// Logged is the class of a note that somebody asked for, with on_error: log; it is
// shown also where notes are not.
const Logged = "logged"

// Unmerged is the class of the note that a life of a run ends with where work of items
// is not merged; what the next life says takes its place, and what is merged later.
const Unmerged = "unmerged"

// Passing is the class of a note that is true when it is told, and later not: it is shown
// as it happens, and no reader keeps it.
const Passing = "passing"

// LostWork is the class of a note that work of steps that had ended is lost: until all of them have run again, the run ends with failures.
const LostWork = "lost_work"

// LostSteps is the data of a note of LostWork.
type LostSteps struct {
	Steps []string `json:"steps"`
}

// MergeQueue is the label of the events of a hold that are of the merge queue.
const MergeQueue = "merge_queue"

// Landed is the class of the note that the work of a run is merged into the user's branch.
const Landed = "landed"

// LandedMerge is the data of a note of Landed: the commit by which it is.
type LandedMerge struct {
	Commit string `json:"commit"`
}

// LeftWork is the data of a note of Unmerged: the commits that wait to be merged, and the
// branch into which.
type LeftWork struct {
	Commits []string `json:"commits,omitempty"`
	Into    string   `json:"into,omitempty"`
}

// Merged is the class of the note that all that was left is merged.
const Merged = "merged"

// MergedItems is the data of a note of what was merged after the end of a run: the
// places of the items in the list, as in Index, and the last commit by which they were, as in
// LandedMerge. Unverified: the verify of the run's merge queue was left out.
type MergedItems struct {
	Items      []int  `json:"items,omitempty"`
	Commit     string `json:"commit,omitempty"`
	Unverified bool   `json:"unverified,omitempty"`
}

// StatusMerged is how a run has ended with a note of Merged, of which nothing but that merge
// was missing: once is what it has told of that.
func StatusMerged(once string, note Event) string {
	var d MergedItems
	if len(note.Data) > 0 && json.Unmarshal(note.Data, &d) == nil && d.Unverified {
		return CompletedWithFailures
	}
	return once
}

// Kept reports whether events of a type are journalled.
func (t Type) Kept() bool { return t != Output && t != AttemptQueued }

// The sources of a wait: what its length comes from.
const (
	FromPolicy     = "policy"      // the delay of the retry policy
	FromRetryAfter = "retry_after" // the other side asked for it
	FromRateLimit  = "rate_limit"  // a token of a rate, or the pause of all agents
	FromLimit      = "limit"       // a slot of a limit of concurrency
	FromBudget     = "budget"      // a budget that is refilled in time
)

// Wait is why a retry waits as long as it does, and what bounds the retries: a
// part of the data of retry_scheduled and item_retry_scheduled. What is zero
// is not bounded or not known.
type Wait struct {
	Source string        `json:"source"`
	Delay  time.Duration `json:"delay_ns"`
	// Asked is the wait that the other side asked for.
	Asked time.Duration `json:"asked_ns,omitempty"`
	// Drawn is the number of which jitter made the delay, in hexadecimal; "" where
	// none was drawn. A replay draws it again.
	Drawn string `json:"drawn,omitempty"`
	// Least and Greatest are the bounds between which jitter drew the delay.
	Least    time.Duration `json:"least_ns,omitempty"`
	Greatest time.Duration `json:"greatest_ns,omitempty"`
	// Attempts bounds the attempts in all.
	Attempts int `json:"attempts_bound,omitempty"`
	// Budget bounds the sum of the delays; Spent of it is used, this delay included.
	Budget time.Duration `json:"budget_ns,omitempty"`
	Spent  time.Duration `json:"spent_ns,omitempty"`
}

// Waited gives the wait that a retry policy has decided, from the state after
// the decision. prev is the delay before, hint what the other side asked
// for, zero if it did not, and drawn what was drawn since the wait before.
func Waited(p *retry.Policy, after driver.State, delay, prev, hint time.Duration, drawn string) Wait {
	w := Wait{Source: FromPolicy, Delay: delay, Asked: max(hint, 0), Drawn: drawn, Attempts: p.Attempts, Budget: p.Budget, Spent: after.Slept}
	switch {
	case p.Attempts == 0:
		w.Attempts = retry.DefaultAttempts
	case p.Attempts < 0 || p.Attempts >= math.MaxInt32: // unlimited, or as good as
		w.Attempts = 0
	}
	if after.Attempt > 0 {
		w.Least, w.Greatest = p.Backoff.Range(after.Attempt, prev)
	}
	if hint > 0 && delay >= hint && hint > w.Least {
		w.Source, w.Least = FromRetryAfter, hint
		w.Greatest = max(w.Greatest, delay)
	}
	return w
}

// Used is what the attempts at an item have used.
type Used struct {
	CostUSD float64       `json:"cost_usd,omitempty"`
	Tokens  int64         `json:"tokens,omitempty"`
	Time    time.Duration `json:"ns,omitempty"` // in which something of it ran
}

// Plus adds what an agent_usage tells, by its names.
func (u Used) Plus(told map[string]any) Used {
	for _, name := range []string{"input_tokens", "output_tokens", "cache_tokens", "other_tokens"} {
		n, _ := told[name].(float64)
		u.Tokens += int64(n)
	}
	cost, _ := told["cost_usd"].(float64)
	u.CostUSD += cost
	return u
}

// Turn is when it was the turn of an item that had to wait for a limit of the machine then:
// the data of its item_started.
type Turn struct {
	At time.Time `json:"turn,omitzero"`
}

// Pause is the state of a run's rate-limit pauses: the data of run_paused.
type Pause struct {
	// Until is the end of the pause, Since the first of the answers that led to it.
	Until time.Time `json:"until,omitzero"`
	Since time.Time `json:"since,omitzero"`
	// Streak is the number of pauses without another answer between them.
	Streak int `json:"streak,omitempty"`
	// Down says that what is waited for is no limit: agents of a chain failed again and again.
	Down bool `json:"down,omitempty"`
	// Chain is the chain of which with this pause all agents are paused; nil for none.
	Chain *ChainPause `json:"chain,omitempty"`
	// Noted is when it was recorded; zero where nobody knows.
	Noted time.Time `json:"-"`
}

// Resumed is what held up a run when it was resumed: part of the data of run_resumed.
type Resumed struct {
	Paused time.Time `json:"paused_since,omitzero"` // by somebody
	// Hold is the data of the last event of the hold that lasts, and QueueHold that of the hold
	// of the merge queue; nil for none.
	Hold      json.RawMessage `json:"hold,omitempty"`
	QueueHold json.RawMessage `json:"queue_hold,omitempty"`
}

// ChainPause is that all agents of a chain are paused: until when none of them is asked, and
// whether all of them are down.
type ChainPause struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until,omitzero"`
	Down  bool      `json:"down,omitempty"`
}

// Resumed is a recorded pause as it is in a later life of the run. Where the clock has
// been set back since, it is no longer than what was decided.
func (p Pause) Resumed(now time.Time) Pause {
	if back := p.Noted.Sub(now); !p.Noted.IsZero() && back > 0 {
		p.Until, p.Since = p.Until.Add(-back), p.Since.Add(-back)
	}
	return p
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
