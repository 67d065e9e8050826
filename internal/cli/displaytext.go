package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

// fitLine shortens a line to fit a terminal. It first cuts the step's label, which matters
// least and can be recognised by its beginning. It then folds a line that is still too long,
// to three lines at most.
func fitLine(line, label string, width int) string {
	if width <= 0 || widthOf(line) <= width {
		return line
	}
	if n := widthOf(label); n > leastLabel && !strings.HasPrefix(line, "bide: ✗ item ") {
		line = strings.Replace(line, label, cut(label, max(leastLabel, n-(widthOf(line)-width))), 1)
	}
	next := max(strings.LastIndex(line, "; attempt "), strings.LastIndex(line, "; tolerated,")) // these matter more than the end of an error
	if next < 0 {
		return someLines(line, width, "  ")
	}
	head, tail := line[:next], line[next:]
	for {
		folded := fold(head+tail, width, "  ")
		if n := widthOf(head); strings.Count(folded, "\n") < mostLines || n < leastLabel {
			return folded
		}
		head = cut(head, widthOf(head)-1)
	}
}

// fitEvent shortens the line of an event to fit a terminal. It never cuts a note, which may
// end with what to do.
func fitEvent(e event.Event, line, label string, width int) string {
	if e.Type == event.Note && !itemError(e) {
		return message(line, width)
	}
	return fitLine(line, label, width)
}

// leastLabel is how many columns of a step's label are always kept.
const leastLabel = 16

// lines are the lines that show an event.
func (d *plainDisplay) lines(e event.Event) []string {
	var out []string
	if held := d.held; held.line != "" && e.Index == 0 {
		d.held = heldLine{}
		switch same := e.Step == held.step; {
		case same && e.Type == event.RetryScheduled:
			return []string{fmt.Sprintf("bide: %s; attempt %d follows %s", held.line, e.Attempt+1, when(e.DelayMS))}
		case !same || e.Type != event.StepFinished || e.Status != event.Failed:
			out = append(out, "bide: "+held.line)
		}
	}
	if itemError(e) {
		return append(out, d.failed.due(e)...)
	}
	d.failed.take(e)
	if line := d.line(e); line != "" {
		if e.Type != event.RunStarted && e.Type != event.RunResumed { // these show the whole id, once
			line = shortRuns(line)
		}
		out = append(out, "bide: "+line)
	}
	return out
}

// itemError reports whether an event is a note with the error of a failed item.
func itemError(e event.Event) bool {
	return e.Type == event.Note && e.Index > 0 && e.Class != "" && e.Class != event.Logged
}

// itemFailed reports whether an event is the end of an item that failed for good.
func itemFailed(e event.Event) bool {
	return e.Type == event.ItemFinished && (e.Status == event.Failed || e.Status == event.DeadLettered)
}

// mostFailures is how many failed items get a line of their own; the summary counts all.
const mostFailures = 20

// failures holds the lines of items that failed for good until error_collection shows their
// errors: a note follows for each, immediately or in batches, or the run ends.
type failures struct {
	held  map[int]string // by Index, at most mostFailures
	more  int            // not in held
	shown int            // got a line of their own
}

// take keeps the line of an item that failed.
func (f *failures) take(e event.Event) {
	switch _, held := f.held[e.Index]; {
	case e.Type == event.ItemRequeued && held:
		delete(f.held, e.Index)
	case !itemFailed(e):
	case held || len(f.held) < mostFailures:
		value.Put(&f.held, e.Index, failedItem(e))
	default:
		f.more++
	}
}

// due returns the line of an item whose error is shown now.
func (f *failures) due(e event.Event) []string {
	line, held := f.held[e.Index]
	if delete(f.held, e.Index); !held {
		line, f.more = failedItem(e), max(0, f.more-1)
	}
	f.shown++
	switch n := f.shown; {
	case n == mostFailures+1:
		return []string{"bide: further failures are only counted"}
	case n > mostFailures:
		return nil
	}
	return []string{line}
}

