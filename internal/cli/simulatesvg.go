package cli

import (
	"fmt"
	"html"
	"math"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/value"
)

// The drawing has these panels: the load over time, with the band of 90 of 100 runs; the share
// of runs that have ended by a time; how many runs took how long; and, if files are compared,
// how much longer a run takes with one file than with the other under the same luck.
const (
	simHeight, pairHeight = 714, 894
	loadTop, loadBottom   = 98, 274
	endTop, endBottom     = 344, 464
	tookTop, tookBottom   = 534, 644
	pairTop, pairBottom   = 714, 824
)

// simulationSVG draws the results of simulations, as a document of its own.
func simulationSVG(list []*variant) string {
	d := &drawing{}
	height := simHeight
	if len(list) > 1 {
		height = pairHeight
	}
	d.begin(height, "Simulation: "+list[0].report.Sentence(), "Load on the target, and when runs end")
	x, y := svgLeft, 45
	for i, v := range list {
		text := fmt.Sprintf("%s: %.0f of %d succeed", v.name, v.report.Runs.Succeeded.P*float64(v.report.Seeds), v.report.Seeds)
		if wide := 30 + 7*len(text); x > svgLeft && x+wide > svgWidth {
			x, y = svgLeft, y+16
		}
		d.line(`<line class="line c%d" x1="%d" x2="%d" y1="%d" y2="%d"/><text x="%d" y="%d">%s</text>`, i%5, x, x+24, y, y, x+30, y+5, html.EscapeString(text))
		x += 46 + 7*len(text)
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

// timeAxis draws an axis of time and returns its scale.
func (d *drawing) timeAxis(from, to time.Duration, top, bottom int, what string) func(time.Duration) float64 {
	x := d.ruledFrom(from, to, top, bottom)
	d.axis(bottom, what)
	return x
}

// unit names what the numbers beside a panel count.
func (d *drawing) unit(top int, name string) {
	d.line(`<text class="quiet" x="%d" y="%d" font-size="12">%s</text>`, svgLeft, top-7, name)
}

func (d *drawing) loads(list []*variant) {
	var all []float64
	most, long := 0.0, time.Duration(1)
	for _, v := range list {
		l := &v.report.Load
		per := time.Duration(l.BucketNS).Seconds()
		for i := range l.Mean {
			high := max(l.Mean[i], l.High[i]) / per
			most, all = max(most, high), append(all, high)
		}
		long = max(long, time.Duration(int64(len(l.Mean))*l.BucketNS))
	}
	what := "when attempts begin, mean and 90 of 100 runs"
	top, cut := simulate.Scale(all)
	if cut {
		what += "; ▲ is above the panel, at most " + simulate.Figure(most)
	}
	if most = top; most == 0 {
		most = 1e-9
	}
	x := d.timeAxis(0, long, loadTop, loadBottom, what)
	d.unit(loadTop, "attempts a second")
	y := func(f float64) float64 { return loadBottom - min(1, f/most)*(loadBottom-loadTop) }
	for _, part := range []float64{0, 0.5, 1} {
		d.side(y(part*most), simulate.Figure(part*most))
	}
	for i, v := range list {
		l := &v.report.Load
		per := time.Duration(l.BucketNS).Seconds()
		var band, back, path []string
		marked := false
		for k := range l.Mean {
			at := x(time.Duration(int64(k) * l.BucketNS))
			band = append(band, fmt.Sprintf("%.1f,%.1f", at, y(l.High[k]/per)))
			back = append(back, fmt.Sprintf("%.1f,%.1f", at, y(l.Low[k]/per)))
			path = append(path, fmt.Sprintf("%.1f,%.1f", at, y(l.Mean[k]/per)))
			if marked = marked && max(l.Mean[k], l.High[k])/per > most; !marked && max(l.Mean[k], l.High[k])/per > most {
				marked = true // one mark for each stretch above
				d.line(`<text class="f%d" x="%.1f" y="%d" text-anchor="middle">▲</text>`, i%5, at, loadTop+4)
			}
		}
		slices.Reverse(back)
		d.area(i, append(band, back...))
		d.polyline(i, path)
	}
}

// spread returns the range of times in which runs end: to is the time by which 99 of 100 runs
// of every variant have ended; from is a round time before the first end, or 0 if that is not
// far away.
func spread(list []*variant) (from, to time.Duration) {
	from = math.MaxInt64
	for _, v := range list {
		to = max(to, time.Duration(v.report.Makespan.P99))
		for _, t := range v.report.Makespans {
			from = min(from, t)
		}
	}
	if from >= to || from < to*4/10 {
		return 0, to
	}
	step := ticks(to - from)[1]
	return from - from%step, to
}

func (d *drawing) ends(list []*variant) {
	from, to := spread(list)
	x := d.timeAxis(from, max(to, from+1), endTop, endBottom, "share of the runs that have ended")
	y := func(f float64) float64 { return endBottom - f*(endBottom-endTop) }
	for _, part := range []float64{0, 0.5, 1} {
		d.side(y(part), fmt.Sprintf("%.0f %%", 100*part))
	}
	for i, v := range list {
		all := slices.Sorted(slices.Values(v.report.Makespans))
		path := []string{fmt.Sprintf("%.1f,%.1f", x(from), y(0)), fmt.Sprintf("%.1f,%.1f", x(slices.Min(all)), y(0))}
		every := len(all)/maxMarks + 1
		for k := 0; k < len(all); k += every {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(all[k]), y(float64(k+1)/float64(len(all)))))
		}
		d.polyline(i, path)
	}
}

