package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
)

// board is what the live display shows of a run: the sum of its events, and the lines that
// show that sum at a moment. It has no clock and writes nothing.
type board struct {
	phase   string
	steps   []*task // of the workflow itself, outermost first
	agents  map[int]*task
	waiting map[int]time.Time // items that wait for a retry: when it is due
	merging map[int]struct{}  // items whose work waits to be merged
	total   int
	done    int
	failed  int
	pace    timeline.Pace
	breaker map[string]string // breakers that are not closed: their state
	width   int               // how many items run at once, if the map finds that out
	run     string            // its short name
	holdups timeline.Holdups
	cost    float64
	ending  bool // interrupted
}

// task is a running step, or an agent with its present step.
type task struct {
	path    string
	label   string
	step    string
	attempt int // of the step, or of the item
	tries   int // attempts of the item's step
	since   time.Time
	retry   time.Time // when the next attempt is due; zero while one runs
	queued  bool      // it waits for a slot or a token of a limit
	limit   string    // the limit of the machine that it waits for; "": no such limit
}

// delayOf is the delay that an event announces; one that no Duration can hold becomes the
// longest one.
func delayOf(e event.Event) time.Duration {
	return time.Duration(min(e.DelayMS, int64(24*365*time.Hour/time.Millisecond))) * time.Millisecond
}

// rateOver is the time over which the rate is measured.
const rateOver = 15 * time.Second

func newBoard() *board {
	return &board{agents: map[int]*task{}, waiting: map[int]time.Time{}, merging: map[int]struct{}{}, breaker: map[string]string{}}
}

// take adds an event.
func (b *board) take(e event.Event) {
	b.pace.Apply(e)
	if b.holdups.Apply(e); e.Type == event.RunFinished {
		b.holdups = timeline.Holdups{}
	}
	if e.Run != "" {
		b.run = shortRun(e.Run)
	}
	switch e.Type {
	case event.ItemsReady:
		b.total = e.Total
	case event.RunResumed:
		b.resumed(e)
	case event.PhaseStarted:
		b.phase = e.Phase
	case event.PhaseFinished:
		b.phase = ""
	case event.StepStarted, event.AttemptQueued, event.AttemptStarted, event.RetryScheduled, event.StepFinished:
		b.takeStep(e)
	case event.ItemStarted, event.ItemRetry, event.ItemFinished, event.ItemRequeued, event.ItemReturned:
		b.takeItem(e)
	case event.ItemMerging:
		if e.Status == event.Pending { // its agent has ended
			delete(b.agents, e.Index)
			b.merging[e.Index] = struct{}{}
		}
	case event.WidthChanged:
		if e.Step == "" {
			b.width = e.Total
		}
	case event.BreakerChanged:
		if e.To == "closed" {
			delete(b.breaker, e.Label)
		} else {
			b.breaker[e.Label] = visible(e.To)
		}
	case event.AgentUsage:
		var used struct {
			USD float64 `json:"cost_usd"`
		}
		if json.Unmarshal(e.Data, &used) == nil {
			b.cost += used.USD
		}
	}
}

// resumed restores the states of the items when a run is resumed.
func (b *board) resumed(e event.Event) {
	var at struct {
		Items journal.Counts
	}
	if json.Unmarshal(e.Data, &at) != nil {
		return
	}
	b.total, b.failed = at.Items.Total, at.Items.Failed
	b.done = at.Items.Succeeded + at.Items.Unchanged + at.Items.Skipped + b.failed
}

func (b *board) takeStep(e event.Event) {
	t := b.task(e)
	switch {
	case e.Type == event.StepStarted && e.Index == 0:
		b.steps = append(b.steps, &task{path: e.Step, label: oneLine(cmp.Or(e.Message, e.Label)), attempt: 1, since: e.Time})
	case t == nil:
	case e.Type == event.StepStarted:
		t.path, t.step, t.tries, t.retry = e.Step, oneLine(e.Label), 1, time.Time{}
	case e.Type == event.AttemptQueued:
		t.queued, t.limit, t.retry = true, oneLine(e.Message), time.Time{}
	case e.Type == event.AttemptStarted && e.Index == 0:
		if t.queued {
			t.since = e.Time
		}
		t.attempt, t.retry, t.queued = e.Attempt, time.Time{}, false
	case e.Type == event.AttemptStarted:
		t.tries, t.retry, t.queued = e.Attempt, time.Time{}, false
	case e.Type == event.RetryScheduled:
		t.retry = e.Time.Add(delayOf(e))
	case e.Type == event.StepFinished && e.Index == 0:
		b.steps = slices.DeleteFunc(b.steps, func(s *task) bool { return s == t })
	}
}

// task is the task that an event of a step belongs to, or nil.
func (b *board) task(e event.Event) *task {
	if e.Index > 0 {
		return b.agents[e.Index]
	}
	for _, t := range b.steps {
		if t.path == e.Step {
			return t
		}
	}
	return nil
}

func (b *board) takeItem(e event.Event) {
	delete(b.waiting, e.Index)
	delete(b.agents, e.Index)
	delete(b.merging, e.Index)
	switch e.Type {
	case event.ItemStarted:
		b.agents[e.Index] = &task{label: called(e), attempt: e.Attempt, since: e.Time}
	case event.ItemRetry:
		b.waiting[e.Index] = e.Time.Add(delayOf(e))
	case event.ItemRequeued: // an item that failed for good runs again in this map
		if b.done = max(0, b.done-1); e.Status != event.Skipped {
			b.failed = max(0, b.failed-1)
		}
	case event.ItemFinished:
		switch e.Status {
		case event.Interrupted:
			return
		case event.Failed, event.DeadLettered:
			b.failed++
		}
		b.done++
		if e.Status == event.Unchanged {
			return // nothing was done for it
		}
		b.pace.End(e.Time)
	}
}