// rest returns the lines that are left at the end, below a heading, as they come all together.
func (f *failures) rest() (out []string) {
	n := len(f.held) + f.more
	if n == 0 {
		return nil
	}
	out = []string{fmt.Sprintf("bide: %s failed:", diag.Count(n, "item"))}
	for _, index := range slices.Sorted(maps.Keys(f.held)) {
		out = append(out, f.held[index])
	}
	if f.more > 0 {
		out = append(out, fmt.Sprintf("bide: and %d more", f.more))
	}
	f.held, f.more = nil, 0
	return out
}

// failedItem is the line of an item that failed for good.
func failedItem(e event.Event) string {
	message := e.Message
	for _, end := range []string{" attempts: ", " attempt: "} {
		if _, after, ok := strings.Cut(message, end); ok {
			message = after // without the item's name and its attempts
		}
	}
	return fmt.Sprintf("bide: ✗ item %s: %s", called(e), reason(e.Class, message))
}

// itemNote is the line of a work item's note; only the first notes are shown.
func (d *plainDisplay) itemNote(e event.Event) string {
	d.items.notes++
	switch n := d.items.notes; {
	case n == mostFailures+1:
		return "further notes of items are only recorded: bide events --type note"
	case n > mostFailures:
		return ""
	}
	name := cmp.Or(d.items.names[e.Index], visible(e.Item))
	return fmt.Sprintf("item %s: %s", name, oneLine(e.Message))
}

// reason is why something failed: the class, unless the message has it, and the message
// without the place in the file and the text of the step.
func reason(class, message string) string {
	message = strings.ReplaceAll(oneLine(message), " failed (not_retryable): ", " failed: ")
	if i := strings.LastIndex(message, "failed: "); i >= 0 && strings.Contains(message[:i], "step \"") {
		message = message[i+len("failed: "):]
	} else if _, after, ok := strings.Cut(message, " attempts: "); ok && strings.Contains(message, "step \"") {
		message = after
	}
	switch class {
	case "", "error", "exit", "timeout", "signal":
		return message
	}
	return fmt.Sprintf("%s (%s)", message, class)
}

// why is the reason of a step's failure, without the line of its output that was printed just
// before.
func (d *plainDisplay) why(e event.Event) string {
	message := strings.TrimSpace(e.Message)
	for _, tail := range d.printed.tails {
		line := lastLine(tail)
		if before, ok := strings.CutSuffix(message, ": "+line); ok && line != "" && d.printed.step == e.Step {
			message = before
			break
		}
	}
	return reason(e.Class, message)
}

// line is the text that a person sees for an event.
func (d *plainDisplay) line(e event.Event) string {
	switch e.Type {
	case event.RunStarted:
		return fmt.Sprintf("run %s%s", e.Run, nameOf(e.Label))
	case event.RunResumed:
		d.resumed(e)
		return fmt.Sprintf("run %s%s continues", e.Run, nameOf(e.Label))
	case event.PhaseStarted:
		d.items.began = e.Time
		return e.Phase
	case event.ItemsReady:
		d.items.total = e.Total
		return diag.Count(e.Total, "work item")
	case event.AttemptFailed:
		if e.Index == 0 {
			d.held = heldLine{e.Step, fmt.Sprintf("%s: attempt %d failed: %s", d.labelOf(e), e.Attempt, d.why(e))}
		}
	case event.RetryScheduled: // its failure was shown before another event
		if e.Index == 0 && e.Phase != "map" {
			return fmt.Sprintf("%s: attempt %d follows %s", d.labelOf(e), e.Attempt+1, when(e.DelayMS))
		}
	case event.ItemsCompared:
		d.items.done, d.items.before = e.Total, e.Total
		return oneLine(e.Message)
	case event.AttemptQueued:
		return d.waitLine(e)
	case event.StepFinished:
		return d.stepLine(e)
	case event.ItemFinished, event.ItemRequeued:
		return d.itemLine(e)
	case event.MergeVerified:
		if e.Status == event.Failed && e.Total > 1 {
			return fmt.Sprintf("the work of %d items fails together: %s; the queue looks for the one that breaks it", e.Total, oneLine(e.Message))
		}
	case event.BreakerChanged:
		if e.From == e.To {
			return "" // only its count has changed
		}
		return fmt.Sprintf("circuit breaker %s: %s, was %s", breakerName(e.Label), e.To, e.From)
	case event.Note:
		if e.Index > 0 {
			return d.itemNote(e)
		}
		return oneLine(e.Message)
	case event.HoldStarted, event.HoldProbe:
		var h timeline.Holdups
		h.Apply(e)
		return oneLine(strings.Join(h.Says(shortRun(e.Run), e.Time, true), ""))
	case event.WidthChanged:
		key := widthKey + e.Item + "\x00" + e.Step
		if last, ok := d.waits[key]; ok && e.Time.Sub(last) < waitsAgain {
			return ""
		}
		value.Put(&d.waits, key, e.Time)
		if e.Step != "" {
			return oneLine(e.Label + ": " + e.Message)
		}
		return oneLine(e.Message)
	case event.RunPaused:
		if e.DelayMS >= time.Minute.Milliseconds() {
			return fmt.Sprintf("%s; bide control %s retry-now asks them now", oneLine(e.Message), shortRun(e.Run))
		}
		return oneLine(e.Message)
	case event.AgentPaused, event.RunControlled, event.HoldEnded, event.CanaryFinished:
		return oneLine(e.Message)
	case event.AgentMessage:
		if e.Index == 0 && e.Message != "" && e.Class == "" { // else it was shown while it was printed
			return "  " + oneLine(e.Message)
		}
	}
	return ""
}

