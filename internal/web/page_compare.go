package web

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/simulate"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

type compareBody struct {
	A, B     string
	Choices  []entry
	Runs     [2]*runHead
	Facts    []pair
	Params   []pair
	Steps    []stepPair
	Classes  []classPair
	File     []diffLine // the lines that differ, with some around them
	SameFile bool
}

type pair struct {
	Name, A, B string
	Same       bool
}

type stepPair struct {
	Label        string
	A, B         stepSide
	Change       string // of the time in which it ran
	Worse, Equal bool
}

type stepSide struct {
	Status      string // "" where the run has no such step
	Tries       int
	Ran, Waited time.Duration
}

type classPair struct {
	Class string
	A, B  int
}

// side is what is compared of a run.
type side struct {
	head    *runHead
	rows    map[string]*timeline.Row
	order   []*timeline.Row
	classes map[string]int
	params  map[string]string
	facts   map[string]string
	source  string
}

func (p *pages) comparePage(w http.ResponseWriter, r *http.Request) error {
	b := compareBody{A: r.URL.Query().Get("a"), B: r.URL.Query().Get("b")}
	f, err := p.list.find(query{}, 200)
	if err != nil {
		return err
	}
	b.Choices = f.Entries
	title := "Compare"
	if b.A != "" && b.B != "" {
		var sides [2]*side
		for i, id := range []string{b.A, b.B} {
			if sides[i], err = p.side(r, id); err != nil {
				return err
			}
			b.Runs[i] = sides[i].head
		}
		b.A, b.B = sides[0].head.ID, sides[1].head.ID
		for _, s := range sides { // also one that is older than the choices, or newer
			if !slices.ContainsFunc(b.Choices, func(e entry) bool { return e.ID == s.head.ID }) {
				b.Choices = append(b.Choices, entry{ID: s.head.ID, Name: s.head.Name, Status: s.head.Status, Started: s.head.Started})
			}
		}
		b.fill(sides[0], sides[1])
		title = "Compare " + sides[0].head.Name + " with " + sides[1].head.Name
	}
	return p.show(w, "compare", frame{Title: title, Body: b})
}

func (p *pages) side(r *http.Request, id string) (*side, error) {
	s := &side{rows: map[string]*timeline.Row{}, classes: map[string]int{}, params: map[string]string{}}
	err := p.runs.with(id, func(run *run) error {
		h := run.r.Header()
		for _, v := range given(h) {
			s.params[v.Name] = v.Value
		}
		s.source = timeline.Secrets(timeline.File(h)).String(string(h.Source))
		return run.look(r.Context(), func() {
			s.head = p.head(run)
			for _, row := range run.line.Rows() {
				copied := *row
				copied.Status, _ = row.Told(s.head.Items)
				s.rows[row.Path] = &copied
				s.order = append(s.order, &copied)
			}
			for _, c := range run.items.classes {
				s.classes[c.Class] += c.Count
			}
			waited := time.Duration(0)
			for _, w := range run.line.Waited {
				waited += w.Total
			}
			s.facts = map[string]string{
				"status": words(s.head.Status), "took": timeline.Short(s.head.Took), "waited for retries": timeline.Short(waited),
				"attempts": timeline.Number(run.line.Tries + run.line.ItemTries), "items": timeline.Number(s.head.Items.Total),
				"items that failed": timeline.Number(s.head.Items.Failed), "version": h.BideVersion,
			}
			for k, n := range run.line.Usage {
				s.facts[words(k)] = simulate.Figure(n)
			}
		})
	})
	return s, err
}

func (b *compareBody) fill(x, y *side) {
	b.Facts, b.Params = pairs(x.facts, y.facts), pairs(x.params, y.params)
	seen := map[string]bool{}
	for _, row := range append(slices.Clone(x.order), y.order...) {
		if !seen[row.Path] && len(b.Steps) < 500 && row.Depth < 2 {
			seen[row.Path] = true
			b.Steps = append(b.Steps, compared(row.Label, x.rows[row.Path], y.rows[row.Path]))
		}
	}
	all := map[string]bool{}
	for _, m := range []map[string]int{x.classes, y.classes} {
		for c, n := range m {
			all[c] = all[c] || n > 0
		}
	}
	for _, c := range slices.Sorted(maps.Keys(all)) {
		if all[c] {
			b.Classes = append(b.Classes, classPair{c, x.classes[c], y.classes[c]})
		}
	}
	slices.SortStableFunc(b.Classes, func(a, c classPair) int { return cmp.Compare(c.A+c.B, a.A+a.B) })
	if b.SameFile = x.source == y.source; !b.SameFile {
		b.File = lineDiff(x.source, y.source)
	}
}

// pairs puts the members of two sides beside each other; what differs first.
func pairs(x, y map[string]string) (out []pair) {
	names := map[string]bool{}
	for k := range x {
		names[k] = true
	}
	for k := range y {
		names[k] = true
	}
	for k := range names {
		out = append(out, pair{k, x[k], y[k], x[k] == y[k]})
	}
	slices.SortFunc(out, func(a, b pair) int {
		if a.Same != b.Same {
			if a.Same {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return out
}

func compared(label string, x, y *timeline.Row) stepPair {
	out := stepPair{Label: label, A: spentOn(x), B: spentOn(y)}
	switch a, d := out.A.Ran, out.B.Ran-out.A.Ran; {
	case a == 0 || out.B.Ran == 0:
	case d.Abs() < 10*time.Millisecond || float64(d.Abs()) < 0.03*float64(a):
		out.Equal, out.Change = true, "about the same"
	case d > 0:
		out.Worse, out.Change = true, "+"+timeline.Short(d)
	default:
		out.Change = "−" + timeline.Short(-d)
	}
	return out
}

// spentOn is what a run spent on a step; r may be nil.
func spentOn(r *timeline.Row) (out stepSide) {
	if r == nil {
		return out
	}
	out.Status, out.Tries = r.Status, r.Tries
	if !r.Ended.IsZero() {
		out.Ran, out.Waited = r.Spent(r.Ended)
	}
	return out
}

// lineDiff is the difference of two texts, as the pages show it.
func lineDiff(x, y string) []diffLine {
	classes := map[byte]string{'-': "minus", '+': "plus", '@': "place"}
	return value.Map(diag.Diff(x, y), func(l diag.DiffLine) diffLine {
		text := string(l.Sign) + " " + l.Text
		if l.Sign == '@' {
			text = "… " + l.Text
		}
		return diffLine{classes[l.Sign], text}
	})
}
