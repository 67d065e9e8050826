package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
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
	// say shows a line of bide's own.
	say(line string)
	// close shows the summary; nil where there is none.
	close(*engine.Summary)
}

func (a *app) display(f *runFlags) display {
	switch {
	case a.json:
		return &jsonDisplay{w: a.out, err: a.err}
	case f.quiet || f.progress == "none":
		return &plainDisplay{app: a, quiet: true, output: !f.quiet}
	}
	return &plainDisplay{app: a, output: true}
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
	extra = bytes.TrimSpace(extra)
	if len(extra) < 3 || extra[0] != '{' {
		return b
	}
	return append(append(b[:len(b)-1], ','), extra[1:]...)
}

func (d *jsonDisplay) say(line string) { fmt.Fprintf(d.err, "bide: %s\n", line) }

func (d *jsonDisplay) close(*engine.Summary) {}

// plainDisplay writes lines: the output of steps as it comes, and bide's own
// on standard error.
type plainDisplay struct {
	*app
	quiet  bool // no progress
	output bool // output of steps
	mu     sync.Mutex
	items  itemProgress
}

// itemProgress counts items for a line of a few percent each.
type itemProgress struct {
	total, done, failed, retrying int
	shown                         int
	began, last                   time.Time
}

func (d *plainDisplay) say(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.err, "bide: %s\n", line)
}

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
	if line := d.line(e); line != "" {
		fmt.Fprintf(d.err, "bide: %s\n", line)
	}
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
		return fmt.Sprintf("run %s%s goes on", e.Run, nameOf(e.Label))
	case event.PhaseStarted:
		d.items.began = e.Time
		return e.Phase
	case event.ItemsReady:
		d.items.total = e.Total
		return fmt.Sprintf("%d work items", e.Total)
	case event.AttemptFailed:
		if e.Index == 0 {
			return fmt.Sprintf("%s: attempt %d failed: %s", e.Label, e.Attempt, oneLine(e.Message))
		}
	case event.RetryScheduled:
		if e.Index == 0 {
			return fmt.Sprintf("  attempt %d follows in %s", e.Attempt+1, millis(e.DelayMS))
		}
	case event.StepFinished:
		return d.stepLine(e)
	case event.ItemFinished, event.ItemRetry, event.ItemRequeued:
		return d.itemLine(e)
	case event.BreakerChanged:
		if e.From == e.To {
			return "" // only its count has changed
		}
		return fmt.Sprintf("circuit breaker %s: %s, was %s", e.Label, e.To, e.From)
	case event.RunPaused, event.Note:
		return oneLine(e.Message)
	case event.AgentMessage:
		if e.Index == 0 && e.Message != "" {
			return "  " + oneLine(e.Message)
		}
	}
	return ""
}

func (d *plainDisplay) stepLine(e event.Event) string {
	if e.Index > 0 || e.Phase == "map" {
		return ""
	}
	switch e.Status {
	case event.Skipped:
		return fmt.Sprintf("- %s: skipped", e.Label)
	case event.Failed:
		return fmt.Sprintf("✗ %s: failed after %d %s (%s)", e.Label, e.Attempts, plural(e.Attempts, "attempt"), oneLine(e.Message))
	case event.Degraded:
		return fmt.Sprintf("✓ %s: degraded, the fallback answered (%s)", e.Label, millis(e.DurationMS))
	}
	if e.Attempts > 1 {
		return fmt.Sprintf("✓ %s: %d attempts (%s)", e.Label, e.Attempts, millis(e.DurationMS))
	}
	return fmt.Sprintf("✓ %s (%s)", e.Label, millis(e.DurationMS))
}

// itemLine gives a line for every few percent of the items.
func (d *plainDisplay) itemLine(e event.Event) string {
	p := &d.items
	if e.Type == event.ItemRetry {
		p.retrying++
		return ""
	}
	if e.Type == event.ItemRequeued { // a dead letter is run again in this map
		p.done, p.failed, p.shown = p.done-1, p.failed-1, min(p.shown, p.done-1)
		return ""
	}
	switch e.Status {
	case event.Interrupted:
		return ""
	case event.Succeeded, event.Skipped, event.Degraded:
	default:
		p.failed++
	}
	p.done++
	step := max(1, p.total/20)
	if p.total == 0 || p.done < p.total && (p.done-p.shown < step || e.Time.Sub(p.last) < time.Second) {
		return ""
	}
	p.shown, p.last = p.done, e.Time
	rate := float64(p.done) / max(0.001, e.Time.Sub(p.began).Seconds())
	return fmt.Sprintf("%d of %d items (%d %%), %d failed, %.0f/s", p.done, p.total, 100*p.done/p.total, p.failed, rate)
}

func nameOf(label string) string {
	if label == "" {
		return ""
	}
	return " (" + label + ")"
}

func millis(ms int64) string { return duration.Format(time.Duration(ms) * time.Millisecond) }

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
	summarise(d.err, s)
}

func summarise(w io.Writer, s *engine.Summary) {
	fmt.Fprintf(w, "bide: %s in %s: %s", strings.ReplaceAll(s.Status, "_", " "), millis(s.DurationMS), counts(s))
	fmt.Fprintln(w)
	for _, c := range s.Errors {
		fmt.Fprintf(w, "  %d × %s, for example item %s: %s\n", c.Count, c.Class, c.Item, oneLine(c.Example))
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
	add(s.Steps.Succeeded, plural(int(s.Steps.Succeeded), "step")+" succeeded")
	add(s.Steps.Failed, "failed")
	add(s.Steps.Skipped, "skipped")
	if len(parts) == 0 {
		parts = append(parts, "no steps")
	}
	return strings.Join(parts, ", ")
}