// widthKey is the key in plainDisplay.waits for how many items run at once; no limit has this
// name.
const widthKey = ""

// waitsAgain is how long a wait for a limit of the machine goes unmentioned before it is
// reported again.
const waitsAgain = time.Minute

// waitLine reports a wait for a limit of the machine, for each limit at most once in
// waitsAgain: many steps may wait for it, again and again.
func (d *plainDisplay) waitLine(e event.Event) string {
	var of struct {
		Limit  string
		Paused bool
		Behind int
	}
	if e.Message == "" || json.Unmarshal(e.Data, &of) != nil || of.Behind > 0 {
		return "" // the first in the queue reports the wait
	}
	key := of.Limit
	if of.Paused { // reported immediately, even after a wait for a slot
		key += " paused"
	}
	if last, ok := d.waits[key]; ok && e.Time.Sub(last) < waitsAgain {
		return ""
	}
	value.Put(&d.waits, key, e.Time)
	return oneLine(e.Message)
}

// breakerName is the name of a breaker for a person. A breaker of a pipeline is recorded with
// the file of its module, as two files may have modules of the same name.
func breakerName(label string) string {
	before, rest, ok := strings.Cut(label, " (")
	_, after, closed := strings.Cut(rest, ")")
	if !ok || !closed {
		return oneLine(label)
	}
	return oneLine(before + after)
}

func (d *plainDisplay) stepLine(e event.Event) string {
	if e.Index > 0 || e.Phase == "map" {
		return ""
	}
	label, why := d.labelOf(e), d.why(e)
	delete(d.labels, e.Step)
	switch e.Status {
	case event.Skipped:
		if e.Message != "" {
			return fmt.Sprintf("- %s: skipped, as %s", label, oneLine(e.Message))
		}
		return fmt.Sprintf("- %s: skipped", label)
	case event.Failed, event.Interrupted:
		then := ""
		if stepEndOf(e).Tolerated {
			then = "; tolerated, what follows runs"
		}
		if e.Attempts < 2 {
			return fmt.Sprintf("✗ %s: %s%s", label, why, then)
		}
		return fmt.Sprintf("✗ %s: failed after %d attempts: %s%s", label, e.Attempts, why, then)
	case event.Degraded:
		if by := stepEndOf(e).By; strings.Contains(by, " in place of ") {
			return fmt.Sprintf("! %s: degraded: %s (%s)", label, by, spent(e))
		}
		instead := ""
		if e.Attempts == 0 && e.Message != "" { // no failed attempt has shown it
			instead = ": " + reason("", e.Message)
		}
		return fmt.Sprintf("! %s: degraded, %s answered (%s)%s", label, answeredBy(e), spent(e), instead)
	}
	switch end := stepEndOf(e); {
	case end.Incomplete:
		return fmt.Sprintf("! %s: incomplete (%s)", label, spent(e))
	case end.Recovered && e.Attempts > 1:
		return fmt.Sprintf("✓ %s: recovered by its handler, %d attempts (%s)", label, e.Attempts, spent(e))
	case end.Recovered:
		return fmt.Sprintf("✓ %s: recovered by its handler (%s)", label, spent(e))
	case e.Attempts > 1:
		return fmt.Sprintf("✓ %s: %d attempts (%s)", label, e.Attempts, spent(e))
	case end.Cached:
		return fmt.Sprintf("✓ %s: from the cache (%s)", label, spent(e))
	}
	return fmt.Sprintf("✓ %s (%s)", label, spent(e))
}

