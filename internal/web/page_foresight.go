package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/timeline"
)

// What the run would have done under another policy, and what runs that meet the
// like of it would be like. It is worked out for each request in virtual time:
// nothing is run, and nothing is written.

type foresightBody struct {
	Run      string
	Set      string // the changes, one a line
	Seeds    []choice
	Problem  string // why there is less than was asked for
	Replay   *replayPart
	Forecast *forecastPart
	Warnings []string
	More     bool // this is a first answer, and the page with all of it follows
	Back     bool // the newest runs of the workflow are predicted from each other
	Backtest *backtestPart
}

// backtestPart is how well runs of the workflow are predicted from each other.
type backtestPart struct {
	Sentence string
	Rows     []simulate.Backtested
}

type replayPart struct {
	Rows            []pair // as recorded, and replayed
	Same, Decisions int
	Different       []string
	More            int // differences that are not shown
}

type forecastPart struct {
	Sentence string
	Rows     []figureLine
	Seeds    int
	Load     drawn
	Took     drawn
}

// figureLine is a figure with its name.
type figureLine struct{ Name, Value string }

// drawn is a plot in a box of plotWidth by plotHeight.
type drawn struct {
	Band  string // the points of an area; "" for none
	Bars  []plotBar
	Cut   []string // places of bars that are higher than the box, in percent
	Unit  string   // of what goes up
	Up    []string // what the top, the middle and the bottom of the box stand for
	Along []plotMark
	Above string // how high the highest is that is cut; "" for none
}

// plotMark is a time on the axis along the bottom.
type plotMark struct {
	At   float64
	Text string
}

// along marks times of an axis that read well.
func (x *drawn) along(from, to time.Duration) {
	step := timeline.Apart((to - from) / 6)
	for t := (from + step - 1) / step * step; t <= to && len(x.Along) < 12; t += step {
		x.Along = append(x.Along, plotMark{float64(t-from) / float64(to-from), duration.Format(t)})
	}
}

type plotBar struct{ X, Y, Width, Height string }

const (
	plotWidth, plotHeight = 600.0, 120.0
	plotBars              = 60

	foresightTime    = 10 * time.Second       // of one page
	foresightFirst   = 600 * time.Millisecond // of a first answer
	backtestRuns     = 5                      // the newest ones
	foresightItems   = 60_000                 // work items in all simulated runs, of which a processor does some 30,000 a second
	foresightChanges = 20
	shownDifferences = 20
)

func (p *pages) foresightPage(w http.ResponseWriter, r *http.Request, run *run) error {
	head, err := p.headOf(r, run, nil)
	if err != nil {
		return err
	}
	b := foresightBody{Run: run.id, Back: r.URL.Query().Get("backtest") != "", Set: diag.ClipBytes(r.URL.Query().Get("set"), 4000)}
	seeds := 0
	for _, n := range []int{50, 200, 20} {
		on := numberOf(r, "seeds", 50) == n
		if on {
			seeds = n
		}
		b.Seeds = append(b.Seeds, choice{Path: fmt.Sprint(n), Label: fmt.Sprint(n), On: on})
	}
	if seeds == 0 {
		seeds, b.Seeds[0].On = 50, true
	}
	switch {
	case head.Status == event.Running:
		b.Problem = "The run has not ended yet. What it has met is known when it has."
	default:
		limit := foresightTime
		if !b.all(r) {
			limit = p.foresightFirst
		}
		if err := p.foresee(r.Context(), &b, run, seeds, limit); err != nil {
			b.Problem = "There is no foresight: " + err.Error() + "."
		}
	}
	if b.More = b.More && !b.all(r); b.More {
		to := *r.URL
		q := to.Query()
		q.Set("all", "1")
		to.RawQuery = q.Encode()
		w.Header().Set("Refresh", "0; url="+to.RequestURI())
	}
	return p.show(w, "foresight", frame{Title: "Foresight for " + head.Name, Run: head, Body: b})
}

// all reports whether all is to be worked out, and not what a first answer has time for.
func (foresightBody) all(r *http.Request) bool {
	q := r.URL.Query()
	return q.Get("all") != "" || q.Get("backtest") != ""
}

// errLong is told where a page would take too long.
var errLong = errors.New("to work this out takes longer than a page may; `bide replay` and `bide simulate --from` in the terminal have the time")

