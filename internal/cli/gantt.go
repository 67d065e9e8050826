package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
)

// ganttHelp explains the marks of a chart: an attempt, a wait and idle time. Each source of
// waits has its own mark.
const ganttHelp = "█ attempt  ▓ failed attempt  waits: ░ retry policy  ▒ asked for by the other side  ~ rate limit  - limit  = budget  ┊ resumed  ≈ folded idle time"

var waitMarks = map[string]rune{
	event.FromPolicy: '░', event.FromRetryAfter: '▒', event.FromRateLimit: '~', event.FromLimit: '-', event.FromBudget: '=',
}

// chart prints the timeline of a run: one row for each step, time from left to right.
func (o *showOptions) chart(ctx context.Context, r *journal.Reader) error {
	line := timeline.New(r.Header())
	held, err := r.InUse()
	if err != nil {
		return err
	}
	if _, err := r.Scan(ctx, 1, line.Take); err != nil {
		return err
	}
	if !held {
		line.Gone()
	}
	st, err := r.State(ctx)
	if err != nil {
		return err
	}
	items := st.Items.Counts()
	g := &ganttChart{line: line, axis: line.Axis(time.Now(), true), now: time.Now(), items: items, p: o.palette(o.out)}
	width := cmp.Or(o.columns(o.out), 100)
	return o.print(g.text(width) + "\n" + fold(line.Now(shortRun(r.Run()), g.now, items, time.Time{}), width, "  ") + "\n")
}

// ganttChart draws a timeline with characters.
type ganttChart struct {
	line  *timeline.Timeline
	axis  *timeline.Axis
	now   time.Time
	items journal.Counts
	p     palette
}

// label is a row's name with its status and its progress.
func (g *ganttChart) label(r *timeline.Row) string {
	status, done := r.Told(g.items)
	s := strings.Repeat("  ", r.Depth) + timeline.Sign(status) + " " + oneLine(r.Label)
	if done != "" {
		s += ": " + done
	}
	return s
}

func (g *ganttChart) text(width int) string {
	rows := g.line.Rows()
	name := 8
	for _, r := range rows {
		most := width / 3
		if _, done := r.Told(g.items); done != "" {
			most = width / 2 // the status is not cut
		}
		name = max(name, min(widthOf(g.label(r))+2, most))
	}
	const least, ranWide, waitedWide = 10, 9, 9 // the times with their blanks
	bar, waits := width-name-ranWide-waitedWide, true
	if bar < least {
		bar, waits = max(least, bar+waitedWide), false
	}
	times := func(ran, waited string) string {
		if !waits {
			return ran
		}
		return fmt.Sprintf("%s %8s", ran, waited)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", times(fmt.Sprintf("%*s", name+7, "ran"), "waited"), g.scale(bar))
	for _, r := range rows {
		label := cut(g.label(r), name-1)
		ran, waited := r.Spent(g.now)
		line := fmt.Sprintf("%s%s  %s", padded(label, name), times(fmt.Sprintf("%7s", took(ran.Milliseconds())), took(waited.Milliseconds())), string(g.row(r, bar)))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString(g.p.dim(fold(ganttHelp, width, "  ")) + "\n")
	for _, s := range timeline.Sources {
		if w := g.line.Waited[s]; w.Count > 0 {
			fmt.Fprintf(&b, "%s %s in all: %s\n", diag.Count(w.Count, "wait"), took3(w.Total), strings.ReplaceAll(s, "_", " "))
		}
	}
	return b.String()
}

// took3 is took, with 0s for zero.
func took3(d time.Duration) string { return cmp.Or(took(d.Milliseconds()), "0s") }

// scale writes some times above the bars.
func (g *ganttChart) scale(width int) string {
	out := []rune(strings.Repeat(" ", width))
	free := 0
	for _, t := range g.axis.Ticks(max(2, width/14)) {
		text := []rune("+" + took3(t.Since))
		at := int(t.At * float64(width-1))
		if at < free || at+len(text) > width {
			continue
		}
		copy(out[at:], text)
		free = at + len(text) + 1
	}
	return strings.TrimRight(string(out), " ")
}

// row draws the bars of a row: waits first, so that a short attempt stays visible.
func (g *ganttChart) row(r *timeline.Row, width int) []rune {
	out := []rune(strings.Repeat(" ", width))
	draw := func(from, to time.Time, mark rune) {
		if to.IsZero() {
			to = g.now
		}
		first := int(g.axis.Place(from) * float64(width))
		last := int(math.Ceil(g.axis.Place(to)*float64(width))) - 1
		for i := min(first, width-1); i <= max(first, last) && i < width; i++ {
			out[i] = mark
		}
	}
	for _, f := range g.axis.Folds {
		draw(f.From, f.To, '≈')
	}
	for i, l := range g.line.Lives {
		if i > 0 {
			draw(l.From, l.From, '┊')
		}
	}
	waits := r.Waits
	if w, ok := r.Turn(g.now); ok {
		waits = append(slices.Clone(waits), w)
	}
	for _, w := range waits {
		draw(w.From, w.To, cmp.Or(waitMarks[w.Source], '░'))
	}
	for _, a := range r.Attempts {
		mark := '█'
		if a.Status == event.Failed || a.Status == event.Interrupted {
			mark = '▓'
		}
		draw(a.From, a.To, mark)
	}
	if r.Kind == timeline.List && !r.Began.IsZero() {
		draw(r.Began, r.Ended, '━')
	}
	return out
}
