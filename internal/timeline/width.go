package timeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// Width is how many ran at once from a moment on, of a map or a foreach that finds that out.
type Width struct {
	At    time.Time
	Items int
	Why   string // in a sentence
}

// Found is how many ran at once over a time.
type Found struct {
	Step, Label string // of a foreach; "" of the map
	Widths      []Width
	Ended       time.Time // when the foreach did; zero where it has not
}

// Text says how many run at once and why, and draws it over the time until a moment.
func (f *Found) Text(until time.Time) string {
	if !f.Ended.IsZero() {
		until = f.Ended
	}
	text := WidthText(f.Widths, until)
	if f.Step != "" {
		text = f.Label + ": " + text
	}
	return text
}

// Widths are those of the map of a run, and of the foreach outside of its items, that find
// out how many run at once.
type Widths []*Found

// Apply takes the next event of the run.
func (l *Widths) Apply(e event.Event) {
	if e.Index > 0 || e.Type != event.WidthChanged && (e.Type != event.StepFinished || l.Of(e.Step) == nil) {
		return
	}
	f := l.Of(e.Step)
	if f == nil {
		f = &Found{Step: e.Step, Label: e.Label}
		*l = append(*l, f)
	}
	if e.Type == event.StepFinished {
		f.Ended = e.Time
		return
	}
	f.Ended, f.Widths = time.Time{}, append(f.Widths, Width{e.Time, e.Total, e.Message})
}

// Of gives those of a step, or of the map; nil where there are none.
func (l Widths) Of(step string) *Found {
	for _, f := range l {
		if f.Step == step {
			return f
		}
	}
	return nil
}

// widthCells is how many moments WidthText draws.
const widthCells = 24

// WidthText says how many items run at once and why, and draws it over the time until a
// moment, in which it goes from 0 to its most. It is "" without widths.
func WidthText(list []Width, until time.Time) string {
	if len(list) == 0 {
		return ""
	}
	last := list[len(list)-1]
	if last.At.After(until) {
		until = last.At
	}
	if len(list) == 1 {
		return last.Why
	}
	most, from := 1, list[0].At
	for _, w := range list {
		most = max(most, w.Items)
	}
	var b strings.Builder
	for i, at := 0, 0; i < widthCells; i++ {
		moment := from.Add(until.Sub(from) * time.Duration(i+1) / widthCells)
		for at+1 < len(list) && !list[at+1].At.After(moment) {
			at++
		}
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[(list[at].Items*8-1)/most])
	}
	return fmt.Sprintf("%s. Over %s, up to %d: %s", last.Why, Short(until.Sub(from)), most, b.String())
}