// answeredBy names the source of a degraded step's value.
func answeredBy(e event.Event) string {
	if by := stepEndOf(e).By; by == "on_error" {
		return by
	}
	return "the fallback"
}

// spent says how long a step ran, and how long it waited.
func spent(e event.Event) string {
	if ms := stepEndOf(e).WaitedMS; ms > 0 {
		return millis(e.DurationMS) + ", waited " + millis(ms)
	}
	return millis(e.DurationMS)
}

// stepEnd is the part of the data of a step's end that people see.
type stepEnd struct {
	WaitedMS int64 `json:"waited_ms"`
	// By and Cached are set for a pipeline's call.
	By     string
	Cached bool

	Tolerated, Recovered, Incomplete bool
}

// stepEndOf reads the data of a step's end; it is empty for other events.
func stepEndOf(e event.Event) (d stepEnd) {
	if json.Unmarshal(e.Data, &d) != nil {
		return stepEnd{}
	}
	return d
}

// itemLine returns a line for every few percent of the items.
func (d *plainDisplay) itemLine(e event.Event) string {
	p := &d.items
	switch {
	case e.Type == event.ItemRequeued: // an item that failed for good runs again in this map
		if e.Status != event.Skipped {
			p.failed = max(0, p.failed-1)
		}
		p.done, p.shown = max(0, p.done-1), max(0, min(p.shown, p.done-1))
		p.before = min(p.before, p.done)
		return ""
	case e.Type != event.ItemFinished || e.Status == event.Interrupted || e.Status == event.Unchanged: // one line reports all of these
		return ""
	case e.Status == event.Failed, e.Status == event.DeadLettered:
		p.failed++
	}
	p.done++
	if p.last.IsZero() {
		p.last = p.began
	}
	if p.done == p.total && p.shown == 0 {
		return "" // the summary follows
	}
	step := max(1, p.total/20)
	if p.total == 0 || p.done < p.total && (p.done-p.shown < step || e.Time.Sub(p.last) < time.Second) {
		return ""
	}
	p.shown, p.last = p.done, e.Time
	rate := float64(p.done-p.before) / max(0.001, e.Time.Sub(p.began).Seconds())
	return fmt.Sprintf("%d of %s (%d %%), %d failed, %s", p.done, diag.Count(p.total, "item"), 100*p.done/p.total, p.failed, rateOf(rate))
}

// rateOf says how many items finish in a second, or in a minute if they are few.
func rateOf(rate float64) string {
	if rate >= 1 {
		return fmt.Sprintf("%.0f/s", rate)
	}
	return fmt.Sprintf("%.0f/min", 60*rate)
}

func nameOf(label string) string {
	if label == "" {
		return ""
	}
	return " (" + visible(label) + ")"
}

func millis(ms int64) string { return duration.Format(time.Duration(ms) * time.Millisecond) }

// when says when something is due that is ms away.
func when(ms int64) string {
	if ms == 0 {
		return "at once"
	}
	return "in " + millis(ms)
}

// oneLine makes a message of unknown origin safe for one line of a terminal.
func oneLine(s string) string { return visible(clipped(s)) }

// clipped puts a text on one line of at most 400 characters.
func clipped(s string) string {
	return diag.Clip(strings.TrimSpace(strings.ReplaceAll(s, "\n", " ")), 400)
}
