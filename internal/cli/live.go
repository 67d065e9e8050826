package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/internal/engine"
	"github.com/bide-dev/bide/internal/event"
)

// liveDisplay keeps a block of lines at the bottom of a terminal: what is running, the
// progress of a map, what is waiting. Lines that stay are written above it.
//
// It only writes to standard error. It never reads the terminal and never changes its mode, so
// that Ctrl-C, questions and the output of steps work as without it. All other output, even
// the output of steps on standard output, goes through it: it erases the block, writes the
// text, and draws the block again.
type liveDisplay struct {
	plainDisplay
	now   func() time.Time
	size  func() (width, height int)
	board *board
	drawn []int // widths of the lines that are on the terminal
	shown string
	off   bool // a question waits for its answer
	part  [2]partial
	stop  chan struct{}
	ended chan struct{}
	once  sync.Once
}

// partial is the beginning of a line of output whose rest has not come yet. If the stream is
// the terminal, it is held back, since the block must begin on a new line.
type partial struct {
	tty  bool
	text []byte
}

// refresh is the time between two drawings.
const refresh = 100 * time.Millisecond

// maxPartial is the length in bytes at which a partial line is written.
const maxPartial = 64 << 10

// canLive reports whether standard error is a terminal that understands
// cursor movements.
func (s *streams) canLive() bool {
	t := os.Getenv("TERM")
	return isTerminal(s.err) && t != "" && t != "dumb"
}

func newLive(a *app, j *jobs) *liveDisplay {
	d := &liveDisplay{plainDisplay: plainDisplay{app: a, jobs: j, output: true}, now: time.Now, board: newBoard(),
		stop: make(chan struct{}), ended: make(chan struct{})}
	d.size = func() (int, int) {
		if w, h := terminalSize(a.err); w > 0 && h > 0 {
			return w, h
		}
		return 80, 24
	}
	d.part[0].tty, d.part[1].tty = isTerminal(a.out), isTerminal(a.err)
	go d.tick()
	return d
}

// tick draws the block until the display is closed.
func (d *liveDisplay) tick() {
	defer close(d.ended)
	t := time.NewTicker(refresh)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.mu.Lock()
			d.draw()
			d.mu.Unlock()
		case <-d.stop:
			return
		}
	}
}

func (d *liveDisplay) Emit(e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Type == event.Output {
		d.show(e)
		return
	}
	d.begins(e)
	d.troubled(d.jobs.take(e, d.show))
	d.board.take(e)
	if e.Type == event.StepFinished || e.Type == event.AttemptFailed {
		d.rest()
	}
	label := d.labelOf(e) // read now: the end of a step deletes it
	for _, line := range d.lines(e) {
		d.above(d.err, d.paint(fitEvent(e, line, label, d.columns(d.err)))+"\n")
	}
}

// lines are the lines of an event that stay. The block shows the progress of a map.
func (d *liveDisplay) lines(e event.Event) []string {
	switch e.Type {
	case event.HoldProbe:
		return nil // the block shows it
	case event.ItemFinished, event.ItemRequeued, event.ItemRetry:
		d.failed.take(e)
		return nil
	}
	return d.plainDisplay.lines(e)
}

// show writes the output of a step above the block and reports whether it did.
func (d *liveDisplay) show(e event.Event) bool {
	if !d.output {
		return false
	}
	w, p := d.out, &d.part[0]
	if e.Label == "stderr" {
		w, p = d.err, &d.part[1]
	}
	if !p.tty || d.lent.on {
		return d.plainDisplay.show(e)
	}
	p.text = append(p.text, e.Message...)
	cut := strings.LastIndexByte(string(p.text), '\n') + 1
	if cut == 0 && len(p.text) < maxPartial {
		return true
	}
	if cut == 0 {
		p.text = append(p.text, '\n')
		cut = len(p.text)
	}
	d.above(w, string(p.text[:cut]))
	p.text = append(p.text[:0], p.text[cut:]...)
	return d.output
}

