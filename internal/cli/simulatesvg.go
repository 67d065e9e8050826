package cli

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/simulate"
)

// The panels of the drawing: the load over time with the band in which 90 of
// 100 runs are, the share of runs that have ended by a time, how many took how
// long and, where two files are compared, by how much a run of the one is longer
// than the run of the other that met the same luck.
const (
	simWidth              = 760
	simHeight, pairHeight = 700, 880
	loadTop, loadBottom   = 84, 260
	endTop, endBottom     = 330, 450
	tookTop, tookBottom   = 520, 630
	pairTop, pairBottom   = 700, 810
)

// simulationSVG draws what came of simulations, as a document of its own.
func simulationSVG(list []*variant) string {
	d := &drawing{}
	height := simHeight
	if len(list) > 1 {
		height = pairHeight
	}
	d.line(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t">`, simWidth, height, simWidth, height)
	d.line(`<title id="t">%s</title>`, html.EscapeString("Simulation: "+list[0].report.Sentence()))
	d.line(`<style>%s</style>`, svgStyle)
	d.line(`<rect class="page" width="%d" height="%d"/>`, simWidth, height)
	d.line(`<text x="%d" y="28" font-size="16" font-weight="600">Load on the target, and when runs end</text>`, svgLeft)
	x := svgLeft
	for i, v := range list {
		text := fmt.Sprintf("%s: %.1f %% succeed", v.name, 100*v.report.Runs.Succeeded.P)
		d.line(`<circle class="f%d" cx="%d" cy="45" r="5"/><text x="%d" y="50">%s</text>`, i%5, x+5, x+16, html.EscapeString(text))
		x += 40 + 7*len(text)
	}
	d.loads(list)
	d.ends(list)
	d.took(list)
	if len(list) > 1 {
		d.paired(list)
	}
	d.line(`</svg>`)
	return d.String()
}

// times draws an axis of time, and gives its scale.
func (d *drawing) axis(most time.Duration, top, bottom int, what string) func(time.Duration) float64 {
	axis := ticks(most)
	end := axis[len(axis)-1]
	x := func(t time.Duration) float64 {
		return svgLeft + float64(min(t, end))/float64(end)*(simWidth-svgLeft-svgRight)
	}
	for _, t := range axis {
		d.line(`<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="quiet" x="%.1f" y="%d" text-anchor="middle">%s</text>`,
			x(t), x(t), top, bottom, x(t), bottom+18, duration.Format(t))
	}
	d.line(`<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>`, svgLeft, simWidth-svgRight, bottom, bottom)
	d.line(`<text class="quiet" x="%d" y="%d" text-anchor="end">%s</text>`, simWidth-svgRight, bottom+36, what)
	return x
}

func (d *drawing) loads(list []*variant) {
	most, long := 1e-9, time.Duration(1)
	for _, v := range list {
		l := &v.report.Load
		per := time.Duration(l.BucketNS).Seconds()
		for i := range l.Mean {
			most = max(most, l.Mean[i]/per, l.High[i]/per)
		}
		long = max(long, time.Duration(int64(len(l.Mean))*l.BucketNS))
	}
	x := d.axis(long, loadTop, loadBottom, "attempts a second, mean and 90 of 100 runs")
	y := func(f float64) float64 { return loadBottom - f/most*(loadBottom-loadTop) }
	for _, part := range []float64{0, 0.5, 1} {
		d.line(`<text class="quiet" x="%d" y="%.1f" text-anchor="end">%s</text>`, svgLeft-8, y(part*most)+4, number(part*most))
	}
	for i, v := range list {
		l := &v.report.Load
		per := time.Duration(l.BucketNS).Seconds()
		var band, back, path []string
		for k := range l.Mean {
			at := x(time.Duration(int64(k) * l.BucketNS))
			band = append(band, fmt.Sprintf("%.1f,%.1f", at, y(l.High[k]/per)))
			back = append(back, fmt.Sprintf("%.1f,%.1f", at, y(l.Low[k]/per)))
			path = append(path, fmt.Sprintf("%.1f,%.1f", at, y(l.Mean[k]/per)))
		}
		slices.Reverse(back)
		d.line(`<polygon class="band f%d" points="%s"/>`, i%5, strings.Join(append(band, back...), " "))
		d.line(`<polyline class="line c%d" points="%s"/>`, i%5, strings.Join(path, " "))
	}
}

func (d *drawing) ends(list []*variant) {
	long := time.Duration(1)
	for _, v := range list {
		long = max(long, time.Duration(v.report.Makespan.P99))
	}
	x := d.axis(long, endTop, endBottom, "share of the runs that have ended")
	y := func(f float64) float64 { return endBottom - f*(endBottom-endTop) }
	for _, part := range []float64{0, 0.5, 1} {
		d.line(`<text class="quiet" x="%d" y="%.1f" text-anchor="end">%.0f %%</text>`, svgLeft-8, y(part)+4, 100*part)
	}
	for i, v := range list {
		all := slices.Sorted(slices.Values(v.report.Makespans))
		path := []string{fmt.Sprintf("%.1f,%.1f", x(0), y(0))}
		every := len(all)/maxMarks + 1
		for k := 0; k < len(all); k += every {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(all[k]), y(float64(k+1)/float64(len(all)))))
		}
		d.line(`<polyline class="line c%d" points="%s"/>`, i%5, strings.Join(path, " "))
	}
}

