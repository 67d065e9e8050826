package cli

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/value"
)

// The drawing has two panels, the delay after each attempt and the times of the attempts, with
// a legend above.
const (
	svgWidth, svgHeight   = 760, 560
	svgLeft, svgRight     = 72, 24
	delayTop, delayBottom = 84, 356
	timeTop, timeBottom   = 420, 500
)

// svgStyle needs nothing from outside, and follows the reader's light or dark theme.
const svgStyle = `
  svg { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; }
  .page { fill: #ffffff; } text { fill: #1f2328; } .quiet { fill: #59636e; }
  .grid { stroke: #d8dee4; stroke-width: 1; } .axis { stroke: #818b98; stroke-width: 1; }
  .line { fill: none; stroke-width: 2.25; stroke-linejoin: round; } .band { opacity: 0.16; stroke: none; }
  .c0 { stroke: #0969da; } .f0 { fill: #0969da; } .c1 { stroke: #bc4c00; } .f1 { fill: #bc4c00; }
  .c2 { stroke: #1a7f37; } .f2 { fill: #1a7f37; } .c3 { stroke: #8250df; } .f3 { fill: #8250df; }
  .c4 { stroke: #bf3989; } .f4 { fill: #bf3989; }
  .line.c1 { stroke-dasharray: 8 4; } .line.c2 { stroke-dasharray: 2 3; } .line.c3 { stroke-dasharray: 10 3 2 3; } .line.c4 { stroke-dasharray: 14 4; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .quiet { fill: #9198a1; }
    .grid { stroke: #2b323b; } .axis { stroke: #6e7681; } .band { opacity: 0.24; }
    .c0 { stroke: #58a6ff; } .f0 { fill: #58a6ff; } .c1 { stroke: #f0883e; } .f1 { fill: #f0883e; }
    .c2 { stroke: #3fb950; } .f2 { fill: #3fb950; } .c3 { stroke: #bc8cff; } .f3 { fill: #bc8cff; }
    .c4 { stroke: #f778ba; } .f4 { fill: #f778ba; }
  }
`

// drawing is an SVG document that is being written.
type drawing struct {
	strings.Builder
	list []schedule
}

func (d *drawing) line(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// begin writes the head of a document: its title, and the headline above it.
func (d *drawing) begin(height int, title, headline string) {
	d.line(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-labelledby="t">`, svgWidth, height)
	d.line(`<title id="t">%s</title>`, html.EscapeString(title))
	d.line(`<style>%s</style>`, svgStyle)
	d.line(`<rect class="page" width="%d" height="%d"/>`, svgWidth, height)
	d.line(`<text x="%d" y="28" font-size="16" font-weight="600">%s</text>`, svgLeft, headline)
}

// axis draws the line below a panel, and below that what the panel shows.
func (d *drawing) axis(bottom int, what string) {
	d.line(`<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>`, svgLeft, svgWidth-svgRight, bottom, bottom)
	d.shows(bottom+36, what)
}

func (d *drawing) shows(y int, what string) {
	d.line(`<text class="quiet" x="%d" y="%d" text-anchor="end">%s</text>`, svgWidth-svgRight, y, what)
}

// upright draws a vertical line through a panel, with a name below it.
func (d *drawing) upright(x float64, top, bottom int, name string) {
	d.line(`<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="quiet" x="%.1f" y="%d" text-anchor="middle">%s</text>`,
		x, x, top, bottom, x, bottom+18, name)
}

// ruled draws lines through a panel at times from 0 on, and returns their scale.
func (d *drawing) ruled(most time.Duration, top, bottom int) func(time.Duration) float64 {
	return d.ruledFrom(0, most, top, bottom)
}

// ruledFrom is like ruled, from a later time on, which gets a line.
func (d *drawing) ruledFrom(from, to time.Duration, top, bottom int) func(time.Duration) float64 {
	axis := ticks(to - from)
	end := axis[len(axis)-1]
	x := func(t time.Duration) float64 {
		return svgLeft + float64(max(0, min(t-from, end)))/float64(end)*(svgWidth-svgLeft-svgRight)
	}
	for _, t := range axis {
		d.upright(x(from+t), top, bottom, duration.Format(from+t))
	}
	return x
}

// side writes a number beside a panel.
func (d *drawing) side(y float64, text string) {
	d.line(`<text class="quiet" x="%d" y="%.1f" text-anchor="end">%s</text>`, svgLeft-8, y+4, text)
}

// svgPlot draws schedules as a document of its own.
func svgPlot(list []schedule) string {
	d := &drawing{list: list}
	names := value.Map(list, func(s schedule) string { return s.name })
	title := fmt.Sprintf("Delays of the backoff %s %s", diag.Plural(len(names), "strategy", "strategies"), strings.Join(names, ", "))
	d.begin(svgHeight, title, "Backoff delays")
	d.legend()
	d.delays()
	d.times()
	d.line(`</svg>`)
	return d.String()
}

func (d *drawing) legend() {
	x, y := svgLeft, 50
	for i, s := range d.list {
		text := s.name + ", " + duration.Format(brief(s.timeline.Total)) + " in all"
		if wide := 50 + 7*len(text); x > svgLeft && x+wide > svgWidth {
			x, y = svgLeft, y+19
		}
		d.line(`<line class="line c%d" x1="%d" x2="%d" y1="%d" y2="%d"/><text x="%d" y="%d">%s</text>`, i%5, x, x+24, y-5, y-5, x+30, y, html.EscapeString(text))
		x += 50 + 7*len(text)
	}
}

// delays draws the panel with the delay after each failed attempt.
func (d *drawing) delays() {
	most, count := longest(d.list)
	axis := ticks(most)
	top := axis[len(axis)-1]
	y := func(t time.Duration) float64 {
		return delayBottom - float64(t)/float64(top)*(delayBottom-delayTop)
	}
	x := func(n int) float64 { // n from 0
		return svgLeft + 14 + float64(n)/float64(max(count-1, 1))*(svgWidth-svgLeft-svgRight-28)
	}
	for _, t := range axis {
		d.line(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="quiet" x="%d" y="%.1f" text-anchor="end">%s</text>`,
			svgLeft, svgWidth-svgRight, y(t), y(t), svgLeft-8, y(t)+4, duration.Format(t))
	}
	d.axis(delayBottom, "delay after failed attempt n")
	for every, n := (count+19)/20, 0; n < count; n += max(every, 1) {
		d.line(`<text class="quiet" x="%.1f" y="%d" text-anchor="middle">%d</text>`, x(n), delayBottom+18, n+1)
	}
	for i, s := range d.list {
		d.curve(i, s, x, y)
	}
}

