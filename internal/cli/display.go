package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
)

// display shows a run: as JSON lines, as plain lines, or live on a terminal.
type display interface {
	event.Sink
	// say tells that the run was interrupted.
	say(line string)
	// ask gives a function that puts a question as f does, in a place where it
	// can be read; nil where f is nil.
	ask(f func(question string) bool) func(question string) bool
	// close shows the summary; nil where there is none. It may be called again.
	close(*engine.Summary)
}

// display chooses how a run is shown: live where standard error is a terminal
// and nobody else reads it, as plain lines elsewhere.
func (a *app) display(f *runFlags) (display, error) {
	switch {
	case f.progress == "live" && !a.canLive():
		return nil, usagef("--progress live needs a terminal on standard error, and TERM must name its kind")
	case a.json:
		return &jsonDisplay{w: a.out, err: a.err}, nil
	case f.quiet || f.progress == "none":
		return &plainDisplay{app: a, quiet: true, output: !f.quiet}, nil
	case f.progress == "live", f.progress != "plain" && a.canLive() && os.Getenv("CI") == "":
		return newLive(a), nil
	}
	return &plainDisplay{app: a, output: true}, nil
}

// jsonDisplay writes one event per line.
type jsonDisplay struct {
	mu  sync.Mutex
	w   io.Writer
	err io.Writer
}

func (d *jsonDisplay) Emit(e event.Event) {
	if e.Type == event.Output {
		return
	}
	b := eventJSON(e)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.w.Write(append(b, '\n')); err != nil {
		d.w = io.Discard // nobody reads any more; the run goes on
	}
}

// eventJSON is an event as one JSON object, with the members of its data
// beside the other fields.
func eventJSON(e event.Event) []byte {
	extra := e.Data
	e.Data = nil
	b, err := json.Marshal(e)
	if err != nil {
		return []byte(`{"event":"note","message":"an event could not be written"}`)
	}
	if e.Type == event.ItemRetry || e.Type == event.ItemDeadLettered {
		extra = without(extra, b)
	}
	extra = bytes.TrimSpace(extra)
	if len(extra) < 3 || extra[0] != '{' {
		return b
	}
	return append(append(b[:len(b)-1], ','), extra[1:]...)
}

// without leaves out of an object the members that another one has: a failed
// attempt tells its class and message both ways.
func without(object, other []byte) []byte {
	var m, has map[string]json.RawMessage
	if json.Unmarshal(object, &m) != nil || json.Unmarshal(other, &has) != nil {
		return object
	}
	for name := range has {
		delete(m, name)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return object
	}
	return b
}

func (d *jsonDisplay) say(line string) { fmt.Fprintf(d.err, "bide: %s\n", line) }

func (d *jsonDisplay) ask(f func(string) bool) func(string) bool { return f }

func (d *jsonDisplay) close(*engine.Summary) {}

// plainDisplay writes lines: the output of steps as it comes, and bide's own
// on standard error.
type plainDisplay struct {
	*app
	quiet  bool // no progress
	output bool // output of steps
	mu     sync.Mutex
	items  itemProgress
	held   heldLine
}

// itemProgress counts items for a line of a few percent each.
type itemProgress struct {
	total, done, failed int
	before              int // were done when this process began
	shown               int
	told                int // failures that had a line of their own
	began, last         time.Time
}

// heldLine is the line of a failed attempt that waits for what comes of it, so
// that both stand in one line.
type heldLine struct {
	step, line string
}

func (d *plainDisplay) say(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.err, "bide: %s\n", line)
}

func (d *plainDisplay) ask(f func(string) bool) func(string) bool { return f }

func (d *plainDisplay) Emit(e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Type == event.Output {
		d.show(e)
		return
	}
	if d.quiet {
		return
	}
	for _, line := range d.lines(e) {
		fmt.Fprintln(d.err, d.paint(line))
	}
}

// lines are the lines that an event is told in.
func (d *plainDisplay) lines(e event.Event) []string {
	var out []string
	if held := d.held; held.line != "" && e.Index == 0 {
		d.held = heldLine{}
		switch {
		case e.Step != held.step:
			out = append(out, "bide: "+held.line)
		case e.Type == event.RetryScheduled:
			return []string{fmt.Sprintf("bide: %s; attempt %d follows %s", held.line, e.Attempt+1, when(e.DelayMS))}
		case e.Type != event.StepFinished || e.Status != event.Failed:
			out = append(out, "bide: "+held.line)
		}
	}
	if itemError(e) {
		return append(out, d.failedItem(e)...)
	}
	if line := d.line(e); line != "" {
		out = append(out, "bide: "+line)
	}
	return out
}

// itemError reports whether an event tells the error of a failed item.
func itemError(e event.Event) bool {
	return e.Type == event.Note && e.Index > 0 && e.Class != ""
}

// mostFailures is how many failed items have a line of their own; the summary
// tells of all.
const mostFailures = 20