// foresee fills in what was asked for, as far as there is time. One page at a time is
// worked out: it takes all processors.
func (p *pages) foresee(ctx context.Context, b *foresightBody, run *run, seeds int, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	late := func() error { // the first answer is what there is by then
		if b.More = true; limit < foresightTime {
			return nil
		}
		return errLong
	}
	select {
	case p.foresightSlot <- struct{}{}:
		defer func() { <-p.foresightSlot }()
	case <-ctx.Done():
		return late()
	}
	rec, err := simulate.Record(ctx, run.r)
	if ctx.Err() != nil {
		return late()
	}
	if err != nil {
		return err
	}
	var set []string
	for line := range strings.Lines(b.Set) {
		if line = strings.TrimSpace(line); line != "" {
			set = append(set, line)
		}
	}
	if len(set) > foresightChanges {
		return fmt.Errorf("there are %d changes, and a page takes %d", len(set), foresightChanges)
	}
	program, err := rec.Program(set)
	if err != nil {
		return fmt.Errorf("the changes cannot be made: %w", err)
	}
	b.Warnings = rec.Warnings()
	some, done := context.WithTimeout(ctx, limit/3) // so that there is time for the rest
	defer done()
	model := rec.FitChecked(some)
	b.More = some.Err() != nil
	seeds = max(1, min(seeds, foresightItems/max(len(rec.Items), 1)))
	some, done = context.WithTimeout(ctx, limit/2)
	defer done()
	report, err := rec.Predict(some, model, program, seeds)
	if err != nil {
		return err
	}
	b.More = b.More || report.Seeds < seeds
	if report.Seeds > 0 {
		b.Forecast = forecast(report)
	}
	got, err := rec.Replay(ctx, program, 1)
	switch {
	case ctx.Err() != nil:
		return late()
	case err != nil:
		b.Problem = "There is no replay: " + err.Error() + "."
	case got != nil:
		b.Replay = replayed(rec, got)
		b.Warnings = append(b.Warnings, got.Lacks...)
	}
	if b.Forecast == nil {
		return late()
	}
	return p.backtest(ctx, b, rec)
}

// backtest predicts the newest runs of a workflow from each other, if it is asked for.
func (p *pages) backtest(ctx context.Context, b *foresightBody, rec *simulate.Recording) error {
	list := []*simulate.Recording{rec}
	if !b.Back {
		return nil
	}
	for sum, err := range p.opt.Store.RunsWhere(ctx, func(s journal.Summary) bool { return s.Name == rec.Header.Name && s.Kind == rec.Header.Kind }) {
		if err != nil || sum.ID == rec.Run || sum.Status == event.Running {
			continue
		}
		r, err := p.opt.Store.Read(sum.ID)
		if err != nil {
			continue // removed since
		}
		other, err := simulate.Record(ctx, r)
		r.Close()
		if err == nil {
			list = append(list, other)
		}
		if len(list) == backtestRuns {
			break
		}
	}
	if len(list) < 2 {
		b.Backtest = &backtestPart{Sentence: "there is no other run of this workflow that has ended"}
		return nil
	}
	got, err := simulate.PredictBack(ctx, list, 50)
	if ctx.Err() != nil {
		b.Backtest = &backtestPart{Sentence: "this takes longer than a page may; bide simulate --backtest in the terminal has the time"}
		return nil
	}
	if err != nil {
		return err
	}
	b.Backtest = &backtestPart{Sentence: got.Sentence(), Rows: got.Runs}
	return nil
}

// replayed puts the record beside the replay.
func replayed(rec *simulate.Recording, got *simulate.Replayed) *replayPart {
	x := &replayPart{Same: got.Same, Decisions: got.Decisions, Different: got.Different}
	row := func(name, a, b string) { x.Rows = append(x.Rows, pair{name, a, b, a == b}) }
	row("status", words(rec.Status), words(got.Status))
	row("took", timeline.Short(rec.Took), timeline.Short(got.Makespan))
	row("attempts", timeline.Number(rec.Attempts()), timeline.Number(got.Attempts))
	row("beyond the record", "0", timeline.Number(got.Beyond))
	if n := len(x.Different); n > shownDifferences {
		x.Different, x.More = x.Different[:shownDifferences], n-shownDifferences
	}
	return x
}