// bins are those of a histogram.
const bins = 40

// took draws how many runs took how long.
func (d *drawing) took(list []*variant) {
	long := time.Duration(1)
	for _, v := range list {
		long = max(long, time.Duration(v.report.Makespan.P99))
	}
	x := d.axis(long, tookTop, tookBottom, "runs by how long they took")
	most := 1
	counts := make([][bins]int, len(list))
	for i, v := range list {
		for _, t := range v.report.Makespans {
			counts[i][min(int(t*bins/(long+1)), bins-1)]++
		}
		most = max(most, slices.Max(counts[i][:]))
	}
	for i := range list {
		d.histogram(counts[i][:], i, tookTop, tookBottom, most, func(edge int) float64 { return x(long * time.Duration(edge) / bins) })
	}
	d.line(`<text class="quiet" x="%d" y="%d" text-anchor="end">%d</text>`, svgLeft-8, tookTop+4, most)
}

// histogram draws a filled stair.
func (d *drawing) histogram(counts []int, series, top, bottom, most int, edge func(int) float64) {
	points := []string{fmt.Sprintf("%.1f,%d", edge(0), bottom)}
	for k, n := range counts {
		y := float64(bottom) - float64(n)/float64(most)*float64(bottom-top)
		points = append(points, fmt.Sprintf("%.1f,%.1f", edge(k), y), fmt.Sprintf("%.1f,%.1f", edge(k+1), y))
	}
	points = append(points, fmt.Sprintf("%.1f,%d", edge(len(counts)), bottom))
	d.line(`<polygon class="band f%d" points="%s"/>`, series%5, strings.Join(points, " "))
	d.line(`<polyline class="line c%d" points="%s"/>`, series%5, strings.Join(points, " "))
}

// paired draws, for each file but the first, by how much its runs are longer than
// those of the first under the same luck.
func (d *drawing) paired(list []*variant) {
	widest := time.Millisecond
	diffs := make([][]time.Duration, len(list))
	for i, v := range list[1:] {
		diffs[i+1] = simulate.Differences(list[0].report, v.report)
		for _, t := range diffs[i+1] {
			widest = max(widest, t.Abs())
		}
	}
	x := func(t time.Duration) float64 {
		return svgLeft + (float64(t)/float64(widest)+1)/2*(simWidth-svgLeft-svgRight)
	}
	for _, t := range []time.Duration{-widest, -widest / 2, 0, widest / 2, widest} {
		sign := ""
		if t > 0 {
			sign = "+"
		} else if t < 0 {
			sign = "−"
		}
		d.line(`<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="quiet" x="%.1f" y="%d" text-anchor="middle">%s%s</text>`,
			x(t), x(t), pairTop, pairBottom, x(t), pairBottom+18, sign, simulate.Span(int64(t.Abs())))
	}
	d.line(`<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>`, svgLeft, simWidth-svgRight, pairBottom, pairBottom)
	d.line(`<text class="quiet" x="%d" y="%d" text-anchor="end">by how much a run is longer than with %s, under the same luck</text>`,
		simWidth-svgRight, pairBottom+36, html.EscapeString(list[0].name))
	most := 1
	counts := make([][bins]int, len(list))
	for i := range list[1:] {
		for _, t := range diffs[i+1] {
			counts[i+1][min(int((float64(t)/float64(widest)+1)/2*bins), bins-1)]++
		}
		most = max(most, slices.Max(counts[i+1][:]))
	}
	for i := range list[1:] {
		d.histogram(counts[i+1][:], i+1, pairTop, pairBottom, most, func(edge int) float64 {
			return x(2*widest*time.Duration(edge)/bins - widest)
		})
	}
	d.line(`<text class="quiet" x="%d" y="%d" text-anchor="end">%d</text>`, svgLeft-8, pairTop+4, most)
}
