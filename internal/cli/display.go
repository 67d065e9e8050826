package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/value"
)

// display shows a run: as JSON lines, as plain lines, or live on a terminal.
type display interface {
	event.Sink
	// say writes that the run was interrupted.
	say(line string)
	// ask returns a function that asks a question as f does, in a place where the user can
	// read it; nil if f is nil.
	ask(f func(question string) bool) func(question string) bool
	// lend makes room for a step that uses the terminal, which is in raw mode until back is
	// called. screen says that the step's standard output comes in the form that the terminal
	// needs.
	lend(screen bool) (back func())
	// close shows the summary; nil if there is none. It may be called again.
	close(*engine.Summary)
}

// display chooses how to show a run: live if standard error is a terminal and nobody else
// reads it, else as plain lines.
func (f *runFlags) display() (display, error) {
	switch {
	case f.progress == "live" && !f.canLive():
		return nil, usagef("--progress live needs a terminal on standard error, and TERM must name its kind")
	case f.json:
		return &jsonDisplay{w: f.out, err: f.err, jobs: f.jobs}, nil
	case f.quiet || f.progress == "none":
		return &plainDisplay{app: f.app, jobs: f.jobs, quiet: true, warns: !f.quiet, output: !f.quiet}, nil
	case f.progress == "live", f.progress != "plain" && f.canLive() && os.Getenv("CI") == "":
		return newLive(f.app, f.jobs), nil
	}
	return &plainDisplay{app: f.app, jobs: f.jobs, output: true}, nil
}

// plainDisplay writes lines: the output of steps as it comes, and bide's own lines on standard
// error.
type plainDisplay struct {
	*app
	quiet   bool // no progress
	warns   bool // but with warnings
	output  bool // output of steps
	mu      sync.Mutex
	items   itemProgress
	failed  failures
	held    heldLine
	lent    lending
	jobs    *jobs // of a batch
	printed printed
	labels  map[string]string    // of steps, by path: with variables filled in, and with the item of the round of a foreach
	waits   map[string]time.Time // when a wait was last reported, by limit of the machine
}

// lending is the state of a display while a step uses the terminal.
type lending struct {
	on, screen bool
	column     bool // the last byte that was written there does not end a line
}

// itemProgress counts items for a line of a few percent each.
type itemProgress struct {
	total, done, failed int
	before              int // already done when this process began
	shown               int
	notes               int
	names               map[int]string // names of the items that run, by Index
	began, last         time.Time
}

// printed is the end of what the screen shows of outputs: the last bytes that the most recent
// step has printed, on standard error and on standard output.
type printed struct {
	step  string
	tails [2]string
}

// printedTail is how many bytes of a step's output are kept to know its last line.
const printedTail = 1 << 10

// heldLine is the line of a failed attempt. It waits for what follows, so that both share one
// line.
type heldLine struct {
	step, line string
}

func (d *plainDisplay) say(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprint(d.err, d.raw(d.err, message("bide: "+line, d.columns(d.err))+"\n"))
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
	if d.quiet && e.Class != event.Logged && !(d.warns && isWarning(e)) {
		return
	}
	label := d.labelOf(e) // read now: the end of a step deletes it
	for _, line := range d.lines(e) {
		fmt.Fprint(d.err, d.raw(d.err, d.paint(fitEvent(e, line, label, d.columns(d.err)))+"\n"))
	}
}

// isWarning reports whether an event is a warning. A note with the command that merges the
// run's work is none: the summary shows it.
func isWarning(e event.Event) bool {
	return e.Type == event.Note && (e.Class == "" || e.Class == event.LostWork || e.Class == event.Unmerged && e.Label == "")
}

// begins remembers the item of a step in a round of a foreach, and the name of a work item
// that runs.
func (d *plainDisplay) begins(e event.Event) {
	switch e.Type {
	case event.ItemStarted:
		value.Put(&d.items.names, e.Index, called(e))
	case event.ItemFinished, event.ItemRetry:
		defer delete(d.items.names, e.Index)
	}
	if e.Type != event.StepStarted || e.Index > 0 {
		return
	}
	label := oneLine(cmp.Or(e.Message, e.Label))
	var is struct{ For string }
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &is) == nil && is.For != "" {
		label += " [" + cut(oneLine(is.For), 30) + "]"
	}
	if label != oneLine(e.Label) {
		value.Put(&d.labels, e.Step, label)
	}
}

// labelOf is the label of a step, with the item of its round.
func (d *plainDisplay) labelOf(e event.Event) string {
	if label := d.labels[e.Step]; label != "" && e.Index == 0 {
		return label
	}
	return oneLine(e.Label)
}

// troubled reports an output that could not be read or logged; the run continues.
func (d *plainDisplay) troubled(err error) {
	for _, what := range d.jobs.trouble(err) {
		d.tell("%s", what)
	}
}

// paint colours the marks at the beginning of a line.
func (d *plainDisplay) paint(line string) string {
	p := d.palette(d.err)
	for mark, code := range map[string]string{"✓": "32", "!": "33", "✗": "31", "-": "2"} {
		if rest, ok := strings.CutPrefix(line, "bide: "+mark+" "); ok {
			return "bide: " + p.sgr(code, mark) + " " + rest
		}
	}
	return line
}

func (d *plainDisplay) lend(screen bool) (back func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lent.on {
		return func() {} // a step has it already, and gives it back
	}
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

// raw converts line ends for a terminal in raw mode, which does not convert them itself.
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

// show writes a piece of output and reports whether it did.
func (d *plainDisplay) show(e event.Event) bool {
	if !d.output {
		return false
	}
	w, stream := d.out, 1
	if e.Label == "stderr" {
		w, stream = d.err, 0
	}
	if e.Index == 0 {
		if d.printed.step != e.Step {
			d.printed = printed{step: e.Step}
		}
		tail := &d.printed.tails[stream]
		*tail += e.Message
		*tail = (*tail)[max(0, len(*tail)-printedTail):]
	}
	if _, err := io.WriteString(w, d.raw(w, e.Message)); err != nil {
		d.output = false // a closed pipe must not end the run
	}
	return d.output
}

// resumed restores the states of the items when a run is resumed.
func (d *plainDisplay) resumed(e event.Event) {
	b := newBoard()
	b.take(e)
	d.items.total, d.items.done, d.items.failed, d.items.before = b.total, b.done, b.failed, b.done
}

// close shows the summary: how the run ended, why, and what to do next.
func (d *plainDisplay) close(s *engine.Summary) {
	d.mu.Lock()
	waiting, err := d.jobs.rest(d.show, endOf(s), d.out, d.err)
	d.troubled(err)
	if waiting > 0 && !d.quiet {
		d.tell("the outputs of %s wait for those of items before them: bide resume prints them in order", diag.Count(waiting, "item"))
	}
	d.mu.Unlock()
	if s == nil || d.quiet && s.Status == event.Succeeded {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if held := d.held; held.line != "" {
		d.held = heldLine{}
		fmt.Fprintln(d.err, fitLine("bide: "+held.line, "", d.columns(d.err)))
	}
	for _, line := range d.failed.rest() {
		fmt.Fprintln(d.err, d.paint(fitLine(line, "", d.columns(d.err))))
	}
	summarise(d.err, s, d.columns(d.err))
}
