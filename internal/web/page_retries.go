package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
)

type retriesBody struct {
	Run     string
	Of      string // whose waits are drawn: a step's path, "items", or ofItems and the path of a step in them
	Choices []choice
	Delays  []delayLine
	Tries   []tryLine // how many needed how many attempts
	Sources []sourceLine
	Extra   int           // attempts after the first
	Spent   time.Duration // in attempts that failed
	Waited  time.Duration
	Saved   int // steps and items that ended well after a failure
	Lost    int // and those that did not
	Skipped int

	labels *timeline.Labels
}

// ofItems is before the path of a step of work items whose waits are drawn.
const ofItems = "items/"

type choice struct {
	Path, Label string
	On          bool
}

// delayLine is the waits after the attempt of a number.
type delayLine struct {
	Attempt         int
	Count           int
	Shortest, Mean  time.Duration
	Longest         time.Duration
	Least, Greatest time.Duration // the policy's band; zero where it is not known
}

type tryLine struct {
	Attempts, Count int
	Share           string
	More            bool // or more
}

type sourceLine struct {
	Name  string
	Count int
	Total time.Duration
}

// dots is what the plot draws: attempt, delay in seconds, source.
type dots struct {
	Attempt []float64    `json:"attempt"`
	Delay   []float64    `json:"delay"`
	Source  []int        `json:"source"`
	Names   []string     `json:"names"`
	Band    [][3]float64 `json:"band"` // attempt, least, greatest
}

// maxTries is the last bar of the histogram, which has all that needed more.
const maxTries = 10

func (p *pages) retriesPage(w http.ResponseWriter, r *http.Request, run *run) error {
	b := retriesBody{Run: run.id, Of: r.URL.Query().Get("of"), labels: run.labels()}
	var d dots
	head, err := p.headOf(r, run, func() {
		b.fill(run)
		d = b.delays(run)
	})
	if err != nil {
		return err
	}
	if r.URL.Query().Get("data") != "" {
		w.Header().Set("Content-Type", "application/json")
		return json.NewEncoder(w).Encode(d)
	}
	return p.show(w, "retries", frame{Title: "Retries of " + head.Name, Run: head, Live: "run", Body: b})
}

// fill takes what the folds say; run.mu is held.
func (b *retriesBody) fill(run *run) {
	tries := make([]int, maxTries+1)
	for _, row := range run.line.Rows() {
		if row.Kind != timeline.Step || row.Tries == 0 {
			continue
		}
		tries[min(row.Tries, maxTries)]++
		b.Extra += row.Tries - 1
		failed := 0
		for _, a := range row.Attempts {
			if a.Status == event.Failed && !a.To.IsZero() {
				b.Spent += a.To.Sub(a.From)
				failed++
			}
		}
		switch {
		case failed == 0:
		case row.Status == event.Succeeded:
			b.Saved++
		case row.Status == event.Failed, row.Status == event.Tolerated:
			b.Lost++
		}
		if len(row.Waits) > 0 {
			b.Choices = append(b.Choices, choice{Path: row.Path, Label: row.Label})
		}
	}
	t := &run.items
	for i := range t.tries {
		if n := t.triesOf(i); n > 0 {
			tries[min(n, maxTries)]++
			b.Extra += n - 1
		}
	}
	b.Spent += t.spent
	b.Saved += t.rescued
	b.Lost += len(t.letters)
	b.Skipped = t.skipped
	b.Choices = append(b.ofItems(t), b.Choices...)
	if b.Of == "" && len(b.Choices) > 0 {
		b.Of = b.Choices[0].Path
	}
	for i := range b.Choices {
		b.Choices[i].On = b.Choices[i].Path == b.Of
	}
	b.histogram(tries)
	for _, s := range timeline.Sources {
		if w := run.line.Waited[s]; w.Count > 0 {
			b.Sources = append(b.Sources, sourceLine{sourceNames[s], w.Count, w.Total})
			b.Waited += w.Total
		}
	}
}

// ofItems are the policies by which items waited: that of the items themselves, and those
// of their steps, each with its own band.
func (b *retriesBody) ofItems(t *items) (list []choice) {
	waited := make([]bool, len(t.policies))
	for _, w := range t.waits {
		waited[w.of] = true
	}
	for of, path := range t.policies {
		switch {
		case !waited[of]:
		case path == "":
			list = append(list, choice{Path: "items", Label: "work items"})
		default:
			label := b.labels.Of(path, "", func() (event.Item, error) { return event.Item{}, journal.ErrNoItem })
			list = append(list, choice{Path: ofItems + path, Label: cmp.Or(label, path) + ", in work items"})
		}
	}
	return list
}

func (b *retriesBody) histogram(tries []int) {
	most := slices.Max(tries)
	for n, count := range tries {
		if n > 0 && count > 0 {
			b.Tries = append(b.Tries, tryLine{n, count, percent(float64(count) / float64(max(1, most))), n == maxTries})
		}
	}
}

// delays are the waits that happened and the band that the policy drew them
// from; run.mu is held.
func (b *retriesBody) delays(run *run) dots {
	d := dots{Names: []string{}, Attempt: []float64{}, Delay: []float64{}, Source: []int{}, Band: [][3]float64{}}
	for _, s := range timeline.Sources {
		d.Names = append(d.Names, sourceNames[s])
	}
	lines := map[int]*delayLine{}
	add := func(attempt int, delay, least, greatest time.Duration, source int) {
		d.Attempt, d.Delay, d.Source = append(d.Attempt, float64(attempt)), append(d.Delay, delay.Seconds()), append(d.Source, source)
		l := lines[attempt]
		if l == nil {
			l = &delayLine{Attempt: attempt, Shortest: delay, Least: least, Greatest: greatest}
			lines[attempt] = l
		}
		l.Mean += (delay - l.Mean) / time.Duration(l.Count+1)
		l.Count++
		l.Shortest, l.Longest = min(l.Shortest, delay), max(l.Longest, delay)
		if greatest > 0 {
			l.Least, l.Greatest = min(l.Least, least), max(l.Greatest, greatest)
		}
	}
	path, inItems := strings.CutPrefix(b.Of, ofItems)
	if b.Of == "items" {
		path, inItems = "", true
	}
	if of := slices.Index(run.items.policies, path); inItems && of >= 0 {
		for _, w := range run.items.waits {
			if int(w.of) != of {
				continue
			}
			band := run.items.bands[bandKey{w.of, w.attempt}]
			add(int(w.attempt), time.Duration(w.delay)*time.Millisecond, band[0], band[1], int(w.source))
		}
	} else if row := run.line.Row(b.Of); row != nil && !inItems {
		for _, w := range row.Waits {
			add(w.Attempt, w.To.Sub(w.From), w.Least, w.Greatest, max(0, slices.Index(timeline.Sources, w.Source)))
		}
	}
	for _, l := range lines {
		b.Delays = append(b.Delays, *l)
		if l.Greatest > 0 {
			d.Band = append(d.Band, [3]float64{float64(l.Attempt), l.Least.Seconds(), l.Greatest.Seconds()})
		}
	}
	slices.SortFunc(b.Delays, func(x, y delayLine) int { return cmp.Compare(x.Attempt, y.Attempt) })
	slices.SortFunc(d.Band, func(x, y [3]float64) int { return cmp.Compare(x[0], y[0]) })
	return d
}
