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
	"github.com/bide-dev/bide/internal/step"
)

// display shows a run: as JSON lines, as plain lines, or live on a terminal.
type display interface {
	event.Sink
	// say tells that the run was interrupted.
	say(line string)
	// ask gives a function that puts a question as f does, in a place where it
	// can be read; nil where f is nil.
	ask(f func(question string) bool) func(question string) bool
	// lend makes way for a step that has the terminal, which is raw until back is
	// called. screen says that the step's standard output comes as the terminal
	// wants it.
	lend(screen bool) (back func())
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
		return &plainDisplay{app: a, jobs: f.jobs, quiet: true, output: !f.quiet}, nil
	case f.progress == "live", f.progress != "plain" && a.canLive() && os.Getenv("CI") == "":
		return newLive(a, f.jobs), nil
	}
	return &plainDisplay{app: a, jobs: f.jobs, output: true}, nil
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
	extra, place := e.Data, e.Index
	e.Data, e.Index = nil, 0
	b, err := json.Marshal(e)
	if err != nil {
		return []byte(`{"event":"note","message":"an event could not be written"}`)
	}
	if place > 0 { // as item_index counts
		b = fmt.Appendf(b[:len(b)-1], `,"index":%d}`, place-1)
	}
	if e.Type == event.ItemRetry || e.Type == event.ItemHandlerDue || e.Type == event.ItemFinished && e.Status == event.DeadLettered {
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

func (d *jsonDisplay) lend(bool) func() { return func() {} }

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
	lent   lending
	jobs   *jobs             // of a batch
	rounds map[string]string // what the steps in rounds of a foreach are for, by path
}

// lending is the state of a display while a step has the terminal.
type lending struct {
	on, screen bool
	column     bool // the last that was written there is no end of a line
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
	fmt.Fprint(d.err, d.raw(d.err, "bide: "+line+"\n"))
}

func (d *plainDisplay) ask(f func(string) bool) func(string) bool { return f }

func (d *plainDisplay) Emit(e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Type == event.Output {
		d.show(e)
		return
	}
	d.begins(e)
	d.troubled(d.jobs.take(e, d.show))
	if d.quiet && e.Class != event.Logged {
		return
	}
	for _, line := range d.lines(e) {
		fmt.Fprint(d.err, d.raw(d.err, d.paint(fitLine(line, d.labelOf(e), d.columns(d.err)))+"\n"))
	}
}

// begins keeps what a step in a round of a foreach is for.
func (d *plainDisplay) begins(e event.Event) {
	if e.Type != event.StepStarted || e.Index > 0 || len(e.Data) == 0 {
		return
	}
	var is struct{ For string }
	if json.Unmarshal(e.Data, &is) == nil && is.For != "" {
		if d.rounds == nil {
			d.rounds = map[string]string{}
		}
		d.rounds[e.Step] = is.For
	}
}

// labelOf is what a step is called, with what its round is for.
func (d *plainDisplay) labelOf(e event.Event) string {
	label := visible(oneLine(e.Label))
	if is := d.rounds[e.Step]; is != "" && e.Index == 0 {
		label += " [" + cut(visible(oneLine(is)), 30) + "]"
	}
	return label
}

// fitLine has a line fit a terminal: what a step is called matters least, as far as
// it can be told by its beginning.
func fitLine(line, label string, width int) string {
	if width <= 0 || widthOf(line) <= width {
		return line
	}
	if n := widthOf(label); n > leastLabel && !strings.HasPrefix(line, "bide: ✗ item ") {
		line = strings.Replace(line, label, cut(label, max(leastLabel, n-(widthOf(line)-width))), 1)
	}
	next := strings.LastIndex(line, "; attempt ") // which matters more than the end of an error
	if next < 0 {
		next = len(line)
	}
	return cut(line[:next], width-widthOf(line[next:])) + line[next:]
}

// leastLabel is how many columns of a step's label stay.
const leastLabel = 16

// troubled tells of an output that could not be read or logged; the run goes on.
func (d *plainDisplay) troubled(err error) {
	if err != nil {
		fmt.Fprintf(d.err, "bide: %v\n", err)
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
		return out // its end has told it
	}
	if itemFailed(e) {
		out = append(out, d.failedItem(e)...)
	}
	if line := d.line(e); line != "" {
		out = append(out, "bide: "+line)
	}
	return out
}

// itemError reports whether an event tells the error of a failed item.
func itemError(e event.Event) bool {
	return e.Type == event.Note && e.Index > 0 && e.Class != "" && e.Class != event.Logged
}

// itemFailed reports whether an event is the end of an item that failed for good.
func itemFailed(e event.Event) bool {
	return e.Type == event.ItemFinished && (e.Status == event.Failed || e.Status == event.DeadLettered)
}

// mostFailures is how many failed items have a line of their own; the summary
// tells of all.
const mostFailures = 20

// failedItem is the line of an item that has failed for good.
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
	message = visible(strings.ReplaceAll(oneLine(message), " failed (not_retryable): ", " failed: "))
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

