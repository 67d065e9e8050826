package cli

import (
	"fmt"
	"html"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/value"
)

// The panels of the drawing: the load over time with the band in which 90 of
// 100 runs are, the share of runs that have ended by a time, how many took how
// long and, where two files are compared, by how much a run of the one is longer
// than the run of the other that met the same luck.
const (
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
	d.begin(height, "Simulation: "+list[0].report.Sentence(), "Load on the target, and when runs end")
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

// timeAxis draws an axis of time, and gives its scale.
func (d *drawing) timeAxis(most time.Duration, top, bottom int, what string) func(time.Duration) float64 {
	x := d.ruled(most, top, bottom)
	d.axis(bottom, what)
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
	x := d.timeAxis(long, loadTop, loadBottom, "attempts a second, mean and 90 of 100 runs")
	y := func(f float64) float64 { return loadBottom - f/most*(loadBottom-loadTop) }
	for _, part := range []float64{0, 0.5, 1} {
		d.side(y(part*most), simulate.Figure(part*most))
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
		d.area(i, append(band, back...))
		d.polyline(i, path)
	}
}

// slowest is the greatest time in which 99 of 100 runs of a variant have ended.
func slowest(list []*variant) (most time.Duration) {
	for _, v := range list {
		most = max(most, time.Duration(v.report.Makespan.P99))
	}
	return most
}

func (d *drawing) ends(list []*variant) {
	x := d.timeAxis(max(slowest(list), 1), endTop, endBottom, "share of the runs that have ended")
	y := func(f float64) float64 { return endBottom - f*(endBottom-endTop) }
	for _, part := range []float64{0, 0.5, 1} {
		d.side(y(part), fmt.Sprintf("%.0f %%", 100*part))
	}
	for i, v := range list {
		all := slices.Sorted(slices.Values(v.report.Makespans))
		path := []string{fmt.Sprintf("%.1f,%.1f", x(0), y(0))}
		every := len(all)/maxMarks + 1
		for k := 0; k < len(all); k += every {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(all[k]), y(float64(k+1)/float64(len(all)))))
		}
		d.polyline(i, path)
	}
}

// bins are those of a histogram.
const bins = 40

// took draws how many runs took how long.
func (d *drawing) took(list []*variant) {
	long := max(slowest(list), 1)
	x := d.timeAxis(long, tookTop, tookBottom, "runs by how long they took")
	values := value.Map(list, func(v *variant) []time.Duration { return v.report.Makespans })
	d.histograms(values, 0, tookTop, tookBottom, func(t time.Duration) int { return int(t * bins / (long + 1)) },
		func(edge int) float64 { return x(long * time.Duration(edge) / bins) })
}

// histograms draws how many values of each series, from one on, fall into each of the
// bins, whose edges are at places of the panel.
func (d *drawing) histograms(values [][]time.Duration, from, top, bottom int, bin func(time.Duration) int, edge func(int) float64) {
	most := 1
	counts := make([][bins]int, len(values))
	for i, list := range values {
		for _, t := range list {
			counts[i][min(bin(t), bins-1)]++
		}
		most = max(most, slices.Max(counts[i][:]))
	}
	for i := from; i < len(values); i++ {
		d.histogram(counts[i][:], i, top, bottom, most, edge)
	}
	d.line(`<text class="quiet" x="%d" y="%d" text-anchor="end">%d</text>`, svgLeft-8, top+4, most)
}

// histogram draws a filled stair.
func (d *drawing) histogram(counts []int, series, top, bottom, most int, edge func(int) float64) {
	points := []string{fmt.Sprintf("%.1f,%d", edge(0), bottom)}
	for k, n := range counts {
		y := float64(bottom) - float64(n)/float64(most)*float64(bottom-top)
		points = append(points, fmt.Sprintf("%.1f,%.1f", edge(k), y), fmt.Sprintf("%.1f,%.1f", edge(k+1), y))
	}
	points = append(points, fmt.Sprintf("%.1f,%d", edge(len(counts)), bottom))
	d.area(series, points)
	d.polyline(series, points)
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
		return svgLeft + (float64(t)/float64(widest)+1)/2*(svgWidth-svgLeft-svgRight)
	}
	for _, t := range []time.Duration{-widest, -widest / 2, 0, widest / 2, widest} {
		sign := ""
		if t > 0 {
			sign = "+"
		} else if t < 0 {
			sign = "−"
		}
		d.upright(x(t), pairTop, pairBottom, sign+simulate.Span(int64(t.Abs())))
	}
	d.axis(pairBottom, "by how much a run is longer than with "+html.EscapeString(list[0].name)+", under the same luck")
	d.histograms(diffs, 1, pairTop, pairBottom, func(t time.Duration) int { return int((float64(t)/float64(widest) + 1) / 2 * bins) },
		func(edge int) float64 { return x(2*widest*time.Duration(edge)/bins - widest) })
}