// spinner are the glyphs beside what runs.
var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

func spin(now time.Time) string {
	return string(spinner[now.UnixMilli()/100%int64(len(spinner))])
}

// lines are what is shown at a moment: at most height lines, none wider than width columns.
func (b *board) lines(now time.Time, width, height int) []string {
	var out []string
	if b.phase == "map" && b.total > 0 {
		out = append(out, b.summary(now, width))
	}
	for _, text := range b.holdups.Says(b.run, now, true) {
		out = append(out, strings.Split(fold(visible(text), width, "  "), "\n")...)
	}
	out = append(out, tasks(now, b.steps, b.agents, height-len(out))...)
	for i, line := range out {
		out[i] = cut(line, width)
	}
	return out[:min(len(out), max(height, 1))]
}

// summary is the line of a map.
func (b *board) summary(now time.Time, width int) string {
	line := parts{fmt.Sprintf("%d/%d", b.done, b.total)}
	line.add(b.failed > 0, "%d failed", b.failed)
	line.add(len(b.waiting) > 0, "%d retrying%s", len(b.waiting), b.next(now))
	line.add(len(b.agents) > 0 && b.width == 0, "%d running", len(b.agents))
	line.add(len(b.agents) > 0 && b.width > 0, "%d of %d running", len(b.agents), b.width)
	line.add(len(b.merging) > 0, "%d to be merged", len(b.merging))
	rate := b.pace.Rate(now, rateOver)
	line.add(rate > 0, "%s", rateOf(rate))
	for _, name := range slices.Sorted(maps.Keys(b.breaker)) {
		line.add(name == "map", "breaker %s", b.breaker[name])
		line.add(name != "map", "breaker of %s %s", breakerName(name), b.breaker[name])
	}
	line.add(b.cost > 0, "$%.2f", b.cost)
	line.add(b.ending, "ending")
	rest := b.pace.Rest(now, b.total-b.done).About
	line.add(rest > 0 && !b.ending, "%s left", whole(rest))
	text := strings.Join(line, " · ")
	room := min(30, width-widthOf(text)-len(spin(now))-2)
	if room < 5 {
		return spin(now) + " " + text
	}
	full := room * min(b.done, b.total) / b.total
	return spin(now) + " " + strings.Repeat("━", full) + strings.Repeat("─", room-full) + " " + text
}

// next says when the first item that waits for a retry runs again.
func (b *board) next(now time.Time) string {
	first := now.Add(time.Duration(math.MaxInt64))
	for _, due := range b.waiting {
		if due.Before(first) {
			first = due
		}
	}
	switch left := first.Sub(now); {
	case left <= 0:
		return ""
	case len(b.waiting) == 1:
		return " in " + until(left)
	default:
		return ", the first in " + until(left)
	}
}

// maxTasks is how many running steps or agents have a line of their own, and settled how long
// one must have run to get it.
const (
	maxTasks = 8
	settled  = 500 * time.Millisecond
)

// tasks are the lines of what runs, the longest-running first.
func tasks(now time.Time, steps []*task, agents map[int]*task, room int) []string {
	list := slices.Clone(steps)
	indent := ""
	if len(agents) > 0 {
		indent = "  "
		first := len(list)
		for _, index := range slices.Sorted(maps.Keys(agents)) {
			if t := agents[index]; now.Sub(t.since) >= settled {
				list = append(list, t)
			}
		}
		slices.SortStableFunc(list[first:], func(a, b *task) int { return a.since.Compare(b.since) })
	}
	room = min(maxTasks, room)
	var out []string
	for i, t := range list {
		if len(out) == room-1 && len(list) > room {
			out = append(out, fmt.Sprintf("%s… and %d more", indent, len(list)-i))
			break
		}
		out = append(out, indent+t.line(now))
	}
	return out
}

func (t *task) line(now time.Time) string {
	line, wait := parts{t.label}, t.retry.Sub(now)
	line.add(t.step != "" && t.step != t.label, "%s", t.step)
	line.add(t.tries > 1, "attempt %d of the step", t.tries)
	line.add(t.attempt > 1, "attempt %d", t.attempt)
	line.add(wait > 0, "next attempt in %s", until(wait))
	line.add(wait <= 0 && t.queued, "%s", cmp.Or(t.limit, "waits for its turn"))
	line.add(wait <= 0 && !t.queued, "%s", whole(now.Sub(t.since)))
	return spin(now) + " " + strings.Join(line, " · ")
}

// until formats the time until something is due; below a second in tenths of a second.
func until(d time.Duration) string {
	const tenth = time.Second / 10
	if d > time.Second-tenth {
		return whole(d)
	}
	return duration.Format((d + tenth - 1).Truncate(tenth))
}

// whole formats a span of time in whole seconds, rounded up; a longer span has less detail.
func whole(d time.Duration) string {
	unit := time.Second
	switch {
	case d > 24*time.Hour:
		unit = time.Hour
	case d > time.Hour:
		unit = time.Minute
	}
	if d < 0 {
		d = 0
	}
	if max := 1000 * time.Hour; d > max {
		return "more than 1000h"
	}
	return duration.Format((d + unit - 1).Truncate(unit))
}