func (d *plainDisplay) lend(screen bool) (back func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lent = lending{on: true, screen: screen}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.lent.column {
			d.lent.column = false
			fmt.Fprint(d.err, "\r\n")
		}
		d.lent.on = false
	}
}

// raw is a text as a terminal wants it that turns no line ends into others.
func (d *plainDisplay) raw(w io.Writer, text string) string {
	if !d.lent.on || !isTerminal(w) || text == "" {
		return text
	}
	d.lent.column = !strings.HasSuffix(text, "\n")
	if d.lent.screen && w == d.out {
		return text
	}
	return strings.ReplaceAll(text, "\n", "\r\n")
}

func (d *plainDisplay) show(e event.Event) {
	if !d.output {
		return
	}
	w := d.out
	if e.Label == "stderr" {
		w = d.err
	}
	if _, err := io.WriteString(w, d.raw(w, e.Message)); err != nil {
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
		return fmt.Sprintf("%d work %s", e.Total, plural(e.Total, "item"))
	case event.AttemptFailed:
		if e.Index == 0 {
			d.held = heldLine{e.Step, fmt.Sprintf("%s: attempt %d failed: %s", d.labelOf(e), e.Attempt, reason(e.Class, e.Message))}
		}
	case event.RetryScheduled: // whose failure was told before something else happened
		if e.Index == 0 && e.Phase != "map" {
			return fmt.Sprintf("%s: attempt %d follows %s", d.labelOf(e), e.Attempt+1, when(e.DelayMS))
		}
	case event.ItemsCompared:
		d.items.done, d.items.before = e.Total, e.Total
		return visible(oneLine(e.Message))
	case event.StepFinished:
		return d.stepLine(e)
	case event.ItemFinished, event.ItemRequeued:
		return d.itemLine(e)
	case event.BreakerChanged:
		if e.From == e.To {
			return "" // only its count has changed
		}
		return fmt.Sprintf("circuit breaker %s: %s, was %s", breakerName(e.Label), e.To, e.From)
	case event.RunPaused, event.RunControlled, event.Note:
		return visible(oneLine(e.Message))
	case event.AgentMessage:
		if e.Index == 0 && e.Message != "" {
			return "  " + visible(oneLine(e.Message))
		}
	}
	return ""
}

// breakerName is a breaker for a person. Those of pipelines are recorded with
// the file that their module stands in: two files may have a module of one name.
func breakerName(label string) string {
	before, rest, ok := strings.Cut(label, " (")
	_, after, closed := strings.Cut(rest, ")")
	if !ok || !closed {
		return visible(oneLine(label))
	}
	return visible(oneLine(before + after))
}

func (d *plainDisplay) stepLine(e event.Event) string {
	if e.Index > 0 || e.Phase == "map" {
		return ""
	}
	label := d.labelOf(e)
	delete(d.rounds, e.Step)
	switch e.Status {
	case event.Skipped:
		if e.Message != "" {
			return fmt.Sprintf("- %s: skipped, as %s", label, visible(oneLine(e.Message)))
		}
		return fmt.Sprintf("- %s: skipped", label)
	case event.Failed, event.Interrupted:
		if e.Attempts < 2 {
			return fmt.Sprintf("✗ %s: %s", label, reason(e.Class, e.Message))
		}
		return fmt.Sprintf("✗ %s: failed after %d attempts: %s", label, e.Attempts, reason(e.Class, e.Message))
	case event.Degraded:
		why := ""
		if e.Attempts == 0 && e.Message != "" { // which no failed attempt has told
			why = ": " + reason("", e.Message)
		}
		return fmt.Sprintf("✓ %s: degraded, %s answered (%s)%s", label, answeredBy(e), spent(e), why)
	}
	switch {
	case e.Attempts > 1:
		return fmt.Sprintf("✓ %s: %d attempts (%s)", label, e.Attempts, spent(e))
	case told(e).Cached:
		return fmt.Sprintf("✓ %s: from the cache (%s)", label, spent(e))
	}
	return fmt.Sprintf("✓ %s (%s)", label, spent(e))
}

// answeredBy names what gave the value of a degraded step.
func answeredBy(e event.Event) string {
	if by := told(e).By; by == "on_error" {
		return by
	}
	return "the fallback"
}

// spent is how long a step ran, and how long it waited.
func spent(e event.Event) string {
	if ms := told(e).WaitedMS; ms > 0 {
		return millis(e.DurationMS) + ", waited " + millis(ms)
	}
	return millis(e.DurationMS)
}

// stepEnd is what the data of a step's end tells to people.
type stepEnd struct {
	WaitedMS int64 `json:"waited_ms"`
	// By and Cached are of a pipeline's call.
	By     string
	Cached bool
}