// forecast is a report as the page shows it.
func forecast(r *simulate.Report) *forecastPart {
	x := &forecastPart{Sentence: r.Sentence(), Seeds: r.Seeds, Load: loadPlot(r), Took: tookPlot(r)}
	row := func(name, format string, args ...any) {
		x.Rows = append(x.Rows, figureLine{name, strings.ReplaceAll(fmt.Sprintf(format, args...), " %", "\u00a0%")})
	}
	row("succeed", "%s", r.Runs.Succeeded.Of(r.Seeds))
	if r.Runs.Recovered != nil {
		row("continue after the outage", "%s", r.Runs.Recovered.Of(r.Seeds))
	}
	row("time, median", "%s", simulate.Span(r.Makespan.P50))
	if r.Median != nil {
		row("time, the median lies within", "%s", between(simulate.Span(r.Median.Low), simulate.Span(r.Median.High)))
	}
	row("time, of 90 in 100", "%s", between(simulate.Span(r.Makespan.P5), simulate.Span(r.Makespan.P95)))
	row("attempts, mean", "%s", simulate.Figure(r.Attempts.Mean))
	row("attempts, of 90 in 100", "%s", between(fmt.Sprint(r.Attempts.P5), fmt.Sprint(r.Attempts.P95)))
	row("retries, mean", "%s", simulate.Figure(r.Retries.Mean))
	row("waits, mean", "%s", simulate.Span(int64(r.Waits.Mean)))
	row("dead letters, mean", "%s", simulate.Figure(r.Letters.Mean))
	row("peak in 100 ms, median", "%d", r.Load.PeakP50)
	return x
}

// loadPlot is the attempts that begin over time: of 90 in 100 runs, and the mean.
func loadPlot(r *simulate.Report) drawn {
	l := &r.Load
	n := len(l.Mean)
	if n == 0 {
		return drawn{}
	}
	each := (n + plotBars - 1) / plotBars
	bars := (n + each - 1) / each
	per := time.Duration(l.BucketNS).Seconds()
	of := func(list []float64, i int) float64 { // a second
		part, sum := list[i*each:min((i+1)*each, n)], 0.0
		for _, v := range part {
			sum += v
		}
		return sum / float64(len(part)) / per
	}
	var all []float64
	for i := range bars {
		all = append(all, max(of(l.High, i), of(l.Mean, i)))
	}
	scale, cut := simulate.Scale(all)
	if scale == 0 {
		return drawn{}
	}
	x := drawn{Unit: "attempts a second", Up: []string{simulate.Figure(scale), simulate.Figure(scale / 2), "0"}}
	x.along(0, time.Duration(int64(n)*l.BucketNS))
	var top, bottom []string
	width := plotWidth / float64(bars)
	height := func(v float64) float64 { return min(1, v/scale) * plotHeight }
	for i := range bars {
		left := float64(i) * width
		high, low := plotHeight-height(of(l.High, i)), plotHeight-height(of(l.Low, i))
		top = append(top, fmt.Sprintf("%.1f,%.1f %.1f,%.1f", left, high, left+width, high))
		bottom = append(bottom, fmt.Sprintf("%.1f,%.1f %.1f,%.1f", left+width, low, left, low))
		x.bar(left, width, height(of(l.Mean, i)))
		if all[i] > scale {
			x.Cut = append(x.Cut, percent((left+width/2)/plotWidth))
		}
	}
	if slices.Reverse(bottom); cut {
		x.Above = simulate.Figure(slices.Max(all)) + " a second"
	}
	x.Band = strings.Join(append(top, bottom...), " ")
	return x
}

// tookPlot is how many runs took how long, from the shortest on.
func tookPlot(r *simulate.Report) drawn {
	if len(r.Makespans) == 0 || r.Makespan.P99 == 0 {
		return drawn{}
	}
	from, to := slices.Min(r.Makespans), time.Duration(r.Makespan.P99)
	if from < to*4/10 || from >= to {
		from = 0
	}
	counts := make([]int, plotBars)
	for _, t := range r.Makespans {
		counts[min(int(float64(t-from)/float64(to-from)*plotBars), plotBars-1)]++
	}
	most := max(slices.Max(counts), 1)
	x := drawn{Unit: "runs", Up: []string{timeline.Number(most), "", "0"}}
	x.along(from, to)
	for i, n := range counts {
		x.bar(float64(i)*plotWidth/plotBars, plotWidth/plotBars, float64(n)/float64(most)*plotHeight)
	}
	return x
}

// bar adds a bar, if it is one.
func (x *drawn) bar(left, width, height float64) {
	if height > 0 {
		f := func(v float64) string { return fmt.Sprintf("%.1f", v) }
		x.Bars = append(x.Bars, plotBar{f(left + width*0.1), f(plotHeight - height), f(width * 0.8), f(height)})
	}
}