// maxMarks is how many points of a curve are drawn: more than there are pixels would only make
// the file large.
const maxMarks = 400

// curve draws the delays of one schedule: a band for the range of the jitter, and a line with
// a mark at each delay.
func (d *drawing) curve(i int, s schedule, x func(int) float64, y func(time.Duration) float64) {
	waits := s.timeline.Waits
	every := len(waits)/maxMarks + 1
	var band, back, path, marks []string
	for n := 0; n < len(waits); n += every {
		w := waits[n]
		band = append(band, fmt.Sprintf("%.1f,%.1f", x(n), y(w.Greatest)))
		back = append(back, fmt.Sprintf("%.1f,%.1f", x(n), y(w.Least)))
		path = append(path, fmt.Sprintf("%.1f,%.1f", x(n), y(w.Delay)))
		marks = append(marks, fmt.Sprintf(`<circle class="f%d" cx="%.1f" cy="%.1f" r="3.5"><title>%s: %s after attempt %d</title></circle>`,
			i, x(n), y(w.Delay), html.EscapeString(s.name), duration.Format(brief(w.Delay)), w.After))
	}
	if s.ranged() {
		slices.Reverse(back)
		d.area(i, append(band, back...))
	}
	d.polyline(i, path)
	if every == 1 && len(waits) <= 100 {
		d.line("%s", strings.Join(marks, "\n"))
	}
}

func (d *drawing) area(series int, points []string) {
	d.line(`<polygon class="band f%d" points="%s"/>`, series%5, strings.Join(points, " "))
}

func (d *drawing) polyline(series int, points []string) {
	d.line(`<polyline class="line c%d" points="%s"/>`, series%5, strings.Join(points, " "))
}

// times draws the panel with the times of the attempts if each fails immediately.
func (d *drawing) times() {
	var most time.Duration
	for _, s := range d.list {
		most = max(most, s.timeline.Total)
	}
	x := d.ruled(most, timeTop-8, timeBottom+8)
	d.shows(timeBottom+46, "when the attempts are made, if each fails at once")
	for i, s := range d.list {
		y := float64(timeTop+timeBottom) / 2
		if len(d.list) > 1 {
			y = timeTop + float64(i)/float64(len(d.list)-1)*(timeBottom-timeTop)
		}
		d.line(`<line class="c%d" x1="%d" x2="%.1f" y1="%.1f" y2="%.1f" stroke-width="1.5"/>`, i, svgLeft, x(s.timeline.Total), y, y)
		d.line(`<circle class="f%d" cx="%d" cy="%.1f" r="4"/>`, i, svgLeft, y)
		for n := 0; n < len(s.timeline.Waits); n += len(s.timeline.Waits)/maxMarks + 1 {
			d.line(`<circle class="f%d" cx="%.1f" cy="%.1f" r="4"/>`, i, x(s.timeline.Waits[n].Sum), y)
		}
	}
}