// bins is the number of bars of a histogram.
const bins = 40

// took draws how many runs took how long.
func (d *drawing) took(list []*variant) {
	from, to := spread(list)
	long := max(to-from, 1)
	x := d.timeAxis(from, from+long, tookTop, tookBottom, "runs by how long they took")
	d.unit(tookTop, "runs")
	values := value.Map(list, func(v *variant) []time.Duration { return v.report.Makespans })
	d.histograms(values, 0, tookTop, tookBottom, func(t time.Duration) int { return int((t - from) * bins / (long + 1)) },
		func(edge int) float64 { return x(from + long*time.Duration(edge)/bins) })
}

// histograms draws how many values of each series, beginning with series from, fall into each
// bin. edge returns the position of a bin's edge in the panel.
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

// histogram draws a filled outline of steps.
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

// paired draws, for each file but the first, how much longer its runs take than those of the
// first under the same luck.
func (d *drawing) paired(list []*variant) {
	low, high := time.Duration(0), time.Millisecond
	diffs := make([][]time.Duration, len(list))
	for i, v := range list[1:] {
		diffs[i+1] = simulate.Differences(list[0].report, v.report)
		for _, t := range diffs[i+1] {
			low, high = min(low, t), max(high, t)
		}
	}
	step := ticks(high - low)[1]
	first, marks := low/step, 0 // in steps, so that 0s is one of the marks
	if low%step != 0 {
		first--
	}
	x := func(steps float64) float64 {
		return svgLeft + steps/float64(marks)*(svgWidth-svgLeft-svgRight)
	}
	for marks = 1; float64(first)+float64(marks) < float64(high)/float64(step); {
		marks++
	}
	for n := range marks + 1 {
		switch t := (first + time.Duration(n)) * step; {
		case t == 0:
			d.upright(x(float64(n)), pairTop, pairBottom, "0s")
		case t < 0:
			d.upright(x(float64(n)), pairTop, pairBottom, "−"+duration.Format(-t))
		default:
			d.upright(x(float64(n)), pairTop, pairBottom, "+"+duration.Format(t))
		}
	}
	d.unit(pairTop, "runs")
	d.axis(pairBottom, "by how much a run is longer than with "+html.EscapeString(list[0].name)+", under the same luck")
	each := bins / marks // bins between two marks, so that no bin mixes longer and shorter runs
	d.histograms(diffs, 1, pairTop, pairBottom, func(t time.Duration) int {
		return min(int((float64(t)/float64(step)-float64(first))*float64(each)), each*marks-1)
	},
		func(edge int) float64 { return x(float64(min(edge, each*marks)) / float64(each)) })
}
