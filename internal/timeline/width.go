package timeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// Width is how many items ran at once from a moment on, of a map that finds that out.
type Width struct {
	At    time.Time
	Items int
	Why   string // in a sentence
}

// WidthOf is the width of which an event tells.
func WidthOf(e event.Event) Width { return Width{e.Time, e.Total, e.Message} }

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