// told reads that; it is empty for other steps.
func told(e event.Event) (d stepEnd) {
	if json.Unmarshal(e.Data, &d) != nil {
		return stepEnd{}
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
	case e.Type != event.ItemFinished || e.Status == event.Interrupted || e.Status == event.Unchanged: // which are told together
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
	return fmt.Sprintf("%d of %d items (%d %%), %d failed, %s", p.done, p.total, 100*p.done/p.total, p.failed, rateOf(rate))
}

// rateOf is how many items a second are finished, or a minute where they are few.
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
	d.mu.Lock()
	d.troubled(d.jobs.rest(d.show))
	d.mu.Unlock()
	if s == nil || d.quiet && s.Status == event.Succeeded {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if held := d.held; held.line != "" {
		d.held = heldLine{}
		fmt.Fprintln(d.err, "bide: "+held.line)
	}
	summarise(d.err, s, d.columns(d.err))
}

// usageText tells what agents used, as far as they told it.
func usageText(u step.Usage) string {
	text := fmt.Sprintf("%d %s", u.Calls, plural(u.Calls, "call"))
	in := u.InputTokens + u.CacheTokens
	if in == 0 && u.OutputTokens == 0 && u.CostUSD == 0 {
		if u.OtherTokens == 0 {
			return text + ", which did not tell what they used"
		}
		return text + fmt.Sprintf(", %d tokens", u.OtherTokens)
	}
	text += fmt.Sprintf(", %d tokens in, %d out", in, u.OutputTokens)
	if u.OtherTokens > 0 {
		text += fmt.Sprintf(", %d more", u.OtherTokens)
	}
	return text + fmt.Sprintf(", $%.2f", u.CostUSD)
}

func summarise(w io.Writer, s *engine.Summary, width int) {
	head, rest := fmt.Sprintf("bide: %s in %s:", strings.ReplaceAll(s.Status, "_", " "), millis(s.DurationMS)), counts(s)
	if width > 0 && len(head)+1+len(rest) > width {
		head += "\n "
	}
	fmt.Fprintln(w, head, rest)
	for _, c := range s.Errors {
		fmt.Fprintln(w, fitLine(fmt.Sprintf("  %d × %s, for example item %s: %s", c.Count, c.Class, visible(oneLine(c.Item)), reason("", c.Example)), "", width))
	}
	if s.Usage != nil {
		fmt.Fprintln(w, "  agents:", usageText(*s.Usage))
	}
	if s.Message != "" && s.Status == event.Failed {
		fmt.Fprintln(w, indent(strings.TrimSpace(s.Message), "  "))
	}
	switch {
	case s.Status == event.Interrupted:
		fmt.Fprintf(w, "  go on with: bide resume %s\n", shortRun(s.Run))
	case s.Status == event.Failed:
		fmt.Fprintf(w, "  look further: bide show %[1]s; bide logs %[1]s\n  after the cause is mended: bide resume %[1]s\n", shortRun(s.Run))
	case s.MapReduce && s.Items.Failed > 0:
		fmt.Fprintf(w, "  look further: bide dlq list %[1]s\n  after the cause is mended: bide dlq retry %[1]s\n", shortRun(s.Run))
	}
}

// stepWord is what the steps of a run are called.
func stepWord(pipeline bool) string {
	if pipeline {
		return "call"
	}
	return "step"
}

// howMany is how many ended in a way.
type howMany struct {
	n   int
	way string
}

// counted lists how many of something ended how, in words; "" where nothing did.
func counted(word string, list ...howMany) string {
	var parts []string
	for _, c := range list {
		if c.n == 0 {
			continue
		}
		if c.way == event.Tolerated {
			c.way = "failed and tolerated"
		}
		if len(parts) == 0 {
			c.way = plural(c.n, word) + " " + c.way
		}
		parts = append(parts, fmt.Sprintf("%d %s", c.n, c.way))
	}
	return strings.Join(parts, ", ")
}

func counts(s *engine.Summary) string {
	var text, word string
	if s.MapReduce {
		word = "item"
		i := s.Items
		text = counted(word, howMany{i.Succeeded - i.Degraded - i.Recovered - i.Incomplete - i.Tolerated, event.Succeeded}, howMany{i.Degraded, event.Degraded},
			howMany{i.Recovered, event.Recovered}, howMany{i.Incomplete, event.Incomplete}, howMany{i.Failed, event.Failed},
			howMany{i.Tolerated, event.Tolerated}, howMany{i.Unchanged, event.Unchanged}, howMany{i.Skipped, event.Skipped}, howMany{i.Pending, "not finished"})
	} else {
		word = stepWord(s.Pipeline)
		text = stepCounts(word, s.Steps)
	}
	if text != "" {
		return text
	}
	if steps := stepCounts("step", s.Steps); s.MapReduce && steps != "" {
		return "no items, " + steps // of setup and reduce
	}
	return "no " + word + "s"
}

// stepCounts says how many steps ended how.
func stepCounts(word string, c event.Counts) string {
	return counted(word, howMany{c.Succeeded, event.Succeeded}, howMany{c.Degraded, event.Degraded}, howMany{c.Recovered, event.Recovered},
		howMany{c.Incomplete, event.Incomplete}, howMany{c.Failed, event.Failed}, howMany{c.Tolerated, event.Tolerated}, howMany{c.Skipped, event.Skipped})
}