// failedItem is the line of an item that has failed for good, told when
// error_collection says so.
func (d *plainDisplay) failedItem(e event.Event) []string {
	d.items.told++
	switch n := d.items.told; {
	case n == mostFailures+1:
		return []string{"bide: further failures are only counted"}
	case n > mostFailures:
		return nil
	}
	name := e.Label
	if name == "" {
		name = e.Item
	}
	message := e.Message
	if _, after, ok := strings.Cut(message, " attempts: "); ok {
		message = after // which item it was and how often it was tried
	}
	return []string{fmt.Sprintf("bide: ✗ item %s: %s", visible(oneLine(name)), reason(e.Class, message))}
}

// reason is why something failed: the class, unless the message says it, and
// the message without the place in the file and the text of the step.
func reason(class, message string) string {
	message = visible(oneLine(message))
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

// paint gives the marks at the beginning of a line their colours.
func (d *plainDisplay) paint(line string) string {
	if !d.colours(d.err) {
		return line
	}
	for mark, code := range map[string]string{"✓": "32", "✗": "31", "-": "2"} {
		if rest, ok := strings.CutPrefix(line, "bide: "+mark+" "); ok {
			return "bide: \x1b[" + code + "m" + mark + "\x1b[0m " + rest
		}
	}
	return line
}

func (d *plainDisplay) show(e event.Event) {
	if !d.output {
		return
	}
	w := d.out
	if e.Label == "stderr" {
		w = d.err
	}
	if _, err := io.WriteString(w, e.Message); err != nil {
		d.output = false // a closed pipe must not end the run
	}
}

// line is what a person is told about an event.
func (d *plainDisplay) line(e event.Event) string {
	switch e.Type {
	case event.RunStarted:
		return fmt.Sprintf("run %s%s", e.Run, nameOf(e.Label))
	case event.RunResumed:
		d.resumed(e)
		return fmt.Sprintf("run %s%s goes on", e.Run, nameOf(e.Label))
	case event.PhaseStarted:
		d.items.began = e.Time
		return e.Phase
	case event.ItemsReady:
		d.items.total = e.Total
		return fmt.Sprintf("%d work items", e.Total)
	case event.AttemptFailed:
		if e.Index == 0 {
			d.held = heldLine{e.Step, fmt.Sprintf("%s: attempt %d failed: %s", visible(oneLine(e.Label)), e.Attempt, reason(e.Class, e.Message))}
		}
	case event.RetryScheduled: // whose failure was told before something else happened
		if e.Index == 0 && e.Phase != "map" {
			return fmt.Sprintf("%s: attempt %d follows %s", visible(oneLine(e.Label)), e.Attempt+1, when(e.DelayMS))
		}
	case event.StepFinished:
		return d.stepLine(e)
	case event.ItemFinished, event.ItemRequeued:
		return d.itemLine(e)
	case event.BreakerChanged:
		if e.From == e.To {
			return "" // only its count has changed
		}
		return fmt.Sprintf("circuit breaker %s: %s, was %s", e.Label, e.To, e.From)
	case event.RunPaused, event.Note:
		return visible(oneLine(e.Message))
	case event.AgentMessage:
		if e.Index == 0 && e.Message != "" {
			return "  " + visible(oneLine(e.Message))
		}
	}
	return ""
}

func (d *plainDisplay) stepLine(e event.Event) string {
	if e.Index > 0 || e.Phase == "map" {
		return ""
	}
	label := visible(oneLine(e.Label))
	switch e.Status {
	case event.Skipped:
		if e.Message != "" {
			return fmt.Sprintf("- %s: skipped, as %s", label, visible(oneLine(e.Message)))
		}
		return fmt.Sprintf("- %s: skipped", label)
	case event.Failed:
		if e.Attempts < 2 {
			return fmt.Sprintf("✗ %s: %s", label, reason(e.Class, e.Message))
		}
		return fmt.Sprintf("✗ %s: failed after %d attempts: %s", label, e.Attempts, reason(e.Class, e.Message))
	case event.Degraded:
		why := ""
		if e.Attempts == 0 && e.Message != "" { // which no failed attempt has told
			why = ": " + reason("", e.Message)
		}
		return fmt.Sprintf("✓ %s: degraded, %s answered (%s)%s", label, answeredBy(e), millis(e.DurationMS), why)
	}
	switch {
	case e.Attempts > 1:
		return fmt.Sprintf("✓ %s: %d attempts (%s)", label, e.Attempts, millis(e.DurationMS))
	case told(e).Cached:
		return fmt.Sprintf("✓ %s: from the cache (%s)", label, millis(e.DurationMS))
	}
	return fmt.Sprintf("✓ %s (%s)", label, millis(e.DurationMS))
}

// answeredBy names what gave the value of a degraded step.
func answeredBy(e event.Event) string {
	if by := told(e).By; by == "on_error" {
		return by
	}
	return "the fallback"
}

// callEnd is what the end of a pipeline's call tells beside what all steps do.
type callEnd struct {
	By     string
	Cached bool
}

// told reads that; it is empty for other steps.
func told(e event.Event) (d callEnd) {
	if json.Unmarshal(e.Data, &d) != nil {
		return callEnd{}
	}
	return d
}

// resumed takes over where the items stand.
func (d *plainDisplay) resumed(e event.Event) {
	b := newBoard()
	b.take(e)
	d.items.total, d.items.done, d.items.failed, d.items.before = b.total, b.done, b.failed, b.done
}

// itemLine gives a line for every few percent of the items.
func (d *plainDisplay) itemLine(e event.Event) string {
	p := &d.items
	switch {
	case e.Type == event.ItemRequeued: // a dead letter is run again in this map
		p.done, p.failed, p.shown = max(0, p.done-1), max(0, p.failed-1), max(0, min(p.shown, p.done-1))
		p.before = min(p.before, p.done)
		return ""
	case e.Type != event.ItemFinished || e.Status == event.Interrupted:
		return ""
	case e.Status == event.Failed, e.Status == event.DeadLettered:
		p.failed++
	}
	p.done++
	step := max(1, p.total/20)
	if p.total == 0 || p.done < p.total && (p.done-p.shown < step || e.Time.Sub(p.last) < time.Second) {
		return ""
	}
	p.shown, p.last = p.done, e.Time
	rate := float64(p.done-p.before) / max(0.001, e.Time.Sub(p.began).Seconds())
	return fmt.Sprintf("%d of %d items (%d %%), %d failed, %.0f/s", p.done, p.total, 100*p.done/p.total, p.failed, rate)
}

func nameOf(label string) string {
	if label == "" {
		return ""
	}
	return " (" + label + ")"
}

func millis(ms int64) string { return duration.Format(time.Duration(ms) * time.Millisecond) }

// when is a wait that lies ahead.
func when(ms int64) string {
	if ms == 0 {
		return "at once"
	}
	return "in " + millis(ms)
}

// oneLine makes a message fit a line.
func oneLine(s string) string {
	s = strings.TrimSpace(strings.ReplaceAll(s, "\n", " "))
	if r := []rune(s); len(r) > 400 {
		s = string(r[:397]) + "..."
	}
	return s
}

// close shows the summary: what came of it, why, and what to do next.
func (d *plainDisplay) close(s *engine.Summary) {
	if s == nil || d.quiet && s.Status == event.Succeeded {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if held := d.held; held.line != "" {
		d.held = heldLine{}
		fmt.Fprintln(d.err, "bide: "+held.line)
	}
	summarise(d.err, s)
}

func summarise(w io.Writer, s *engine.Summary) {
	fmt.Fprintf(w, "bide: %s in %s: %s", strings.ReplaceAll(s.Status, "_", " "), millis(s.DurationMS), counts(s))
	fmt.Fprintln(w)
	for _, c := range s.Errors {
		fmt.Fprintf(w, "  %d × %s, for example item %s: %s\n", c.Count, c.Class, visible(oneLine(c.Item)), reason("", c.Example))
	}
	if s.Usage != nil {
		fmt.Fprintf(w, "  agents: %d calls, %d tokens in, %d out, $%.2f\n", s.Usage.Calls, s.Usage.InputTokens+s.Usage.CacheTokens, s.Usage.OutputTokens, s.Usage.CostUSD)
	}
	if s.Message != "" && s.Status == event.Failed {
		fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(strings.TrimSpace(s.Message), "\n", "\n  "))
	}
	switch {
	case s.Status == event.Interrupted:
		fmt.Fprintf(w, "  go on with: bide resume %s\n", s.Run)
	case s.Status == event.Failed:
		fmt.Fprintf(w, "  look further: bide show %s; bide logs %s\n  after the cause is mended: bide resume %s\n", s.Run, s.Run, s.Run)
	case s.Items.Failed > 0:
		fmt.Fprintf(w, "  look further: bide dlq list %s\n  after the cause is mended: bide dlq retry %s\n", s.Run, s.Run)
	}
}

// stepWord is what the steps of a run are called.
func stepWord(pipeline bool) string {
	if pipeline {
		return "call"
	}
	return "step"
}

func counts(s *engine.Summary) string {
	var parts []string
	add := func(n int64, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	if s.MapReduce {
		add(int64(s.Items.Succeeded), "items succeeded")
		add(int64(s.Items.Failed), "failed")
		add(int64(s.Items.Skipped), "skipped")
		add(int64(s.Items.Pending), "not finished")
		if len(parts) == 0 {
			parts = append(parts, "no items")
		}
		return strings.Join(parts, ", ")
	}
	word := stepWord(s.Pipeline)
	add(s.Steps.Succeeded, plural(int(s.Steps.Succeeded), word)+" succeeded")
	add(s.Steps.Failed, "failed")
	add(s.Steps.Skipped, "skipped")
	if len(parts) == 0 {
		parts = append(parts, "no "+word+"s")
	}
	return strings.Join(parts, ", ")
}
