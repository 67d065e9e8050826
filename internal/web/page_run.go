package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/gitwork"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

// chunk is how many rows of the tree are sent at once; firstRows is how many a
// page has without a script.
const (
	chunk     = 100
	firstRows = 300
)

// leastBar is how wide an attempt and a wait are at least, of the axis: they are
// to be seen, however short.
const leastBar = 0.0015

// chart is the tree with the Gantt chart, or a part of it.
type chart struct {
	Run      string
	Ticks    []timeline.Tick
	Folds    []timeline.Fold
	Lives    []mark
	Rows     []ganttRow
	From     int // the first row's place
	All      int
	Rest     []int // the first rows of the chunks that are not here
	Next     int   // the first row of the next page; 0 for none
	Sources  []string
	Unfolded bool // idle time is drawn as it was
	Idle     time.Duration
	Has      map[string]bool // the statuses of bars
	Now      float64         // the place of now, if the run continues; else 0
}

// mark is a place on the axis with a word.
type mark struct {
	At   float64
	Text string
}

// ganttRow is one row of the chart.
type ganttRow struct {
	*timeline.Row
	Bars  []bar
	Marks []mark
	Href  string
	Ran   time.Duration
	Wait  time.Duration
	Count string // of a list or a map: how much of it is done
}

// bar is an attempt or a wait.
type bar struct {
	At, Width float64
	Status    string // of an attempt
	Source    string // of a wait
	Title     string
}

func (p *pages) runPage(w http.ResponseWriter, r *http.Request, run *run) error {
	var c *chart
	var a *answer
	elsewhere := false // other machines continue with it
	head, err := p.headOf(r, run, func() {
		elsewhere = run.held && run.r.IsElsewhere()
		c = p.chart(run, numberOf(r, "from", 0), firstRows, r.URL.Query().Get("idle") == "all")
		a = run.answer(time.Now())
	})
	if err != nil {
		return err
	}
	if a.Own && a.Merges != "" && head.Status != event.Running && gitwork.FateOf(r.Context(), head.Dir, run.id, event.LeftWork{}, func(string) bool { return false }) == gitwork.MergedSince {
		a.Unmerged, a.Merges = "Its work was merged by hand", ""
	}
	if elsewhere && p.opt.Machines != nil {
		m := p.machinesSeen(r.Context(), 0)
		head.Every, a.Waits = m.Every(), append(m.heldUp(run.id), a.Waits...)
		if e := p.list.entry(run.id); e != nil && e.Status == event.Running {
			a.Waits = append(m.missing(run.id, e.Latest), a.Waits...)
		}
	}
	a.Last = p.list.strip(run.id, head.Path, head.Name)
	if head.Answer = a; head.Status == event.Failed && len(a.Causes) > 0 {
		head.Now = head.failedAfter() // the causes say why
	}
	for i := c.From + len(c.Rows); i < c.All; i += chunk {
		c.Rest = append(c.Rest, i)
	}
	return p.show(w, "run", frame{Title: head.Name, Run: head, Live: "run", Body: c})
}

// rowsData gives some rows of the chart.
func (p *pages) rowsData(w http.ResponseWriter, r *http.Request, run *run) error {
	var c *chart
	err := run.look(r.Context(), func() {
		c = p.chart(run, numberOf(r, "from", 0), chunk, r.URL.Query().Get("idle") == "all")
	})
	if err != nil {
		return err
	}
	return p.write(w, http.StatusOK, "rows", "rows", c)
}

// chart draws n rows from one on; run.mu is held.
func (p *pages) chart(run *run, from, n int, unfolded bool) *chart {
	now := time.Now()
	t := run.line
	axis := t.Axis(now, !unfolded)
	rows := t.Rows()
	c := &chart{Run: run.id, Ticks: axis.Ticks(8), Folds: axis.Folds, All: len(rows), From: min(from, len(rows)), Unfolded: unfolded, Has: map[string]bool{}}
	for _, f := range axis.Folds {
		c.Idle += f.To.Sub(f.From)
	}
	for i, l := range t.Lives {
		if i > 0 {
			text := "resumed"
			if t.Lives[i-1].Died {
				text = "resumed, as its process had died"
			}
			c.Lives = append(c.Lives, mark{axis.Place(l.From), text + " at " + l.From.Local().Format(time.DateTime)})
		}
	}
	if t.Status == event.Running {
		c.Now = axis.Place(now)
	}
	c.Sources = value.Filter(timeline.Sources, func(s string) bool { return t.Waited[s].Count > 0 })
	end := min(c.From+n, len(rows))
	for _, row := range rows[c.From:end] {
		g := p.ganttRow(run, row, axis, now)
		for _, b := range g.Bars {
			c.Has[b.Status] = true
		}
		c.Rows = append(c.Rows, g)
	}
	if end < len(rows) {
		c.Next = end
	}
	return c
}

func (p *pages) ganttRow(run *run, row *timeline.Row, axis *timeline.Axis, now time.Time) ganttRow {
	copied := *row
	copied.Attempts, copied.Waits, copied.Recovered = nil, nil, nil
	g := ganttRow{Row: &copied}
	g.Status, g.Count = row.Told(run.tally())
	g.Ran, g.Wait = row.Spent(now)
	place := func(from, to time.Time, b bar) {
		if to.IsZero() {
			to = now
		}
		b.At = axis.Place(from)
		b.Width = max(leastBar, axis.Place(to)-b.At)
		b.At = min(b.At, 1-b.Width)
		g.Bars = append(g.Bars, b)
	}
	waits := row.Waits
	if w, ok := row.Turn(now); ok {
		waits = append(slices.Clone(waits), w)
	}
	for _, w := range waits {
		place(w.From, w.To, bar{Source: w.Source, Title: fmt.Sprintf("waited %s before attempt %d: %s", timeline.Short(w.To.Sub(w.From)), w.Attempt+1, sourceNames[w.Source])})
	}
	for _, a := range row.Attempts {
		b := bar{Status: a.Status, Title: attemptTitle(row, a, now)}
		if row.Kind == timeline.Phase {
			b = bar{Status: g.Status, Title: joined(words(g.Status), g.Count)}
		}
		place(a.From, a.To, b)
	}
	if row.Kind == timeline.List && !row.Began.IsZero() {
		place(row.Began, row.Ended, bar{Status: g.Status, Title: joined(words(g.Status), g.Count)})
	}
	for _, at := range row.Recovered {
		if !at.IsZero() {
			g.Marks = append(g.Marks, mark{axis.Place(at), "went on at " + at.Local().Format(time.DateTime) + ", after its process had died"})
		}
	}
	switch {
	case row.Kind == timeline.Step && (row.Tries > 0 || row.Status != event.Pending):
		g.Href = "/runs/" + run.id + "/step?" + address("path", row.Path)
	case row.Kind == timeline.Phase && row.Path == "map":
		g.Href = "/runs/" + run.id + "/map"
	}
	return g
}

// joined puts parts that are not empty beside each other.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

func attemptTitle(row *timeline.Row, a timeline.Attempt, now time.Time) string {
	end := a.To
	if end.IsZero() {
		end = now
	}
	s := fmt.Sprintf("attempt %d: %s, %s", a.N, a.Status, timeline.Short(end.Sub(a.From)))
	if a.Message != "" {
		s += ": " + diag.ClipBytes(a.Message, 300)
	}
	return s
}