// rest writes the last lines of steps that have no line end.
func (d *liveDisplay) rest() {
	for i, w := range []io.Writer{d.out, d.err} {
		if p := &d.part[i]; len(p.text) > 0 {
			d.above(w, string(p.text)+"\n")
			p.text = p.text[:0]
		}
	}
}

// above writes whole lines above the block.
func (d *liveDisplay) above(w io.Writer, text string) {
	d.erase()
	if _, err := io.WriteString(w, d.raw(w, text)); err != nil && w == d.out {
		d.output = false // a closed pipe must not end the run
	}
}

// erase removes the block and leaves the cursor where the block began. A terminal that was
// made narrower has folded the lines.
func (d *liveDisplay) erase() {
	if len(d.drawn) == 0 {
		return
	}
	width, _ := d.size()
	up := -1
	for _, w := range d.drawn {
		up += max(1, (w+width-1)/max(width, 1))
	}
	text := "\r\x1b[J"
	if up > 0 {
		text = fmt.Sprintf("\r\x1b[%dA\x1b[J", up)
	}
	d.write(text)
	d.drawn, d.shown = nil, ""
}

// draw updates the block. If the lines have not changed, it writes nothing.
func (d *liveDisplay) draw() {
	if d.off || d.lent.on {
		return
	}
	width, height := d.size()
	// Three columns stay free, so that the ^C of a terminal fits there.
	lines := d.board.lines(d.now(), width-3, min(height-1, maxTasks+1))
	text := strings.Join(lines, "\n")
	if text == d.shown {
		return
	}
	d.erase()
	if len(lines) == 0 {
		return
	}
	for _, l := range lines {
		d.drawn = append(d.drawn, widthOf(l))
	}
	d.shown = text
	if d.board.phase == "map" {
		lines[0] = inColour(d.palette(d.err), lines[0])
	}
	d.write(strings.Join(lines, "\n"))
}

// inColour colours the line of a map: its bar, and the counts that need attention.
func inColour(p palette, line string) string {
	parts := strings.Split(line, " · ")
	for i, part := range parts {
		switch {
		case i == 0:
			done, rest := strings.Repeat("━", strings.Count(part, "━")), strings.Repeat("─", strings.Count(part, "─"))
			parts[i] = strings.Replace(part, done+rest, p.sgr("32", done)+p.dim(rest), 1)
		case strings.HasSuffix(part, " failed"):
			parts[i] = p.sgr("31", part)
		case strings.Contains(part, " retrying"), strings.HasPrefix(part, "breaker "), strings.HasPrefix(part, "paused for "):
			parts[i] = p.sgr("33", part)
		}
	}
	return strings.Join(parts, " · ")
}

func (d *liveDisplay) write(text string) {
	if _, err := io.WriteString(d.err, text); err != nil {
		d.off = true // the terminal is gone; the run continues
	}
}

func (d *liveDisplay) say(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.board.ending = true
	d.above(d.err, d.paint(message("bide: "+line, d.columns(d.err)))+"\n")
}

// lend removes the block while a step uses the terminal.
func (d *liveDisplay) lend(screen bool) (back func()) {
	d.mu.Lock()
	d.rest()
	d.erase()
	d.mu.Unlock()
	return d.plainDisplay.lend(screen)
}

// ask removes the block while a question waits.
func (d *liveDisplay) ask(f func(string) bool) func(string) bool {
	if f == nil {
		return nil
	}
	return func(question string) bool {
		hide := func(off bool) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.erase()
			d.off = off
		}
		hide(true)
		defer hide(false)
		return f(question)
	}
}

func (d *liveDisplay) close(s *engine.Summary) {
	d.once.Do(func() {
		close(d.stop)
		<-d.ended
		d.mu.Lock()
		d.rest()
		d.erase()
		d.off = true
		d.mu.Unlock()
		d.plainDisplay.close(s)
	})
}
