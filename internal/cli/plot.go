package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/duration"
)

// brief rounds a span to the digits that a reader needs.
func brief(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(100 * time.Millisecond)
	case d >= time.Second:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(time.Microsecond)
	}
	return d
}

// span writes a range of delays; one value if both ends are the same.
func span(least, greatest time.Duration) string {
	if least == greatest {
		return duration.Format(brief(least))
	}
	return duration.Format(brief(least)) + " – " + duration.Format(brief(greatest))
}

// steps are good distances between the ticks of an axis of time; below a second they are in
// nanoseconds.
var steps = []time.Duration{
	1, 2, 5, 1e1, 2e1, 5e1, 1e2, 2e2, 5e2,
	1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5,
	1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// ticks returns the marks of an axis of time from 0 to at least most; at most five besides 0.
func ticks(most time.Duration) []time.Duration {
	most = max(most, 1)
	step := time.Duration(0)
	for _, s := range steps {
		if most <= 5*s {
			step = s
			break
		}
	}
	for s := float64(24 * time.Hour); step == 0; s *= 10 { // days: 1, 2, 5, 10, …
		for _, f := range []float64{2, 5, 10} {
			if float64(most) <= 5*s*f {
				step = duration.FromFloat(s * f)
				break
			}
		}
	}
	out := []time.Duration{0}
	for out[len(out)-1] < most && out[len(out)-1] <= math.MaxInt64-step {
		out = append(out, out[len(out)-1]+step)
	}
	return out
}

// seriesColor is the colour of the nth strategy on a terminal.
func seriesColor(n int) string {
	return []string{"34", "33", "32", "35", "36"}[n%5]
}

// longest returns the longest delay that any schedule can draw, and the greatest number of
// delays.
func longest(list []schedule) (most time.Duration, count int) {
	for _, s := range list {
		count = max(count, len(s.timeline.Waits))
		for _, w := range s.timeline.Waits {
			most = max(most, w.Greatest)
		}
	}
	return most, count
}

// plotRows is the least height of a plot. A plot is higher if the ticks of its axis then fall
// on rows.
const plotRows = 10

// plot draws the delays as columns, one group for each failed attempt, at most width columns
// wide. A delay's certain part is solid; what jitter may add is shaded. The plot is empty if
// there is no delay to show.
func plot(list []schedule, width int, p palette) string {
	most, count := longest(list)
	if most == 0 || count == 0 {
		return ""
	}
	c := newChart(list, width, most, count)
	var b strings.Builder
	b.WriteByte('\n')
	for row := c.rows - 1; row >= 0; row-- {
		b.WriteString(c.line(row, p))
	}
	b.WriteString(strings.Repeat(" ", c.label) + " └" + strings.Repeat("─", c.used()) + "\n")
	if len(list) > 1 {
		b.WriteString(c.keys(p))
	}
	b.WriteString(c.numbers())
	b.WriteString(c.legend(p))
	return b.String()
}

// chart is the layout of a plot.
type chart struct {
	list     []schedule
	axis     []time.Duration
	rows     int // height in characters
	label    int // width of the widest axis label, in characters
	bar      int // width of a column, in characters
	every    int // only each of this many delays is shown
	count    int // number of delays
	labelled map[int]string
}

func newChart(list []schedule, width int, most time.Duration, count int) *chart {
	c := &chart{list: list, axis: ticks(most), count: count, every: 1, labelled: map[int]string{}}
	intervals := len(c.axis) - 1
	each := (plotRows + intervals - 1) / intervals
	c.rows = each * intervals
	for i, t := range c.axis {
		text := duration.Format(t)
		c.label = max(c.label, utf8.RuneCountInString(text))
		c.labelled[i*each-1] = text
	}
	room := max(width-c.label-3, len(list)+1)
	if groups := room / (len(list) + 1); count > groups {
		c.every = (count + groups - 1) / groups
	}
	c.bar = min(max((room/c.groups()-1)/len(list), 1), 6)
	return c
}

func (c *chart) groups() int { return (c.count + c.every - 1) / c.every }

// used is the width of the plot without its axis.
func (c *chart) used() int { return c.groups() * (len(c.list)*c.bar + 1) }

// line is one row of the plot, counted from the bottom.
func (c *chart) line(row int, p palette) string {
	var b strings.Builder
	axis := " │"
	if c.labelled[row] != "" {
		axis = " ┤"
	}
	fmt.Fprintf(&b, "%*s%s", c.label, c.labelled[row], axis)
	for n := 0; n < c.count; n += c.every {
		b.WriteByte(' ')
		for i, s := range c.list {
			b.WriteString(p.sgr(seriesColor(i), strings.Repeat(c.cell(s, n, row), c.bar)))
		}
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// eighths are the blocks that fill a cell from the bottom.
var eighths = []string{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}

// cell is one character of a column.
func (c *chart) cell(s schedule, n, row int) string {
	if n >= len(s.timeline.Waits) {
		return " "
	}
	w := s.timeline.Waits[n]
	solid, reach := c.height(w.Least)-8*row, c.height(w.Greatest)-8*row
	if drawn := c.height(w.Delay) - 8*row; w.Least != w.Greatest && drawn > 0 && drawn <= 8 {
		return "━"
	}
	switch {
	case solid >= 8:
		return "█"
	case reach <= 0:
		return " "
	case w.Least == w.Greatest:
		return eighths[solid]
	case solid >= 4:
		return "█"
	}
	return "▒"
}

// height is the height of a delay in eighths of a row. It is 0 only for no delay.
func (c *chart) height(d time.Duration) int {
	if d == 0 {
		return 0
	}
	return max(1, int(math.Round(float64(d)/float64(c.axis[len(c.axis)-1])*float64(c.rows)*8)))
}

// key is the letter of a strategy below its columns.
func key(i int) string { return string(rune('a' + i)) }

// keys names the columns, for readers who see no colours.
func (c *chart) keys(p palette) string {
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", c.label+2))
	for range c.groups() {
		b.WriteByte(' ')
		for i := range c.list {
			left := (c.bar - 1) / 2
			b.WriteString(strings.Repeat(" ", left) + p.sgr(seriesColor(i), key(i)) + strings.Repeat(" ", c.bar-1-left))
		}
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// numbers are the numbers of the failed attempts, as many as fit.
func (c *chart) numbers() string {
	line := []byte(strings.Repeat(" ", c.label+2+c.used()+8))
	free, group := 0, len(c.list)*c.bar+1
	for g := range c.groups() {
		text := strconv.Itoa(g*c.every + 1)
		at := c.label + 2 + g*group + 1 + max(0, (group-1-len(text))/2)
		if at < free || at+len(text) > c.label+2+c.used() && g > 0 {
			continue
		}
		copy(line[at:], text)
		free = at + len(text) + 1
	}
	return strings.TrimRight(string(line), " ") + "\n"
}

func (c *chart) legend(p palette) string {
	var parts []string
	if len(c.list) > 1 {
		for i, s := range c.list {
			parts = append(parts, p.sgr(seriesColor(i), key(i)+" "+s.name))
		}
	}
	if slices.ContainsFunc(c.list, schedule.ranged) {
		parts = append(parts, "█ at least", "▒ at most", "━ drawn")
	}
	text := "delay after failed attempt n"
	if c.every > 1 {
		text += fmt.Sprintf(", one of %d shown", c.every)
	}
	return strings.Repeat(" ", c.label+3) + strings.Join(append([]string{text}, parts...), "   ") + "\n"
}
